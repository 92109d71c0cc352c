from __future__ import annotations

import numpy as np
from fastapi import Request, Response

from common.store.database import exclusive
from common.web import idempotency
from common.web.openapi import gives, takes
from common.web.paging import PageQuery
from common.web.wire import read_body
from coordinator import examples
from coordinator.registry.groups import GroupRequest, bitmap, create, find_group
from coordinator.services import Services
from coordinator.store import registry as store
from coordinator.store.registry import GroupRow
from coordinator.store.tables import idempotency_keys
from coordinator.web import Operator, Reader, api_router, encode, link_next
from tacit import sets
from tacit.answers.registry import CuratorsOfGroup, Group, ListOfGroups
from tacit.wire import format_instant

router = api_router()


@router.post(
    "/v1/groups",
    **gives(Group, 200, 201),
    tags=["groups"],
    status_code=201,
    summary="Declare a group of curators; it is immutable",
    openapi_extra=takes(GroupRequest, examples.GROUP),
)
async def create_group(request: Request, services: Services, caller: Operator) -> Response:
    body = await read_body(request, GroupRequest)
    key = await idempotency.request_key(request, caller.token_id)
    async with services.database.begin() as transaction:
        await exclusive(transaction, "groups")
        if stored := await idempotency.recall(transaction, idempotency_keys, key):
            return stored.response()
        now = services.clock.now()
        row, new = await create(transaction, body, now)
        answer = idempotency.StoredAnswer(
            201 if new else 200, encode(_shown(row)), location=f"/v1/groups/{row.name}"
        )
        await idempotency.remember(transaction, idempotency_keys, key, answer, now)
    return answer.response(replayed=False)


@router.get("/v1/groups", tags=["groups"], summary="All groups, by name")
async def list_groups(
    request: Request, response: Response, page: PageQuery, services: Services, _: Reader
) -> ListOfGroups:
    async with services.database.reading() as transaction:
        rows = await store.page_of_groups(transaction, page.after_text(), page.limit)
    link_next(request, response, page, rows, "name")
    return ListOfGroups(groups=[_shown(row) for row in rows])


@router.get(
    "/v1/groups/{name}",
    tags=["groups"],
    summary="One group, without its curators",
)
async def get_group(name: str, services: Services, _: Reader) -> Group:
    async with services.database.reading() as transaction:
        return _shown(await find_group(transaction, name))


@router.get(
    "/v1/groups/{name}/curators",
    tags=["groups"],
    summary="Its curators, by number",
)
async def list_group_curators(
    request: Request,
    response: Response,
    name: str,
    page: PageQuery,
    services: Services,
    _: Operator,
) -> CuratorsOfGroup:
    last = page.after_number()
    after = -1 if last is None else last
    async with services.database.reading() as transaction:
        row = await find_group(transaction, name)
        numbers = np.flatnonzero(sets.unpack(bitmap(row), row.size))
        numbers = numbers[numbers > after][: page.limit]
        curators = await store.curators_by_number(transaction, numbers.tolist())
    link_next(request, response, page, curators, "number")
    return CuratorsOfGroup(curators=curators)


def _shown(row: GroupRow) -> Group:
    return Group(
        name=row.name,
        parent=row.parent,
        curators=row.curators,
        created=format_instant(row.created),
    )
