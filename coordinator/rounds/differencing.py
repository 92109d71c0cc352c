"""Released sets at the coordinator: checked before a round is opened, and before it is frozen.

A set counts from the freeze on, in the same transaction that freezes: of two rounds that must not
both be opened, at most one is. It is never deleted; it no longer counts if its round ended before
any aggregator was asked for a partial sum.
"""

from __future__ import annotations

from common.store.database import exclusive
from common.store.transactions import Transaction
from coordinator.store.round_details import FROZEN
from tacit import sets
from tacit.protocol.differencing import releases
from tacit.protocol.round.descriptor import RoundDescriptor

LOCK = "released sets"


async def forewarn(
    transaction: Transaction, descriptor: RoundDescriptor, expected: sets.Bits
) -> None:
    """Raise DifferenceRefused if the round would be refused with all expected curators in its
    sum. Nothing is stored: the actual set is known, and checked again, at the freeze."""
    new = releases(descriptor.round, descriptor.query, sets.pack(expected))
    await FROZEN.check(transaction, new, descriptor.window)


async def freeze(transaction: Transaction, descriptor: RoundDescriptor, members: bytes) -> None:
    """Store the set that a round is about to sum. Raises DifferenceRefused. The connection's
    lock excludes other freezes until its transaction ends."""
    await exclusive(transaction, LOCK)
    new = releases(descriptor.round, descriptor.query, members)
    await FROZEN.check(transaction, new, descriptor.window)
    await FROZEN.add(transaction, new, descriptor.window, descriptor.roster_size)
