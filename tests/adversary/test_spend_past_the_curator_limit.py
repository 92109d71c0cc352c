"""An asker spends more of a curator than its limit, by rounds of the other privacy unit.

A round that protects one record at epsilon 1 still shows up to `max_readings` records of a curator:
it costs the unit `curator` that many times as much. A ledger that charged each round in the unit it
names only would let a curator with an exhausted limit answer such rounds for ever.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from common.runtime.clock import ManualClock
from common.web.dependencies import part_of
from curator.participation.loop import Participation
from tacit.accounting.charges import unit_cost
from tacit.accounting.scenarios import Scenario
from tacit.encoders.crowd_tasking import Perturbation
from tacit.encoders.crowd_tasking_reports import Encoding
from tacit.query.terms import PrivacyUnit
from tests.curator.conftest import HOUR, NOISY, START, Site, query
from tests.curator.double import FakeWorld
from tests.e2e.hostile import Home, Hostile, home, hostile

RECORD: dict[str, Any] = {**NOISY, "privacy_unit": "record", "max_readings": 1000}
EXHAUSTED: dict[str, Any] = {"curator": {"lifetime": {"epsilon": "1"}}}


async def units(s: Site, curator: str) -> dict[str, Any]:
    found: dict[str, Any] = (await s.get(f"/v1/curators/{curator}/budget"))["units"]
    return found


@pytest.mark.parametrize("host", [False, True])
async def test_four_rounds_by_record_over_an_exhausted_limit(
    s: Site, world: FakeWorld, host: bool
) -> None:
    await s.policy(**EXHAUSTED)
    await s.enrol("house", ["a", "b"] if host else None)
    members = {0, 1} if host else {0}
    name = "b" if host else "house"
    s.open(query(NOISY))
    await s.take_part()
    assert (await units(s, name))["curator"]["lifetime"]["epsilon"] == "1"
    asked = [query(RECORD, name=f"q-{index}") for index in range(4)]
    rounds = [s.open(each, start=START + place * HOUR) for place, each in enumerate(asked)]
    await s.take_part()
    assert [world.members(each) for each in rounds] == [set()] * 4
    (ground,) = (await s.history(name))[0]["refused_because"]
    assert ground["name"] == "budget_exceeded"
    assert ground["figures"]["unit"] == "curator"
    assert ground["figures"]["asked"] == "1000"
    # Control: without that limit all four are answered, for 1 of each record and 4,000 of the
    # curator, which is what the coordinator's formula says.
    await s.policy(record={"lifetime": {"epsilon": "2"}})
    again = [s.open(each, start=START + place * HOUR) for place, each in enumerate(asked)]
    await s.take_part()
    assert [world.members(each) for each in again] == [members] * 4
    found = await units(s, name)
    price = unit_cost(asked[0], Scenario.ASSUMED, PrivacyUnit.CURATOR, ("a", "b", "c"))
    assert price.epsilon == 1000
    assert found["curator"]["lifetime"]["epsilon"] == "4001"
    assert found["record"]["worst_instant"]["epsilon"] == "1.25"
    assert [len(found[unit]["debits"]) for unit in ("record", "curator")] == [5, 5]
    charged = (await s.history(name))[0]["charged"]
    assert {unit: figures["epsilon"] for unit, figures in charged.items()} == {
        "record": "1",
        "curator": "1000",
    }


async def test_rounds_by_curator_count_for_records_too(s: Site, world: FakeWorld) -> None:
    await s.policy(record={"lifetime": {"epsilon": "0.4"}})
    await s.enrol("house")
    # one reading of at most 4: a quarter of the curator's epsilon
    taken = []
    for index in range(3):
        descriptor = s.open(query(NOISY, name=f"q-{index}"))
        await s.take_part()
        taken.append(bool(world.members(descriptor)))
    assert taken == [True, False, False]
    assert (await units(s, "house"))["record"]["worst_instant"]["epsilon"] == "0.25"
    elsewhere = s.open(query(NOISY), start=START + HOUR)  # other records
    await s.take_part()
    assert world.members(elsewhere)


async def test_a_credit_gives_back_both(s: Site, world: FakeWorld) -> None:
    await s.policy()
    await s.enrol("gw", ["a", "b"])
    asked = query(RECORD, collusion={"curators": 0, "aggregators": 1})
    descriptor = s.open(asked)
    await s.take_part()
    before = await units(s, "a")
    assert before["curator"]["period"]["epsilon"] == "1000"
    world.finish(descriptor, "aborted", 2)
    await s.take_part()
    await part_of(s.app, Participation).settle()
    after = await units(s, "a")
    for unit in ("record", "curator"):
        assert after[unit]["debits"][0]["credited"]
        assert after[unit]["lifetime"]["epsilon"] == after[unit]["period"]["epsilon"] == "0"
        name = "epsilon_all_aggregators"
        assert after[unit]["lifetime"][name] == before[unit]["lifetime"][name]
    # the running total says the same as the rows: a limit of 1000 has room for one more
    await s.policy(curator={"lifetime": {"epsilon": "1000"}})
    again = s.open(asked)
    await s.take_part()
    assert world.members(again) == {0, 1}


# --- collections ---------------------------------------------------------------------------------


@pytest_asyncio.fixture
async def asker(tmp_path: Path, clock: ManualClock) -> AsyncIterator[tuple[Hostile, Home]]:
    """Somebody who may ask, and a curator with twenty rows."""
    async with hostile(tmp_path, clock, 1) as it:
        token = await it.join_token("victim")
        async with home("victim", tmp_path, clock, it.transports, token) as victim:
            table = {"curator": "victim", "columns": ["x"], "rows": [[5.0]] * 20}
            await victim.ask("POST", "/v1/records", table)
            yield it, victim


async def test_a_task_by_reading_costs_a_curator_all_its_rounds(
    asker: tuple[Hostile, Home], clock: ManualClock
) -> None:
    it, victim = asker
    plan = Perturbation((0.0,), (10.0,), 10, Fraction(10), ("Y",), Fraction(0))
    task = Encoding(plan, 20, "reading", Fraction(0)).document()
    agreed: dict[str, Any] = {"algorithms": ["crowd-tasking"]}
    await victim.agree(**agreed, curator={"lifetime": {"epsilon": "19.9"}})
    it.collect("crowd-tasking", task, columns=("x",))
    await victim.report()
    assert it.reports == []
    # Control: a limit that holds twenty readings at 1 each.
    await victim.agree(**agreed, curator={"lifetime": {"epsilon": "20"}})
    it.collect("crowd-tasking", task, columns=("x",))
    await victim.report()
    assert len(it.reports) == 20
    found = (await victim.ledger())["units"]
    assert found["curator"]["lifetime"]["epsilon"] == "20"
    assert found["record"]["worst_instant"]["epsilon"] == "1"
    clock.advance(timedelta(days=1))
    it.collect("crowd-tasking", task, columns=("x",))
    await victim.report()
    assert len(it.reports) == 20
