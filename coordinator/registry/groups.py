"""Groups: named, immutable sets of enrolled curators, such as a feeder; with their routes.

A round of a query with a group sums the group only; its members are in the round's descriptor, so
that every party keeps to them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import numpy as np
from pydantic import Field

from common.store.transactions import Transaction
from coordinator.errors import GroupConflict, GroupRefused, UnknownGroup
from coordinator.store import registry as store
from coordinator.store.registry import GroupRow
from tacit import sets
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
