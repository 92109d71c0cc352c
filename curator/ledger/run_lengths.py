"""Long integer arrays that are mostly constant, as runs: the compact form of per-curator totals.

A host's curators nearly always have equal totals, so a million of them take a few bytes. Format:
uint32 count of runs, then per run an int64 value, then per run a uint32 length (little-endian).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def pack(values: Ints) -> bytes:
    """The runs of a one-dimensional array."""
    if values.size == 0:
        return pack_runs(values, values)
    starts = np.concatenate(([0], np.flatnonzero(np.diff(values)) + 1))
    return pack_runs(values[starts], np.diff(np.concatenate((starts, [values.size]))))


def unpack(packed: bytes) -> Ints:
    """The array of `pack`; raises ValueError for other bytes."""
    return np.repeat(*unpack_runs(packed))


def pack_runs(values: Ints, lengths: Ints) -> bytes:
    """The same of runs that are known: the value and the length of each."""
    head = np.array([values.size], "<u4").tobytes()
    return head + values.astype("<i8").tobytes() + lengths.astype("<u4").tobytes()


def unpack_runs(packed: bytes) -> tuple[Ints, Ints]:
    """The values and lengths of the runs; raises ValueError for other bytes than `pack`'s."""
    if len(packed) < 4:
        raise ValueError("not a packed array")
    count = int(np.frombuffer(packed, "<u4", 1)[0])
    if len(packed) != 4 + 12 * count:
        raise ValueError("not a packed array")
    values = np.frombuffer(packed, "<i8", count, 4)
    lengths = np.frombuffer(packed, "<u4", count, 4 + 8 * count)
    return values.astype(np.int64, copy=False), lengths.astype(np.int64)
