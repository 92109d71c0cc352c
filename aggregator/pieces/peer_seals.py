"""What the aggregators of a round seal to each other: shares of noise, and of a verify key.

The sender begins a session and announces it with what it seals; the receiver keeps it as received,
and opens it with its seal key. An aggregator sends no requests: the coordinator brings the others'
public seal keys, which are checked by the hashes that they signed. Spec: keys, section 2.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Final

from aggregator.context import Aggregator, RoundContext
from aggregator.errors import PeerKeyMissing, SealKeyMalformed, TooManySealKeys
from aggregator.sealing.seal_keys import SealSecret
from aggregator.store import seal_keys as store
from common.store.database import exclusive
from tacit.crypto import seal_keys
from tacit.crypto.seal_keys import SealPublicKey
from tacit.crypto.sealing import Direction, SealBroken
from tacit.crypto.signing import Signed
from tacit.protocol.round.agreement import DescriptorRefused
from tacit.protocol.round.descriptor import AggregatorEntry, RoundDescriptor
from tacit.protocol.sessions import (
    Session,
    SessionEnds,
    SessionRefused,
    begin_session,
    open_session,
)
from tacit.wire import encode_binary

KEPT: Final = timedelta(days=1)
"""How long another aggregator's public key waits for the rounds that name it."""
MOST_KEPT: Final = 10_000
_DIRECTION: Final = Direction.AGGREGATOR_TO_AGGREGATOR

PublicKeys = Mapping[bytes, SealPublicKey]
"""Seal keys by hash."""


@dataclass(frozen=True)
class Outgoing:
    """With what an aggregator seals to another."""

    key: bytes
    announce: Signed[Session]

    @property
    def session(self) -> bytes:
        """The session's id."""
        return self.announce.statement.session


async def add_public_key(aggregator: Aggregator, key_hash: bytes, raw: bytes) -> bool:
    """Keep another aggregator's public seal key; whether it is new. Raises SealKeyMalformed."""
    try:
        public_key = SealPublicKey(raw)
    except seal_keys.SealKeyMalformed as error:
        raise SealKeyMalformed(str(error)) from None
    if public_key.hash != key_hash:
        raise SealKeyMalformed("the key has another hash than the path's")
    now = aggregator.clock.now()
    async with aggregator.database.begin() as transaction:
        await exclusive(transaction, "peer seal keys")
        if await store.count_peer_keys(transaction) >= MOST_KEPT:
            raise TooManySealKeys(extra={"most": MOST_KEPT})
        return await store.add_peer_key(transaction, key_hash, raw, now)


async def public_keys(aggregator: Aggregator, descriptor: RoundDescriptor) -> PublicKeys:
    """The seal keys of a round's other aggregators. Raises PeerKeyMissing."""
    others = (entry for entry in descriptor.aggregators if entry.id != aggregator.id)
    wanted = [entry.seal.public_key_hash for entry in others]
    async with aggregator.database.reading() as transaction:
        held = await store.peer_keys(transaction, wanted)
    missing = [encode_binary(key_hash) for key_hash in wanted if key_hash not in held]
    if missing:
        raise PeerKeyMissing(extra={"key_hashes": missing})
    return {key_hash: _public_key(raw) for key_hash, raw in held.items()}


_public_key = lru_cache(maxsize=256)(SealPublicKey)
"""Every round of an hour names the same keys."""


def outgoing(
    aggregator: Aggregator,
    descriptor: RoundDescriptor,
    own: SealSecret,
    receiver: AggregatorEntry,
    public: PublicKeys,
) -> Outgoing:
    """With what this aggregator seals to one of the round, which may be itself. Raises
    DescriptorRefused for a key with which nobody can agree."""
    try:
        own_entry = descriptor.aggregators[descriptor.index_of(aggregator.id)]
        identity = aggregator.identities.signer(own_entry.identity_key)
        if identity is None:
            raise DescriptorRefused("the identity of this aggregator is not in use")
        ends = SessionEnds(
            deployment=descriptor.deployment,
            party=aggregator.id,
            party_key=identity.public_key,
            aggregator=receiver.id,
            aggregator_key=receiver.identity_key,
            direction=_DIRECTION,
        )
        to_itself = receiver.id == aggregator.id
        key = own.key.public if to_itself else public[receiver.seal.public_key_hash]
        begun = begin_session(identity, ends, key)
    except SealBroken as error:
        raise DescriptorRefused(f"{receiver.id}: {error}") from None
    return Outgoing(begun.key, begun.announce)


def incoming_key(
    aggregator: Aggregator,
    context: RoundContext,
    sender: AggregatorEntry,
    announce: Signed[Session] | None,
) -> bytes:
    """With what an aggregator of the round sealed to this one. Raises SealBroken, or SealKeyGone
    after the own key's end."""
    own = context.seal_secret
    if announce is None:
        raise SealBroken("it announces no session")
    ends = SessionEnds(
        deployment=context.descriptor.deployment,
        party=sender.id,
        party_key=sender.identity_key,
        aggregator=aggregator.id,
        aggregator_key=own.identity_key,
        direction=_DIRECTION,
    )
    try:
        return open_session(announce, ends, own.key)
    except SessionRefused as error:
        raise SealBroken(str(error)) from None
