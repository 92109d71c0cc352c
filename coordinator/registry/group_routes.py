"""Routes of groups: sets of curators, declared once."""

from __future__ import annotations

from typing import Any

import numpy as np
from fastapi import FastAPI, Request, Response

from common.store.database import exclusive
from common.web import idempotency
from common.web.bodies import gives, takes
from common.web.paging import PageQuery, page_response
from common.web.wire import read_body
from coordinator import examples
from coordinator.registry import groups
from coordinator.registry.groups import GroupRequest
from coordinator.store import groups as store
from coordinator.store.groups import GroupRow
from coordinator.store.tables import idempotency_keys
from coordinator.web import ClockPart, DatabasePart, Operator, Reader, encode, time_text
from tacit import sets
from tacit.answers.groups import CuratorsOfGroup, Group, ListOfGroups


def add_groups(app: FastAPI) -> None:
    """Add them to the app."""

    @app.post(
        "/v1/groups",
        **gives(Group, 200, 201),
        tags=["groups"],
        status_code=201,
        summary="Declare a group of curators; it is immutable",
        openapi_extra=takes(GroupRequest, examples.GROUP),
    )
    async def create_group(
        request: Request, database: DatabasePart, clock: ClockPart, caller: Operator
    ) -> Response:
        body = await read_body(request, GroupRequest)
        key = await idempotency.request_key(request, caller.token_id)
        async with database.begin() as transaction:
            await exclusive(transaction, "groups")
            if stored := await idempotency.recall(transaction, idempotency_keys, key):
                return stored.response()
            now = clock.now()
            row, new = await groups.create(transaction, body, now)
            answer = idempotency.StoredAnswer(
                201 if new else 200, encode(_shown(row)), location=f"/v1/groups/{row.name}"
            )
            await idempotency.remember(transaction, idempotency_keys, key, answer, now)
        return answer.response(replayed=False)

    @app.get("/v1/groups", **gives(ListOfGroups), tags=["groups"], summary="All groups, by name")
    async def list_groups(
        request: Request, page: PageQuery, database: DatabasePart, _: Reader
    ) -> Response:
        async with database.reading() as transaction:
            found = await store.page(transaction, page.after_text(), page.limit)
        items = [_shown(row) for row in found]
        return page_response(request, "groups", items, page.limit, "name")

    @app.get(
        "/v1/groups/{name}",
        **gives(Group),
        tags=["groups"],
        summary="One group, without its curators",
    )
    async def get_group(name: str, database: DatabasePart, _: Reader) -> dict[str, Any]:
        async with database.reading() as transaction:
            return _shown(await groups.find(transaction, name))

    @app.get(
        "/v1/groups/{name}/curators",
        **gives(CuratorsOfGroup),
        tags=["groups"],
        summary="Its curators, by number",
    )
    async def list_group_curators(
        request: Request, name: str, page: PageQuery, database: DatabasePart, _: Operator
    ) -> Response:
        last = page.after_number()
        after = -1 if last is None else last
        async with database.reading() as transaction:
            row = await groups.find(transaction, name)
            numbers = np.flatnonzero(sets.unpack(groups.bitmap(row), row.size))
            numbers = numbers[numbers > after][: page.limit]
            found = await store.names(transaction, numbers.tolist())
        return page_response(request, "curators", found, page.limit, "number")


def _shown(row: GroupRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "parent": row.parent,
        "curators": row.curators,
        "created": time_text(row.created),
    }
