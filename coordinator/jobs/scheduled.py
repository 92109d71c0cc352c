"""Scheduled federated jobs are submitted here: one for each period that is over, in order, however
long the service was down.

Spec: jobs, "Federated jobs"; aggregation, section 2. A period is asked for once: its job is stored
in the transaction that moves its schedule on, which expects the period that it found.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from sqlalchemy.ext.asyncio import AsyncEngine

from common.errors import DomainError
from common.models.job import JobRequest
from common.service.clock import Clock
from common.service.database import reading
from common.service.logs import describe, get_logger
from coordinator import periods
from coordinator.background import Repeating
from coordinator.jobs.problems import plain_problem
from coordinator.jobs.scheduled_asking import federation_of, run_request
from coordinator.jobs.submission import Submission
from coordinator.store import job_schedules as store
from coordinator.store.job_schedules import JobScheduleRow

log = get_logger("tacit.job_schedule")

LOOK_S: Final = 1.0
MAX_UNFINISHED: Final = 8
"""Jobs of one schedule at a time: what was missed is caught up in this stride."""


class JobScheduler(Repeating):
    """Runs in the background of every coordinator process; `submitted` is told of new jobs."""

    def __init__(
        self,
        engine: AsyncEngine,
        submission: Submission,
        clock: Clock,
        submitted: Callable[[], None],
    ) -> None:
        super().__init__("job_schedules", log, LOOK_S)
        self._engine, self._submission, self._clock = engine, submission, clock
        self._submitted = submitted

    async def look(self) -> None:
        """Do what is due."""
        await self.submit_due()

    async def submit_due(self) -> None:
        """Submit every job that is due."""
        async with reading(self._engine) as connection:
            going = await store.going(connection)
        for row in going:
            try:
                await self._follow(row)
            except DomainError as error:
                await self._wait(row, error)
            except Exception as error:  # the schedules after it go on
                log.error("job_schedule_failed", schedule=row.id, **describe(error))

    async def _follow(self, row: JobScheduleRow) -> None:
        """Submit what is due of one schedule, as far as the stride allows."""
        request = JobRequest.model_validate_json(row.request)
        _, schedule = federation_of(request)
        period = row.next_period
        while not self._pauses.ending and period < periods.over(schedule, self._clock.now()):
            async with reading(self._engine) as connection:
                _, unfinished = await store.count_runs(connection, row.id)
            if unfinished >= MAX_UNFINISHED or not await self._submit(row.id, request, period):
                return
            period += 1

    async def _submit(self, schedule_id: str, request: JobRequest, period: int) -> bool:
        """Submit the job of a period; whether nobody else did, or stopped the schedule."""
        asked = await self._submission.prepare(run_request(request, period))
        async with self._engine.begin() as connection:
            if not await store.advance(connection, schedule_id, period):
                return False
            job = await self._submission.add(connection, asked)
            await store.add_run(connection, schedule_id, period, job.id)
        self._submitted()
        return True

    async def _wait(self, row: JobScheduleRow, error: DomainError) -> None:
        """Say why a period waits: once, not every second."""
        problem = json.dumps(plain_problem(error))
        if problem == row.problem:
            return
        log.warning("job_schedule_waits", schedule=row.id, problem=error.name)
        async with self._engine.begin() as connection:
            await store.note(connection, row.id, problem)
