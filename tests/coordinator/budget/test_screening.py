"""Screening at the coordinator: who is proposed, by what figures, and that nothing else happens.

False alarms: missed rounds are proposed with probability at most alpha (10^-3 unless asked) if they
are missed at random; declared bounds are compared, not drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from coordinator.budget.round_charges import Price, RoundCharge
from coordinator.budget.screening import attendance
from coordinator.budget.spending import Spending
from coordinator.models.budget_ledger import MemberSet
from tests.coordinator.budget.test_routes import happens
from tests.coordinator.conftest import Houses
from tests.coordinator.double import House, integers, query

PRICE = Price.of({})
PROPOSALS = "/v1/budget/proposals"


async def declare(it: House, curator: str, sensitivity: str, largest: str) -> None:
    declared = {"epsilon": "1", "sensitivity": sensitivity, "largest_contribution": largest}
    await happens(it, "refreshed", [curator], declared=declared)


async def test_bounds_far_out_are_proposed_until_an_operator_decides(house: Houses) -> None:
    async with house(0) as it:
        ids = (await it.host("gateway", 12)).curators
        assert (await it.read(PROPOSALS))["proposals"] == []
        for alpha in ("0", "1", "nan", "x"):
            answer = await it.ask("GET", PROPOSALS, params={"alpha": alpha})
            assert answer.status_code == 422, alpha
        for index, name in enumerate(ids[:10]):
            await declare(it, name, str(4 + index % 3), "40")
        await declare(it, ids[10], "900", "40")
        found = await it.read(PROPOSALS)
        assert found["screened"]["declaring"] == 11
        assert found["proposed"] == {"far_bounds": 1, "missed_rounds": 0}
        (item,) = found["proposals"]
        assert (item["curator"], item["field"], item["status"]) == (
            ids[10],
            "sensitivity",
            "active",
        )
        assert item["figures"]["declared"] == 900
        assert item["figures"]["median"] == pytest.approx(5)
        assert "Only an operator" in found["sentence"]
        # a proposal changes nothing; an operator does
        assert (await it.ask("GET", f"/v1/budget/curators/{ids[10]}")).json()["status"] == "active"
        await happens(it, "flagged", [ids[10]])
        (item,) = (await it.read(PROPOSALS))["proposals"]
        assert item["status"] == "flagged"
        await happens(it, "left", [ids[10]])
        assert (await it.read(PROPOSALS))["proposals"] == []


async def test_selective_missing_is_proposed_from_the_ledgers_rounds(house: Houses) -> None:
    """Five rounds of two hosts: one never comes. 5 of 5 missed in each of 2 curators, of 40."""
    asked = query(mechanism="distributed", epsilon="0.5")
    async with house(3) as it:
        host, absent = await it.host("gateway", 38), await it.host("absent", 2)
        for hour in range(5):
            window = {
                "start": f"2026-01-01T{hour:02}:00:00Z",
                "end": f"2026-01-01T{hour + 1:02}:00:00Z",
            }
            opened = await it.open(asked, window=window)
            await opened.contribute(host, integers(38))
            assert (await it.finish(opened, by="close"))["state"] == "released"
        found = await it.read(PROPOSALS)
        assert found["screened"]["rounds"] == 5
        assert [item["curator"] for item in found["proposals"]] == list(absent.curators)
        for item in found["proposals"]:
            assert (item["figures"]["invited"], item["figures"]["missed"]) == (5, 5)
            assert item["figures"]["deployment_rate"] == pytest.approx(10 / 200)
            assert item["figures"]["probability"] < 1e-3
        assert (await it.read(PROPOSALS, alpha=1e-12))["proposed"]["missed_rounds"] == 0
        await it.restart()
        assert (await it.read(PROPOSALS))["proposals"] == found["proposals"]
        await happens(it, "left", absent.curators)
        assert (await it.read(PROPOSALS))["proposals"] == []


def charge(invited: Sequence[bool] | None, came: Sequence[bool]) -> RoundCharge:
    asked = None if invited is None else MemberSet.of(np.array(invited))
    members = MemberSet.of(np.array(came))
    return RoundCharge("r", "q", 0, 0, 1, PRICE, members, (), "released", invited=asked)


def test_attendance_counts_each_round_once() -> None:
    yes, no = True, False
    rounds = [
        charge([yes, yes, no], [yes, no, no]),
        charge([yes, yes, no], [yes, no, no]),
        charge([yes, yes, yes, yes], [yes, yes, no]),  # the sets may be of different lengths
        charge([yes], [yes, yes, yes, yes]),  # who was not expected is no absence
        charge(None, [yes, yes]),
    ]
    invited, missed = attendance(rounds, 6)
    assert invited.tolist() == [4, 3, 1, 1, 0, 0]
    assert missed.tolist() == [0, 2, 1, 1, 0, 0]
    assert attendance([], 2)[0].tolist() == [0, 0]


def test_a_settled_round_still_knows_who_was_invited() -> None:
    spending = Spending()
    spending.grow(3)
    everyone, one = MemberSet.of(np.ones(3, np.bool_)), MemberSet.of(np.array([True, False, False]))
    spending.debit("r", "q", 0, (0, 1), PRICE, everyone)
    spending.settle("r", "released", one, credited=False)
    settled = spending.rounds["r"]
    assert (settled.invited, settled.members) == (everyone, one)
