"""Noisy reports that curators sent for federated jobs: each is stored as received, once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, func, insert, select, tuple_

from common.store.transactions import Transaction
from coordinator.store.tables import job_reports

Key = tuple[str, str, int]
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
    def key(self) -> Key:
        """What there is one report of."""
        return self.curator, self.record, self.round


_COLUMNS = (
    job_reports.c.curator,
    job_reports.c.record,
    job_reports.c.round,
    job_reports.c.body,
)


async def known(transaction: Transaction, job_id: str, keys: Sequence[Key]) -> dict[Key, str]:
    """The stored bodies of some keys."""
    place = tuple_(job_reports.c.curator, job_reports.c.record, job_reports.c.round)
    found: dict[Key, str] = {}
    for start in range(0, len(keys), _LOOKED_UP):
        some = list(keys[start : start + _LOOKED_UP])
        query = select(*_COLUMNS).where(job_reports.c.job_id == job_id, place.in_(some))
        for row in await transaction.execute(query):
            found[row.curator, row.record, row.round] = row.body
    return found


async def add(
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


async def curators(transaction: Transaction, job_id: str) -> set[str]:
    """The curators that reported."""
    query = select(job_reports.c.curator).where(job_reports.c.job_id == job_id).distinct()
    return set((await transaction.execute(query)).scalars())


async def count(transaction: Transaction, job_id: str) -> int:
    """How many curators did."""
    query = select(func.count(func.distinct(job_reports.c.curator)))
    found = await transaction.execute(query.where(job_reports.c.job_id == job_id))
    return int(found.scalar_one())


async def all_of(transaction: Transaction, job_id: str) -> list[ReportRow]:
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


async def forget(transaction: Transaction, job_id: str) -> None:
    """Drop the reports of a job that was cancelled or has failed."""
    await transaction.execute(delete(job_reports).where(job_reports.c.job_id == job_id))
