"""A start from a backup: the store forgot what happened since, and must not do it a second time.

Whoever restores a backup puts a file `<data_dir>/restored` there (`tacit restore` does). The next
start ends every unfinished job as failed and charges it: it may have been released after the copy
was made, and another run would draw fresh noise for one charge. It also leaves out roster numbers,
as those given since are taken at the aggregators, where no number is given twice; and the periods
of scheduled jobs that are over: curators may have answered for them already, in a job that the copy
does not know. Then it removes the file; a start that dies in between begins again.

Not undone here: what jobs took that began after the copy, datasets deleted since, who left since.
Rounds that the copy knows go on: the aggregators answer as they did, by the rounds' ids.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Final

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from common.models.job import JobRequest, JobState
from common.service.clock import Clock
from common.service.logs import get_logger
from coordinator import periods
from coordinator.datasets import ledger
from coordinator.jobs.prices import Price
from coordinator.jobs.problems import WorkerLost, plain_problem
from coordinator.jobs.scheduled_asking import federation_of
from coordinator.settings import CoordinatorSettings
from coordinator.store import job_schedules
from coordinator.store import jobs as store
from coordinator.store.tables import roster

MARKER: Final = "restored"
SKIPPED: Final = 1 << 16
"""Roster numbers that are left out: eight kilobytes of each bitmap."""
_UNFINISHED: Final = (JobState.QUEUED, JobState.RUNNING)
_ALL: Final = 10**9
_logger = get_logger("tacit.coordinator.restoring")


async def recover(engine: AsyncEngine, settings: CoordinatorSettings, clock: Clock) -> bool:
    """Do what a restored coordinator must, if this store was restored; whether it was."""
    marker = settings.data_dir / MARKER
    if not marker.exists():
        return False
    async with engine.begin() as connection:
        unfinished = await store.page(connection, store.Filter(_UNFINISHED), None, _ALL)
        for job in unfinished:
            await _end(connection, job, clock.now())
        await _leave_out_periods(connection, clock.now())
        await connection.execute(update(roster).values(next_number=roster.c.next_number + SKIPPED))
    _logger.warning("restored_from_backup", jobs_ended=len(unfinished))
    marker.unlink(missing_ok=True)
    return True


async def _leave_out_periods(connection: AsyncConnection, now: datetime) -> None:
    for row in await job_schedules.going(connection):
        _, schedule = federation_of(JobRequest.model_validate_json(row.request))
        await job_schedules.skip(connection, row.id, periods.over(schedule, now))


async def _end(connection: AsyncConnection, job: store.JobRow, now: datetime) -> None:
    price = Price.model_validate_json(job.price)
    if job.dataset_id is not None and price.kind == "budget":
        await ledger.charge(connection, job.dataset_id, job.id, now)
    elif job.dataset_id is not None and price.kind == "outside":
        reason = price.reason or ""
        await ledger.release_outside_budget(connection, job.dataset_id, job.id, reason, now)
    await store.end_attempts(connection, job.id)
    problem = plain_problem(WorkerLost("the coordinator was restored from a backup"))
    await store.change(
        connection,
        job.id,
        _UNFINISHED,
        state=JobState.FAILED,
        finished=now,
        secret=None,
        charged=price.kind != "free",
        stage=JobState.FAILED.value,
        error=json.dumps(problem),
    )
