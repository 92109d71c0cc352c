"""A start from a backup: the store lacks what happened since, and must not repeat it.

To restore a backup, an operator puts a file `<data_dir>/restored` there (`tacit restore` does). The
next start ends every unfinished job as failed and charges it: it may have been released after the
copy was made, and another run would draw fresh noise for one charge. It also skips roster numbers,
as those assigned since are in use at the aggregators, where no number is assigned twice; and past
periods of scheduled jobs: curators may have answered for them already, in a job that the copy does
not contain. Then it removes the file. If that start is interrupted, the next one repeats it.

Not recovered here: charges of jobs that began after the copy, datasets deleted since, parties that
left since. Rounds in the copy continue: the aggregators answer as before, by the rounds' ids.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Final

from sqlalchemy import update

from common.runtime.clock import Clock
from common.runtime.logs import get_logger
from common.store.transactions import Database, Transaction
from coordinator import queries
from coordinator.datasets import ledger
from coordinator.jobs.privacy_statements import Price
from coordinator.jobs.schedules import federation_of
from coordinator.models.job import JobRequest, JobState, WorkerLost, plain_problem
from coordinator.settings import CoordinatorSettings
from coordinator.store import jobs
from coordinator.store import jobs as store
from coordinator.store.tables import roster

MARKER: Final = "restored"
SKIPPED: Final = 1 << 16
"""Roster numbers that are skipped: eight kilobytes of each bitmap."""
_UNFINISHED: Final = (JobState.QUEUED, JobState.RUNNING)
_ALL: Final = 10**9
_logger = get_logger("tacit.coordinator.restoring")


async def recover(database: Database, settings: CoordinatorSettings, clock: Clock) -> bool:
    """Take the steps above if this store was restored; whether it was."""
    marker = settings.data_dir / MARKER
    if not marker.exists():
        return False
    async with database.begin() as transaction:
        unfinished = await store.page(transaction, store.Filter(_UNFINISHED), None, _ALL)
        for job in unfinished:
            await _end(transaction, job, clock.now())
        await _leave_out_periods(transaction, clock.now())
        await transaction.execute(update(roster).values(next_number=roster.c.next_number + SKIPPED))
    _logger.warning("restored_from_backup", jobs_ended=len(unfinished))
    marker.unlink(missing_ok=True)
    return True


async def _leave_out_periods(transaction: Transaction, now: datetime) -> None:
    for row in await jobs.going_schedules(transaction):
        _, schedule = federation_of(JobRequest.model_validate_json(row.request))
        await jobs.skip_period(transaction, row.id, queries.periods_over(schedule, now))


async def _end(transaction: Transaction, job: store.JobRow, now: datetime) -> None:
    price = Price.model_validate_json(job.price)
    if job.dataset_id is not None and price.kind == "budget":
        await ledger.charge(transaction, job.dataset_id, job.id, now)
    elif job.dataset_id is not None and price.kind == "outside":
        reason = price.reason or ""
        await ledger.release_outside_budget(transaction, job.dataset_id, job.id, reason, now)
    await store.end_attempts(transaction, job.id)
    problem = plain_problem(WorkerLost("the coordinator was restored from a backup"))
    await store.change(
        transaction,
        job.id,
        _UNFINISHED,
        state=JobState.FAILED,
        finished=now,
        secret=None,
        charged=price.kind != "free",
        stage=JobState.FAILED.value,
        error=json.dumps(problem),
    )
