"""Routes of groups: sets of curators, declared once."""

from __future__ import annotations

from typing import Any

import numpy as np
from fastapi import FastAPI, Request, Response

from common import sets
from common.service import idempotency
from common.service.bodies import takes
from common.service.database import exclusive, reading
from common.service.paging import BadCursor, PageQuery
from common.service.wire import read_body
from coordinator import examples, groups
from coordinator.groups import GroupRequest
from coordinator.store import groups as store
from coordinator.store.groups import GroupRow
from coordinator.store.tables import idempotency_keys
from coordinator.web import Operator, Reader, encode, page_response, service_of, time_text


def add_groups(app: FastAPI) -> None:
    """Add them to the app."""

    @app.post(
        "/v1/groups",
        tags=["groups"],
        status_code=201,
        summary="Declare a group of curators; it is immutable",
        openapi_extra=takes(GroupRequest, examples.GROUP),
    )
    async def create(request: Request, caller: Operator) -> Response:
        service, body = service_of(app), await read_body(request, GroupRequest)
        key = await idempotency.request_key(request, caller.token_id)
        async with service.engine.begin() as connection:
            await exclusive(connection, "groups")
            if stored := await idempotency.recall(connection, idempotency_keys, key):
                return stored.response()
            now = service.clock.now()
            row, new = await groups.create(connection, body, now)
            answer = idempotency.StoredAnswer(
                201 if new else 200, encode(_shown(row)), location=f"/v1/groups/{row.name}"
            )
            await idempotency.remember(connection, idempotency_keys, key, answer, now)
        return answer.response(replayed=False)

    @app.get("/v1/groups", tags=["groups"], summary="All groups, by name")
    async def listing(request: Request, page: PageQuery, _: Reader) -> Response:
        async with reading(service_of(app).engine) as connection:
            found = await store.page(connection, page.after_text(), page.limit)
        items = [_shown(row) for row in found]
        return page_response(request, "groups", items, page.limit, "name")

    @app.get("/v1/groups/{name}", tags=["groups"], summary="One group, without its curators")
    async def one(name: str, _: Reader) -> dict[str, Any]:
        async with reading(service_of(app).engine) as connection:
            return _shown(await groups.find(connection, name))

    @app.get("/v1/groups/{name}/curators", tags=["groups"], summary="Its curators, by number")
    async def curators(request: Request, name: str, page: PageQuery, _: Operator) -> Response:
        after = -1
        if page.after is not None:
            (last,) = page.after if len(page.after) == 1 else (None,)
            if not isinstance(last, int):
                raise BadCursor
            after = last
        async with reading(service_of(app).engine) as connection:
            row = await groups.find(connection, name)
            numbers = np.flatnonzero(sets.unpack(groups.bitmap(row), row.size))
            numbers = numbers[numbers > after][: page.limit]
            found = await store.names(connection, numbers.tolist())
        return page_response(request, "curators", found, page.limit, "number")


def _shown(row: GroupRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "parent": row.parent,
        "curators": row.curators,
        "created": time_text(row.created),
    }
