"""Released sets at the coordinator: asked before a round is opened, and before it is frozen.

A set counts from the freeze on, in the same transaction that freezes: of two rounds that must not
both be opened, at most one is. It is never forgotten; it no longer counts if its round ended before
anybody was asked for a partial sum.
"""

from __future__ import annotations

import asyncio

from sqlalchemy.ext.asyncio import AsyncConnection

from common import sets
from common.differencing import Release, refusal, releases
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
    await _admitted(connection, descriptor, sets.pack(expected))


async def freeze(connection: AsyncConnection, descriptor: RoundDescriptor, members: bytes) -> None:
    """Keep the set that a round is about to sum. Raises DifferenceRefused.

    The connection holds other freezes out from here to its end.
    """
    await exclusive(connection, LOCK)
    new = await _admitted(connection, descriptor, members)
    await store.add(connection, new, descriptor.window, descriptor.roster_size)


async def _admitted(
    connection: AsyncConnection, descriptor: RoundDescriptor, members: bytes
) -> dict[str, Release]:
    new = releases(descriptor.round, descriptor.query, members)
    for scope, release in new.items():
        earlier = await store.overlapping(connection, scope, descriptor.window, release.minimum)
        refused = await asyncio.to_thread(refusal, release, earlier) if earlier else None
        if refused is not None:
            raise refused.error()
    return new
