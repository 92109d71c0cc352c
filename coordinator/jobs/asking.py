"""What a person does with jobs, by a route or on a page: ask for one, cancel one."""

from __future__ import annotations

import json
from datetime import datetime

from common.store.transactions import Database
from common.web import idempotency
from common.web.idempotency import RequestKey, StoredAnswer
from coordinator.errors import JobOver
from coordinator.jobs import views
from coordinator.jobs.parts import Jobs
from coordinator.models.job import FINISHED, JobRequest, JobState
from coordinator.store import jobs as store
from coordinator.store.jobs import JobRow
from coordinator.store.tables import idempotency_keys
from coordinator.web import encode


async def submit(
    database: Database, jobs: Jobs, now: datetime, body: JobRequest, key: RequestKey | None
) -> tuple[StoredAnswer, bool]:
    """Check, reserve and queue a job, once for a key; the answer, and whether it is of before.

    Raises what the checks raise, before anything is stored.
    """
    async with database.reading() as transaction:
        if stored := await idempotency.recall(transaction, idempotency_keys, key):
            return stored, True
    prepared = await jobs.submission.prepare(body)
    async with database.begin() as transaction:
        if stored := await idempotency.recall(transaction, idempotency_keys, key):
            return stored, True
        row = await jobs.submission.add(transaction, prepared)
        shown = {**views.timed(row, now), "preview": json.loads(row.preview)}
        answer = StoredAnswer(202, encode(shown), location=f"/v1/jobs/{row.id}")
        await idempotency.remember(transaction, idempotency_keys, key, answer, now)
    jobs.dispatcher.wake()
    jobs.federated.wake()
    return answer, False


async def cancel(database: Database, jobs: Jobs, now: datetime, job_id: str) -> JobRow:
    """End a job, or ask it to end; the job as it is then. Raises UnknownJob, JobOver."""
    row = await views.find(database, job_id, operator=True)
    if row.state is JobState.CANCELLED:
        return row
    if row.state in FINISHED:
        raise JobOver(extra={"state": row.state.value})
    async with database.begin() as transaction:
        changed = row.cancelling is None and await store.change(
            transaction, job_id, (JobState.RUNNING,), cancelling=now
        )
    if not changed and row.cancelling is None and row.state is JobState.QUEUED:
        await jobs.attempts.end(job_id, JobState.CANCELLED, None)
    jobs.dispatcher.wake()
    jobs.federated.wake()
    return await views.find(database, job_id, operator=True)
