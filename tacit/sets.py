"""Sets of curators as bitmaps in roster-number order.

A set over numbers 0..size-1 is `ceil(size / 8)` bytes, number i at bit i % 8 of byte i // 8.
Accepted sets, manifests, intersections and subset checks are one bitwise operation each
(10^6 curators: 125 kB). A bitmap of the wrong length, or with bits beyond
`size`, is refused.
"""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.bool_]


def byte_length(size: int) -> int:
    """Bytes of a bitmap over `size` numbers."""
    return (size + 7) // 8


def pack(members: Bits) -> bytes:
    """A bitmap from one boolean per number."""
    return np.packbits(members, bitorder="little").tobytes()


def is_bitmap(data: bytes, size: int) -> bool:
    """Whether these bytes are a bitmap over `size` numbers: of its length, without stray bits."""
    return len(data) == byte_length(size) and not (size % 8 and data[-1] >> size % 8)


def unpack(bitmap: bytes, size: int) -> Bits:
    """One boolean per number. Raises ValueError for a wrong length or stray bits."""
    if len(bitmap) != byte_length(size):
        raise ValueError("bitmap of the wrong length")
    bits = np.unpackbits(np.frombuffer(bitmap, np.uint8), bitorder="little")
    if bits[size:].any():
        raise ValueError("bitmap with bits beyond its size")
    return bits[:size].view(np.bool_)


def runs(members: Bits) -> list[tuple[int, int]]:
    """The runs of members: (first number, length), rising."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], members, [False])).astype(np.int8)))
    return [
        (int(first), int(end - first)) for first, end in zip(edges[::2], edges[1::2], strict=True)
    ]


def count(bitmap: bytes) -> int:
    """How many members."""
    return int.from_bytes(bitmap, "little").bit_count()


def intersection(bitmaps: list[bytes]) -> bytes:
    """Members of all sets; at least one set, all of one length, or ValueError."""
    if not bitmaps:
        raise ValueError("the intersection of no sets")
    result = np.frombuffer(bitmaps[0], np.uint8)
    for bitmap in bitmaps[1:]:
        if len(bitmap) != len(bitmaps[0]):
            raise ValueError("bitmaps of different lengths")
        result = result & np.frombuffer(bitmap, np.uint8)
    return result.tobytes()


def difference(one: bytes, other: bytes) -> bytes:
    """Members of one set that are not in the other. Raises ValueError for two lengths."""
    if len(one) != len(other):
        raise ValueError("bitmaps of different lengths")
    return (np.frombuffer(one, np.uint8) & ~np.frombuffer(other, np.uint8)).tobytes()


def holds(bitmap: bytes, number: int) -> bool:
    """Whether a number is a member. Raises IndexError beyond the bitmap."""
    return bool(bitmap[number // 8] >> number % 8 & 1)


def is_subset(inner: bytes, outer: bytes) -> bool:
    """Whether every member of `inner` is one of `outer`."""
    if len(inner) != len(outer):
        raise ValueError("bitmaps of different lengths")
    return not (np.frombuffer(inner, np.uint8) & ~np.frombuffer(outer, np.uint8)).any()


def compressed(bitmap: bytes) -> bytes:
    """A bitmap for the wire or the store, compressed by zlib at a level that balances time and
    size."""
    return zlib.compress(bitmap, 6)


def decompressed(data: bytes, size: int) -> bytes:
    """The bitmap over `size` numbers of `compressed`. Raises ValueError for anything else; never
    decompresses more bytes than such a bitmap has."""
    reader = zlib.decompressobj()
    try:
        bitmap = reader.decompress(data, byte_length(size) + 1)
    except zlib.error:
        raise ValueError("not a compressed bitmap") from None
    if not reader.eof or reader.unused_data:
        raise ValueError("not one whole compressed bitmap")
    if not is_bitmap(bitmap, size):
        raise ValueError("a bitmap of another length")
    return bitmap


def compact(bitmap: bytes) -> bytes:
    """A bitmap for the store: compressed where that is shorter."""
    packed = compressed(bitmap)
    return packed if len(packed) < len(bitmap) else bitmap


def expanded(data: bytes, size: int) -> bytes:
    """The bitmap over `size` numbers of `compact`, which is compressed or plain. Raises
    ValueError for anything else."""
    return data if len(data) == byte_length(size) else decompressed(data, size)


def resized(bitmap: bytes, size: int) -> bytes:
    """The same members over `size` numbers. Raises ValueError if a member is `size` or above."""
    length = byte_length(size)
    if any(bitmap[length:]) or (
        size % 8 and len(bitmap) >= length and bitmap[length - 1] >> size % 8
    ):
        raise ValueError("a member beyond the size")
    return bitmap[:length].ljust(length, b"\0")
