"""Routes of queries: making one, its previews, ending its schedule.

The functions before the routes are shared with the console's pages.
"""

from __future__ import annotations

import asyncio

from fastapi import Request, Response

from common.store.database import exclusive
from common.web import idempotency
from common.web.idempotency import RequestKey, StoredAnswer
from common.web.openapi import api_router, gives, takes
from common.web.paging import PageQuery, next_link
from common.web.wire import json_response, read_body
from coordinator import examples, queries
from coordinator.api.rounds import Asked
from coordinator.errors import UnknownSchedule
from coordinator.queries import Preview, PreviewRequest
from coordinator.rounds import scheduling
from coordinator.services import CoordinatorServices, Services
from coordinator.store import queries as store
from coordinator.store.queries import NONE, QueryRow, RoundsOfQuery
from coordinator.store.tables import idempotency_keys
from coordinator.web import Analyst, Operator, Reader, encode, time_text
from tacit.answers.queries import KeptQuery, ListOfQueries
from tacit.query.query import Query

router = api_router()


async def create(services: CoordinatorServices, query: Query, key: RequestKey | None) -> Asked:
    """Create a query, or return the existing one with the same content. Raises what
    `queries.check_query` raises."""
    database = services.database
    async with database.reading() as transaction:
        if stored := await idempotency.recall(transaction, idempotency_keys, key):
            return Asked(stored, replayed=True)
        existing = await queries.known(transaction, query)
    new_row = existing or await queries.prepare(database, query, services.settings, services.clock)
    async with database.begin() as transaction:
        await exclusive(transaction, "queries")
        if stored := await idempotency.recall(transaction, idempotency_keys, key):
            return Asked(stored, replayed=True)
        existing = await queries.known(transaction, query)
        if existing is None:
            await store.add(transaction, new_row, scheduled=query.schedule is not None)
        row = existing or new_row
        round_counts = await store.rounds_of(transaction, [row.id])
        content = shown(row, round_counts.get(row.id, NONE))
        answer = StoredAnswer(200 if existing else 201, content, location=f"/v1/queries/{row.id}")
        await idempotency.remember(transaction, idempotency_keys, key, answer, services.clock.now())
    services.scheduler.wake()
    return Asked(answer, replayed=False)


async def stop(services: CoordinatorServices, query_id: str) -> bytes:
    """End a schedule; the query as JSON. Raises UnknownQuery, UnknownSchedule."""
    async with services.database.begin() as transaction:
        await exclusive(transaction, scheduling.lock(query_id))
        row = await queries.find(transaction, query_id)
        if row.query.schedule is None:
            raise UnknownSchedule("the query has no schedule")
        await store.stop(transaction, query_id, services.clock.now())
        row = await queries.find(transaction, query_id)
        round_counts = await store.rounds_of(transaction, [query_id])
    return shown(row, round_counts.get(query_id, NONE))


def shown(row: QueryRow, rounds_of_query: RoundsOfQuery) -> bytes:
    """A query as JSON; its content and preview are inserted as stored."""
    head = encode(
        {
            "id": row.id,
            "hash": row.hash.hex(),
            "created": time_text(row.created),
            "stopped": time_text(row.stopped),
            "rounds": rounds_of_query.count,
            "last": rounds_of_query.last,
        }
    )
    stored = f', "query": {row.body}, "preview": {row.preview}' + "}"
    return head[:-1] + stored.encode()


@router.post(
    "/v1/queries",
    **gives(KeptQuery, 201),
    tags=["queries"],
    status_code=201,
    summary="Create a query; it is immutable",
    openapi_extra=takes(Query, examples.QUERY),
)
async def create_query(request: Request, services: Services, caller: Operator) -> Response:
    body = await read_body(request, Query)
    key = await idempotency.request_key(request, caller.token_id)
    created = await create(services, body, key)
    return created.answer.response(replayed=created.replayed)


@router.post(
    "/v1/queries/preview",
    **gives(Preview),
    tags=["queries"],
    summary="The privacy report and error forecast of a query, before anything is spent",
    openapi_extra=takes(PreviewRequest, examples.PREVIEW),
)
async def preview_query(request: Request, services: Services, _: Analyst) -> Response:
    body = await read_body(request, PreviewRequest)
    query = await asyncio.to_thread(lambda: body.query)  # a second for 65,000 edges
    price = await queries.preview(services.database, query, services.settings, body.tries)
    return json_response(price.model_dump_json(exclude=None if price.stops else {"stops"}))


@router.get("/v1/queries", **gives(ListOfQueries), tags=["queries"], summary="All queries")
async def list_queries(
    request: Request, page: PageQuery, services: Services, _: Reader
) -> Response:
    async with services.database.reading() as transaction:
        rows = await store.page(transaction, page.after_text(), page.limit)
        round_counts = await store.rounds_of(transaction, [row.id for row in rows])
    items = [shown(row, round_counts.get(row.id, NONE)) for row in rows]
    body = b'{"queries":[' + b",".join(items) + b"]}"
    headers = next_link(request, rows[-1].id) if len(rows) == page.limit else None
    return json_response(body, headers=headers)


@router.get(
    "/v1/queries/{query_id}",
    **gives(KeptQuery),
    tags=["queries"],
    summary="One query with its preview",
)
async def get_query(query_id: str, services: Services, _: Reader) -> Response:
    async with services.database.reading() as transaction:
        row = await queries.find(transaction, query_id)
        round_counts = await store.rounds_of(transaction, [query_id])
    return json_response(shown(row, round_counts.get(query_id, NONE)))


@router.delete(
    "/v1/queries/{query_id}/schedule",
    **gives(KeptQuery),
    tags=["queries"],
    summary="Open no further rounds of a scheduled query; open ones continue",
)
async def stop_query_schedule(query_id: str, services: Services, _: Operator) -> Response:
    return json_response(await stop(services, query_id))
