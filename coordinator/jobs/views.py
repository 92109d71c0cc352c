"""What the API and the console show of jobs: one function for each document."""

from __future__ import annotations

import json
import math
from datetime import datetime
from typing import Any, Final

from common.store.transactions import Database
from coordinator.errors import JobNotFinished, UnknownJob
from coordinator.jobs.prices import Price, spent
from coordinator.models.job import FINISHED, JobState
from coordinator.store import jobs as store
from coordinator.store.jobs import JobRow
from coordinator.web import time_text
from tacit.accounting.amounts import EpsilonDelta, format_amount
from tacit.answers.jobs import CreatedJob, Job, JobBudget, JobPrice, PublishedJob
from tacit.protocol.federation import Federation
from tacit.report.model import PrivacyReport

_TOLD_FROM: Final = 0.05
"""Before so much is done, nothing is said of the rest."""


async def find(database: Database, job_id: str, *, operator: bool) -> JobRow:
    """A job that the caller may see. Raises UnknownJob."""
    async with database.reading() as transaction:
        row = await store.find(transaction, job_id)
    if row is None or not (operator or row.state is JobState.SUCCEEDED):
        raise UnknownJob
    return row


async def succeeded(database: Database, job_id: str, *, operator: bool) -> JobRow:
    """A job with a result. Raises UnknownJob, JobNotFinished."""
    row = await find(database, job_id, operator=operator)
    if row.state is not JobState.SUCCEEDED:
        raise JobNotFinished(extra={"state": row.state.value})
    return row


def published(row: JobRow) -> PublishedJob:
    """What depends on the data only through the mechanism; when and how long a job ran depends on
    the data itself, and is for operators."""
    return PublishedJob(**_published(row))


def timed(row: JobRow, now: datetime) -> Job:
    """All of a job."""
    return Job(**_whole(row, now))


def created(row: JobRow, now: datetime) -> CreatedJob:
    """A new job with the report that its result will have."""
    return CreatedJob(**_whole(row, now), preview=PrivacyReport.model_validate_json(row.preview))


def _published(row: JobRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "algorithm": row.algorithm,
        "version": row.version,
        "dataset": row.dataset_id,
        "stance": row.stance,
        "state": row.state.value,
    }


def _whole(row: JobRow, now: datetime) -> dict[str, Any]:
    price, kept = Price.model_validate_json(row.price), spent(row)
    federation = row.federation
    return {
        **_published(row),
        "federation": None if federation is None else Federation.model_validate_json(federation),
        "params": json.loads(row.params),
        "seed": row.chosen_seed,
        "cancelling": row.cancelling is not None and row.state not in FINISHED,
        "progress": row.progress,
        "stage": row.stage,
        "attempt": row.attempts,
        "created": time_text(row.created),
        "started": time_text(row.started),
        "finished": time_text(row.finished),
        "error": None if row.error is None else json.loads(row.error),
        "budget": JobBudget(
            **dict(price_shown(price)),
            charged=None if kept is None else format_amount(kept),
            noise_drawn=row.charged,
        ),
        "remaining_s": remaining_s(row, now),
    }


def price_shown(price: Price) -> JobPrice:
    """What a job costs its dataset."""
    reserved = None
    if price.kind == "budget":
        reserved = format_amount(EpsilonDelta(price.epsilon, price.delta))
    return JobPrice(reserved=reserved, outside_budget=price.kind == "outside", reason=price.reason)


def remaining_s(row: JobRow, now: datetime) -> int | None:
    """Whole seconds that a job still takes at its pace so far; None where that says
    nothing: it does not run, has hardly begun, or began again."""
    told = row.state is JobState.RUNNING and row.attempts <= 1 and row.progress >= _TOLD_FROM
    if not told or row.started is None:
        return None
    passed_s = max(0.0, (now - row.started).total_seconds())
    return math.ceil(passed_s * (1 - row.progress) / row.progress)
