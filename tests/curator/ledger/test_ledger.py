"""The ledger: exact totals, limits, and refusals with their grounds."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.runtime.clock import ManualClock
from common.web.dependencies import part_of
from curator import ledger
from curator.participation.loop import Participation
from tests.curator.conftest import NOISY, OPEN, PLAIN, START, Site, query
from tests.curator.double import FakeWorld

LIMITED: dict[str, Any] = {"curator": {"period": {"epsilon": "2.5"}}}


@given(st.lists(st.integers(-(2**62), 2**62)))
def test_runs_give_back_what_they_took(values: list[int]) -> None:
    array = np.array(values, np.int64)
    assert np.array_equal(ledger.unpack_run_lengths(ledger.pack_run_lengths(array)), array)


async def spent(s: Any, curator: str, unit: str = "curator") -> dict[str, Any]:
    found: dict[str, Any] = (await s.get(f"/v1/curators/{curator}/budget"))["units"][unit]
    return found


@pytest.mark.usefixtures("database_url")
async def test_rounds_add_up_exactly_until_the_limit(s: Site, clock: ManualClock) -> None:
    await s.policy(**LIMITED)
    await s.enrol("gw", ["a", "b"])
    curator = "a"
    taken = []
    for index in range(4):
        descriptor = s.open(query(NOISY, name=f"q{index}", epsilon="1.1"))
        await s.take_part()
        taken.append(bool(s.world.members(descriptor)))
    assert taken == [True, True, False, False]
    found = await spent(s, curator)
    assert found["period"]["epsilon"] == found["lifetime"]["epsilon"] == "2.2"
    assert found["period"]["epsilon_all_aggregators"] == "inf"
    assert found["rounds"] == 2
    refused = (await s.history(curator))[0]
    assert refused["state"] == "refused"
    assert refused["refused_because"] == [
        {
            "name": "budget_exceeded",
            "detail": "the period limit on epsilon would be exceeded",
            "figures": {"unit": "curator", "limit": "2.5", "asked": "1.1", "spent_at_most": "2.2"},
        }
    ]
    clock.advance(timedelta(days=1))
    descriptor = s.open(query(NOISY, name="next-day", epsilon="1.1"), start=START)
    await s.take_part()
    assert s.world.members(descriptor)
    found = await spent(s, curator)
    assert found["period"]["epsilon"] == "1.1"
    assert found["lifetime"]["epsilon"] == "3.3"


async def test_two_rounds_against_a_budget_for_one(s: Site, world: FakeWorld) -> None:
    await s.policy(curator={"lifetime": {"epsilon": "1"}})
    await s.enrol("lone")
    await s.enrol("gw", [f"g-{i}" for i in range(10)])
    rounds = [s.open(query(NOISY, name=f"q{i}")) for i in range(4)]
    participation = part_of(s.app, Participation)
    await participation.discover("http://coordinator.test")
    await asyncio.gather(*(participation.contribute_due() for _ in range(3)))
    members = [world.members(item) for item in rounds]
    for number in (0, *range(64, 74)):
        assert sum(number in item for item in members) == 1


async def test_unverified_rounds_are_refused_or_marked(s: Site, world: FakeWorld) -> None:
    await s.enrol("house")
    await s.reading("house", "1")
    refused = s.open(query(PLAIN))
    await s.take_part()
    assert not world.members(refused)
    assert (await s.history("house"))[0]["refused_because"][0]["detail"] == (
        "sums without noise are not agreed to"
    )
    await s.policy(**OPEN, **LIMITED)
    paper = {
        "mechanism": "two-layer",
        "stance": "paper",
        "epsilon_u": "1",
        "epsilon_s": "1",
        "pr_u": "0.5",
        "pr_s": "0.5",
    }
    for index, changes in enumerate(({}, paper)):
        descriptor = s.open(query(PLAIN, name=f"open-{index}", **changes))
        await s.take_part()
        assert world.members(descriptor) == {0}
    found = await spent(s, "house")
    assert found["lifetime"]["epsilon"] == "inf"
    assert found["period"]["epsilon"] == "0"
    assert found["unverified_rounds"] == 1  # an answer without noise is counted apart
    assert {row["status"] for row in found["debits"]} == {"unverified"}
    await s.policy(**OPEN, curator={"lifetime": {"epsilon": "1000"}})
    descriptor = s.open(query(NOISY))
    await s.take_part()
    assert not world.members(descriptor)
