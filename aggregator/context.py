"""What the domain modules of an aggregator share: its store, keys, clock and settings.

A `RoundContext` is what every function needs to know of one round. It holds the own private epoch
key of that round and must not outlive the process or enter a log.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field

from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from aggregator.errors import UnknownRound
from aggregator.keys import EpochKeyGone, EpochSecret, Keyring
from aggregator.settings import AggregatorSettings
from aggregator.store import rounds as store
from common import sets
from common.functions import dimension
from common.models.query import Sharing
from common.models.round import RoundDescriptor
from common.randomness import SecureRandom
from common.service.clock import Clock
from common.service.database import reading
from common.service.erasure import Erasure
from common.sharing import Scheme, scheme
from common.signing import Signed

_KEPT_ROUNDS = 256
_SignedDescriptor = Signed[RoundDescriptor]


@dataclass(frozen=True)
class RoundContext:
    """One round as this aggregator sees it. `own_key` is None once it is destroyed; `invited`: who
    may take part, one boolean per roster number, None for everyone."""

    key: int
    descriptor: RoundDescriptor
    digest: bytes
    index: int
    dimension: int
    own_key: EpochSecret | None
    invited: sets.Bits | None = None

    @property
    def id(self) -> str:
        return self.descriptor.round

    @property
    def scheme(self) -> Scheme:
        """The sharing of the round's query."""
        query = self.descriptor.query
        return scheme(query.sharing, query.aggregators, query.threshold)

    @property
    def in_field(self) -> bool:
        """Whether words must be elements of the Shamir field."""
        return self.descriptor.query.sharing is Sharing.SHAMIR


@dataclass
class Aggregator:
    """The state of the running service."""

    engine: AsyncEngine
    settings: AggregatorSettings
    clock: Clock
    keyring: Keyring
    random: SecureRandom
    erasure: Erasure
    _rounds: OrderedDict[str, RoundContext] = field(default_factory=OrderedDict)
    _locks: defaultdict[str, asyncio.Lock] = field(
        default_factory=lambda: defaultdict(asyncio.Lock)
    )

    @property
    def id(self) -> str:
        return self.settings.aggregator_id

    @property
    def url(self) -> str:
        return self.settings.public_url or f"http://{self.settings.host}:{self.settings.port}"

    def lock(self, round_id: str) -> asyncio.Lock:
        """Held while this process works on a transition of the round."""
        return self._locks[round_id]

    async def round(self, round_id: str) -> RoundContext:
        """The context of a round. Raises UnknownRound."""
        known = self._rounds.get(round_id)
        if known is not None:
            self._rounds.move_to_end(round_id)
            return known
        async with reading(self.engine) as connection:
            row = await stored_round(connection, round_id)
            signed = await store.document(connection, row.key, "descriptor")
        return await self._remember(row, signed or "")

    async def _remember(self, row: store.RoundRow, signed: str) -> RoundContext:
        """Make and keep the context of a stored round."""
        descriptor = _SignedDescriptor.model_validate_json(signed).statement
        try:
            own_key = await self.keyring.of(row.own_epoch)
        except EpochKeyGone:
            own_key = None
        context = RoundContext(
            row.key,
            descriptor,
            row.descriptor_hash,
            descriptor.index_of(self.id),
            dimension(descriptor.query),
            own_key,
            descriptor.invited(),
        )
        self._rounds[row.id] = context
        while len(self._rounds) > _KEPT_ROUNDS:
            self._rounds.popitem(last=False)
        return context

    def forget_rounds(self) -> None:
        """Drop what is remembered of rounds: keys may have been destroyed, rounds purged."""
        self._rounds.clear()
        for round_id in [name for name, lock in self._locks.items() if not lock.locked()]:
            del self._locks[round_id]


async def stored_round(connection: AsyncConnection, round_id: str) -> store.RoundRow:
    """The stored round. Raises UnknownRound."""
    row = await store.round_row(connection, round_id)
    if row is None:
        raise UnknownRound
    return row


def wire_json(model: BaseModel) -> str:
    """A model as it is stored and answered."""
    return model.model_dump_json(exclude_none=True)
