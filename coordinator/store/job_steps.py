"""What federated jobs asked of curators: step by step, or one descriptor (number 0)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import insert, select

from common.store.transactions import Transaction
from coordinator.models.job import JobState
from coordinator.store.tables import job_steps, jobs


@dataclass(frozen=True)
class StepRow:
    """`document`: JSON of a FederatedStep, or of a signed Descriptor, which has no round."""

    job_id: str
    number: int
    document: str
    query_id: str | None
    round_id: str | None
    opened: datetime


_ROW = tuple(job_steps.c[name] for name in StepRow.__dataclass_fields__)
_COLLECTING = (
    select(job_steps.c.job_id)
    .join(jobs, jobs.c.id == job_steps.c.job_id)
    .where(
        jobs.c.state == JobState.RUNNING.value,
        jobs.c.federation.is_not(None),
        job_steps.c.number == 0,
    )
    .order_by(job_steps.c.job_id)
)


async def add(transaction: Transaction, row: StepRow) -> None:
    """Store a step. Raises IntegrityError where the job has this one already."""
    values = {name: getattr(row, name) for name in StepRow.__dataclass_fields__}
    await transaction.execute(insert(job_steps).values(values))


async def of_job(transaction: Transaction, job_id: str) -> list[StepRow]:
    """All steps of a job, in order."""
    query = select(*_ROW).where(job_steps.c.job_id == job_id).order_by(job_steps.c.number)
    return [_row(row) for row in await transaction.execute(query)]


async def find(transaction: Transaction, job_id: str, number: int) -> StepRow | None:
    """One step."""
    query = select(*_ROW).where(job_steps.c.job_id == job_id, job_steps.c.number == number)
    row = (await transaction.execute(query)).first()
    return None if row is None else _row(row)


async def pulse(transaction: Transaction) -> Sequence[str]:
    """The running jobs that collect reports: differs after one began or ended, in whatever
    process."""
    return (await transaction.execute(_COLLECTING)).scalars().all()


def _row(row: Any) -> StepRow:
    return StepRow(**row._mapping)
