"""Released sets at the coordinator: asked before a round is opened, and before it is frozen.

A set counts from the freeze on, in the same transaction that freezes: of two rounds that must not
both be opened, at most one is. It is never forgotten; it no longer counts if its round ended before
anybody was asked for a partial sum.
"""

from __future__ import annotations

import asyncio

from sqlalchemy.ext.asyncio import AsyncConnection

from common import sets
from common.differencing import (
    Refusal,
    Release,
    exempting_job,
    families,
    minimum_of,
    refusal,
)
from common.models.round import RoundDescriptor
from common.service.database import exclusive
from coordinator.store import frozen_sets as store

LOCK = "released sets"


async def forewarn(
    connection: AsyncConnection, descriptor: RoundDescriptor, expected: sets.Bits
) -> None:
    """Raise DifferenceRefused if the round would be refused once all expected curators took part.

    Nothing is kept: whom it really sums is known, and asked again, at the freeze.
    """
    refused = await _refusal(connection, descriptor, _release(descriptor, sets.pack(expected)))
    if refused is not None:
        raise refused.error()


async def freeze(connection: AsyncConnection, descriptor: RoundDescriptor, members: bytes) -> None:
    """Keep the set that a round is about to sum. Raises DifferenceRefused.

    The connection holds other freezes out from here to its end.
    """
    await exclusive(connection, LOCK)
    release = _release(descriptor, members)
    refused = await _refusal(connection, descriptor, release)
    if refused is not None:
        raise refused.error()
    await store.add(
        connection,
        families(descriptor.query),
        descriptor.window,
        release,
        descriptor.roster_size,
    )


def _release(descriptor: RoundDescriptor, members: bytes) -> Release:
    query = descriptor.query
    return Release(descriptor.round, members, minimum_of(query), exempting_job(query))


async def _refusal(
    connection: AsyncConnection, descriptor: RoundDescriptor, release: Release
) -> Refusal | None:
    earlier = await store.overlapping(connection, families(descriptor.query), descriptor.window)
    return await asyncio.to_thread(refusal, release, earlier) if earlier else None
