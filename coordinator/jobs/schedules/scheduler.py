"""Submits scheduled federated jobs: one for each period that is over, in order, also after any
downtime.

Spec: jobs, "Federated jobs"; aggregation, section 2. A period has one job: it is stored in the
transaction that advances its schedule, which expects the period that it read.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from common.runtime.background import Repeating
from common.runtime.clock import Clock
from common.runtime.logs import describe, get_logger
from common.store.transactions import Database
from coordinator.jobs.problems import plain_problem
from coordinator.jobs.schedules.preparation import federation_of, run_request
from coordinator.jobs.submission import Submission
from coordinator.models.job import JobRequest
from coordinator.queries import periods
from coordinator.store import job_schedules as store
from coordinator.store.job_schedules import JobScheduleRow
from tacit.errors import DomainError

log = get_logger("tacit.job_schedule")

LOOK_S: Final = 1.0
MAX_UNFINISHED: Final = 8
"""Most unfinished jobs of one schedule; missed periods are caught up this many at a time."""


class JobScheduler(Repeating):
    """The coordinator's loop over scheduled jobs: it submits them, `Federated` advances them. Every
    process has one; `submitted` is called after a new job."""

    def __init__(
        self,
        database: Database,
        submission: Submission,
        clock: Clock,
        submitted: Callable[[], None],
    ) -> None:
        super().__init__("job_schedules", log, LOOK_S, version=database.version)
        self._database, self._submission, self._clock = database, submission, clock
        self._submitted = submitted

    async def look(self) -> bool:
        """Do what is due."""
        return not await self.submit_due()

    async def submit_due(self) -> int:
        """Submit every job that is due; how many schedules there are."""
        async with self._database.reading() as transaction:
            going = await store.going(transaction)
        for row in going:
            try:
                await self._follow(row)
            except DomainError as error:
                await self._wait(row, error)
            except Exception as error:  # the other schedules continue
                log.error("job_schedule_failed", schedule=row.id, **describe(error))
        return len(going)

    async def _follow(self, row: JobScheduleRow) -> None:
        """Submit what is due of one schedule, up to MAX_UNFINISHED."""
        request = JobRequest.model_validate_json(row.request)
        _, schedule = federation_of(request)
        period = row.next_period
        while not self._pauses.ending and period < periods.over(schedule, self._clock.now()):
            async with self._database.reading() as transaction:
                _, unfinished = await store.count_runs(transaction, row.id)
            if unfinished >= MAX_UNFINISHED or not await self._submit(row.id, request, period):
                return
            period += 1

    async def _submit(self, schedule_id: str, request: JobRequest, period: int) -> bool:
        """Submit the job of a period; False if another replica did, or the schedule was stopped."""
        asked = await self._submission.prepare(run_request(request, period))
        async with self._database.begin() as transaction:
            if not await store.advance(transaction, schedule_id, period):
                return False
            job = await self._submission.add(transaction, asked)
            await store.add_run(transaction, schedule_id, period, job.id)
        self._submitted()
        return True

    async def _wait(self, row: JobScheduleRow, error: DomainError) -> None:
        """Log and store why a period waits: once, not every second."""
        problem = json.dumps(plain_problem(error))
        if problem == row.problem:
            return
        log.warning("job_schedule_waits", schedule=row.id, problem=error.name)
        async with self._database.begin() as transaction:
            await store.note(transaction, row.id, problem)
