"""What both ways of collecting for a federated job share: how it goes on, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from algorithms.contract import Outcome
from common.errors import DomainError
from common.models.job import JobState
from common.models.report import PrivacyReport
from coordinator.jobs.attempts import RUNNING, Attempts
from coordinator.jobs.packing import pack
from coordinator.jobs.results import Results
from coordinator.rounds import Conduct
from coordinator.store import jobs as store
from coordinator.store.jobs import JobRow


@dataclass(frozen=True)
class Ending:
    """What a job ends with."""

    outcome: Outcome
    report: PrivacyReport


@dataclass(frozen=True)
class Desk:
    """What the two ways of collecting need: `woken` is told of every round that was opened."""

    conduct: Conduct
    attempts: Attempts
    results: Results
    changed: Callable[[], None]
    woken: Callable[[str | None], None]

    async def tell(self, job: JobRow, stage: str, progress: float) -> None:
        """Where a job stands."""
        if (stage, progress) == (job.stage, job.progress):
            return
        async with self.conduct.engine.begin() as connection:
            await store.change(connection, job.id, RUNNING, stage=stage, progress=progress)
        self.changed()

    async def succeed(self, job: JobRow, ending: Ending) -> None:
        """Store what a job publishes; then it has succeeded."""
        await asyncio.to_thread(self._keep, job, ending)
        now = self.conduct.clock.now()
        async with self.conduct.engine.begin() as connection:
            await store.change(
                connection,
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
    """The job can bring no result; `problem` says why."""

    def __init__(self, problem: DomainError) -> None:
        super().__init__(problem.name)
        self.problem = problem
