"""Who refuses a round: a party keeps curators of its own out, and nobody else's.

A round is over for its curators when each has delivered or is refused; the coordinator then need
not wait for the deadline. A party's word counts for the curators that it hosts alone: with it the
coordinator awaits those no longer, and still awaits every other one by number, not by count. So a
party that refuses and delivers all the same ends no round early.
"""

from __future__ import annotations

import numpy as np
from sqlalchemy.ext.asyncio import AsyncConnection

from common import sets
from common.errors import Invalid
from common.models.round import Refusal, RoundState
from common.service.clock import Clock
from common.service.database import exclusive
from common.sets import Bits
from coordinator.errors import RefusalConflict, RoundClosed, UnknownParty, UnknownRound
from coordinator.store import refusals as store
from coordinator.store import registry
from coordinator.store import rounds as round_store


async def take(
    connection: AsyncConnection, round_id: str, party_id: str, body: Refusal, clock: Clock
) -> None:
    """Keep a party's word; the same again changes nothing.

    Raises UnknownRound, UnknownParty, Invalid, RefusalConflict or RoundClosed.
    """
    # Rows get their ids in the order of their commits, so that nobody who reads on misses one.
    await exclusive(connection, f"refusals {round_id}")
    head = await round_store.head(connection, round_id)
    if head is None:
        raise UnknownRound
    party = await registry.party(connection, party_id)
    if party is None:
        raise UnknownParty
    try:
        members = sets.unpack(body.members, party.curators)
    except ValueError as error:
        raise Invalid(str(error), pointer="/members") from None
    if sum(body.grounds.values()) != int(members.sum()):
        raise Invalid("the grounds are of as many curators as refuse", pointer="/grounds")
    known = await store.find(connection, round_id, party_id)
    if known is not None:
        if known != body:
            raise RefusalConflict
        return
    # Counts as a change of the round: who follows it is told.
    if not await round_store.change(connection, round_id, RoundState.OPEN):
        raise RoundClosed(extra={"state": head.state.value})
    await store.add(connection, round_id, party_id, body, clock.now())


class Refusing:
    """Who refuses a round so far, one boolean per roster number; reads on from where it stopped."""

    def __init__(self, round_id: str, size: int) -> None:
        self._round, self._last = round_id, 0
        self.members: Bits = np.zeros(size, np.bool_)

    async def read_on(self, connection: AsyncConnection) -> None:
        """Learn of the refusals that came since."""
        for row in await store.after(connection, self._round, self._last):
            own = sets.unpack(row.members, row.curators)
            inside = self.members[row.first : row.first + row.curators]
            inside |= own[: inside.size]  # a party may have enrolled after the round was opened
            self._last = row.id
