"""The context that an aggregator's domain modules share: its store, keys, clock and settings.

A `RoundContext` holds what every function needs about one round. It contains this aggregator's
private key of that round, an epoch key or a seal key, and must not outlive the process or enter a
log.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any

from fastapi import Depends
from prometheus_client import Counter, Gauge
from pydantic import BaseModel

from aggregator.errors import (
    RoundClosed,
    RoundExpired,
    SealKeyGone,
    SealKeyUnavailable,
    UnknownRound,
)
from aggregator.seal_keys import SealKeyring, SealSecret
from aggregator.settings import AggregatorSettings
from aggregator.store import rounds as store
from common.runtime.clock import Clock
from common.runtime.telemetry import ServiceMetrics
from common.store.erasure import Erasure
from common.store.group_commit import GroupCommit, InTurn, in_transaction, in_turn, reading_in_turn
from common.store.own_identities import OwnIdentities
from common.store.transactions import Database, Transaction
from common.web.dependencies import part
from tacit.crypto.sharing import Scheme
from tacit.crypto.signing import Identity, Signed
from tacit.protocol.identities import IdentitySuperseded
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.protocol.round.pieces import DeclaredForm
from tacit.protocol.round.state import RoundState
from tacit.query.functions import dimension
from tacit.query.mechanisms import scheme
from tacit.query.proofs import ProofPlan, is_proved, proof_plan
from tacit.query.terms import Sharing
from tacit.randomness import SecureRandom

_KEPT_ROUNDS = 1024
"""Contexts in memory: more than the rounds that a coordinator has in progress."""
_SignedDescriptor = Signed[RoundDescriptor]


@dataclass(frozen=True)
class RoundContext:
    """One round as this aggregator sees it. `own_key` is None once it is destroyed, or while
    another replica alone has it (`elsewhere`); `invited`: the curators that may participate, a
    bitmap over the roster, None for all."""

    key: int
    descriptor: RoundDescriptor
    digest: bytes
    index: int
    dimension: int
    own_key: SealSecret | None
    invited: bytes | None = None
    proofs: ProofPlan | None = None
    """Of a proved round."""
    elsewhere: bool = False
    signer: Identity | None = field(default=None, repr=False)
    """Of the identity that the descriptor names; None once its private half is destroyed."""

    @property
    def identity(self) -> Identity:
        """What signs statements of this round. Raises IdentitySuperseded."""
        if self.signer is None:
            raise IdentitySuperseded
        return self.signer

    @property
    def id(self) -> str:
        return self.descriptor.round

    @property
    def seal_secret(self) -> SealSecret:
        """The own key of the round. Raises SealKeyGone or SealKeyUnavailable."""
        if self.own_key is None:
            raise SealKeyUnavailable if self.elsewhere else SealKeyGone
        return self.own_key

    @property
    def scheme(self) -> Scheme:
        """The sharing of the round's query."""
        query = self.descriptor.query
        return scheme(query)

    @cached_property
    def declared(self) -> DeclaredForm:
        """The form of contributions that are not proved."""
        return DeclaredForm.of(self.descriptor)

    @property
    def in_field(self) -> bool:
        """Whether words must be elements of the Shamir field."""
        return self.descriptor.query.sharing is Sharing.SHAMIR


@dataclass
class Aggregator:
    """The state of the running service."""

    database: Database
    settings: AggregatorSettings
    clock: Clock
    identities: OwnIdentities
    seal_keyring: SealKeyring
    random: SecureRandom
    erasure: Erasure
    samplers_passed: bool
    """Whether the noise samplers passed their self-test at the start; no round opens otherwise."""
    verify_keys: OrderedDict[str, bytes] = field(default_factory=OrderedDict)
    """Of proved rounds, by id, in memory only (`aggregator.pieces.peer_seals`)."""
    promises: OrderedDict[tuple[bytes, tuple[str, ...]], None] = field(default_factory=OrderedDict)
    """Queries, by their hash, with operators, whose guarantee was found to hold."""
    large_enrolments: asyncio.Lock = field(default_factory=asyncio.Lock)
    """They are read one at a time."""
    _rounds: OrderedDict[str, RoundContext] = field(default_factory=OrderedDict)
    _locks: defaultdict[str, asyncio.Lock] = field(
        default_factory=lambda: defaultdict(asyncio.Lock)
    )

    @property
    def id(self) -> str:
        return self.settings.aggregator_id

    @cached_property
    def looks(self) -> GroupCommit[InTurn, Any]:
        """Reads of many rounds share a transaction."""
        return GroupCommit(in_transaction(self.database.reading, in_turn))

    @cached_property
    def lookups(self) -> GroupCommit[InTurn, Any]:
        """The same, of one statement each as a rule."""
        return GroupCommit(reading_in_turn(self.database))

    @cached_property
    def openings(self) -> GroupCommit[InTurn, Any]:
        """Openings of many rounds share a transaction."""
        return GroupCommit(in_transaction(self.database.begin, in_turn))

    @property
    def url(self) -> str:
        return self.settings.public_url or f"http://{self.settings.host}:{self.settings.port}"

    def lock(self, round_id: str) -> asyncio.Lock:
        """Held while this process works on a transition of the round."""
        return self._locks[round_id]

    async def round(self, round_id: str) -> RoundContext:
        """The context of a round. Raises UnknownRound or RoundExpired."""
        cached = self._rounds.get(round_id)
        if cached is not None:
            self._rounds.move_to_end(round_id)
            return cached
        async with self.database.reading() as transaction:
            row = await stored_round(transaction, round_id)
            signed = await store.document(transaction, row.key, "descriptor")
        descriptor = _SignedDescriptor.model_validate_json(signed or "").statement
        await self.know(descriptor.aggregators[descriptor.index_of(self.id)].identity_key)
        own_key: SealSecret | None = None
        elsewhere = False
        try:
            own_key = await self.seal_keyring.of(row.seal_key)
        except SealKeyGone:
            pass
        except SealKeyUnavailable:
            elsewhere = True
        context = self._context(row.key, descriptor, row.descriptor_hash, own_key, elsewhere)
        return context if elsewhere else self._kept(context)

    async def know(self, identity_key: bytes) -> None:
        """Load identities again if another process may have made this one current."""
        if identity_key not in self.identities.public_keys:
            await self.identities.load()

    def remember(
        self, key: int, descriptor: RoundDescriptor, digest: bytes, own_key: SealSecret
    ) -> RoundContext:
        """Make and keep the context of a new round."""
        return self._kept(self._context(key, descriptor, digest, own_key, elsewhere=False))

    def _context(
        self,
        key: int,
        descriptor: RoundDescriptor,
        digest: bytes,
        own_key: SealSecret | None,
        elsewhere: bool,
    ) -> RoundContext:
        query, plan = descriptor.query, None
        if is_proved(query):
            plan = proof_plan(query)
        index = descriptor.index_of(self.id)
        return RoundContext(
            key,
            descriptor,
            digest,
            index,
            dimension(query),
            own_key,
            descriptor.invited_bitmap(),
            plan,
            elsewhere,
            self.identities.signer(descriptor.aggregators[index].identity_key),
        )

    def _kept(self, context: RoundContext) -> RoundContext:
        self._rounds[context.id] = context
        while len(self._rounds) > _KEPT_ROUNDS:
            self._rounds.popitem(last=False)
        return context

    def forget_round(self, round_id: str) -> None:
        """Drop the cached context of one round, and its verify key."""
        self._rounds.pop(round_id, None)
        self.verify_keys.pop(round_id, None)

    def forget_rounds(self) -> None:
        """Drop cached contexts of rounds: keys may have been destroyed, rounds purged."""
        self._rounds.clear()
        self.verify_keys.clear()
        for round_id in [name for name, lock in self._locks.items() if not lock.locked()]:
            del self._locks[round_id]


AggregatorPart = Annotated[Aggregator, Depends(part(Aggregator))]


async def stored_round(transaction: Transaction, round_id: str) -> store.RoundRow:
    """The stored round. Raises UnknownRound or RoundExpired."""
    row = await store.round_row(transaction, round_id)
    if row is None:
        await refuse_expired(transaction, round_id)
        raise UnknownRound
    return row


async def refuse_expired(transaction: Transaction, round_id: str) -> None:
    """Raise RoundExpired for a round that was deleted after its retention."""
    if await store.is_expired(transaction, round_id):
        raise RoundExpired


def refuse_aborted(row: store.RoundRow) -> None:
    """Raise RoundClosed for a round that was aborted."""
    if row.state is RoundState.ABORTED:
        raise RoundClosed("the round was aborted", extra={"state": row.state.value})


def wire_json(model: BaseModel) -> str:
    """A model as it is stored and answered."""
    return model.model_dump_json(exclude_none=True)


class Meters:
    """Pieces as they are answered, and rounds as they are stored."""

    def __init__(self, metrics: ServiceMetrics) -> None:
        self.accepted: Counter = metrics.counter(
            "pieces_accepted", "Pieces and batches answered 200 or 201.", ("form", "status")
        )
        self.refused: Counter = metrics.counter(
            "pieces_refused", "Pieces and batches refused, by problem.", ("form", "reason")
        )
        self.rounds: Gauge = metrics.gauge("rounds", "Rounds in the store, by state.", ("state",))
        self.expired: Counter = metrics.counter(
            "rounds_expired", "Rounds that this process deleted after their retention."
        )
        self.commits: Counter = metrics.counter("commits", "Transactions of the writer.")

    async def count_rounds(self, database: Database) -> None:
        """Update the gauge of rounds."""
        async with database.reading() as transaction:
            counts = await store.count_states(transaction)
        for state in RoundState:
            self.rounds.labels(state.value).set(counts.get(state.value, 0))
