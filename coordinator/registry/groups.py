"""Groups: named, immutable sets of enrolled curators, such as a feeder; with their routes.

A round of a query with a group sums the group only; its members are in the round's descriptor, so
that every party keeps to them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, Request, Response
from pydantic import Field

from common.store.database import exclusive
from common.store.transactions import Transaction
from common.web import idempotency
from common.web.openapi import gives, takes
from common.web.paging import PageQuery, page_response
from common.web.wire import read_body
from coordinator import examples
from coordinator.errors import GroupConflict, GroupRefused, UnknownGroup
from coordinator.store import registry as store
from coordinator.store.registry import GroupRow
from coordinator.store.tables import idempotency_keys
from coordinator.web import ClockPart, DatabasePart, Operator, Reader, encode, time_text
from tacit import sets
from tacit.answers.registry import CuratorsOfGroup, Group, ListOfGroups
from tacit.errors import FieldError
from tacit.query.terms import MAX_CURATORS, Identifier
from tacit.wire import WireModel

NAMED = 10
"""At most this many curators are named in a refusal."""


class GroupRequest(WireModel):
    """A new group. `parent`: one that contains all its curators."""

    name: Identifier
    parent: Identifier | None = None
    curators: Annotated[tuple[Identifier, ...], Field(min_length=1, max_length=MAX_CURATORS)]


async def find_group(transaction: Transaction, name: str) -> GroupRow:
    """The group of this name. Raises UnknownGroup."""
    row = await store.find_group(transaction, name)
    if row is None:
        raise UnknownGroup(extra={"group": name})
    return row


def bitmap(row: GroupRow) -> bytes:
    """The members of a group, over the roster numbers there were when it was made."""
    return sets.decompressed(row.members, row.size)


async def create(
    transaction: Transaction, request: GroupRequest, now: datetime
) -> tuple[GroupRow, bool]:
    """The group, and whether it is new; an identical request returns the same group.

    Raises GroupConflict for another set of this name, UnknownGroup for the parent, GroupRefused for
    curators that are not enrolled, named twice, or not in the parent.
    """
    known = await store.find_group(transaction, request.name)
    members = await _members(transaction, request.curators, made_before=known is not None)
    if known is not None:
        same = bitmap(known).rstrip(b"\0") == members.rstrip(b"\0")
        if not same or known.parent != request.parent:
            raise GroupConflict(extra={"group": known.name})
        return known, False
    if request.parent is not None:
        _check_parent(await find_group(transaction, request.parent), members)
    size, count = 8 * len(members), len(request.curators)
    packed = await asyncio.to_thread(sets.compressed, members)
    row = GroupRow(request.name, request.parent, size, count, packed, now)
    await store.add_group(transaction, row)
    return row, True


async def _members(transaction: Transaction, ids: Sequence[str], *, made_before: bool) -> bytes:
    """The bitmap of the curators named. Existing members that have left may still be named."""
    if len(set(ids)) != len(ids):
        seen: set[str] = set()
        twice = []
        for place, name in enumerate(ids):
            if name in seen:
                twice.append(place)
            seen.add(name)
        raise _refused("named twice", twice)
    found = await store.curator_numbers(transaction, ids)
    here = {name: number for name, (number, stays) in found.items() if stays or made_before}
    if len(here) != len(ids):
        unknown = [place for place, name in enumerate(ids) if name not in here]
        raise _refused("not an enrolled curator", unknown)
    numbers = np.fromiter(here.values(), np.int64, len(here))
    bits = np.zeros(int(numbers.max()) + 1, np.bool_)
    bits[numbers] = True
    return sets.pack(bits)


def _refused(reason: str, places: list[int]) -> GroupRefused:
    errors = tuple(FieldError(f"/curators/{place}", reason) for place in places[:NAMED])
    return GroupRefused(
        f"{len(places)} of the curators named cannot be members",
        errors=errors,
        extra={"count": len(places)},
    )


def _check_parent(parent: GroupRow, members: bytes) -> None:
    length = max(parent.size // 8, len(members))
    whole, members = bitmap(parent).ljust(length, b"\0"), members.ljust(length, b"\0")
    if sets.is_subset(members, whole):
        return
    outside = np.frombuffer(members, np.uint8) & ~np.frombuffer(whole, np.uint8)
    numbers = np.flatnonzero(sets.unpack(outside.tobytes(), 8 * len(members)))
    raise GroupRefused(
        f"{numbers.size} of the curators are not in {parent.name}",
        pointer="/parent",
        extra={"count": int(numbers.size)},
    )


async def invited(transaction: Transaction, name: str, roster_size: int) -> bytes:
    """The members of a group as a bitmap over a roster. Raises UnknownGroup."""
    return sets.resized(bitmap(await find_group(transaction, name)), roster_size)


async def expected(transaction: Transaction, members: sets.Bits, opened: datetime) -> int:
    """How many of a round's members had not left when it opened."""
    return int((await store.members_present(transaction, members, opened)).sum())


# Routes of groups: sets of curators, declared once.


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
            row, new = await create(transaction, body, now)
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
            found = await store.page_of_groups(transaction, page.after_text(), page.limit)
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
            return _shown(await find_group(transaction, name))

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
            row = await find_group(transaction, name)
            numbers = np.flatnonzero(sets.unpack(bitmap(row), row.size))
            numbers = numbers[numbers > after][: page.limit]
            found = await store.curators_by_number(transaction, numbers.tolist())
        return page_response(request, "curators", found, page.limit, "number")


def _shown(row: GroupRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "parent": row.parent,
        "curators": row.curators,
        "created": time_text(row.created),
    }
