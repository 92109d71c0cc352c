"""What people ask of queries: make one, end its schedule."""

from __future__ import annotations

from common.runtime.clock import Clock
from common.store.database import exclusive
from common.store.transactions import Database
from common.web import idempotency
from common.web.idempotency import RequestKey, StoredAnswer
from coordinator.errors import UnknownSchedule
from coordinator.queries import queries
from coordinator.rounds import scheduling
from coordinator.rounds.asking import Asked
from coordinator.settings import CoordinatorSettings
from coordinator.store import queries as store
from coordinator.store.queries import NONE, QueryRow, RoundsOfQuery
from coordinator.store.tables import idempotency_keys
from coordinator.web import encode, time_text
from tacit.query.query import Query


async def create(
    database: Database,
    settings: CoordinatorSettings,
    clock: Clock,
    query: Query,
    key: RequestKey | None,
) -> Asked:
    """Make a query; of the same content there is one. Wake the scheduler afterwards. Raises what
    `queries.check_query` raises."""
    async with database.reading() as transaction:
        if stored := await idempotency.recall(transaction, idempotency_keys, key):
            return Asked(stored, replayed=True)
        known = await queries.known(transaction, query)
    made = known or await queries.prepare(database, query, settings, clock)
    async with database.begin() as transaction:
        await exclusive(transaction, "queries")
        if stored := await idempotency.recall(transaction, idempotency_keys, key):
            return Asked(stored, replayed=True)
        known = await queries.known(transaction, query)
        if known is None:
            await store.add(transaction, made, scheduled=query.schedule is not None)
        row = known or made
        asked = await store.rounds_of(transaction, [row.id])
        content = shown(row, asked.get(row.id, NONE))
        answer = StoredAnswer(200 if known else 201, content, location=f"/v1/queries/{row.id}")
        await idempotency.remember(transaction, idempotency_keys, key, answer, clock.now())
    return Asked(answer, replayed=False)


async def stop(database: Database, clock: Clock, query_id: str) -> bytes:
    """End a schedule; the query as JSON. Raises UnknownQuery, UnknownSchedule."""
    async with database.begin() as transaction:
        await exclusive(transaction, scheduling.lock(query_id))
        row = await queries.find(transaction, query_id)
        if row.query.schedule is None:
            raise UnknownSchedule("the query has no schedule")
        await store.stop(transaction, query_id, clock.now())
        row = await queries.find(transaction, query_id)
        asked = await store.rounds_of(transaction, [query_id])
    return shown(row, asked.get(query_id, NONE))


def shown(row: QueryRow, asked: RoundsOfQuery) -> bytes:
    """A query as JSON; its content and preview are put in as they were stored."""
    head = encode(
        {
            "id": row.id,
            "hash": row.hash.hex(),
            "created": time_text(row.created),
            "stopped": time_text(row.stopped),
            "rounds": asked.count,
            "last": asked.last,
        }
    )
    stored = f', "query": {row.body}, "preview": {row.preview}' + "}"
    return head[:-1] + stored.encode()
