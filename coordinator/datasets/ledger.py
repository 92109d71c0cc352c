"""What jobs may take of a dataset's budget: an append-only ledger that belongs to the data.

Spec: jobs, "A dataset's ledger". Every function runs inside the caller's transaction and locks the
ledger's row until it ends, so that decision and write are atomic: of two concurrent jobs against a
budget for one, one is accepted. The rows are authoritative; each reader folds them into sums
(`Accounts`, pure), and while the chain does not verify nothing more can be taken.

Amounts: epsilon in 10^-6, delta in 10^-15; a request is rounded up, a budget is rounded down.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from algorithms.datasets.declaration import DatasetBudget
from common.store.transactions import Transaction
from coordinator.errors import BudgetExceeded, BudgetMissing, LedgerBroken, UnknownDataset
from coordinator.models.budget_ledger import (
    Break,
    DatasetEvent,
    EventKind,
    dataset_genesis,
    first_break_of_dataset,
    following,
)
from coordinator.store import datasets as store
from coordinator.store.datasets import LedgerRow
from tacit.accounting.amounts import (
    FEMTO,
    MICRO,
    ROUNDED,
    EpsilonDelta,
    format_amount,
    format_femto,
    format_micro,
)
from tacit.answers import datasets as answers
from tacit.wire import format_instant


@dataclass(frozen=True, slots=True)
class OutsideRelease:
    """A release that no figure covers."""

    job_id: str
    dataset_id: str
    reason: str
    time: datetime


def budget_amount(budget: DatasetBudget) -> EpsilonDelta:
    """A declared budget in the ledger's units, rounded down."""
    return EpsilonDelta(int(budget.epsilon * MICRO), int(budget.delta * FEMTO))


async def declare(
    transaction: Transaction,
    dataset_id: str,
    budget: DatasetBudget | None,
    purpose: str,
    revision_of: str | None,
    now: datetime,
) -> None:
    """A dataset begins or continues its ledger; a given budget is the limit from then on.
    Earlier charges stay."""
    payload: dict[str, Any] = {"purpose": purpose, "revision_of": revision_of}
    if budget is not None:
        amount = budget_amount(budget)
        payload |= {"epsilon": amount.epsilon, "delta": amount.delta}
    ledger, _ = await _locked(transaction, dataset_id)
    await _append(transaction, ledger, EventKind.DECLARED, dataset_id, None, payload, now)


async def reserve(
    transaction: Transaction,
    dataset_id: str,
    job_id: str,
    epsilon_micro: int,
    delta_e15: int,
    now: datetime,
) -> None:
    """Reserve what a job will charge. Raises BudgetMissing, BudgetExceeded with the figures, and
    UnknownDataset for a deleted one."""
    if epsilon_micro < 0 or delta_e15 < 0:
        raise ValueError("an amount is not negative")
    ledger, accounts = await _locked(transaction, dataset_id)
    row = await store.find(transaction, dataset_id)
    if row is None or row.deleted is not None:  # since the caller looked
        raise UnknownDataset(extra={"dataset": dataset_id})
    if job_id in accounts.jobs:
        raise ValueError("a job reserves once")
    amount = EpsilonDelta(epsilon_micro, delta_e15)
    if amount != EpsilonDelta(0, 0):
        if accounts.budget is None:
            raise BudgetMissing(extra={"dataset": dataset_id})
        _check_limit(dataset_id, accounts.budget, accounts.held, amount)
    await _append(
        transaction, ledger, EventKind.RESERVED, dataset_id, job_id, _payload(amount), now
    )


async def charge(transaction: Transaction, dataset_id: str, job_id: str, now: datetime) -> bool:
    """Charge what a job reserved; returns whether this was the first time. Every attempt may
    call it."""
    ledger, accounts = await _locked(transaction, dataset_id)
    account = accounts.jobs[job_id]
    if account.charged:
        return False
    if account.closed:
        raise ValueError("what was given back cannot be charged")
    await _append(
        transaction, ledger, EventKind.CHARGED, dataset_id, job_id, _payload(account.reserved), now
    )
    return True


async def give_back(transaction: Transaction, dataset_id: str, job_id: str, now: datetime) -> bool:
    """End a reservation whose noise was never drawn; returns whether there was one. Charged
    amounts are never given back."""
    ledger, accounts = await _locked(transaction, dataset_id)
    account = accounts.jobs.get(job_id)
    if account is None or account.charged or account.closed:
        return False
    payload = {**_payload(account.reserved), "reserved": True}
    await _append(transaction, ledger, EventKind.CREDITED, dataset_id, job_id, payload, now)
    return True


async def credit(
    transaction: Transaction,
    dataset_id: str,
    job_id: str,
    epsilon_micro: int,
    delta_e15: int,
    now: datetime,
) -> None:
    """Give back the rest of a charged job that its own published rule ended early. Raises
    ValueError for more than is left of its charge, which is an error of the caller."""
    ledger, accounts = await _locked(transaction, dataset_id)
    account = accounts.jobs[job_id]
    spent = account.spent
    if not account.charged or not (
        0 <= epsilon_micro <= spent.epsilon and 0 <= delta_e15 <= spent.delta
    ):
        raise ValueError("no more is credited than was charged")
    payload = {**_payload(EpsilonDelta(epsilon_micro, delta_e15)), "reserved": False}
    await _append(transaction, ledger, EventKind.CREDITED, dataset_id, job_id, payload, now)


async def release_outside_budget(
    transaction: Transaction, dataset_id: str, job_id: str, reason: str, now: datetime
) -> None:
    """Mark that a job releases what no figure covers; once per job."""
    ledger, accounts = await _locked(transaction, dataset_id)
    if any(event.job_id == job_id for event in accounts.outside):
        return
    kind = EventKind.RELEASED_OUTSIDE_BUDGET
    await _append(transaction, ledger, kind, dataset_id, job_id, {"reason": reason}, now)


async def released_outside(transaction: Transaction, dataset_id: str) -> list[OutsideRelease]:
    """The releases outside the budget, of this dataset and of those whose ledger it continues."""
    ledger = await store.ledger_of(transaction, dataset_id)
    if ledger is None:
        return []
    accounts = fold(await store.events(transaction, ledger.id))
    return [
        OutsideRelease(
            str(event.job_id), event.dataset_id, str(event.payload["reason"]), event.time
        )
        for event in accounts.outside
    ]


async def open_jobs(transaction: Transaction, dataset_id: str) -> list[str]:
    """Jobs with a reservation on this dataset that have not drawn noise."""
    _, accounts = await _locked(transaction, dataset_id)
    return [
        job_id
        for job_id, account in accounts.jobs.items()
        if account.dataset_id == dataset_id and not account.charged and not account.closed
    ]


async def deleted(transaction: Transaction, dataset_id: str, now: datetime) -> None:
    """The content is gone; the ledger stays."""
    ledger, _ = await _locked(transaction, dataset_id)
    await _append(transaction, ledger, EventKind.DELETED, dataset_id, None, {}, now)


async def statement(transaction: Transaction, dataset_id: str) -> answers.DatasetLedger:
    """Budget, what is reserved, charged and left, and every event; amounts as decimal strings. A
    dataset of a kind without a budget has no ledger: `budget` is null and there are no events."""
    ledger = await store.ledger_of(transaction, dataset_id)
    if ledger is None:
        nothing = format_amount(EpsilonDelta(0, 0))
        return answers.DatasetLedger(
            dataset=dataset_id,
            ledger=None,
            privacy_unit=None,
            budget=None,
            reserved=nothing,
            charged=nothing,
            left=None,
            lifetime=nothing,
            released_outside_budget=0,
            verified=True,
            events=[],
        )
    events = await store.events(transaction, ledger.id)
    accounts = fold(events)
    budget, held = accounts.budget, accounts.held
    remaining = None if budget is None else format_amount(_left(budget, held))
    infinite = {"epsilon": "inf", "delta": "1"}
    return answers.DatasetLedger(
        dataset=dataset_id,
        ledger=ledger.id,
        privacy_unit=ledger.privacy_unit,
        budget=None if budget is None else format_amount(budget),
        reserved=format_amount(accounts.reserved),
        charged=format_amount(accounts.charged),
        left=remaining,
        lifetime=infinite if accounts.outside else format_amount(accounts.charged),
        released_outside_budget=len(accounts.outside),
        verified=_break(ledger, events) is None,
        events=[_event(event) for event in events],
    )


async def verify(transaction: Transaction, dataset_id: str) -> Break | None:
    """The first bad row of a dataset's ledger; None if it is whole."""
    ledger = await store.ledger_of(transaction, dataset_id)
    if ledger is None:
        return None
    return _break(ledger, await store.events(transaction, ledger.id))


async def _locked(transaction: Transaction, dataset_id: str) -> tuple[LedgerRow, Accounts]:
    """The ledger of a dataset, locked until the transaction ends, and its accounts. Raises
    BudgetMissing if the kind has none, LedgerBroken."""
    ledger = await store.ledger_of(transaction, dataset_id, lock=True)
    if ledger is None:
        raise BudgetMissing(extra={"dataset": dataset_id})
    events = await store.events(transaction, ledger.id)
    break_at = _break(ledger, events)
    if break_at is not None:
        raise LedgerBroken(
            "the dataset's ledger does not verify", extra={"row": break_at.seq, "ledger": ledger.id}
        )
    return ledger, fold(events)


async def _append(
    transaction: Transaction,
    ledger: LedgerRow,
    kind: EventKind,
    dataset_id: str,
    job_id: str | None,
    payload: dict[str, Any],
    now: datetime,
) -> None:
    event = following(ledger.seq, ledger.head, kind, dataset_id, job_id, payload, now)
    await store.append(transaction, ledger.id, event)


def _break(ledger: LedgerRow, events: list[DatasetEvent]) -> Break | None:
    break_at = first_break_of_dataset(ledger.id, events)
    if break_at is not None:
        return break_at
    seq, head = (events[-1].seq, events[-1].hash) if events else (0, dataset_genesis(ledger.id))
    if (seq, head) != (ledger.seq, ledger.head):
        return Break(seq + 1, "the tail is not the one that was written last")
    return None


def _check_limit(
    dataset_id: str, budget: EpsilonDelta, reserved: EpsilonDelta, amount: EpsilonDelta
) -> None:
    fits = (
        reserved.epsilon + amount.epsilon <= budget.epsilon
        and reserved.delta + amount.delta <= budget.delta
    )
    if not fits:
        remaining = _left(budget, reserved)
        enough = EpsilonDelta(
            max(budget.epsilon, reserved.epsilon + amount.epsilon),
            max(budget.delta, reserved.delta + amount.delta),
        )
        raise BudgetExceeded(
            f"the job needs {_words(amount)}; {_words(remaining)} is left of the dataset's budget, "
            f"{_words(budget)}. Ask for less, or allow all jobs on this content more: run it again "
            f"with {_options(enough)}; what was charged stays charged. {ROUNDED}",
            extra={
                "dataset": dataset_id,
                "budget": format_amount(budget),
                "held": format_amount(reserved),
                "asked": format_amount(amount),
                "left": format_amount(remaining),
            },
        )


def _left(budget: EpsilonDelta, reserved: EpsilonDelta) -> EpsilonDelta:
    return EpsilonDelta(
        max(0, budget.epsilon - reserved.epsilon), max(0, budget.delta - reserved.delta)
    )


def _words(amount: EpsilonDelta) -> str:
    shown = format_amount(amount)
    return f"epsilon {shown['epsilon']}" + (f", delta {shown['delta']}" if amount.delta else "")


def _options(amount: EpsilonDelta) -> str:
    """As a command takes it."""
    shown = format_amount(amount)
    return f"--epsilon {shown['epsilon']}" + (f" --delta {shown['delta']}" if amount.delta else "")


def _payload(amount: EpsilonDelta) -> dict[str, Any]:
    return {"epsilon": amount.epsilon, "delta": amount.delta}


def _event(event: DatasetEvent) -> answers.DatasetEvent:
    write = {"epsilon": format_micro, "delta": format_femto}
    return answers.DatasetEvent(
        seq=event.seq,
        time=format_instant(event.time),
        kind=event.kind.value,
        dataset=event.dataset_id,
        job=event.job_id,
        hash=event.hash.hex(),
        **{
            name: write[name](value) if name in write else value
            for name, value in event.payload.items()
        },
    )


# The sums of a dataset's ledger. Pure: rows in, amounts out.

NOTHING = EpsilonDelta(0, 0)


@dataclass(frozen=True, slots=True)
class JobAccount:
    """One job. `closed`: its reservation was ended before anything was charged."""

    dataset_id: str
    reserved: EpsilonDelta
    charged: bool = False
    closed: bool = False
    credited: EpsilonDelta = NOTHING

    @property
    def spent(self) -> EpsilonDelta:
        """What it was charged and not credited."""
        return _minus(self.reserved, self.credited) if self.charged else NOTHING

    @property
    def held(self) -> EpsilonDelta:
        """What counts against the budget: what is spent, or may still be."""
        if self.closed:
            return NOTHING
        return self.spent if self.charged else self.reserved


@dataclass(frozen=True)
class Accounts:
    """All of a ledger; `budget` is the newest that was declared."""

    budget: EpsilonDelta | None = None
    jobs: Mapping[str, JobAccount] = field(default_factory=dict)
    outside: tuple[DatasetEvent, ...] = ()

    @property
    def held(self) -> EpsilonDelta:
        """Reserved and charged together."""
        return _sum(account.held for account in self.jobs.values())

    @property
    def charged(self) -> EpsilonDelta:
        """Charged, less what was credited."""
        return _sum(account.spent for account in self.jobs.values())

    @property
    def reserved(self) -> EpsilonDelta:
        """Reserved and not yet charged."""
        return _minus(self.held, self.charged)


def fold(events: Iterable[DatasetEvent]) -> Accounts:
    """The accounts after these rows, which are a whole ledger, oldest first."""
    budget: EpsilonDelta | None = None
    jobs: dict[str, JobAccount] = {}
    outside: list[DatasetEvent] = []
    for event in events:
        job = str(event.job_id)
        match event.kind:
            case EventKind.DECLARED:
                if "epsilon" in event.payload:
                    budget = _amount(event)
            case EventKind.RESERVED:
                jobs[job] = JobAccount(event.dataset_id, _amount(event))
            case EventKind.CHARGED:
                jobs[job] = replace(jobs[job], charged=True)
            case EventKind.CREDITED if event.payload["reserved"]:
                jobs[job] = replace(jobs[job], closed=True)
            case EventKind.CREDITED:
                credited = _sum((jobs[job].credited, _amount(event)))
                jobs[job] = replace(jobs[job], credited=credited)
            case EventKind.RELEASED_OUTSIDE_BUDGET:
                outside.append(event)
            case EventKind.DELETED:
                pass
    return Accounts(budget, jobs, tuple(outside))


def _amount(event: DatasetEvent) -> EpsilonDelta:
    return EpsilonDelta(int(event.payload["epsilon"]), int(event.payload["delta"]))


def _sum(amounts: Iterable[EpsilonDelta]) -> EpsilonDelta:
    epsilon = delta = 0
    for amount in amounts:
        epsilon += amount.epsilon
        delta += amount.delta
    return EpsilonDelta(epsilon, delta)


def _minus(one: EpsilonDelta, other: EpsilonDelta) -> EpsilonDelta:
    return EpsilonDelta(one.epsilon - other.epsilon, one.delta - other.delta)
