"""Routes of queries."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response

from common.models.query import Query
from common.service import idempotency
from common.service.bodies import takes
from common.service.database import exclusive, reading
from common.service.paging import PageQuery, next_link
from common.service.wire import JSON, read_body
from coordinator import examples, queries, scheduling
from coordinator.errors import UnknownSchedule
from coordinator.settings import CoordinatorSettings
from coordinator.store import queries as store
from coordinator.store.queries import QueryRow
from coordinator.store.tables import idempotency_keys
from coordinator.web import Analyst, Operator, Reader, encode, model_response, service_of, time_text


def add_queries(app: FastAPI, settings: CoordinatorSettings) -> None:
    """Add them to the app."""

    @app.post(
        "/v1/queries",
        tags=["queries"],
        status_code=201,
        summary="Create a query; it is immutable",
        openapi_extra=takes(Query, examples.QUERY),
    )
    async def create(request: Request, caller: Operator) -> Response:
        service, body = service_of(app), await read_body(request, Query)
        key = await idempotency.request_key(request, caller.token_id)
        async with reading(service.engine) as connection:
            if stored := await idempotency.recall(connection, idempotency_keys, key):
                return stored.response()
            known = await queries.known(connection, body)
        made = known or await queries.prepare(service.engine, body, settings, service.clock)
        async with service.engine.begin() as connection:
            await exclusive(connection, "queries")
            if stored := await idempotency.recall(connection, idempotency_keys, key):
                return stored.response()
            known = await queries.known(connection, body)
            if known is None:
                await store.add(connection, made, scheduled=body.schedule is not None)
            row = known or made
            answer = idempotency.StoredAnswer(
                200 if known else 201, _shown(row), location=f"/v1/queries/{row.id}"
            )
            now = service.clock.now()
            await idempotency.remember(connection, idempotency_keys, key, answer, now)
        service.scheduler.wake()
        return answer.response(replayed=False)

    @app.post(
        "/v1/queries/preview",
        tags=["queries"],
        summary="The privacy report and error forecast of a query, before anything is spent",
        openapi_extra=takes(Query, examples.QUERY),
    )
    async def preview(request: Request, _: Analyst) -> Response:
        body = await read_body(request, Query)
        return model_response(await queries.preview(service_of(app).engine, body, settings))

    @app.get("/v1/queries", tags=["queries"], summary="All queries")
    async def listing(request: Request, page: PageQuery, _: Reader) -> Response:
        async with reading(service_of(app).engine) as connection:
            found = await store.page(connection, page.after_text(), page.limit)
        body = b'{"queries":[' + b",".join(_shown(row) for row in found) + b"]}"
        headers = next_link(request, found[-1].id) if len(found) == page.limit else None
        return Response(body, media_type=JSON, headers=headers)

    @app.get("/v1/queries/{query_id}", tags=["queries"], summary="One query with its preview")
    async def one(query_id: str, _: Reader) -> Response:
        async with reading(service_of(app).engine) as connection:
            row = await queries.find(connection, query_id)
        return Response(_shown(row), media_type=JSON)

    @app.delete(
        "/v1/queries/{query_id}/schedule",
        tags=["queries"],
        summary="Open no further rounds of a scheduled query; those that are open go on",
    )
    async def stop(query_id: str, _: Operator) -> Response:
        service = service_of(app)
        async with service.engine.begin() as connection:
            await exclusive(connection, scheduling.lock(query_id))
            row = await queries.find(connection, query_id)
            if row.query.schedule is None:
                raise UnknownSchedule("the query has no schedule")
            await store.stop(connection, query_id, service.clock.now())
            row = await queries.find(connection, query_id)
        return Response(_shown(row), media_type=JSON)


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
