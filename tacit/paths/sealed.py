"""A path for named recipients alone: authenticated encryption under a fresh random key.

Spec: path-publishing, section 3.10; keys, section 2.7. The content key goes to each recipient by
HPKE (RFC 9180, base mode): X-Wing, HKDF-SHA256, AES-256-GCM. The path is under ChaCha20-Poly1305,
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
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from tacit.crypto.seal_keys import SealKey, SealPublicKey
from tacit.crypto.sealing import NONCE_BYTES, SealBroken, length_prefixed
from tacit.paths.network import VertexId
from tacit.paths.problems import NotARecipient
from tacit.paths.published import SEALED, SealedPath
from tacit.wire import canonical_json

BUCKET_BYTES: Final = 1024
MOST_RECIPIENTS: Final = 10_000
_KEY_BYTES: Final = 32
_LENGTH_BYTES: Final = 8
_BEAT: Final = 256


def check_recipient(raw: bytes) -> None:
    """Raise ValueError for bytes that are no recipient's public key."""
    SealPublicKey(raw).seal(b"", b"")  # SealBroken, a ValueError, for a half of small order


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
        keys.append(SealPublicKey(raw).seal(key, bound))
    return SealedPath(name, nonce, ciphertext, tuple(keys))


def opened(published: SealedPath, private_key: SealKey) -> tuple[VertexId, ...]:
    """The path, for a recipient. Raises NotARecipient for anybody else, and for anything that was
    altered."""
    bound = length_prefixed(SEALED.encode(), published.name.encode())
    for each in published.keys:
        try:
            key = private_key.open(each, bound)
        except SealBroken:
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
