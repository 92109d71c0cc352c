"""The ledger of a dataset: what jobs reserve, charge and get back, and that rows cannot change."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Executable, delete, update

from algorithms.datasets.declaration import DatasetBudget
from common.store.transactions import Database
from common.web.dependencies import part_of
from coordinator.datasets import ledger
from coordinator.datasets.ledger import fold
from coordinator.errors import BudgetExceeded, BudgetMissing, LedgerBroken, UnknownDataset
from coordinator.models.budget_ledger import (
    Break,
    DatasetEvent,
    EventKind,
    dataset_genesis,
    first_break_of_dataset,
    following,
)
from coordinator.store import tables
from tacit.accounting.amounts import EpsilonDelta
from tests.coordinator.conftest import Houses
from tests.coordinator.datasets.forms import hand_in
from tests.coordinator.double import House, problem

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MICRO = 10**6


async def dataset(it: House, epsilon: str | None = "1", **fields: Any) -> str:
    """The id of a dataset with a budget."""
    budget = None if epsilon is None else {"epsilon": epsilon, "delta": "1e-6"}
    answer = await hand_in(it, budget=budget, **fields)
    assert answer.status_code == 201, answer.text
    made: str = answer.json()["id"]
    return made


async def reserve(it: House, made: str, job: str, epsilon: float, delta: int = 0) -> None:
    """In a transaction of its own."""
    async with part_of(it.app, Database).begin() as transaction:
        await ledger.reserve(transaction, made, job, round(epsilon * MICRO), delta, NOW)


async def test_the_life_of_jobs(house: Houses) -> None:
    async with house(0) as it:
        made = await dataset(it)
        database = part_of(it.app, Database)
        await reserve(it, made, "one", 0.5, 7)
        await reserve(it, made, "two", 0.5)
        with pytest.raises(BudgetExceeded) as refused:
            await reserve(it, made, "three", 0.000001)
        assert refused.value.extra == {
            "dataset": made,
            "budget": {"epsilon": "1", "delta": "0.000001"},
            "held": {"epsilon": "1", "delta": "0.000000000000007"},
            "asked": {"epsilon": "0.000001", "delta": "0"},
            "left": {"epsilon": "0", "delta": "0.000000999999993"},
        }
        with pytest.raises(BudgetExceeded):
            await reserve(it, made, "delta", 0, 10**9)
        await reserve(it, made, "free", 0)
        async with database.begin() as transaction:
            assert await ledger.charge(transaction, made, "one", NOW)
            assert not await ledger.charge(transaction, made, "one", NOW)
            assert not await ledger.give_back(transaction, made, "one", NOW)
            assert await ledger.give_back(transaction, made, "two", NOW)
            assert not await ledger.give_back(transaction, made, "two", NOW)
            assert not await ledger.give_back(transaction, made, "never", NOW)
        async with database.begin() as transaction:
            with pytest.raises(ValueError, match="given back"):
                await ledger.charge(transaction, made, "two", NOW)
            with pytest.raises(ValueError, match="no more"):
                await ledger.credit(transaction, made, "one", MICRO, 0, NOW)
            with pytest.raises(ValueError, match="no more"):
                await ledger.credit(transaction, made, "free", 0, 1, NOW)
            with pytest.raises(ValueError, match="once"):
                await ledger.reserve(transaction, made, "one", 1, 0, NOW)
            with pytest.raises(ValueError, match="negative"):
                await ledger.reserve(transaction, made, "new", -1, 0, NOW)
            await ledger.credit(transaction, made, "one", 200_000, 7, NOW)
        found = await it.read(f"/v1/datasets/{made}/ledger")
        assert found["charged"] == found["lifetime"] == {"epsilon": "0.3", "delta": "0"}
        assert found["left"] == {"epsilon": "0.7", "delta": "0.000001"}
        assert found["reserved"] == {"epsilon": "0", "delta": "0"}
        kinds = [event["kind"] for event in found["events"]]
        assert kinds == ["declared", *["reserved"] * 3, "charged", "credited", "credited"]
        await reserve(it, made, "later", 0.7)
        async with database.begin() as transaction:
            assert await ledger.verify(transaction, made) is None


async def test_a_release_outside_the_budget_is_never_forgotten(house: Houses) -> None:
    async with house(0) as it:
        made = await dataset(it)
        database = part_of(it.app, Database)
        async with database.begin() as transaction:
            for _ in range(2):
                await ledger.release_outside_budget(transaction, made, "paper", "stance paper", NOW)
        revised = await dataset(it, None, content=b"x,y\n9,9\n", revision_of=made)
        async with database.begin() as transaction:
            for each in (made, revised):
                (found,) = await ledger.released_outside(transaction, each)
                assert (found.job_id, found.dataset_id) == ("paper", made)
                assert (found.reason, found.time) == ("stance paper", NOW)
        shown = (await it.ask("GET", f"/v1/datasets/{revised}")).json()
        assert shown["lifetime"] == {"epsilon": "inf", "delta": "1"}
        assert shown["released_outside_budget"] == 1
        await reserve(it, revised, "sound", 1)
        with pytest.raises(BudgetExceeded):
            await reserve(it, made, "more", 0.1)


async def test_no_budget_no_charge(house: Houses) -> None:
    async with house(0) as it:
        made = await dataset(it, None)
        with pytest.raises(BudgetMissing):
            await reserve(it, made, "one", 0.1)
        await reserve(it, made, "sealed", 0)
        table = (await hand_in(it, kind="table")).json()["id"]
        with pytest.raises(BudgetMissing):
            await reserve(it, table, "one", 0.1)
        async with part_of(it.app, Database).begin() as transaction:
            assert await ledger.released_outside(transaction, table) == []
            assert await ledger.verify(transaction, table) is None
        assert (await it.read(f"/v1/datasets/{table}/ledger"))["events"] == []


async def test_the_ledger_belongs_to_the_data(house: Houses) -> None:
    """Acceptance 7 of jobs.md: deleted and handed in again, the ledger is the old one."""
    async with house(0) as it:
        made = await dataset(it)
        await reserve(it, made, "one", 0.75)
        assert problem(await it.ask("DELETE", f"/v1/datasets/{made}")) == (409, "dataset_in_use")
        async with part_of(it.app, Database).begin() as transaction:
            await ledger.charge(transaction, made, "one", NOW)
        assert (await it.ask("DELETE", f"/v1/datasets/{made}")).status_code == 204
        assert problem(await it.ask("DELETE", f"/v1/datasets/{made}")) == (404, "unknown_dataset")
        assert problem(await it.ask("GET", f"/v1/datasets/{made}")) == (404, "unknown_dataset")
        found = await it.read(f"/v1/datasets/{made}/ledger")
        assert found["charged"] == {"epsilon": "0.75", "delta": "0"}
        with pytest.raises(UnknownDataset):
            await reserve(it, made, "late", 0.1)
        again = await dataset(it)
        found = await it.read(f"/v1/datasets/{again}/ledger")
        assert found["charged"] == {"epsilon": "0.75", "delta": "0"}
        assert [event["kind"] for event in found["events"]] == [
            "declared",
            "reserved",
            "charged",
            "deleted",
            "declared",
        ]
        with pytest.raises(BudgetExceeded):
            await reserve(it, again, "two", 0.5)
        revised = await dataset(it, None, content=b"x,y\n1,2\n", revision_of=made)
        assert (await it.read(f"/v1/datasets/{revised}/ledger"))["ledger"] == found["ledger"]
        with pytest.raises(BudgetExceeded):
            await reserve(it, revised, "two", 0.5)
        other = await dataset(it, content=b"x,y\n5,5\n")
        conflict = await hand_in(it, b"x,y\n1,2\n", revision_of=other)
        assert problem(conflict) == (409, "ledger_conflict")
        unit = await hand_in(it, b"x,y\n1,2\n", privacy_unit="curator")
        assert problem(unit) == (409, "ledger_conflict")
        assert "counts the unit record" in unit.json()["detail"]
        assert (await it.read(f"/v1/datasets/{other}/ledger"))["charged"]["epsilon"] == "0"
        missing = await it.ask("GET", f"/v1/datasets/{'0' * 36}/ledger")
        assert problem(missing) == (404, "unknown_dataset")


async def test_two_jobs_at_one_instant_against_a_budget_for_one(
    house: Houses, database_url: str
) -> None:
    """Acceptance 7 of jobs.md: through two replicas, exactly one is accepted."""
    async with house(0, database_url) as it, it.replica() as (other, _):
        made = await dataset(it)
        apps = (it.app, other)

        async def attempt(number: int) -> bool:
            database = part_of(apps[number % 2], Database)
            try:
                async with database.begin() as transaction:
                    await ledger.reserve(transaction, made, f"job {number}", 600_000, 0, NOW)
                    await asyncio.sleep(0.02)
            except BudgetExceeded:
                return False
            return True

        assert sum(await asyncio.gather(*(attempt(number) for number in range(6)))) == 1
        assert (await it.read(f"/v1/datasets/{made}/ledger"))["reserved"]["epsilon"] == "0.6"


class _Undone(Exception):
    """Ends a transaction without a commit."""


async def test_a_changed_row_stops_everything(house: Houses) -> None:
    async with house(0) as it:
        made = await dataset(it)
        database, rows = part_of(it.app, Database), tables.dataset_events
        await reserve(it, made, "one", 0.5)
        await reserve(it, made, "two", 0.1)
        edits = (
            update(rows).where(rows.c.seq == 2).values(payload='{"epsilon": 1, "delta": 0}'),
            update(rows).where(rows.c.seq == 2).values(job_id="other"),
            delete(rows).where(rows.c.seq == 2),
            delete(rows).where(rows.c.seq == 3),
        )

        async def broken_by(number: int, edit: Executable) -> None:
            async with database.begin() as transaction:
                await transaction.execute(edit)
                found = await ledger.verify(transaction, made)
                assert found is not None, number
                assert found.seq == 3 if number == 3 else found.seq == 2, found
                with pytest.raises(LedgerBroken):
                    await ledger.reserve(transaction, made, "three", 1, 0, NOW)
                assert (await ledger.statement(transaction, made)).verified is False
                raise _Undone

        for number, edit in enumerate(edits):
            with pytest.raises(_Undone):
                await broken_by(number, edit)
        await reserve(it, made, "three", 0.1)


def test_a_budget_is_rounded_down() -> None:
    budget = DatasetBudget(epsilon=Fraction(1, 3), delta=Fraction(2, 3 * 10**15))
    assert ledger.budget_amount(budget) == EpsilonDelta(333_333, 0)


def test_rows_of_one_ledger_do_not_verify_in_another() -> None:
    event = following(0, dataset_genesis("a"), EventKind.DELETED, "d", None, {}, NOW)
    assert first_break_of_dataset("a", [event]) is None
    assert first_break_of_dataset("b", [event]) is not None


def test_a_row_whose_time_was_changed_by_a_microsecond_is_found() -> None:
    event = following(0, dataset_genesis("a"), EventKind.DELETED, "d", None, {}, NOW)
    assert first_break_of_dataset(
        "a", [replace(event, time=event.time + timedelta.resolution)]
    ) == Break(1, "the row does not have the content that its hash covers")


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("reserve", "charge", "back", "credit")),
        st.integers(0, 3),
        st.integers(0, 50),
    ),
    max_size=30,
)


@given(steps=STEPS)
def test_what_is_held_is_the_sum_of_what_jobs_may_still_spend(
    steps: list[tuple[str, int, int]],
) -> None:
    """Against a plain model: per job an amount held, which only a give-back or a credit lowers."""
    held: dict[str, int] = {}
    charged: set[str] = set()
    closed: set[str] = set()
    events: list[DatasetEvent] = []
    kinds = {
        "reserve": EventKind.RESERVED,
        "charge": EventKind.CHARGED,
        "back": EventKind.CREDITED,
        "credit": EventKind.CREDITED,
    }
    head = dataset_genesis("l")
    for step, number, amount in steps:
        job = f"job {number}"
        if step == "reserve" and job not in held:
            held[job] = amount
        elif step == "charge" and job in held and job not in charged | closed:
            charged.add(job)
        elif step == "back" and job in held and job not in charged | closed:
            closed.add(job)
            held[job] = 0
        elif step == "credit" and job in charged and amount <= held[job]:
            held[job] -= amount
        else:
            continue
        payload = {"epsilon": amount, "delta": 0, "reserved": step == "back"}
        event = following(len(events), head, kinds[step], "d", job, payload, NOW)
        events.append(event)
        head = event.hash
    accounts = fold(events)
    assert accounts.held == EpsilonDelta(sum(held.values()), 0)
    assert accounts.charged == EpsilonDelta(sum(held[job] for job in charged), 0)
    assert first_break_of_dataset("l", events) is None


async def test_nothing_handed_in_as_two_kinds(house: Houses) -> None:
    """The same bytes with rows have one ledger, whose unit does not change; without, one a unit."""
    async with house(0) as it:

        async def as_kind(kind: str, content: bytes) -> Any:
            return await hand_in(it, content, name="x.txt", kind=kind, format="text", roles=None)

        ledgers = []
        for kind in ("transactions", "sequences", "transactions", "sequences"):
            answer = await as_kind(kind, b"")
            assert answer.status_code == 201, answer.text
            ledgers.append(answer.json()["ledger"])
        assert ledgers[0] == ledgers[2] != ledgers[1] == ledgers[3]
        assert (await as_kind("transactions", b"a b\n")).status_code == 201
        refused = await as_kind("sequences", b"a b\n")
        assert problem(refused) == (409, "ledger_conflict")
        assert refused.json()["errors"][0]["pointer"] == "/privacy_unit"
