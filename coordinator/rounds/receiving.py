"""How far an open round is: whom it awaits, and how many every aggregator says it holds.

Spec: console, sections 5.3 and 7.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Final

from fastapi import Depends, FastAPI

from common.web.parts import part
from coordinator.errors import UnknownRound
from coordinator.registry.answers import Progress, gather, soon
from coordinator.rounds import context
from coordinator.rounds.context import Conduct, peers_of, signed_descriptor
from coordinator.store import refusals
from coordinator.store import rounds as store
from coordinator.web import Operator
from tacit.protocol.round.descriptor import RoundState
from tacit.wire import WireModel

KEPT: Final = timedelta(seconds=1)
_HELD: Final = 64


class Held(WireModel):
    """Of how many curators one aggregator says that it holds pieces; None if it does not answer."""

    id: str
    accepted: int | None


class Received(WireModel):
    """An open round as it was within the last second. `expected`: how many curators were charged
    when it was opened; `least`: every aggregator holds pieces of so many or more, so at most so
    many are in all of them by now; None unless all answer, and in any other state. `refused`:
    curators that refuse, by ground."""

    round: str
    state: RoundState
    expected: int | None
    minimum: int | None
    least: int | None = None
    aggregators: tuple[Held, ...] = ()
    refused: dict[str, int]


@dataclass
class _Look:
    at: datetime | None = None
    found: Received | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class ReceivingLooks:
    """Asks the aggregators of a round at most once a second, however many look."""

    def __init__(self, conduct: Conduct) -> None:
        self._conduct = conduct
        self._looks: dict[str, _Look] = {}

    async def look(self, round_id: str) -> Received:
        """How far a round is. Raises UnknownRound, RoundExpired."""
        look = self._looks.setdefault(round_id, _Look())
        async with look.lock:
            now = self._conduct.clock.now()
            fresh = look.at is not None and timedelta() <= now - look.at < KEPT
            if look.found is None or not fresh:
                look.found, look.at = await received(self._conduct, round_id), now
            while len(self._looks) > _HELD:
                self._looks.pop(next(iter(self._looks)))
            return look.found


async def received(conduct: Conduct, round_id: str) -> Received:
    """How far a round is now. Raises UnknownRound, RoundExpired."""
    async with conduct.database.reading() as transaction:
        await context.find(transaction, round_id)
        row = await store.find(transaction, round_id)
        grounds = await refusals.counts(transaction, round_id)
        state = await conduct.ledger.current(transaction)
    if row is None:
        raise UnknownRound
    descriptor, charge = signed_descriptor(row).statement, state.spending.rounds.get(round_id)
    found = Received(
        round=round_id,
        state=row.state,
        expected=None if charge is None else int(state.spending.members_of(charge).sum()),
        minimum=descriptor.query.min_participants,
        refused={ground.value: count for ground, count in grounds.items()},
    )
    if row.state is not RoundState.OPEN:
        return found
    peers = await peers_of(conduct, descriptor)
    answers = await gather(soon(peer.progress(round_id)) for peer in peers)
    held = tuple(
        Held(id=peer.id, accepted=answer.accepted if isinstance(answer, Progress) else None)
        for peer, answer in zip(peers, answers, strict=True)
    )
    counts = [each.accepted for each in held if each.accepted is not None]
    least = min(counts) if counts and len(counts) == len(held) else None
    return found.model_copy(update={"aggregators": held, "least": least})


def add_receiving(app: FastAPI) -> None:
    """Add the route to the app."""

    @app.get(
        "/v1/rounds/{round_id}/received",
        tags=["rounds"],
        summary="How far an open round is: whom it awaits, what every aggregator says it holds",
    )
    async def get_round_received(
        round_id: str, looks: Annotated[ReceivingLooks, Depends(part(ReceivingLooks))], _: Operator
    ) -> Received:
        return await looks.look(round_id)
