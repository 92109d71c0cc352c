"""The sums of a dataset's ledger. Pure: rows in, amounts out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from coordinator.models.dataset_events import DatasetEvent, EventKind
from tacit.accounting.amounts import Amount

NOTHING = Amount(0, 0)


@dataclass(frozen=True, slots=True)
class JobAccount:
    """One job. `closed`: its reservation was given back before anything was charged."""

    dataset_id: str
    reserved: Amount
    charged: bool = False
    closed: bool = False
    credited: Amount = NOTHING

    @property
    def spent(self) -> Amount:
        """What it was charged and not credited."""
        return _minus(self.reserved, self.credited) if self.charged else NOTHING

    @property
    def held(self) -> Amount:
        """What counts against the budget: what is spent, or may still be."""
        if self.closed:
            return NOTHING
        return self.spent if self.charged else self.reserved


@dataclass(frozen=True)
class Accounts:
    """All of a ledger; `budget` is the newest that was declared."""

    budget: Amount | None = None
    jobs: Mapping[str, JobAccount] = field(default_factory=dict)
    outside: tuple[DatasetEvent, ...] = ()

    @property
    def held(self) -> Amount:
        """Reserved and charged together."""
        return _sum(account.held for account in self.jobs.values())

    @property
    def charged(self) -> Amount:
        """Charged, less what was credited."""
        return _sum(account.spent for account in self.jobs.values())

    @property
    def reserved(self) -> Amount:
        """Reserved and not yet charged."""
        return _minus(self.held, self.charged)


def fold(events: Iterable[DatasetEvent]) -> Accounts:
    """The accounts after these rows, which are a whole ledger, oldest first."""
    budget: Amount | None = None
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


def _amount(event: DatasetEvent) -> Amount:
    return Amount(int(event.payload["epsilon"]), int(event.payload["delta"]))


def _sum(amounts: Iterable[Amount]) -> Amount:
    epsilon = delta = 0
    for amount in amounts:
        epsilon += amount.epsilon
        delta += amount.delta
    return Amount(epsilon, delta)


def _minus(one: Amount, other: Amount) -> Amount:
    return Amount(one.epsilon - other.epsilon, one.delta - other.delta)
