"""Refusals of a round: a party can refuse for its own curators only.

A round is complete when each of its curators has delivered or is refused; the coordinator then does
not wait for the deadline. A party's refusal counts only for the curators that it hosts: the
coordinator no longer awaits those, and still awaits every other one by number, not by count. So a
party that refuses and delivers all the same ends no round early.
"""

from __future__ import annotations

import numpy as np

from common.runtime.clock import Clock
from common.store.database import exclusive
from common.store.transactions import Transaction
from coordinator.errors import RefusalConflict, RoundClosed, UnknownParty
from coordinator.rounds import context
from coordinator.store import refusals as store
from coordinator.store import registry
from coordinator.store import rounds as round_store
from tacit import sets
from tacit.errors import Invalid
from tacit.protocol.round.descriptor import Refusal, RoundState
from tacit.sets import Bits


async def take(
    transaction: Transaction, round_id: str, party_id: str, body: Refusal, clock: Clock
) -> None:
    """Store a party's refusal; an identical repetition changes nothing.

    Raises UnknownRound, RoundExpired, UnknownParty, Invalid, RefusalConflict or RoundClosed.
    """
    # Rows get their ids in the order of their commits, so that an incremental reader misses none.
    await exclusive(transaction, f"refusals {round_id}")
    head = await context.find(transaction, round_id)
    party = await registry.party(transaction, party_id)
    if party is None:
        raise UnknownParty
    try:
        members = sets.unpack(body.members, party.curators)
    except ValueError as error:
        raise Invalid(str(error), pointer="/members") from None
    if sum(body.grounds.values()) != int(members.sum()):
        raise Invalid("the grounds are of as many curators as refuse", pointer="/grounds")
    known = await store.find(transaction, round_id, party_id)
    if known is not None:
        if known != body:
            raise RefusalConflict
        return
    # Counts as a change of the round: long polls on it are notified.
    if not await round_store.change(transaction, round_id, RoundState.OPEN):
        raise RoundClosed(extra={"state": head.state.value})
    await store.add(transaction, round_id, party_id, body, clock.now())


class Refusing:
    """The curators refused so far, one boolean per roster number; reads on from the last row."""

    def __init__(self, round_id: str, size: int) -> None:
        self._round, self._last = round_id, 0
        self.members: Bits = np.zeros(size, np.bool_)

    async def read_on(self, transaction: Transaction) -> None:
        """Read the refusals stored since the last call."""
        for row in await store.after(transaction, self._round, self._last):
            own = sets.unpack(row.members, row.curators)
            inside = self.members[row.first : row.first + row.curators]
            inside |= own[: inside.size]  # a party may have enrolled after the round was opened
            self._last = row.id
