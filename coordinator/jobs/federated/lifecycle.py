"""The lifecycle of a federated job, for both ways of collecting: progress, success and failure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from algorithms.contract import Outcome
from coordinator.jobs.attempts import RUNNING, Attempts
from coordinator.jobs.results import Results
from coordinator.jobs.workers.packing import pack
from coordinator.models.job import JobState
from coordinator.rounds.context import Conduct
from coordinator.store import jobs as store
from coordinator.store.jobs import JobRow
from tacit.errors import DomainError
from tacit.report.model import PrivacyReport


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
