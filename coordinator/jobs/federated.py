"""Carries every federated job forward, also after a restart or a dead replica.

Spec: jobs, "Federated jobs". A job's state is what is stored of it: the steps it asked for and the
sums that were opened, or the reports that came. Whoever looks next goes on from there. Each
transition is one transaction that expects what it found, so that several replicas may look.
"""

from __future__ import annotations

import asyncio
from typing import Final

from common.errors import DomainError
from common.models.federation import Federation
from common.models.job import JobState
from common.service.database import reading
from common.service.logs import describe, get_logger
from coordinator.background import Pauses, finish
from coordinator.jobs.federated_desk import Desk, JobEnded
from coordinator.jobs.federated_reports import Collection
from coordinator.jobs.federated_rounds import Rounds
from coordinator.jobs.problems import plain_problem
from coordinator.store import jobs as store
from coordinator.store.jobs import JobRow

log = get_logger("tacit.federated")

LOOK_S: Final = 0.5


class Federated:
    """Runs in the background of every coordinator process."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.rounds, self.collection = Rounds(desk), Collection(desk)
        self._pauses = Pauses()
        self._problems: dict[str, str] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look."""
        self._task = asyncio.create_task(self._run(), name="federated jobs")

    async def stop(self) -> None:
        """Stop; what is stored goes on with the next start."""
        self._pauses.end()
        if self._task is not None:
            await finish([self._task])
        await self.collection.stop()

    def wake(self) -> None:
        """Look at once."""
        self._pauses.wake()

    async def _run(self) -> None:
        while not self._pauses.ending:
            self._pauses.begin()
            pause = LOOK_S
            try:
                if await self.look():
                    pause = 0.0
            except Exception as error:
                log.error("look_failed", **describe(error))
            if pause:
                await self._pauses.pause(pause)

    async def look(self) -> bool:
        """One look at every job; whether one of them moved on."""
        async with reading(self._desk.conduct.engine) as connection:
            running = await store.federated(connection)
        self.collection.keep_only(job.id for job in running)
        moved = False
        for job in running:
            if self._pauses.ending:
                break
            moved |= await self._carry(job)
        return moved

    async def _carry(self, job: JobRow) -> bool:
        federation = Federation.model_validate_json(job.federation or "")
        collect = self.rounds if federation.collect == "rounds" else self.collection
        try:
            if job.cancelling is not None:
                await collect.drop(job)
                await self._desk.attempts.end(job.id, JobState.CANCELLED, None)
                return True
            moved = await collect.carry(job)
        except JobEnded as ended:
            await self._fail(job, ended.problem)
            return True
        except Exception as error:
            name = error.name if isinstance(error, DomainError) else type(error).__name__
            if isinstance(error, DomainError) and error.retryable:
                self._note(job, name)
                return False
            if not isinstance(error, DomainError):
                log.error("job_failed", job=job.id, **describe(error))
            await self._fail(job, error)
            return True
        self._problems.pop(job.id, None)
        return moved

    async def _fail(self, job: JobRow, error: Exception) -> None:
        await self._desk.attempts.end(job.id, JobState.FAILED, plain_problem(error))

    def _note(self, job: JobRow, name: str) -> None:
        if self._problems.get(job.id) != name:  # once, not at every look
            log.warning("job_waits", job=job.id, problem=name)
        self._problems[job.id] = name
