"""Routes of queries."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import Depends, FastAPI, Request, Response

from common.web import idempotency
from common.web.bodies import gives, takes
from common.web.paging import PageQuery, next_link
from common.web.parts import part
from common.web.wire import json_response, read_body
from coordinator import examples
from coordinator.queries import queries
from coordinator.queries.stops import Preview, PreviewRequest
from coordinator.rounds import query_asking
from coordinator.rounds.scheduling import Scheduler
from coordinator.settings import CoordinatorSettings
from coordinator.store import queries as store
from coordinator.store.queries import NONE
from coordinator.web import (
    Analyst,
    ClockPart,
    DatabasePart,
    Operator,
    Reader,
)
from tacit.answers.queries import KeptQuery, ListOfQueries
from tacit.query.query import Query


def add_queries(app: FastAPI, settings: CoordinatorSettings) -> None:
    """Add them to the app."""

    @app.post(
        "/v1/queries",
        **gives(KeptQuery, 201),
        tags=["queries"],
        status_code=201,
        summary="Create a query; it is immutable",
        openapi_extra=takes(Query, examples.QUERY),
    )
    async def create_query(
        request: Request,
        database: DatabasePart,
        clock: ClockPart,
        scheduler: Annotated[Scheduler, Depends(part(Scheduler))],
        caller: Operator,
    ) -> Response:
        body = await read_body(request, Query)
        key = await idempotency.request_key(request, caller.token_id)
        asked = await query_asking.create(database, settings, clock, body, key)
        scheduler.wake()
        return asked.answer.response(replayed=asked.replayed)

    @app.post(
        "/v1/queries/preview",
        **gives(Preview),
        tags=["queries"],
        summary="The privacy report and error forecast of a query, before anything is spent",
        openapi_extra=takes(PreviewRequest, examples.PREVIEW),
    )
    async def preview_query(request: Request, database: DatabasePart, _: Analyst) -> Response:
        body = await read_body(request, PreviewRequest)
        query = await asyncio.to_thread(lambda: body.query)  # a second for 65,000 edges
        found = await queries.preview(database, query, settings, body.epsilons)
        return json_response(found.model_dump_json(exclude=None if found.stops else {"stops"}))

    @app.get("/v1/queries", **gives(ListOfQueries), tags=["queries"], summary="All queries")
    async def list_queries(
        request: Request, page: PageQuery, database: DatabasePart, _: Reader
    ) -> Response:
        async with database.reading() as transaction:
            found = await store.page(transaction, page.after_text(), page.limit)
            asked = await store.rounds_of(transaction, [row.id for row in found])
        items = [query_asking.shown(row, asked.get(row.id, NONE)) for row in found]
        body = b'{"queries":[' + b",".join(items) + b"]}"
        headers = next_link(request, found[-1].id) if len(found) == page.limit else None
        return json_response(body, headers=headers)

    @app.get(
        "/v1/queries/{query_id}",
        **gives(KeptQuery),
        tags=["queries"],
        summary="One query with its preview",
    )
    async def get_query(query_id: str, database: DatabasePart, _: Reader) -> Response:
        async with database.reading() as transaction:
            row = await queries.find(transaction, query_id)
            asked = await store.rounds_of(transaction, [query_id])
        return json_response(query_asking.shown(row, asked.get(query_id, NONE)))

    @app.delete(
        "/v1/queries/{query_id}/schedule",
        **gives(KeptQuery),
        tags=["queries"],
        summary="Open no further rounds of a scheduled query; those that are open go on",
    )
    async def stop_query_schedule(
        query_id: str, database: DatabasePart, clock: ClockPart, _: Operator
    ) -> Response:
        return json_response(await query_asking.stop(database, clock, query_id))
