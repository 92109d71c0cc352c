"""Sessions: one encapsulation for each party, aggregator and seal key.

The aggregator signs a seal key; a party that seals to it draws a secret, seals it to the key and
signs that. Both ends derive the session's key K from secret and statement, and every piece under
the session is AES-256-GCM with K. The party's signature says who seals; afterwards only the two
ends know K, so that who steals the seal key later cannot begin sessions in a curator's name.

Pure. Spec: keys, sections 2.1 and 2.2.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from pydantic import Field

from tacit.crypto.sealing import (
    SEALED_OVERHEAD,
    SUITE,
    Direction,
    SealBroken,
    SealKey,
    SealPublicKey,
    length_prefixed,
)
from tacit.crypto.signing import Identity, SignatureBroken, Signed, fingerprint, verify_once
from tacit.query.terms import Identifier
from tacit.wire import Binary, Instant, KeptModel, WireModel

SEAL_KEY_LABEL: Final = "tacit seal key v1"
SESSION_LABEL: Final = "tacit session v1"
SECRET_BYTES: Final = 32
SESSION_BYTES: Final = 16
_SEALED_BYTES: Final = SECRET_BYTES + SEALED_OVERHEAD
_PIECE = b"tacit sealed piece v1"

KeyHash = Annotated[Binary, Field(min_length=32, max_length=32)]
SessionId = Annotated[Binary, Field(min_length=SESSION_BYTES, max_length=SESSION_BYTES)]


class SealKeyStatement(KeptModel):
    """The hash of a seal key, signed by its aggregator under `SEAL_KEY_LABEL`.

    `number` only rises. `made` and `until` are by the aggregator's own clock. `round`: for a key
    that serves one round. The key itself, 1,216 bytes, is fetched by its hash.
    """

    format: Literal["tacit.seal-key/1"] = "tacit.seal-key/1"
    party: Identifier
    number: Annotated[int, Field(ge=1, lt=2**53)]
    suite: Literal[1] = SUITE
    public_key_hash: KeyHash
    made: Instant
    until: Instant
    round: Annotated[str, Field(max_length=36)] | None = None


class Session(WireModel):
    """A party's session with one aggregator, signed by the party under `SESSION_LABEL`.

    `key`: the hash of the seal key; `sealed`: the session's secret under it, 1,168 bytes.
    """

    format: Literal["tacit.session/1"] = "tacit.session/1"
    deployment: Identifier
    party: Identifier
    aggregator: Identifier
    direction: Annotated[Direction, Field(strict=False)]  # CBOR has texts only
    key: KeyHash
    session: SessionId
    sealed: Annotated[Binary, Field(min_length=_SEALED_BYTES, max_length=_SEALED_BYTES)]


class SessionRefused(ValueError):
    """A session that its party did not make for this aggregator and key."""


@dataclass(frozen=True)
class SessionEnds:
    """Who seals to whom, by id and raw identity key."""

    deployment: str
    party: str
    party_key: bytes
    aggregator: str
    aggregator_key: bytes
    direction: Direction

    def info(self, key_hash: bytes, session: bytes) -> bytes:
        """What the encapsulation is bound to. It names the sender: a stolen one that another
        party signs does not open."""
        return length_prefixed(
            SESSION_LABEL.encode(),
            str(SUITE).encode(),
            self.deployment.encode(),
            self.party.encode(),
            fingerprint(self.party_key),
            self.aggregator.encode(),
            fingerprint(self.aggregator_key),
            key_hash,
            session,
            self.direction.encode(),
        )


@dataclass(frozen=True)
class OwnSession:
    """A session at the end that began it. `key`: 32 bytes, in memory only."""

    announce: Signed[Session]
    key: bytes

    @property
    def id(self) -> bytes:
        """16 bytes that name the session in pieces and batches."""
        return self.announce.statement.session


def begin_session(identity: Identity, ends: SessionEnds, seal_key: SealPublicKey) -> OwnSession:
    """A new session, signed. `seal_key`: one whose hash the aggregator signed. Raises SealBroken
    for a key that yields no shared secret."""
    session, secret = os.urandom(SESSION_BYTES), os.urandom(SECRET_BYTES)
    statement = Session(
        deployment=ends.deployment,
        party=ends.party,
        aggregator=ends.aggregator,
        direction=ends.direction,
        key=seal_key.hash,
        session=session,
        sealed=seal_key.seal(secret, ends.info(seal_key.hash, session)),
    )
    return OwnSession(identity.sign(SESSION_LABEL, statement), session_key(secret, statement))


def open_session(signed: Signed[Session], ends: SessionEnds, seal_key: SealKey) -> bytes:
    """The session's key, 32 bytes, if these two parties made it for this seal key. Raises
    SessionRefused."""
    try:
        statement = verify_once(SESSION_LABEL, signed, ends.party_key)
    except SignatureBroken:
        raise SessionRefused("it is not signed by its party") from None
    stated = statement.deployment, statement.party, statement.aggregator, statement.direction
    if stated != (ends.deployment, ends.party, ends.aggregator, ends.direction):
        raise SessionRefused("it is of other ends")
    key_hash = seal_key.public.hash
    if statement.key != key_hash:
        raise SessionRefused("it is for another seal key")
    try:
        secret = seal_key.open(statement.sealed, ends.info(key_hash, statement.session))
    except SealBroken:
        raise SessionRefused("its secret does not open here") from None
    return session_key(secret, statement)


def session_key(secret: bytes, statement: Session) -> bytes:
    """K, 32 bytes, derived from a session's secret and every field of the statement."""
    info = hashlib.sha256(SESSION_LABEL.encode() + b"\x00" + statement.canonical()).digest()
    return HKDF(algorithm=SHA256(), length=32, salt=_PIECE, info=info).derive(secret)


def piece_context(
    descriptor_hash: bytes, party: str, aggregator: str, share_index: int, dimension: int
) -> bytes:
    """The associated data of a piece under a session: it can be opened for one use in one round
    only."""
    return length_prefixed(
        _PIECE,
        descriptor_hash,
        party.encode(),
        aggregator.encode(),
        str(share_index).encode(),
        str(dimension).encode(),
    )
