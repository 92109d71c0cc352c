"""The compiled Hamming kernels; need numba, and are imported only where that is installed.

Words of the right side are turned, so that the inner loop runs over records: the compiler counts
the ones of several words at once. The symmetric matrix is made in tiles that stay in the cache, and
each is written twice, once turned.
"""

from __future__ import annotations

from typing import Final

import numba
import numpy as np
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from tacit.encoders.dpbv_clustering import Words

Singles = NDArray[np.float32]

_TILE: Final = 256
_LINE: Final = 16
"""Single-precision numbers of a line of the cache."""


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def _ones(_context, _word):  # type: ignore[no-untyped-def]
    """Ones of a 64-bit word, by the processor's own instruction where it has one."""

    def generated(_target, builder, _signature, arguments):  # type: ignore[no-untyped-def]
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generated


@numba.njit  # type: ignore[untyped-decorator, unused-ignore]
def _row(words, columns, counts, row):  # type: ignore[no-untyped-def]
    """Distances of one record (w,) from those of columns (w, n), into found (n,).

    All are whole arrays, indexed from 0: an index that might be negative would have to be checked,
    and the loop would not be vectorised. counts (n,): room for the sums.
    """
    counts[:] = 0
    for w in range(words.size):
        word, column = words[w], columns[w]
        for j in range(counts.size):
            counts[j] += _ones(word ^ column[j])  # type: ignore[call-arg, unused-ignore]
    for j in range(counts.size):
        row[j] = counts[j]


@numba.njit(parallel=True, cache=False)  # type: ignore[untyped-decorator, unused-ignore]
def _fill(left, turned, table):  # type: ignore[no-untyped-def]
    for i in numba.prange(left.shape[0]):
        _row(left[i], turned, np.empty(turned.shape[1], np.uint64), table[i])


@numba.njit(parallel=True, cache=False)  # type: ignore[untyped-decorator, unused-ignore]
def _fill_both(words, turned, tiles, table):  # type: ignore[no-untyped-def]
    rows = len(words)
    for place in numba.prange(len(tiles)):
        top, left = tiles[place, 0] * _TILE, tiles[place, 1] * _TILE
        bottom, right = min(top + _TILE, rows), min(left + _TILE, rows)
        columns = turned[:, left:right].copy()
        counts = np.empty(right - left, np.uint64)
        for i in range(top, bottom):
            _row(words[i], columns, counts, table[i, left:right])
        for first in range(left, right, _LINE):
            for above in range(top, bottom, _LINE):
                below = min(above + _LINE, bottom)
                for j in range(first, min(first + _LINE, right)):
                    line = table[j, above:below]
                    for i in range(line.size):
                        line[i] = table[above + i, j]


def hamming(left: Words, right: Words, bits: int) -> Singles:  # noqa: ARG001 - pad bits are zero
    """Distances (a, b) of packed bits (a, w) and (b, w)."""
    result = np.empty((len(left), len(right)), np.float32)
    _fill(left, np.ascontiguousarray(right.T), result)
    return result


def hamming_matrix(words: Words) -> Singles:
    """All distances (n, n) of packed bits (n, w)."""
    result = np.empty((len(words), len(words)), np.float32)
    tiles = np.stack(np.triu_indices(-(-len(words) // _TILE)), axis=1)
    _fill_both(words, np.ascontiguousarray(words.T), tiles, result)
    return result
