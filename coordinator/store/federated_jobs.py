"""What federated jobs asked of curators, and the noisy reports that curators sent for them.

A job asks step by step, or by one descriptor (number 0). Each report is stored as received, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, insert, select, tuple_

from common.store.transactions import Transaction
from coordinator.models.job import JobState
from coordinator.store.tables import job_reports, job_steps, jobs


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


async def add_step(transaction: Transaction, row: StepRow) -> None:
    """Store a step. Raises IntegrityError where the job has this one already."""
    values = {name: getattr(row, name) for name in StepRow.__dataclass_fields__}
    await transaction.execute(insert(job_steps).values(values))


async def steps_of_job(transaction: Transaction, job_id: str) -> list[StepRow]:
    """All steps of a job, in order."""
    query = select(*_ROW).where(job_steps.c.job_id == job_id).order_by(job_steps.c.number)
    return [_row(row) for row in await transaction.execute(query)]


async def find_step(transaction: Transaction, job_id: str, number: int) -> StepRow | None:
    """One step."""
    query = select(*_ROW).where(job_steps.c.job_id == job_id, job_steps.c.number == number)
    row = (await transaction.execute(query)).first()
    return None if row is None else _row(row)


async def pulse_of_jobs(transaction: Transaction) -> Sequence[str]:
    """The running jobs that collect reports: differs after one began or ended, in whatever
    process."""
    return (await transaction.execute(_COLLECTING)).scalars().all()


def _row(row: Any) -> StepRow:
    return StepRow(**row._mapping)


ReportKey = tuple[str, str, int]
"""Curator, record, round."""
_LOOKED_UP = 300


@dataclass(frozen=True)
class ReportRow:
    """`body`: its canonical JSON."""

    curator: str
    record: str
    round: int
    body: str

    @property
    def key(self) -> ReportKey:
        """What there is one report of."""
        return self.curator, self.record, self.round


_COLUMNS = (
    job_reports.c.curator,
    job_reports.c.record,
    job_reports.c.round,
    job_reports.c.body,
)


async def known_reports(
    transaction: Transaction, job_id: str, keys: Sequence[ReportKey]
) -> dict[ReportKey, str]:
    """The stored bodies of some keys."""
    place = tuple_(job_reports.c.curator, job_reports.c.record, job_reports.c.round)
    found: dict[ReportKey, str] = {}
    for start in range(0, len(keys), _LOOKED_UP):
        some = list(keys[start : start + _LOOKED_UP])
        query = select(*_COLUMNS).where(job_reports.c.job_id == job_id, place.in_(some))
        for row in await transaction.execute(query):
            found[row.curator, row.record, row.round] = row.body
    return found


async def add_reports(
    transaction: Transaction, job_id: str, rows: Sequence[ReportRow], now: datetime
) -> None:
    """Store new reports."""
    if rows:
        values = [
            {
                "job_id": job_id,
                "curator": row.curator,
                "record": row.record,
                "round": row.round,
                "body": row.body,
                "received": now,
            }
            for row in rows
        ]
        await transaction.execute(insert(job_reports), values)


async def reporting_curators(transaction: Transaction, job_id: str) -> set[str]:
    """The curators that reported."""
    query = select(job_reports.c.curator).where(job_reports.c.job_id == job_id).distinct()
    return set((await transaction.execute(query)).scalars())


async def count_reports(transaction: Transaction, job_id: str) -> int:
    """How many curators did."""
    query = select(func.count(func.distinct(job_reports.c.curator)))
    found = await transaction.execute(query.where(job_reports.c.job_id == job_id))
    return int(found.scalar_one())


async def reports_of_job(transaction: Transaction, job_id: str) -> list[ReportRow]:
    """Every report of a job, by curator, record and round."""
    query = (
        select(*_COLUMNS)
        .where(job_reports.c.job_id == job_id)
        .order_by(job_reports.c.curator, job_reports.c.record, job_reports.c.round)
    )
    return [
        ReportRow(row.curator, row.record, row.round, row.body)
        for row in await transaction.execute(query)
    ]


async def forget_reports(transaction: Transaction, job_id: str) -> None:
    """Drop the reports of a job that was cancelled or has failed."""
    await transaction.execute(delete(job_reports).where(job_reports.c.job_id == job_id))
