"""Queries: content that never changes, known by its hash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import and_, bindparam, func, insert, or_, select, update

from common.store.transactions import Transaction
from coordinator.store.tables import queries, rounds
from tacit.query.query import Query


@lru_cache(maxsize=256)
def _parsed(body: str) -> Query:
    return Query.model_validate_json(body)


@dataclass(frozen=True)
class QueryRow:
    """A query as stored: its canonical form, and the JSON of its privacy preview; `stopped`: since
    when its schedule opens no more rounds."""

    id: str
    hash: bytes
    body: str
    preview: str
    created: datetime
    stopped: datetime | None = None

    @property
    def query(self) -> Query:
        """The query itself; parsed only where it is needed."""
        return _parsed(self.body)


async def add(transaction: Transaction, row: QueryRow, *, scheduled: bool) -> None:
    await transaction.execute(
        insert(queries).values(
            id=row.id,
            hash=row.hash,
            body=row.body,
            preview=row.preview,
            scheduled=scheduled,
            created=row.created,
        )
    )


def _row(row: Any) -> QueryRow:
    return QueryRow(row.id, row.hash, row.body, row.preview, row.created, row.stopped)


_BY_ID = select(queries).where(queries.c.id == bindparam("query_id"))


async def find(transaction: Transaction, query_id: str) -> QueryRow | None:
    row = (await transaction.execute(_BY_ID, {"query_id": query_id})).first()
    return None if row is None else _row(row)


async def find_by_hash(transaction: Transaction, digest: bytes) -> QueryRow | None:
    row = (await transaction.execute(select(queries).where(queries.c.hash == digest))).first()
    return None if row is None else _row(row)


async def page(
    transaction: Transaction, after: str | None, limit: int, search: str = ""
) -> list[QueryRow]:
    """Queries by id, after one; `search`: only those with this text in their id or content."""
    chosen = select(queries).order_by(queries.c.id).limit(limit)
    if search:
        texts = (queries.c.id, queries.c.body)
        chosen = chosen.where(or_(*(text.icontains(search, autoescape=True) for text in texts)))
    if after is not None:
        chosen = chosen.where(queries.c.id > after)
    return [_row(row) for row in await transaction.execute(chosen)]


_SCHEDULED = (
    select(queries)
    .where(queries.c.scheduled.is_(True), queries.c.stopped.is_(None))
    .order_by(queries.c.id)
)


async def scheduled(transaction: Transaction) -> list[QueryRow]:
    """The queries whose schedule is active."""
    return [_row(row) for row in await transaction.execute(_SCHEDULED)]


_EXACT = select(queries.c.id).where(queries.c.body.contains('"mechanism":"exact"'))


async def without_noise(transaction: Transaction) -> frozenset[str]:
    """The ids of the queries that add no noise."""
    return frozenset((await transaction.execute(_EXACT)).scalars())


async def stop(transaction: Transaction, query_id: str, now: datetime) -> None:
    """End a schedule; one that has ended stays as it is."""
    going = and_(queries.c.id == query_id, queries.c.stopped.is_(None))
    await transaction.execute(update(queries).where(going).values(stopped=now))


@dataclass(frozen=True)
class RoundsOfQuery:
    """How often a query was asked, and the id of its newest round."""

    count: int
    last: str | None


NONE: Final = RoundsOfQuery(0, None)


async def rounds_of(transaction: Transaction, ids: Sequence[str]) -> dict[str, RoundsOfQuery]:
    """Of those queries that were asked, by id."""
    chosen = (
        select(rounds.c.query_id, func.count(), func.max(rounds.c.id))
        .where(rounds.c.query_id.in_(ids))
        .group_by(rounds.c.query_id)
    )
    rows = await transaction.execute(chosen)
    return {query_id: RoundsOfQuery(count, last) for query_id, count, last in rows}
