"""The ledger: exact totals, limits, refusals with their grounds, and the one credit."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.runtime.clock import ManualClock
from common.web.parts import part_of
from curator.ledger import run_lengths
from curator.ledger.ledger import INFINITE, Charge, Debit, Totals, largest_over_instants
from curator.participation.loop import Participation
from tacit.query.fields import Window
from tests.curator.conftest import HOUR, NOISY, OPEN, PLAIN, START, OpenSite, query
from tests.curator.double import FakeWorld

LIMITED: dict[str, Any] = {"curator": {"period": {"epsilon": "2.5"}}}


@given(st.lists(st.integers(-(2**62), 2**62)))
def test_runs_give_back_what_they_took(values: list[int]) -> None:
    array = np.array(values, np.int64)
    assert np.array_equal(run_lengths.unpack(run_lengths.pack(array)), array)


def test_equal_totals_take_a_few_bytes() -> None:
    assert len(run_lengths.pack(np.full(1_000_000, 7, np.int64))) == 16


def test_what_is_infinite_stays_so() -> None:
    both = np.ones(2, np.bool_)
    spent = Totals.zero(2).plus(Charge(INFINITE, 0, INFINITE, 0), both)
    spent = spent.plus(Charge(5, 1, 5, 1), both)
    spent = spent.plus(Charge(5, 1, 0, 0), both, factor=-1)
    assert spent.epsilon.tolist() == [INFINITE, INFINITE]
    assert spent.delta.tolist() == [0, 0]


async def spent(s: Any, curator: str, unit: str = "curator") -> dict[str, Any]:
    found: dict[str, Any] = (await s.get(f"/v1/curators/{curator}/budget"))["units"][unit]
    return found


@pytest.mark.parametrize("host", [False, True])
async def test_rounds_add_up_exactly_until_the_limit(
    site: OpenSite, world: FakeWorld, clock: ManualClock, host: bool
) -> None:
    async with site() as s:
        await s.policy(**LIMITED)
        await s.enrol("gw", ["a", "b"] if host else None)
        curator = "a" if host else "gw"
        taken = []
        for index in range(4):
            descriptor = s.open(query(NOISY, name=f"q{index}", epsilon="1.1"))
            await s.take_part()
            taken.append(bool(world.members(descriptor)))
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
                "figures": {
                    "unit": "curator",
                    "limit": "2.5",
                    "asked": "1.1",
                    "spent_at_most": "2.2",
                },
            }
        ]
        clock.advance(timedelta(days=1))
        descriptor = s.open(query(NOISY, name="next-day", epsilon="1.1"), start=START)
        await s.take_part()
        assert world.members(descriptor)
        found = await spent(s, curator)
        assert found["period"]["epsilon"] == "1.1"
        assert found["lifetime"]["epsilon"] == "3.3"


async def test_a_longer_period_counts_what_was_spent_before_it_was_set(
    site: OpenSite, world: FakeWorld, clock: ManualClock
) -> None:
    async with site() as s:
        await s.policy(period_s=3600)
        await s.enrol("house")
        s.open(query(NOISY, name="q1", epsilon="2"))
        await s.take_part()
        clock.advance(2 * HOUR)
        await s.policy(**LIMITED)
        descriptor = s.open(query(NOISY, name="q2", epsilon="1"))
        await s.take_part()
        assert not world.members(descriptor)


async def test_two_rounds_against_a_budget_for_one(site: OpenSite, world: FakeWorld) -> None:
    async with site() as s:
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


async def test_a_record_meets_only_rounds_that_cover_it(site: OpenSite, world: FakeWorld) -> None:
    async with site() as s:
        await s.policy(record={"lifetime": {"epsilon": "2"}})
        await s.enrol("house")
        asked = query(NOISY, privacy_unit="record")
        windows = [(0, 10), (5, 15), (20, 30), (7, 8), (12, 25)]
        taken = []
        for begin, end in windows:
            step = timedelta(minutes=1)
            descriptor = s.open(asked, start=START + begin * step, end=START + end * step)
            await s.take_part()
            taken.append(bool(world.members(descriptor)))
        assert taken == [True, True, True, False, True]
        found = await spent(s, "house", "record")
        assert found["worst_instant"]["epsilon"] == "2"
        assert found["lifetime"]["epsilon"] == "4"


def minutes(begin: int, end: int) -> Window:
    step = timedelta(minutes=1)
    return Window(start=START + begin * step, end=START + end * step)


@pytest.mark.parametrize(
    ("window", "worst"),
    [((0, 30), 1), ((0, 10), 0), ((9, 11), 1), ((20, 30), 1), ((30, 40), 0), ((29, 31), 1)],
)
def test_adjacent_windows_share_no_instant(window: tuple[int, int], worst: int) -> None:
    one = Charge(1, 1, 1, 1)
    made = [
        Debit(one, 0, np.ones(1, np.bool_), minutes(*covers), START, False)
        for covers in ((10, 20), (20, 30))
    ]
    found = largest_over_instants(made, minutes(*window), 0, 1, verified_only=True)
    assert [int(column[0]) for column in found.columns()] == [worst] * 4


async def test_two_adjacent_windows_cost_a_record_one(site: OpenSite, world: FakeWorld) -> None:
    async with site() as s:
        await s.policy(record={"lifetime": {"epsilon": "1"}})
        await s.enrol("house")
        asked, taken = query(NOISY, privacy_unit="record"), []
        for begin, end in ((10, 20), (20, 30), (0, 10), (9, 11)):
            covers = minutes(begin, end)
            descriptor = s.open(asked, start=covers.start, end=covers.end)
            await s.take_part()
            taken.append(bool(world.members(descriptor)))
        assert taken == [True, True, True, False]


@pytest.mark.parametrize("unit", ["record", "curator"])
async def test_a_round_at_the_start_of_a_period_belongs_to_it(
    site: OpenSite, world: FakeWorld, clock: ManualClock, unit: str
) -> None:
    day = timedelta(days=1)
    assert (clock.now() - datetime(1970, 1, 1, tzinfo=UTC)) % day == timedelta(0)
    async with site() as s:
        await s.policy(**{unit: {"period": {"epsilon": "2"}}})
        await s.enrol("house")
        taken, none = [], timedelta(0)
        for number, pause in enumerate((none, none, day - timedelta(seconds=1), day)):
            clock.advance(pause - (clock.now() - datetime(2026, 1, 1, tzinfo=UTC)))
            descriptor = s.open(query(NOISY, name=f"q{number}", privacy_unit=unit))
            await s.take_part()
            taken.append(bool(world.members(descriptor)))
        assert taken == [True, True, False, True]


async def test_the_policy_names_its_grounds(site: OpenSite, world: FakeWorld) -> None:
    agreed = query(NOISY, name="agreed", min_participants=10)
    from tacit.wire import encode_binary

    strict = {
        "min_participants": 10,
        "stances": ["sound"],
        "mechanisms": ["distributed", "exact"],
        "accept_any": False,
        "queries": [encode_binary(agreed.digest())],
    }
    async with site() as s:
        await s.enrol("house")
        await s.enrol("gw", ["a", "b"])
        own = {"min_participants": 3, "allow_unverified": True}
        await s.request("PUT", "/v1/curators/a/policy", own)
        await s.policy(**strict)
        first = s.open(agreed)
        other = s.open(query(NOISY, name="other"))
        bare = s.open(query(PLAIN, name="bare", min_participants=4))
        await s.take_part()
        assert world.members(first) == {0, 64, 65}
        assert world.members(other) == set()
        assert world.members(bare) == {64}
        grounds = {h["round"]: h["refused_because"] for h in await s.history("b")}
        assert grounds[other.round][0]["detail"] == "the query is not among those agreed"
        assert grounds[first.round] == []
        found = await s.history("a")
        assert found[1]["refused_because"][0]["figures"] == {"minimum": 3, "asked": 2}
        await s.request("DELETE", "/v1/curators/a/policy", status=204)
        assert (await s.get("/v1/curators/a/policy"))["accept_any"] is False


async def test_unverified_rounds_are_refused_or_marked(site: OpenSite, world: FakeWorld) -> None:
    async with site() as s:
        await s.enrol("house")
        await s.reading("house", "1")
        refused = s.open(query(PLAIN))
        await s.take_part()
        assert not world.members(refused)
        assert (await s.history("house"))[0]["refused_because"][0]["detail"] == (
            "the round has no verified figure"
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
        assert found["unverified_rounds"] == 2
        assert {row["status"] for row in found["debits"]} == {"unverified"}
        await s.policy(**OPEN, curator={"lifetime": {"epsilon": "1000"}})
        descriptor = s.open(query(NOISY))
        await s.take_part()
        assert not world.members(descriptor)


@pytest.mark.parametrize(
    ("changes", "statements", "credited"),
    [
        ({"collusion": {"curators": 0, "aggregators": 1}}, 2, True),
        ({"collusion": {"curators": 0, "aggregators": 1}}, 1, False),
        (
            {
                "sharing": "shamir",
                "threshold": 2,
                "c_noise": 2,
                "collusion": {"curators": 0, "aggregators": 1},
            },
            3,
            True,
        ),
        (
            {
                "sharing": "shamir",
                "threshold": 2,
                "c_noise": 2,
                "collusion": {"curators": 0, "aggregators": 1},
            },
            2,
            False,
        ),
        (
            {
                "mechanism": "local",
                "sharing": "none",
                "aggregators": 1,
                "epsilon": None,
                "layer": None,
                "epsilon_i": "1",
                "collusion": {"curators": 0, "aggregators": 0},
            },
            1,
            False,
        ),
    ],
)
async def test_signed_aborts_earn_a_credit_and_one_fewer_does_not(
    site: OpenSite, world: FakeWorld, changes: dict[str, Any], statements: int, credited: bool
) -> None:
    async with site() as s:
        await s.policy()
        await s.enrol("gw", ["a", "b"])
        descriptor = s.open(query(NOISY, **changes))
        await s.take_part()
        assert world.members(descriptor) == {0, 1}
        before = await spent(s, "b")
        assert before["lifetime"]["epsilon"] == "1"
        world.finish(descriptor, "aborted", statements)
        await s.take_part()
        await part_of(s.app, Participation).settle()
        found = await spent(s, "b")
        assert found["lifetime"]["epsilon"] == ("0" if credited else "1")
        assert found["period"]["epsilon"] == ("0" if credited else "1")
        assert found["debits"][0]["credited"] is credited
        for column in ("epsilon_all_aggregators", "delta_all_aggregators"):
            assert found["lifetime"][column] == before["lifetime"][column]
        assert (await s.history("b"))[0]["outcome"] == "aborted"
        # opened again: the same window under the same query, a debit of its own; if nothing shows
        # that no sum was opened, only by a policy that allows repeats
        again = s.open(query(NOISY, **changes))
        await s.take_part()
        assert world.members(again) == ({0, 1} if credited else set())
        await s.policy(allow_repeats=True)
        if not credited:
            again = s.open(query(NOISY, **changes))
            await s.take_part()
            assert world.members(again) == {0, 1}
        assert (await spent(s, "b"))["lifetime"]["epsilon"] == ("1" if credited else "2")


async def test_a_window_is_contributed_once_under_a_query(site: OpenSite, world: FakeWorld) -> None:
    async with site() as s:
        await s.policy()
        await s.enrol("house")
        first = s.open(query(NOISY))
        await s.take_part()
        world.finish(first, "released")
        second = s.open(query(NOISY))
        third = s.open(query(NOISY), start=START + HOUR)
        await s.take_part()
        assert not world.members(second)
        assert world.members(third)
        await s.policy(allow_repeats=True)
        fourth = s.open(query(NOISY))
        await s.take_part()
        assert world.members(fourth)
