"""Long-lived identities: Ed25519 signatures over labelled, canonical statements, and hybrid
signatures that are valid while Ed25519 or ML-DSA-65 is unbroken.

A statement is a wire model; what is signed is `label || 0 || canonical form`, so that a signature
for one purpose never serves another. A fingerprint is the SHA-256 of the raw public key: 32 bytes,
shown to people as hex.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from typing import Annotated, Final, Generic, TypeVar, cast

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PrivateKey, MLDSA65PublicKey
from pydantic import Field

from tacit.errors import Forbidden
from tacit.wire import Binary, WireModel, encode_binary

Statement = TypeVar("Statement", bound=WireModel)
SHORT_BYTES: Final = 8192
"""Of longer messages nothing is kept."""


_checks = 0


class SignatureBroken(ValueError):
    """A signature that does not belong to its statement and key."""


class Signed(WireModel, Generic[Statement]):
    """A statement with its signature, 64 bytes."""

    statement: Statement
    signature: Binary

    def canonical(self) -> bytes:
        """The bytes that hashes cover: those of the statement are kept for many (`KeptModel`)."""
        signature = encode_binary(self.signature).encode()
        return b'{"signature":"%b","statement":%b}' % (signature, self.statement.canonical())


class Identity:
    """A private Ed25519 key. It never leaves its party."""

    def __init__(self, private_key: Ed25519PrivateKey) -> None:
        self._key = private_key
        self.public_key: bytes = private_key.public_key().public_bytes_raw()

    @classmethod
    def generate(cls) -> Identity:
        """A new identity from the operating system's randomness."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_bytes(cls, secret: bytes) -> Identity:
        """The identity of 32 stored bytes."""
        return cls(Ed25519PrivateKey.from_private_bytes(secret))

    def to_bytes(self) -> bytes:
        """The 32 secret bytes, for the key store only."""
        return self._key.private_bytes_raw()

    @property
    def fingerprint(self) -> bytes:
        """SHA-256 of the public key."""
        return fingerprint(self.public_key)

    def sign(self, label: str, statement: Statement) -> Signed[Statement]:
        """The statement, signed for the purpose that the label names."""
        message = signed_bytes(label, statement)
        signature = self._key.sign(message)
        _HELD.add(self.public_key, signature, message)  # its own need not be checked
        signed = cast("type[Signed[Statement]]", Signed.__class_getitem__(type(statement)))
        return signed(statement=statement, signature=signature)


def fingerprint(public_key: bytes) -> bytes:
    """SHA-256 of a raw public key."""
    return hashlib.sha256(public_key).digest()


def signer_of(label: str, signed: Signed[Statement], keys: Sequence[bytes]) -> bytes:
    """Which of these keys signed; the first if none did, or if there is only one."""
    for key in keys[1:]:
        try:
            verify(label, signed, key)
        except SignatureBroken:
            continue
        return key
    return keys[0]


def verify(label: str, signed: Signed[Statement], public_key: bytes) -> Statement:
    """The statement, if the key signed it for this purpose; raises SignatureBroken."""
    return _verified(label, signed, public_key, _HELD.check)


def verify_once(label: str, signed: Signed[Statement], public_key: bytes) -> Statement:
    """As `verify`, for a statement that is checked only once: the result is not cached, so that
    many of them do not evict statements that are checked again."""
    return _verified(label, signed, public_key, _check)


def _verified(
    label: str,
    signed: Signed[Statement],
    public_key: bytes,
    check: Callable[[bytes, bytes, bytes], None],
) -> Statement:
    message = signed_bytes(label, signed.statement)
    try:
        check(public_key, signed.signature, message)
    except (InvalidSignature, ValueError):
        raise SignatureBroken(f"not a valid signature of a {label} statement") from None
    return signed.statement


def checks_made() -> int:
    """How many signatures this process has checked; cached ones count once."""
    return _checks


def _check(public_key: bytes, signature: bytes, message: bytes) -> None:
    global _checks  # a count for telemetry: threads may lose one
    _checks += 1
    Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)


class _Held:
    """A cache of valid signatures: an epoch key is in every round of its epoch. Invalid
    signatures and long messages are not cached."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._held: dict[tuple[bytes, bytes, bytes], None] = {}

    def check(self, public_key: bytes, signature: bytes, message: bytes) -> None:
        """As `_check`."""
        if len(message) > SHORT_BYTES:
            _check(public_key, signature, message)
            return
        place = _place(public_key, signature, message)
        if place not in self._held:
            _check(public_key, signature, message)
            self._keep(place)

    def add(self, public_key: bytes, signature: bytes, message: bytes) -> None:
        """Keep a signature that was just made."""
        if len(message) <= SHORT_BYTES:
            self._keep(_place(public_key, signature, message))

    def _keep(self, place: tuple[bytes, bytes, bytes]) -> None:
        if len(self._held) >= self._capacity:
            self._held = {}  # a new one: other threads read the old one meanwhile
        self._held[place] = None


def _place(public_key: bytes, signature: bytes, message: bytes) -> tuple[bytes, bytes, bytes]:
    return public_key, signature, hashlib.sha256(message).digest()


_HELD: Final = _Held(8192)


def signed_bytes(label: str, statement: WireModel) -> bytes:
    """What a signature for this purpose is over."""
    return label.encode("ascii") + b"\x00" + statement.canonical()


# Hybrid signatures, by which an identity is anchored (spec: keys, section 4). A signature is
# Ed25519's 64 bytes and ML-DSA-65's 3,309, both over `label || 0 || canonical form`, ML-DSA with
# the label as its context. Both must verify: statements of these labels are never accepted with one
# alone. A private key is two seeds of 32 bytes.

SEED_BYTES: Final = 32
SECRET_BYTES: Final = 2 * SEED_BYTES
ED25519_BYTES: Final = 32
MLDSA65_BYTES: Final = 1952
_ED25519_SIGNATURE: Final = 64
SIGNATURE_BYTES: Final = _ED25519_SIGNATURE + 3309


class SignatureStripped(Forbidden):
    name = "signature_stripped"
    title = "One half of a hybrid signature is missing or broken"


class HybridPublicKey(WireModel):
    """Both public keys of a pair."""

    ed25519: Annotated[Binary, Field(min_length=ED25519_BYTES, max_length=ED25519_BYTES)]
    mldsa65: Annotated[Binary, Field(min_length=MLDSA65_BYTES, max_length=MLDSA65_BYTES)]


class HybridIdentity:
    """A private pair. It never leaves its party, and cannot be printed."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != SECRET_BYTES:
            raise ValueError(f"a hybrid identity has {SECRET_BYTES} secret bytes")
        self._secret = bytes(secret)
        self._ed25519 = Ed25519PrivateKey.from_private_bytes(secret[:SEED_BYTES])
        self._mldsa65 = MLDSA65PrivateKey.from_seed_bytes(secret[SEED_BYTES:])
        self.public = HybridPublicKey(
            ed25519=self._ed25519.public_key().public_bytes_raw(),
            mldsa65=self._mldsa65.public_key().public_bytes_raw(),
        )

    @classmethod
    def generate(cls) -> HybridIdentity:
        """A new pair from the operating system's randomness."""
        return cls(os.urandom(SECRET_BYTES))

    @property
    def classical(self) -> Identity:
        """The Ed25519 half, for statements that are believed for hours."""
        return Identity.from_bytes(self._secret[:SEED_BYTES])

    def to_bytes(self) -> bytes:
        """The 64 secret bytes, for the key store only."""
        return self._secret

    def sign(self, label: str, statement: Statement) -> Signed[Statement]:
        """The statement, signed by both for the purpose that the label names."""
        message = signed_bytes(label, statement)
        signature = self._ed25519.sign(message)
        signature += self._mldsa65.sign(message, context=label.encode("ascii"))
        signed = cast("type[Signed[Statement]]", Signed.__class_getitem__(type(statement)))
        return signed(statement=statement, signature=signature)


def verify_hybrid(label: str, signed: Signed[Statement], key: HybridPublicKey) -> Statement:
    """The statement, if both keys signed it for this purpose. Raises SignatureStripped."""
    message, signature = signed_bytes(label, signed.statement), signed.signature
    if len(signature) != SIGNATURE_BYTES:
        raise SignatureStripped(f"a signature of a {label} statement has {SIGNATURE_BYTES} bytes")
    classical, lasting = signature[:_ED25519_SIGNATURE], signature[_ED25519_SIGNATURE:]
    try:
        Ed25519PublicKey.from_public_bytes(key.ed25519).verify(classical, message)
        lasting_key = MLDSA65PublicKey.from_public_bytes(key.mldsa65)
        lasting_key.verify(lasting, message, context=label.encode("ascii"))
    except (InvalidSignature, ValueError):
        raise SignatureStripped(f"not a valid signature of a {label} statement") from None
    return signed.statement
