"""Differencing guard of this aggregator: which released sets exclude a new one, regardless of the
caller.

A set is checked and stored in the transaction of its commitment: of two rounds that must not both
be opened, this aggregator commits to one. It relies on the bitmaps of the manifests that it signed
itself; groups declared by a coordinator are not used.
"""

from __future__ import annotations

from aggregator.context import Aggregator, RoundContext
from aggregator.store.rounds import REVEALED, forget_revealed
from common.store.transactions import Transaction
from tacit.protocol.differencing import releases
from tacit.protocol.round.messages import Manifest
from tacit.query.terms import Sharing


async def admit(
    transaction: Transaction, aggregator: Aggregator, context: RoundContext, manifest: Manifest
) -> None:
    """Store the set of a manifest that is about to be committed to. Raises DifferenceRefused.

    The connection's lock excludes other commitments. If the query's minimum is smaller than this
    aggregator's own, the latter applies.
    """
    descriptor = context.descriptor
    floor = aggregator.settings.policy_min_participants
    new = releases(descriptor.round, descriptor.query, manifest.members, floor)
    await REVEALED.check(transaction, new, descriptor.window)
    await REVEALED.add(transaction, new, descriptor.window, descriptor.roster_size)


async def withdraw(transaction: Transaction, context: RoundContext) -> None:
    """Remove the set of a round that ended before this aggregator revealed its partial sum.
    Without that no one can open the sum, unless the others suffice for a Shamir quorum."""
    if context.descriptor.query.sharing is not Sharing.SHAMIR:
        await forget_revealed(transaction, context.id)
