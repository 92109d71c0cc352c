"""Sealed pieces and batches, which only the two ends can open or make (spec: aggregation, section
8), and the seal keys (X-Wing) that sessions are made with.

    key = HKDF-SHA256(X25519(sender, receiver), salt = label,
                      info = version, both ids, both public keys, receiver's epoch, direction)
    piece = AES-256-GCM(key, random 96-bit nonce, words, associated data)

A static-static agreement authenticates both ends and costs under 10 us a piece once the key is
cached. The nonce is random, so that a piece computed again after a crash never meets the old one;
at most 2^32 seals per key. There is no forward secrecy inside an epoch, hence short epochs.

Also here: the associated data of a single piece, and the layout of a sealed *batch*, in which a
host sends the pieces of all its curators in one segment of roster numbers (spec: hot-path):

    header | host id | presence bitmap | ciphertext of count*d little-endian words | tag

with header and presence as associated data. All fields of variable length are length-prefixed. A
*part* of a proved round is laid out alike, but holds one plaintext for all its curators, of which
the header implies the length (spec: validity, section 9).

The header says under which session its content is sealed, in 16 bytes (spec: keys, section 2.3).
"""

from __future__ import annotations

import hashlib
import os
import struct
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hpke import (
    AEAD,
    KDF,
    KEM,
    MLKEM768X25519PrivateKey,
    MLKEM768X25519PublicKey,
    Suite,
)
from numpy.typing import NDArray

from tacit import sets

_MAGIC = b"TCB1"
_HEADER = struct.Struct("<4s32sBHIIIII16sB12s")
_NAME_BYTES = 16
NONCE_BYTES = 12
TAG_BYTES = 16
MAX_SEGMENT = 262_144
MIN_SEGMENT = 64
SEGMENT_BYTES = 2 * 1024 * 1024
LEAST_SEGMENT = 8
LONG_SEGMENT_BYTES = 32 * 1024 * 1024


class SealBroken(ValueError):
    """Bytes that nobody sealed for this use: wrong key, round, address or length, or altered."""


class Direction(StrEnum):
    """Who seals to whom; a key for one direction never serves another."""

    CURATOR_TO_AGGREGATOR = "curator>aggregator"
    AGGREGATOR_TO_AGGREGATOR = "aggregator>aggregator"


def length_prefixed(*fields: bytes) -> bytes:
    """Fields joined so that no two sequences give the same bytes."""
    return b"".join([len(field).to_bytes(4, "big") + field for field in fields])


def seal_octets(key: bytes, plain: bytes | memoryview, context: bytes) -> tuple[bytes, bytes]:
    """(nonce, ciphertext and tag) of bytes."""
    nonce = os.urandom(NONCE_BYTES)
    return nonce, AESGCM(key).encrypt(nonce, plain, context)


def open_octets(key: bytes, nonce: bytes, sealed: bytes, context: bytes) -> bytes:
    """The bytes of `seal_octets`; raises SealBroken unless every byte is as it was sealed."""
    return _open(key, nonce, sealed, context)


def seal_words(key: bytes, words: NDArray[np.uint64], context: bytes) -> tuple[bytes, bytes]:
    """(nonce, ciphertext and tag) of words as little-endian bytes."""
    return seal_octets(key, _octets(words), context)


def open_words(key: bytes, nonce: bytes, sealed: bytes, context: bytes) -> NDArray[np.uint64]:
    """The words of `seal_words`; raises SealBroken unless every byte is as it was sealed."""
    return _words(_open(key, nonce, sealed, context))


def _open(
    key: bytes, nonce: bytes, sealed: bytes | memoryview, context: bytes | memoryview
) -> bytes:
    try:
        return AESGCM(key).decrypt(nonce, sealed, context)
    except (InvalidTag, ValueError, OverflowError):
        raise SealBroken("the seal does not open here") from None


def _words(plain: bytes) -> NDArray[np.uint64]:
    if len(plain) % 8:
        raise SealBroken("the content is not a whole number of words")
    return np.frombuffer(plain, "<u8").astype(np.uint64, copy=False)


def _octets(words: NDArray[np.uint64]) -> memoryview:
    # AEAD calls refuse arrays of words but take a view of their bytes, without a copy.
    return np.ascontiguousarray(words, "<u8").data.cast("B")


def segment_size(dimension: int) -> int:
    """Roster numbers per segment: the largest power of two with 8 d S <= 2 MiB, in 64..262144; of
    vectors above 65,536 the largest with 8 d S <= 32 MiB, but 8 at least (whole bytes of bitmaps):
    a batch of a million coordinates has 64 MB."""
    size = MAX_SEGMENT
    while size > MIN_SEGMENT and 8 * dimension * size > SEGMENT_BYTES:
        size //= 2
    while size > LEAST_SEGMENT and 8 * dimension * size > LONG_SEGMENT_BYTES:
        size //= 2
    return size


@dataclass(frozen=True)
class Span:
    """Numbers first..first+length-1: a host's run within one segment; first is a multiple of 8."""

    segment: int
    first: int
    length: int


def spans(run_first: int, run_length: int, size: int) -> list[Span]:
    """The run cut along segments of `size` numbers."""
    result: list[Span] = []
    if run_length < 1:
        return result
    for segment in range(run_first // size, (run_first + run_length - 1) // size + 1):
        span = span_within(run_first, run_length, size, segment)
        assert span is not None
        result.append(span)
    return result


def span_within(run_first: int, run_length: int, size: int, segment: int) -> Span | None:
    """The part of the run in one segment of `size` numbers; None if there is none."""
    first = max(run_first, segment * size)
    last = min(run_first + run_length, (segment + 1) * size)
    return Span(segment, first, last - first) if first < last else None


@dataclass(frozen=True)
class BatchHeader:
    """What a batch is bound to. `presence`: which numbers of the span have a piece inside;
    `sealed_under`: the id of a session."""

    host: str
    descriptor_hash: bytes
    share_index: int
    part: int
    span: Span
    dimension: int
    sealed_under: bytes
    presence: bytes

    @property
    def count(self) -> int:
        """How many curators are in the batch."""
        return sets.count(self.presence)


def _pack(header: BatchHeader | PartHeader, size: int, nonce: bytes) -> bytes:
    """Header, host id and presence; `size`: the dimension of a batch, the bytes in a part."""
    if len(header.sealed_under) != _NAME_BYTES:
        raise ValueError(f"a session or epoch is named in {_NAME_BYTES} bytes")
    host = header.host.encode()
    packed = _HEADER.pack(
        _MAGIC,
        header.descriptor_hash,
        header.share_index,
        header.part,
        header.span.segment,
        header.span.first,
        header.span.length,
        header.count,
        size,
        header.sealed_under,
        len(host),
        nonce,
    )
    return packed + host + header.presence


def _nonce(body: bytes) -> bytes:
    return body[_HEADER.size - NONCE_BYTES : _HEADER.size]


def seal_batch(key: bytes, header: BatchHeader, words: NDArray[np.uint64]) -> bytes:
    """The batch's bytes; `words` is (count, d) or flat, curator-major in number order."""
    if words.size != header.count * header.dimension:
        raise ValueError("a batch holds count * dimension words")
    nonce = os.urandom(NONCE_BYTES)
    context = _pack(header, header.dimension, nonce)
    return context + AESGCM(key).encrypt(nonce, _octets(words), context)


def read_batch_header(body: bytes) -> tuple[BatchHeader, int]:
    """The header and the offset of the ciphertext; raises SealBroken for a malformed body."""
    if len(body) < _HEADER.size:
        raise SealBroken("shorter than a batch header")
    (magic, digest, share, part, segment, first, length, count, d, under, host_length, _) = (
        _HEADER.unpack_from(body)
    )
    offset = _HEADER.size + host_length
    end = offset + sets.byte_length(length)
    if magic != _MAGIC or len(body) != end + 8 * count * d + TAG_BYTES:
        raise SealBroken("not a batch, or of the wrong length")
    presence = body[offset:end]
    try:
        host = body[_HEADER.size : offset].decode("ascii")
        sets.unpack(presence, length)
    except ValueError:
        raise SealBroken("a malformed batch header") from None
    header = BatchHeader(
        host, digest, share, part, Span(segment, first, length), d, under, presence
    )
    if header.count != count or count == 0:
        raise SealBroken("the presence bitmap does not match the count")
    if not _well_placed(header):
        raise SealBroken("the numbers of the batch are not those of its segment")
    return header, end


def _well_placed(header: BatchHeader) -> bool:
    """Whether the header names a host, and a span of the segment that it names."""
    if header.dimension < 1 or not header.host:
        return False
    return in_segment(header.span, segment_size(header.dimension))


def in_segment(span: Span, size: int) -> bool:
    """Whether a span lies in the segment that it names, of this size, and begins at a whole byte of
    its bitmap.

    Otherwise two batches with one number could be filed under different segments, and no check
    would compare them.
    """
    last = span.first + span.length - 1
    return span.first % 8 == 0 and span.first // size == span.segment == last // size


def open_batch(key: bytes, body: bytes, offset: int) -> NDArray[np.uint64]:
    """The flat words of a batch whose header was read; raises SealBroken."""
    view = memoryview(body)
    return _words(_open(key, _nonce(body), view[offset:], view[:offset]))


@dataclass(frozen=True)
class PartHeader:
    """Where a host's part of a proved round belongs: as `BatchHeader`, but there is one plaintext
    of `plaintext_bytes` for all the curators in `presence`."""

    host: str
    descriptor_hash: bytes
    share_index: int
    part: int
    span: Span
    plaintext_bytes: int
    sealed_under: bytes
    presence: bytes

    @property
    def count(self) -> int:
        """How many curators the part is of."""
        return sets.count(self.presence)


def seal_part(key: bytes, header: PartHeader, plain: bytes | memoryview) -> bytes:
    """The part's bytes (spec: validity, section 9)."""
    if len(plain) != header.plaintext_bytes:
        raise ValueError("a part holds as many bytes as its header says")
    nonce = os.urandom(NONCE_BYTES)
    context = _pack(header, header.plaintext_bytes, nonce)
    return context + AESGCM(key).encrypt(nonce, plain, context)


def read_part_header(body: bytes, segment_size: int) -> tuple[PartHeader, int]:
    """The header and the offset of the ciphertext. Raises SealBroken for a malformed body, and
    for numbers that are not whole bytes of one segment of this size."""
    if len(body) < _HEADER.size:
        raise SealBroken("shorter than a part's header")
    (magic, digest, share, part, segment, first, length, count, size, under, host, _) = (
        _HEADER.unpack_from(body)
    )
    offset = _HEADER.size + host
    end = offset + sets.byte_length(length)
    if magic != _MAGIC or len(body) != end + size + TAG_BYTES:
        raise SealBroken("not a part of a proved round, or of the wrong length")
    presence = body[offset:end]
    try:
        name = body[_HEADER.size : offset].decode("ascii")
        sets.unpack(presence, length)
    except ValueError:
        raise SealBroken("a malformed part's header") from None
    header = PartHeader(
        name, digest, share, part, Span(segment, first, length), size, under, presence
    )
    if header.count != count or count == 0 or not name:
        raise SealBroken("the presence bitmap does not match the count, or nobody sends the part")
    if not in_segment(header.span, segment_size):
        raise SealBroken("the numbers of the part are not those of its segment")
    return header, end


def open_part(key: bytes, body: bytes, offset: int) -> bytes:
    """The plaintext of a part whose header was read; raises SealBroken."""
    view = memoryview(body)
    return _open(key, _nonce(body), view[offset:], view[:offset])


# Seal keys: X-Wing (X25519 and ML-KEM-768 together) in the library's HPKE. A secret that is sealed
# to one stays secret while either half is unbroken. The private half is a seed of 32 bytes:
# SHAKE256(seed, 96) gives ML-KEM's d and z (64 bytes) and the X25519 key (32). The public key is
# ML-KEM's 1,184 bytes and X25519's 32. Spec: keys, section 2; draft-connolly-cfrg-xwing-kem, RFC
# 9180 with KEM 0x647a, HKDF-SHA256, AES-256-GCM.

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
    """A recipient's public key. Raises SealKeyMalformed for bytes that are no such key."""

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
        """Encapsulation, ciphertext and tag, bound to `info`. Raises SealBroken for a key that
        yields no shared secret."""
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
