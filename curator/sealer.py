"""What a party seals with: sessions, which are in memory and never in the store.

A session is one
encapsulation to one aggregator's seal key; a restart begins another one. Its announcement goes with
what is sealed until the aggregator has answered under the session (spec: aggregation, section 8;
keys, section 2.2).
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from common.bodies import CBOR, encode
from tacit.crypto.sealing import Direction, SealPublicKey
from tacit.crypto.signing import Identity
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.protocol.sealing_sessions import SessionEnds, begin_session

_SESSIONS_EACH: Final = 3
"""Of one aggregator: those of its current seal key, of the one before, and of one for a round."""


@dataclass(frozen=True)
class Seal:
    """A session to seal under.

    `announce`: the session's signed announcement in CBOR, unless its aggregator knows it.
    """

    key: bytes
    session: bytes
    announce: bytes | None = None


class Sealer:
    """One party's keys towards all its aggregators."""

    def __init__(self, party: str, identity: Identity) -> None:
        self.party = party
        self._identity = identity
        self._sessions: OrderedDict[tuple[str, bytes], Seal] = OrderedDict()

    def seal(self, descriptor: RoundDescriptor, index: int, seal_key: SealPublicKey) -> Seal:
        """What seals for the aggregator of this place in this round, with the seal key of its
        entry. Raises SealBroken for a key with which nobody can agree."""
        entry = descriptor.aggregators[index]
        if seal_key.hash != entry.seal.public_key_hash:
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
