"""What a party seals with: an X25519 key in rounds of format 1, sessions in those of format 2.

A key of either kind is derived once and then kept in memory, never in the store. A session is one
encapsulation to one aggregator's seal key; a restart begins another one. Its announcement goes with
what is sealed until the aggregator has answered under the session (spec: aggregation, section 8;
keys, section 2.2).
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from common.web.wire import CBOR, encode
from tacit.crypto.seal_keys import SealPublicKey
from tacit.crypto.sealing import Direction, Ends, agree_key, epoch_name
from tacit.crypto.signing import Identity
from tacit.protocol.round.descriptor import AggregatorEntry, RoundDescriptor
from tacit.protocol.sessions import SessionEnds, begin_session

_AGREED: Final = 256
_SESSIONS_EACH: Final = 3
"""Of one aggregator: those of its current seal key, of the one before, and of one for a round."""


@dataclass(frozen=True)
class SealingKey:
    """A party's X25519 key of one epoch."""

    party: str
    epoch: int
    private: X25519PrivateKey

    @classmethod
    def from_bytes(cls, party: str, epoch: int, secret: bytes) -> SealingKey:
        """The key of 32 stored bytes."""
        return cls(party, epoch, X25519PrivateKey.from_private_bytes(secret))

    @property
    def public(self) -> bytes:
        """The raw public key."""
        return self.private.public_key().public_bytes_raw()


@dataclass(frozen=True)
class Seal:
    """A key to seal with, and its name: the epoch of the party's key, or the id of a session.

    `announce`: the session's signed announcement in CBOR, unless its aggregator knows it.
    """

    key: bytes
    key_epoch: int | None = None
    session: bytes | None = None
    announce: bytes | None = None

    @property
    def name(self) -> bytes:
        """The same in 16 bytes, as batches and parts have it."""
        if self.session is not None:
            return self.session
        assert self.key_epoch is not None
        return epoch_name(self.key_epoch)


class Sealer:
    """One party's keys towards all its aggregators."""

    def __init__(self, party: str, identity: Identity, key: SealingKey | None) -> None:
        self.party = party
        self._identity = identity
        self._key = key
        self._agreed: OrderedDict[tuple[str, int, bytes], bytes] = OrderedDict()
        self._sessions: OrderedDict[tuple[str, bytes], Seal] = OrderedDict()

    def renew(self, key: SealingKey | None) -> None:
        """Use another X25519 key from now on, or none."""
        self._key = key
        self._agreed = OrderedDict()

    def seal(self, descriptor: RoundDescriptor, index: int, seal_key: SealPublicKey | None) -> Seal:
        """What seals for the aggregator of this place in this round. `seal_key`: in a round of
        format 2 the one of its entry. Raises SealBroken for a key with which nobody can agree."""
        entry = descriptor.aggregators[index]
        if not descriptor.sessions:
            return self._agreement(entry)
        if seal_key is None or seal_key.hash != entry.seal.public_key_hash:
            raise ValueError("not the seal key of this aggregator's entry")
        name = (entry.id, seal_key.hash)
        found = self._sessions.get(name)
        if found is None:
            ends = SessionEnds(
                deployment=descriptor.deployment,
                party=self.party,
                party_key=self._identity.public_key,
                aggregator=entry.id,
                aggregator_key=entry.identity_key,
                direction=Direction.CURATOR_TO_AGGREGATOR,
            )
            own = begin_session(self._identity, ends, seal_key)
            found = Seal(own.key, session=own.id, announce=encode(own.announce, CBOR))
            self._sessions[name] = found
            while len(self._sessions) > _SESSIONS_EACH * len(descriptor.aggregators):
                self._sessions.popitem(last=False)
        return found

    def is_answered(self, session: bytes) -> bool:
        """Whether the aggregator of a session has answered under it."""
        found = self._find(session)
        return found is not None and self._sessions[found].announce is None

    def answered(self, session: bytes) -> None:
        """The aggregator of a session has answered under it, and needs no announcement again."""
        found = self._find(session)
        if found is not None:
            self._sessions[found] = Seal(self._sessions[found].key, session=session)

    def forget(self, session: bytes) -> None:
        """Seal nothing more under a session: its aggregator has lost it."""
        found = self._find(session)
        if found is not None:
            del self._sessions[found]

    def _find(self, session: bytes) -> tuple[str, bytes] | None:
        held = self._sessions.items()
        return next((name for name, found in held if found.session == session), None)

    def _agreement(self, entry: AggregatorEntry) -> Seal:
        statement, own = entry.epoch, self._key
        if own is None:
            raise ValueError("a round of format 1 needs an X25519 key")
        name = (entry.id, statement.epoch, statement.public_key)
        found = self._agreed.get(name)
        if found is None:
            ends = Ends(
                sender=self.party,
                receiver=entry.id,
                sender_key=own.public,
                receiver_key=statement.public_key,
                epoch=statement.epoch,
                direction=Direction.CURATOR_TO_AGGREGATOR,
            )
            found = self._agreed[name] = agree_key(own.private, ends)
            while len(self._agreed) > _AGREED:
                self._agreed.popitem(last=False)
        return Seal(found, key_epoch=own.epoch)
