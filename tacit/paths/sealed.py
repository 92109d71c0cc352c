"""A path for named recipients alone: authenticated encryption under a fresh random key.

Spec: path-publishing, section 3.10; keys, section 2.7. The content key goes to each recipient by
HPKE (RFC 9180, base mode): X-Wing, HKDF-SHA256, AES-256-GCM for a key of suite 2 (1,216 bytes), and
X25519, HKDF-SHA256, ChaCha20-Poly1305 for one of 32 bytes. The path is under ChaCha20-Poly1305,
padded so that its length reveals only a bucket of 1 KiB. Keys, nonce and name come from the
operating system.

Nothing here receives the map, and nothing may be derived from it: anyone who knows all of a map but
one edge can try the few completions offline, whatever the hash.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from tacit.crypto.seal_keys import PUBLIC_KEY_BYTES, SealKey, SealPublicKey
from tacit.crypto.sealing import NONCE_BYTES, SealBroken, length_prefixed
from tacit.paths.network import VertexId
from tacit.paths.problems import NotARecipient
from tacit.paths.published import SEALED, SealedPath
from tacit.wire import canonical_json

PrivateKey = X25519PrivateKey | SealKey
BUCKET_BYTES: Final = 1024
MOST_RECIPIENTS: Final = 10_000
_KEY_BYTES: Final = 32
_LENGTH_BYTES: Final = 8
_BEAT: Final = 256
_SUITE: Final = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)


def check_recipient(raw: bytes) -> None:
    """Raise ValueError for bytes that are no recipient's public key."""
    if len(raw) == PUBLIC_KEY_BYTES:
        SealPublicKey(raw).seal(
            b"", b""
        )  # SealBroken, a ValueError, for an X25519 half of small order
    else:
        public_key(raw)


def public_key(raw: bytes) -> X25519PublicKey:
    """The key of these 32 bytes. Raises ValueError for others, and for a point of small order,
    with which anybody could open."""
    key = X25519PublicKey.from_public_bytes(raw)
    X25519PrivateKey.generate().exchange(key)
    return key


def sealed(
    path: Sequence[VertexId],
    recipients: Sequence[bytes],
    name: str,
    beat: Callable[[], None] = lambda: None,
) -> SealedPath:
    """A path for the holders of these public keys (1,216 or 32 bytes).

    `name` is bound into each seal. Raises ValueError for a key that is none.
    """
    bound = length_prefixed(SEALED.encode(), name.encode())
    key, nonce = os.urandom(_KEY_BYTES), os.urandom(NONCE_BYTES)
    ciphertext = ChaCha20Poly1305(key).encrypt(nonce, _padded(path), bound)
    keys = []
    for number, raw in enumerate(recipients):
        if number % _BEAT == 0:
            beat()
        keys.append(_wrapped(key, raw, bound))
    return SealedPath(name, nonce, ciphertext, tuple(keys))


def _wrapped(key: bytes, raw: bytes, bound: bytes) -> bytes:
    if len(raw) == PUBLIC_KEY_BYTES:
        return SealPublicKey(raw).seal(key, bound)
    return _SUITE.encrypt(key, public_key(raw), info=bound)


def _unwrapped(wrapped: bytes, private_key: PrivateKey, bound: bytes) -> bytes:
    if isinstance(private_key, SealKey):
        return private_key.open(wrapped, bound)
    return _SUITE.decrypt(wrapped, private_key, info=bound)


def opened(published: SealedPath, private_key: PrivateKey) -> tuple[VertexId, ...]:
    """The path, for a recipient. Raises NotARecipient for anybody else, and for anything that was
    altered."""
    bound = length_prefixed(SEALED.encode(), published.name.encode())
    for each in published.keys:
        try:
            key = _unwrapped(each, private_key, bound)
        except (InvalidTag, SealBroken, ValueError):
            continue
        try:
            plain = ChaCha20Poly1305(key).decrypt(published.nonce, published.ciphertext, bound)
        except (InvalidTag, ValueError):
            break
        length = int.from_bytes(plain[:_LENGTH_BYTES], "big")
        return tuple(json.loads(plain[_LENGTH_BYTES : _LENGTH_BYTES + length]))
    raise NotARecipient


def _padded(path: Sequence[VertexId]) -> bytes:
    text = canonical_json(list(path))
    plain = len(text).to_bytes(_LENGTH_BYTES, "big") + text
    return plain + bytes(-len(plain) % BUCKET_BYTES)
