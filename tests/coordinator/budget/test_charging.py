"""What a round charges whom: its members, its price, and what a refusal names."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import insert

from common.store.database import open_database
from coordinator.budget import charging
from coordinator.budget.limits import Limits, Shortage, shortages
from coordinator.budget.roster import Status
from coordinator.budget.state import LedgerState
from coordinator.errors import BudgetExceeded
from coordinator.store import tables
from tacit import sets
from tacit.accounting.amounts import MICRO
from tacit.accounting.scenarios import Scenario
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.query.terms import PrivacyUnit
from tests.coordinator.budget.test_spending import bits, limit, planned, price, who
from tests.curator.double import FakeWorld
from tests.tacit.examples import query

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
NOISY: dict[str, Any] = {"mechanism": "distributed", "epsilon": "1", "aggregators": 2}


def opened(roster_size: int = 5, group: Sequence[int] | None = None) -> RoundDescriptor:
    changes: dict[str, Any] = {"roster_size": roster_size}
    if group is not None:
        changes["members"] = sets.compressed(sets.pack(bits(*group, size=roster_size)))
    asked = query(**NOISY, group=None if group is None else "feeder")
    return FakeWorld(2).open_round(asked, NOON - HOUR, NOON, NOON, **changes)


def ledger(size: int = 5) -> LedgerState:
    """A ledger with this many curators in U."""
    state = LedgerState()
    state.roster.enter(0, size)
    state.spending.grow(size)
    return state


# --- members and price ---------------------------------------------------------------------------


def test_members_are_those_of_u_that_the_roster_and_the_group_know() -> None:
    state = ledger()
    assert charging.members(state, opened()).tolist() == [True] * 5
    state.roster.move(1, 1, Status.LEFT)
    state.roster.move(2, 1, Status.FLAGGED)
    assert charging.members(state, opened()).tolist() == [True, False, True, True, True]
    known = charging.members(state, opened(roster_size=4)).tolist()
    assert known == [True, False, True, True, False]
    some = charging.members(state, opened(group=[1, 2, 4])).tolist()
    assert some == [False, False, True, False, True]
    few = charging.members(state, opened(roster_size=3, group=[0, 1])).tolist()
    assert few == [True, False, False, False, False]
    plan = charging.planned(state, opened(), price(1, 1))
    assert plan.window == (int((NOON - HOUR).timestamp()) * MICRO, int(NOON.timestamp()) * MICRO)
    assert plan.now == int(NOON.timestamp()) * MICRO


def test_two_aggregators_of_one_operator_are_one() -> None:
    asked = query(**NOISY, layer="aggregator", collusion={"curators": 0, "aggregators": 1})
    unit, scenario = PrivacyUnit.CURATOR, Scenario.ASSUMED
    apart = charging.price_of(asked, ["north", "south"]).cost(unit, scenario)
    assert apart is not None
    assert charging.price_of(asked).cost(unit, scenario) == apart
    assert charging.price_of(asked, ["north", "north"]).cost(unit, scenario) is None


# --- an opening ----------------------------------------------------------------------------------


def test_an_opening_debits_its_members() -> None:
    state, descriptor = ledger(), opened()
    draft = charging.debit(state, descriptor, planned(price(1, 2), bits(0, 3, size=5), now=7))
    assert (draft.payload["round"], draft.payload["made"]) == (descriptor.round, 7)
    assert (draft.payload["members"], draft.payload["size"]) == (who(0, 3, size=5).text, 5)
    assert draft.payload["operators"] == ["aggregator-0", "aggregator-1"]
    assert draft.payload["price"] == price(1, 2).to_payload()


def refused(state: LedgerState, limits: Limits) -> BudgetExceeded:
    state.limits = limits
    with pytest.raises(BudgetExceeded) as found:
        charging.debit(state, opened(), planned(price(MICRO, MICRO), bits(0, 1, size=5)))
    return found.value


def test_a_refusal_names_its_first_limit_and_the_first_ten_windows() -> None:
    state = ledger()
    for turn in range(12):
        window = (turn * MICRO, 20 * MICRO)
        state.spending.debit(f"{turn}", "q", 0, window, price(1, 1), who(0, size=5))
    error = refused(state, Limits((limit("0.5"), limit("0.25", "record"))))
    assert error.detail == "a limit on the unit curator (assumed) would be passed"
    first, second = dict(error.extra)["limits"]
    assert (first["limit"]["epsilon"], second["limit"]["epsilon"]) == ("0.5", "0.25")
    assert first["rounds_in_all"] == 12
    assert [item["round"] for item in first["windows"]] == [f"{turn}" for turn in range(10)]
    assert first["windows"][2] == {
        "round": "2",
        "start": "1970-01-01T00:00:02Z",
        "end": "1970-01-01T00:00:20Z",
    }
    assert "curator-" not in str(dict(error.extra))


async def test_an_operator_sees_the_first_ten_curators_of_each_shortage(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'store.db'}")
    state = ledger(20)
    plan = planned(price(MICRO, MICRO), np.ones(20, np.bool_))
    found: list[Shortage] = shortages(Limits((limit("0.5"),)), state.spending, plan)
    async with database.begin() as transaction:
        await transaction.run_sync(tables.metadata.create_all)
        party = {"id": "gateway", "kind": "host", "identity_key": b"", "first": 0}
        await transaction.execute(
            insert(tables.parties).values(**party, curators=20, enrolled=NOON)
        )
        names = [
            {"number": number, "id": f"curator-{number}", "party": "gateway"}
            for number in range(20)
            if number != 3
        ]
        await transaction.execute(insert(tables.curators), names)
        shown = await charging.blocked(transaction, found)
    await database.dispose()
    assert shown == [[f"curator-{number}" for number in range(10) if number != 3]]


# --- an end --------------------------------------------------------------------------------------


def test_a_release_charges_whom_any_aggregators_set_names() -> None:
    descriptor = opened(roster_size=12)
    held = [sets.pack(bits(*numbers, size=12)) for numbers in [(0, 3), (3, 11)]]
    draft = charging.released(descriptor.round, 12, held)
    assert (draft.payload["members"], draft.payload["size"]) == (who(0, 3, 11, size=12).text, 12)
    assert draft.payload["round"] == descriptor.round


def test_an_abort_without_statements_earns_no_credit() -> None:
    draft = charging.aborted(opened(), [], "test")
    assert (draft.payload["credited"], draft.payload["reason"]) == (False, "test")


def test_a_limit_of_the_ledger_is_compared_with_what_was_spent() -> None:
    state = ledger()
    state.spending.debit("a", "q", 0, (0, 10), price(MICRO, MICRO), who(0, size=5))
    (item,) = refused(state, Limits((limit("1.5"),))).extra["limits"]
    assert item["spent"] == {"epsilon": "1", "delta": "0", "rho": "0", "rho_delta": "0"}
    state.limits = Limits((limit("2"),))
    charging.debit(state, opened(), planned(price(MICRO, MICRO), bits(0, 1, size=5)))
