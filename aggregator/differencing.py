"""What this aggregator has summed, and what it will not sum beside it, whoever asks.

Asked in the transaction of a commitment, and kept from then on: of two rounds that must not both be
opened, this aggregator commits to one. It believes the bitmaps of the manifests that it signed
itself; what a coordinator declares of groups plays no part.
"""

from __future__ import annotations

import asyncio

from sqlalchemy.ext.asyncio import AsyncConnection

from aggregator.context import Aggregator, RoundContext
from aggregator.store import revealed_sets as store
from common.differencing import refusal, releases
from common.models.query import Sharing
from common.models.round import Manifest


async def admit(
    connection: AsyncConnection, aggregator: Aggregator, context: RoundContext, manifest: Manifest
) -> None:
    """Keep the set of a manifest that is about to be committed to. Raises DifferenceRefused.

    The connection holds other commitments out. The minimum is this aggregator's own where the
    query's is smaller.
    """
    descriptor = context.descriptor
    floor = aggregator.settings.policy_min_participants
    new = releases(descriptor.round, descriptor.query, manifest.members, floor)
    for scope, release in new.items():
        earlier = await store.overlapping(connection, scope, descriptor.window, release.minimum)
        refused = await asyncio.to_thread(refusal, release, earlier) if earlier else None
        if refused is not None:
            raise refused.error()
    await store.add(connection, new, descriptor.window, descriptor.roster_size)


async def withdraw(connection: AsyncConnection, context: RoundContext) -> None:
    """A round ended before this aggregator revealed its partial sum.

    Without it nobody can open the sum, unless a Shamir quorum needs no more than the others.
    """
    if context.descriptor.query.sharing is not Sharing.SHAMIR:
        await store.forget(connection, context.id)
