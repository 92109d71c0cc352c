"""Routes of queries."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, FastAPI, Request, Response

from common.store.database import exclusive
from common.web import idempotency
from common.web.bodies import takes
from common.web.paging import PageQuery, next_link
from common.web.parts import part
from common.web.wire import json_response, read_body
from coordinator import examples
from coordinator.errors import UnknownSchedule
from coordinator.queries import queries
from coordinator.queries.stops import PreviewRequest
from coordinator.rounds import scheduling
from coordinator.rounds.scheduling import Scheduler
from coordinator.settings import CoordinatorSettings
from coordinator.store import queries as store
from coordinator.store.queries import QueryRow
from coordinator.store.tables import idempotency_keys
from coordinator.web import (
    Analyst,
    ClockPart,
    DatabasePart,
    Operator,
    Reader,
    encode,
    time_text,
)
from tacit.query.query import Query


def add_queries(app: FastAPI, settings: CoordinatorSettings) -> None:
    """Add them to the app."""

    @app.post(
        "/v1/queries",
        tags=["queries"],
        status_code=201,
        summary="Create a query; it is immutable",
        openapi_extra=takes(Query, examples.QUERY),
    )
    async def create(
        request: Request,
        database: DatabasePart,
        clock: ClockPart,
        scheduler: Annotated[Scheduler, Depends(part(Scheduler))],
        caller: Operator,
    ) -> Response:
        body = await read_body(request, Query)
        key = await idempotency.request_key(request, caller.token_id)
        async with database.reading() as transaction:
            if stored := await idempotency.recall(transaction, idempotency_keys, key):
                return stored.response()
            known = await queries.known(transaction, body)
        made = known or await queries.prepare(database, body, settings, clock)
        async with database.begin() as transaction:
            await exclusive(transaction, "queries")
            if stored := await idempotency.recall(transaction, idempotency_keys, key):
                return stored.response()
            known = await queries.known(transaction, body)
            if known is None:
                await store.add(transaction, made, scheduled=body.schedule is not None)
            row = known or made
            answer = idempotency.StoredAnswer(
                200 if known else 201, _shown(row), location=f"/v1/queries/{row.id}"
            )
            now = clock.now()
            await idempotency.remember(transaction, idempotency_keys, key, answer, now)
        scheduler.wake()
        return answer.response(replayed=False)

    @app.post(
        "/v1/queries/preview",
        tags=["queries"],
        summary="The privacy report and error forecast of a query, before anything is spent",
        openapi_extra=takes(PreviewRequest, examples.PREVIEW),
    )
    async def preview(request: Request, database: DatabasePart, _: Analyst) -> Response:
        body = await read_body(request, PreviewRequest)
        found = await queries.preview(database, body.query, settings, body.epsilons)
        return json_response(found.model_dump_json(exclude=None if found.stops else {"stops"}))

    @app.get("/v1/queries", tags=["queries"], summary="All queries")
    async def listing(
        request: Request, page: PageQuery, database: DatabasePart, _: Reader
    ) -> Response:
        async with database.reading() as transaction:
            found = await store.page(transaction, page.after_text(), page.limit)
        body = b'{"queries":[' + b",".join(_shown(row) for row in found) + b"]}"
        headers = next_link(request, found[-1].id) if len(found) == page.limit else None
        return json_response(body, headers=headers)

    @app.get("/v1/queries/{query_id}", tags=["queries"], summary="One query with its preview")
    async def one(query_id: str, database: DatabasePart, _: Reader) -> Response:
        async with database.reading() as transaction:
            row = await queries.find(transaction, query_id)
        return json_response(_shown(row))

    @app.delete(
        "/v1/queries/{query_id}/schedule",
        tags=["queries"],
        summary="Open no further rounds of a scheduled query; those that are open go on",
    )
    async def stop(
        query_id: str, database: DatabasePart, clock: ClockPart, _: Operator
    ) -> Response:
        async with database.begin() as transaction:
            await exclusive(transaction, scheduling.lock(query_id))
            row = await queries.find(transaction, query_id)
            if row.query.schedule is None:
                raise UnknownSchedule("the query has no schedule")
            await store.stop(transaction, query_id, clock.now())
            row = await queries.find(transaction, query_id)
        return json_response(_shown(row))


def _shown(row: QueryRow) -> bytes:
    """A query as JSON; its content and preview are put in as they were stored."""
    head = encode(
        {
            "id": row.id,
            "hash": row.hash.hex(),
            "created": time_text(row.created),
            "stopped": time_text(row.stopped),
        }
    )
    stored = f', "query": {row.body}, "preview": {row.preview}' + "}"
    return head[:-1] + stored.encode()
