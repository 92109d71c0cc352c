"""A proved round's verify key, and verifier shares on their way between its aggregators.

Spec: validity, sections 7 and 10.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from tacit.crypto.sealing import NONCE_BYTES, TAG_BYTES, SealBroken, length_prefixed
from tacit.protocol.candidates import Candidates
from tacit.query.proofs import ProofPlan

SECRET_BYTES: Final = 32
CHUNK_BYTES: Final = 4 << 20
"""A chunk of verifier shares, sealed: at most this long."""
_KEY_SHARE = b"tacit verify key share v1"
_KEY = b"tacit verify key v1"
_KEY_CHECK = b"tacit verify key check v1"
_SHARES = b"tacit verifier shares v1"
_MAGIC = b"TVS1"
_CHUNK = struct.Struct("<4s32s32sBIII")


# --- the verify key ------------------------------------------------------------------------------


def key_share(secret: bytes, descriptor_hash: bytes, aggregator: str) -> bytes:
    """An aggregator's 32-byte share of a round's verify key, always the same for one secret."""
    return _derived(secret, _KEY_SHARE, length_prefixed(descriptor_hash, aggregator.encode()))


def key_share_context(descriptor_hash: bytes, sender: str, receiver: str, index: int) -> bytes:
    """The associated data of a sealed share; `index`: the receiver's."""
    return length_prefixed(
        _KEY, descriptor_hash, sender.encode(), receiver.encode(), str(index).encode()
    )


def verify_key_of(descriptor_hash: bytes, shares: Sequence[bytes]) -> bytes:
    """The 32-byte verify key of all aggregators' shares, in their order."""
    return hashlib.sha256(length_prefixed(_KEY, descriptor_hash, *shares)).digest()


def key_check_of(descriptor_hash: bytes, verify_key: bytes) -> bytes:
    """What is told of a verify key: it tells nothing but whether two are the same."""
    return hashlib.sha256(length_prefixed(_KEY_CHECK, descriptor_hash, verify_key)).digest()


def _derived(secret: bytes, salt: bytes, info: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=salt, info=info).derive(secret)


# --- verifier shares on their way ----------------------------------------------------------------


def share_lengths(plan: ProofPlan, candidates: Candidates) -> NDArray[np.int64]:
    """Bytes of each candidate's verifier share, (items,)."""
    lengths, at = np.zeros(candidates.items, np.int64), 0
    while at < candidates.items:
        curators, until = candidates.alike(at, candidates.items)
        lengths[at:until] = plan.of(curators).prio3.verifier_share_bytes
        at = until
    return lengths


def chunk_slices(lengths: NDArray[np.int64]) -> list[slice]:
    """The items of each chunk: whole ones, as many as fit `CHUNK_BYTES`."""
    room = CHUNK_BYTES - _CHUNK.size - NONCE_BYTES - TAG_BYTES
    ends = np.cumsum(lengths)
    found, start = [], 0
    while start < len(lengths):
        before = int(ends[start - 1]) if start else 0
        end = int(np.searchsorted(ends, before + room, side="right"))
        assert end > start, "a verifier share is shorter than a chunk"
        found.append(slice(start, end))
        start = end
    return found


@dataclass(frozen=True)
class ChunkPlace:
    """Which chunk of whose verifier shares it is."""

    descriptor_hash: bytes
    candidates_hash: bytes
    index: int
    chunk: int
    chunks: int
    items: int

    def header(self) -> bytes:
        """As the chunk begins."""
        return _CHUNK.pack(
            _MAGIC,
            self.descriptor_hash,
            self.candidates_hash,
            self.index,
            self.chunk,
            self.chunks,
            self.items,
        )


def chunk_key(verify_key: bytes, descriptor_hash: bytes, aggregator: str) -> bytes:
    """The key with which an aggregator seals its chunks of a round: the coordinator has it not."""
    return _derived(verify_key, _SHARES, length_prefixed(descriptor_hash, aggregator.encode()))


def seal_chunk(key: bytes, place: ChunkPlace, shares: bytes) -> bytes:
    """A chunk of verifier shares as it travels."""
    head = place.header() + os.urandom(NONCE_BYTES)
    return head + AESGCM(key).encrypt(head[-NONCE_BYTES:], shares, head)


def stands_at(place: ChunkPlace, body: bytes) -> bool:
    """Whether a body claims to be this chunk, and is no longer than one."""
    return len(body) <= CHUNK_BYTES and body.startswith(place.header())


def open_chunk(key: bytes, place: ChunkPlace, body: bytes) -> bytes:
    """The verifier shares of a chunk. Raises SealBroken unless its aggregator made it for here."""
    end = _CHUNK.size + NONCE_BYTES
    if not stands_at(place, body):
        raise SealBroken("a chunk of another place")
    try:
        return AESGCM(key).decrypt(body[_CHUNK.size : end], body[end:], body[:end])
    except (InvalidTag, ValueError, OverflowError):
        raise SealBroken("a chunk that its aggregator did not make") from None
