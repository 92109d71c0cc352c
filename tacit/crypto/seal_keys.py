"""Seal keys: X-Wing, which is X25519 and ML-KEM-768 together, in the library's HPKE.

A secret sealed so stays secret while either half holds. The private half is a seed of 32 bytes:
SHAKE256(seed, 96) gives ML-KEM's d and z (64 bytes) and the X25519 key (32). The public key is
ML-KEM's 1,184 bytes and X25519's 32. Spec: keys, section 2; draft-connolly-cfrg-xwing-kem, RFC 9180
with KEM 0x647a, HKDF-SHA256, AES-256-GCM.
"""

from __future__ import annotations

import hashlib
import os
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import (
    AEAD,
    KDF,
    KEM,
    MLKEM768X25519PrivateKey,
    MLKEM768X25519PublicKey,
    Suite,
)

from tacit.crypto.sealing import SealBroken, length_prefixed

SUITE: Final = 1
"""The number of what is used here: another KEM, KDF or AEAD would be another number."""
SEED_BYTES: Final = 32
PUBLIC_KEY_BYTES: Final = 1216
ENCAPSULATION_BYTES: Final = 1120
SEALED_OVERHEAD: Final = ENCAPSULATION_BYTES + 16
"""Bytes of an encapsulation and a tag: a sealed text is so much longer than its plaintext."""
_MLKEM_BYTES: Final = 1184
_LABEL: Final = b"tacit seal key v1"
_SUITE: Final = Suite(KEM.MLKEM768_X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)


class SealKeyMalformed(ValueError):
    """Bytes that are no public key for seals."""


class SealPublicKey:
    """What a sender seals to. Raises SealKeyMalformed for bytes that are no such key."""

    def __init__(self, raw: bytes) -> None:
        if len(raw) != PUBLIC_KEY_BYTES:
            raise SealKeyMalformed(f"a public key for seals has {PUBLIC_KEY_BYTES} bytes")
        try:
            self._key = MLKEM768X25519PublicKey(
                MLKEM768PublicKey.from_public_bytes(raw[:_MLKEM_BYTES]),
                X25519PublicKey.from_public_bytes(raw[_MLKEM_BYTES:]),
            )
        except ValueError:
            raise SealKeyMalformed("not an ML-KEM-768 key with an X25519 key") from None
        self.raw: bytes = bytes(raw)
        self.hash: bytes = key_hash(self.raw)

    def seal(self, plaintext: bytes, info: bytes) -> bytes:
        """Encapsulation, ciphertext and tag, bound to `info`. Raises SealBroken for a key with
        which nobody can agree."""
        try:
            return _SUITE.encrypt(plaintext, self._key, info)
        except ValueError:
            raise SealBroken("an X25519 half of small order") from None


class SealKey:
    """A private key for seals, by its seed. It never leaves its party."""

    def __init__(self, seed: bytes) -> None:
        if len(seed) != SEED_BYTES:
            raise ValueError(f"a seed has {SEED_BYTES} bytes")
        expanded = hashlib.shake_256(seed).digest(96)
        mlkem = MLKEM768PrivateKey.from_seed_bytes(expanded[:64])
        x25519 = X25519PrivateKey.from_private_bytes(expanded[64:])
        self._key = MLKEM768X25519PrivateKey(mlkem, x25519)
        self.public = SealPublicKey(
            mlkem.public_key().public_bytes_raw() + x25519.public_key().public_bytes_raw()
        )

    @staticmethod
    def new_seed() -> bytes:
        """From the operating system's randomness."""
        return os.urandom(SEED_BYTES)

    def open(self, sealed: bytes, info: bytes) -> bytes:
        """The plaintext of `SealPublicKey.seal`. Raises SealBroken for any other bytes or info."""
        try:
            return _SUITE.decrypt(sealed, self._key, info)
        except (InvalidTag, ValueError):
            raise SealBroken("the seal does not open here") from None


def key_hash(public_key: bytes) -> bytes:
    """The name of a public key: 32 bytes, with the suite in it."""
    fields = length_prefixed(_LABEL, str(SUITE).encode(), public_key)
    return hashlib.sha256(fields).digest()
