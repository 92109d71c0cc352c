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

from tacit.encoders.dpbv_clustering.encoder import Words

Singles = NDArray[np.float32]

_TILE: Final = 128


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def _ones(_context, _word):  # type: ignore[no-untyped-def]
    """Ones of a 64-bit word, by the processor's own instruction where it has one."""

    def generated(_target, builder, _signature, arguments):  # type: ignore[no-untyped-def]
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generated


@numba.njit  # type: ignore[untyped-decorator, unused-ignore]
def _row(words, turned, first, last, counts):  # type: ignore[no-untyped-def]
    """Distances of one record from those of first..last - 1, into counts."""
    counts[:] = 0
    for w in range(words.size):
        word = words[w]
        for j in range(last - first):
            counts[j] += _ones(word ^ turned[w, first + j])  # type: ignore[call-arg, unused-ignore]


@numba.njit(parallel=True, cache=False)  # type: ignore[untyped-decorator, unused-ignore]
def _fill(left, turned, found):  # type: ignore[no-untyped-def]
    columns = turned.shape[1]
    for i in numba.prange(left.shape[0]):
        counts = np.empty(columns, np.uint64)
        _row(left[i], turned, 0, columns, counts)
        for j in range(columns):
            found[i, j] = counts[j]


@numba.njit(parallel=True, cache=False)  # type: ignore[untyped-decorator, unused-ignore]
def _fill_both(words, turned, tiles, found):  # type: ignore[no-untyped-def]
    rows = len(words)
    for place in numba.prange(len(tiles)):
        top, left = tiles[place, 0] * _TILE, tiles[place, 1] * _TILE
        bottom, right = min(top + _TILE, rows), min(left + _TILE, rows)
        counts = np.empty(_TILE, np.uint64)
        tile = np.empty((_TILE, _TILE), np.float32)
        for i in range(bottom - top):
            _row(words[top + i], turned, left, right, counts)
            for j in range(right - left):
                tile[i, j] = counts[j]
        for i in range(bottom - top):
            for j in range(right - left):
                found[top + i, left + j] = tile[i, j]
        for j in range(right - left):
            for i in range(bottom - top):
                found[left + j, top + i] = tile[i, j]


def hamming(left: Words, right: Words, bits: int) -> Singles:  # noqa: ARG001 - pad bits are zero
    """Distances (a, b) of packed bits (a, w) and (b, w)."""
    found = np.empty((len(left), len(right)), np.float32)
    _fill(left, np.ascontiguousarray(right.T), found)
    return found


def hamming_matrix(words: Words) -> Singles:
    """All distances (n, n) of packed bits (n, w)."""
    found = np.empty((len(words), len(words)), np.float32)
    tiles = np.stack(np.triu_indices(-(-len(words) // _TILE)), axis=1)
    _fill_both(words, np.ascontiguousarray(words.T), tiles, found)
    return found
