"""Collections of reports that a party was asked for, and the noisy reports it made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import and_, bindparam, func, insert, select, update

from common.store.transactions import Transaction
from curator.store.parties import enrolled_but
from curator.store.tables import collections, noisy_reports


class Stage(StrEnum):
    """planned -> prepared -> delivered, or refused, or over."""

    PLANNED = "planned"
    PREPARED = "prepared"
    DELIVERED = "delivered"
    REFUSED = "refused"
    OVER = "over"


UNFINISHED: Final = (Stage.PLANNED.value, Stage.PREPARED.value)


@dataclass(frozen=True)
class CollectionRow:
    """A party's participation in a collection; `descriptor`: JSON of the signed descriptor,
    `hash` its digest; `ground`: why it was refused."""

    job: str
    party: str
    hash: bytes
    descriptor: str
    deadline: datetime
    state: Stage
    ground: str | None
    send_at: datetime


_ROW = tuple(collections.c[name] for name in CollectionRow.__dataclass_fields__)


async def plan(transaction: Transaction, rows: Sequence[CollectionRow]) -> None:
    """Store parts in a collection."""
    names = tuple(CollectionRow.__dataclass_fields__)
    values = [
        {**{name: getattr(row, name) for name in names}, "state": row.state.value} for row in rows
    ]
    await transaction.execute(insert(collections), values)


async def find(transaction: Transaction, job: str, party: str) -> CollectionRow | None:
    """A party's part in one."""
    query = select(*_ROW).where(collections.c.job == job, collections.c.party == party)
    row = (await transaction.execute(query)).first()
    return None if row is None else _row(row)


async def parties_without(
    transaction: Transaction, job: str, coordinator_key: bytes, deployment: str
) -> list[str]:
    """Enrolled parties of a deployment that have no part in a collection yet."""
    answered = select(collections.c.party).where(collections.c.job == job)
    return await enrolled_but(transaction, answered, coordinator_key, deployment)


async def asked_of(
    transaction: Transaction, party: str, curator: int, before: str | None, limit: int
) -> list[tuple[CollectionRow, int]]:
    """A page of a party's collections, the newest job first, and how many reports one of its
    curators, by key, made for each; `before`: the job of the last one of the page before."""
    made = (
        select(noisy_reports.c.job, func.count().label("reports"))
        .where(noisy_reports.c.party == party, noisy_reports.c.curator == curator)
        .group_by(noisy_reports.c.job)
        .subquery()
    )
    query = (
        select(*_ROW, func.coalesce(made.c.reports, 0).label("reports"))
        .outerjoin(made, made.c.job == collections.c.job)
        .where(collections.c.party == party)
        .order_by(collections.c.job.desc())
        .limit(limit)
    )
    if before is not None:
        query = query.where(collections.c.job < before)
    page = []
    for row in await transaction.execute(query):
        values = dict(row._mapping)
        reports = int(values.pop("reports"))
        values["state"] = Stage(values["state"])
        page.append((CollectionRow(**values), reports))
    return page


_DUE = (
    select(*_ROW)
    .where(collections.c.state.in_(UNFINISHED), collections.c.send_at <= bindparam("now"))
    .order_by(collections.c.job)
)


async def due(transaction: Transaction, now: datetime) -> list[CollectionRow]:
    """The unfinished ones whose moment has come."""
    return [_row(row) for row in await transaction.execute(_DUE, {"now": now})]


async def change(
    transaction: Transaction, row: CollectionRow, state: Stage, ground: str | None = None
) -> bool:
    """Change the state of one; whether it was still in the expected state."""
    done = await transaction.execute(
        update(collections)
        .where(
            collections.c.job == row.job,
            collections.c.party == row.party,
            collections.c.state == row.state.value,
        )
        .values(state=state.value, ground=ground)
    )
    return bool(done.rowcount)


def _row(row: Any) -> CollectionRow:
    values = dict(row._mapping)
    values["state"] = Stage(values["state"])
    return CollectionRow(**values)


# --- reports -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NoisyReport:
    """`body`: the bytes that are sent, the same at every retry; `curator`: its key."""

    curator: int
    round: int
    body: str


async def add(
    transaction: Transaction, job: str, party: str, reports: Sequence[NoisyReport]
) -> None:
    """Store reports that were not sent to anyone yet."""
    values = [
        {"job": job, "party": party, "curator": r.curator, "round": r.round, "body": r.body}
        for r in reports
    ]
    if values:
        await transaction.execute(insert(noisy_reports), values)


async def unanswered(
    transaction: Transaction, job: str, party: str, limit: int
) -> list[NoisyReport]:
    """Reports without an answer."""
    query = (
        select(noisy_reports.c.curator, noisy_reports.c.round, noisy_reports.c.body)
        .where(
            noisy_reports.c.job == job,
            noisy_reports.c.party == party,
            noisy_reports.c.status.is_(None),
        )
        .order_by(noisy_reports.c.curator, noisy_reports.c.round)
        .limit(limit)
    )
    return [NoisyReport(*row) for row in await transaction.execute(query)]


async def answer(
    transaction: Transaction, job: str, reports: Sequence[NoisyReport], statuses: Sequence[int]
) -> None:
    """Store the outcomes of reports."""
    for report, status in zip(reports, statuses, strict=True):
        await transaction.execute(
            update(noisy_reports)
            .where(
                and_(
                    noisy_reports.c.job == job,
                    noisy_reports.c.curator == report.curator,
                    noisy_reports.c.round == report.round,
                )
            )
            .values(status=status)
        )
