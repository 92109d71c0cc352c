"""The lifecycle of a federated job: progress, success, failure, and its debit.

The one debit of a job in the ledger is an event with the round that it is made with, and one when
the job has ended (spec: federated-counting, section 6.3). The price itself is in the round's own
event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from algorithms.contract import Outcome
from common.runtime.logs import get_logger
from common.store.database import exclusive
from common.store.transactions import Transaction
from coordinator.budget.ledger import LOCK, SYSTEM
from coordinator.errors import LedgerBroken
from coordinator.jobs.attempts import RUNNING, Attempts
from coordinator.jobs.results import Results
from coordinator.jobs.workers.link import pack
from coordinator.models.budget_ledger import Draft, Event, Kind, MemberSet
from coordinator.models.job import JobState
from coordinator.rounds.context import Conduct, signed_descriptor
from coordinator.store import jobs as store
from coordinator.store import ledger as ledger_store
from coordinator.store import rounds as round_store
from coordinator.store.jobs import JobRow, StepRow
from tacit.errors import DomainError
from tacit.protocol.federation import JobTerms
from tacit.report.model import PrivacyReport
from tacit.sets import Bits
from tacit.wire import format_exact, format_instant

log = get_logger("tacit.federated")
KINDS: Final = (Kind.JOB_DEBITED, Kind.JOB_SETTLED)


def debited(job_id: str, terms: JobTerms, round_id: str) -> Draft:
    """The event of the round that a job's debit is made with."""
    payload = {
        "job": job_id,
        "terms": terms.digest().hex(),
        "epsilon": format_exact(terms.epsilon),
        "unit": terms.privacy_unit.value,
        "round": round_id,
    }
    return Draft(Kind.JOB_DEBITED, SYSTEM, payload)


async def settle(conduct: Conduct, job_id: str) -> None:
    """Record, once, that a job that was debited once asks nothing more: all curators whose
    pieces were accepted in a released round. A broken ledger does not prevent a job's end."""
    try:
        await _settle(conduct, job_id)
    except LedgerBroken as error:
        log.error("job_not_settled", job=job_id, problem=error.name)


async def _settle(conduct: Conduct, job_id: str) -> None:
    async with conduct.database.begin() as transaction:
        steps = await store.steps_of_job(transaction, job_id)
        await exclusive(transaction, LOCK)
        kinds_found = {event.kind for event in await _of_steps(transaction, steps)}
        if kinds_found != {Kind.JOB_DEBITED}:  # none, or settled before
            return
        sets = await _accepted(conduct, transaction, steps)
        members = np.zeros(max((member_set.size for member_set in sets), default=0), np.bool_)
        for member_set in sets:
            members[: member_set.size] |= member_set
        payload = {
            "job": job_id,
            "rounds": len(sets),
            "members": MemberSet.of(members).text,
            "size": int(members.size),
        }
        await conduct.ledger.append(transaction, [Draft(Kind.JOB_SETTLED, SYSTEM, payload)])


async def cohort(
    conduct: Conduct, transaction: Transaction, steps: Sequence[StepRow]
) -> Bits | None:
    """The curators that have a job's one debit and were counted: those in any aggregator's set
    of the first released round, by roster number; None before that round."""
    return next(iter(await _accepted(conduct, transaction, steps)), None)


async def _accepted(
    conduct: Conduct, transaction: Transaction, steps: Sequence[StepRow]
) -> list[Bits]:
    """The curators in any aggregator's set of each released round, in order."""
    rounds = (await conduct.ledger.current(transaction)).spending.rounds
    names = [step.round_id for step in steps if step.round_id is not None]
    accepted_rounds = [rounds[name] for name in names if name in rounds]
    return [
        round_row.members.bits() for round_row in accepted_rounds if round_row.state == "released"
    ]


async def events_of(transaction: Transaction, job_id: str) -> list[tuple[str, dict[str, Any]]]:
    """The kind and the public content of each event of a job so far: how many curators, not
    which."""
    steps = await store.steps_of_job(transaction, job_id)
    return [(event.kind.value, _shown(event)) for event in await _of_steps(transaction, steps)]


async def _of_steps(transaction: Transaction, steps: Sequence[StepRow]) -> list[Event]:
    if not steps or steps[0].round_id is None:
        return []
    first = await round_store.find(transaction, steps[0].round_id)
    head = None if first is None else signed_descriptor(first).statement.ledger
    since = 0 if head is None else head.seq
    events_found = await ledger_store.of_kinds(transaction, KINDS, since)
    return [event for event in events_found if event.payload["job"] == steps[0].job_id]


def _shown(event: Event) -> dict[str, Any]:
    shown = {**event.payload, "time": format_instant(event.time)}
    if event.kind is Kind.JOB_SETTLED:
        members = MemberSet(shown.pop("members"), shown.pop("size"))
        shown["curators"] = int(np.count_nonzero(members.bits()))
    return shown


@dataclass(frozen=True)
class Ending:
    """What a succeeded job publishes."""

    outcome: Outcome
    report: PrivacyReport


@dataclass(frozen=True)
class Desk:
    """What both ways of collecting need; `woken` is called after every round that was opened."""

    conduct: Conduct
    attempts: Attempts
    results: Results
    changed: Callable[[], None]
    woken: Callable[[str | None], None]

    async def tell(self, job: JobRow, stage: str, progress: float) -> None:
        """Store the progress of a job, from 0 to 1."""
        if (stage, progress) == (job.stage, job.progress):
            return
        async with self.conduct.database.begin() as transaction:
            await store.change(transaction, job.id, RUNNING, stage=stage, progress=progress)
        self.changed()

    async def succeed(self, job: JobRow, ending: Ending) -> None:
        """Store what a job publishes; from then on it has succeeded."""
        await asyncio.to_thread(self._keep, job, ending)
        now = self.conduct.clock.now()
        async with self.conduct.database.begin() as transaction:
            await store.change(
                transaction,
                job.id,
                RUNNING,
                state=JobState.SUCCEEDED,
                finished=now,
                progress=1.0,
                stage="done",
            )
        self.changed()

    def _keep(self, job: JobRow, ending: Ending) -> None:
        arrived = self.results.incoming()
        try:
            arrived.write_bytes(pack(ending.outcome))
            self.results.keep(job, arrived, self.results.opened(arrived), ending.report)
        finally:
            arrived.unlink(missing_ok=True)


class JobEnded(Exception):
    """The job cannot produce a result; `problem` is the reason."""

    def __init__(self, problem: DomainError) -> None:
        super().__init__(problem.name)
        self.problem = problem
