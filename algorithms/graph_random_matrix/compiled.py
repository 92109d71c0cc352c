"""The kernels of `product` and `adjacency`, compiled; needs numba, and is imported only then.

The same as the functions of numpy, number for number (on little-endian machines). Signs stay
packed, eight to a byte, so that the rows that edges point to stay in the cache: a table turns a
byte into eight counters of eight bits in one word, which are emptied before they could overflow.
"""

from __future__ import annotations

from typing import Final

import numba
import numpy as np
from numpy.typing import NDArray

from algorithms.graph_random_matrix.linear_algebra import Offsets, Places, Rows
from tacit.encoders.graph_random_matrix import Entries

_SPREAD: Final = np.array(
    [sum((byte >> bit & 1) << (8 * bit) for bit in range(8)) for byte in range(256)], np.uint64
)

_jit = numba.njit(cache=False, nogil=True)


@_jit  # type: ignore[untyped-decorator, unused-ignore]
def _both(starts, first, second):  # type: ignore[no-untyped-def]
    filled = starts[:-1].copy()
    neighbours = np.empty(2 * len(first), np.int32)
    # Smaller neighbours first, so that those of a row rise.
    for edge in range(len(first)):
        row = second[edge]
        neighbours[filled[row]] = first[edge]
        filled[row] += 1
    for edge in range(len(first)):
        row = first[edge]
        neighbours[filled[row]] = second[edge]
        filled[row] += 1
    return neighbours


def both_directions(starts: Offsets, first: Places, second: Places) -> Places:
    """The neighbours (2 edges,) of all rows, each row's rising, of edges sorted by both ends."""
    result: Places = _both(starts, first, second)
    return result


@_jit  # type: ignore[untyped-decorator, unused-ignore]
def _signs(starts, neighbours, signs, spread, out):  # type: ignore[no-untyped-def]
    width = signs.shape[1]
    counters = np.zeros(width, np.uint64)
    counts = counters.view(np.uint8)
    for row in range(len(starts) - 1):
        line = out[row]
        degree = np.int32(starts[row + 1] - starts[row])
        for column in range(len(line)):
            line[column] = -degree
        at = starts[row]
        while at < starts[row + 1]:
            last = min(at + 255, starts[row + 1])
            counters[:] = 0
            # Four at a time: a counter is read and written once for them.
            while at + 4 <= last:
                one, two = signs[neighbours[at]], signs[neighbours[at + 1]]
                three, four = signs[neighbours[at + 2]], signs[neighbours[at + 3]]
                for byte in range(width):
                    pair = spread[one[byte]] + spread[two[byte]]
                    counters[byte] += pair + spread[three[byte]] + spread[four[byte]]
                at += 4
            while at < last:
                one = signs[neighbours[at]]
                for byte in range(width):
                    counters[byte] += spread[one[byte]]
                at += 1
            for column in range(len(line)):
                line[column] += np.int32(counts[column]) << 1


@_jit  # type: ignore[untyped-decorator, unused-ignore]
def _sparse(starts, neighbours, codes, out):  # type: ignore[no-untyped-def]
    for row in range(len(starts) - 1):
        for entry in range(starts[row], starts[row + 1]):
            other = neighbours[entry]
            for place in range(codes.shape[1]):
                code = np.int64(codes[other, place])
                out[row, code >> 1] += 1 - 2 * (code & 1)


@_jit  # type: ignore[untyped-decorator, unused-ignore]
def _dense(starts, neighbours, values, out):  # type: ignore[no-untyped-def]
    for row in range(len(starts) - 1):
        for entry in range(starts[row], starts[row + 1]):
            other = neighbours[entry]
            for column in range(values.shape[1]):
                out[row, column] += values[other, column]


def product(rows: Rows, matrix: Entries) -> NDArray[np.int32] | NDArray[np.int64]:
    """As `product.product`."""
    shape = (rows.count, matrix.columns)
    if matrix.kind == "rademacher":
        result = np.empty(shape, np.int32)
        _signs(rows.starts, rows.neighbours, matrix.values, _SPREAD, result)
        return result
    if matrix.kind == "sparse":
        result = np.zeros(shape, np.int32)
        _sparse(rows.starts, rows.neighbours, matrix.values, result)
        return result
    wide = np.zeros(shape, np.int64)
    _dense(rows.starts, rows.neighbours, matrix.values, wide)
    return wide


@_jit  # type: ignore[untyped-decorator, unused-ignore]
def _sums(starts, neighbours, vector, out):  # type: ignore[no-untyped-def]
    for row in range(len(starts) - 1):
        total = 0.0
        for entry in range(starts[row], starts[row + 1]):
            total += vector[neighbours[entry]]
        out[row] = total


def neighbour_sums(
    starts: Offsets, neighbours: Places, vector: NDArray[np.float64]
) -> NDArray[np.float64]:
    """For each row the sum of `vector` over its neighbours."""
    result = np.empty(len(starts) - 1)
    _sums(starts, neighbours, vector, result)
    return result
