"""Signatures that hold while Ed25519 or ML-DSA-65 does: what an identity is anchored by.

Spec: keys, section 4. A signature is Ed25519's 64 bytes and ML-DSA-65's 3,309, both over
`label || 0 || canonical form`, ML-DSA with the label as its context. Both must verify: statements
of these labels are never accepted with one alone. A private key is two seeds of 32 bytes.
"""

from __future__ import annotations

import os
from typing import Annotated, Final, cast

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PrivateKey, MLDSA65PublicKey
from pydantic import Field

from tacit.crypto.signing import Identity, Signed, Statement, signed_bytes
from tacit.errors import Forbidden
from tacit.wire import Binary, WireModel

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
