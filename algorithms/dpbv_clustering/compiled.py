"""The compiled Hamming kernel; needs numba, and is imported only where that is installed."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from tacit.encoders.dpbv_clustering.encoder import Words

Singles = NDArray[np.float32]


@numba.njit(inline="always")  # type: ignore[untyped-decorator, unused-ignore]
def _ones(word):  # type: ignore[no-untyped-def]
    """Ones of a 64-bit word: sums of pairs, of nibbles, of octets."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + (
        (word >> np.uint64(2)) & np.uint64(0x3333333333333333)
    )
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)


@numba.njit(parallel=True, cache=False)  # type: ignore[untyped-decorator, unused-ignore]
def _fill(left, right, found):  # type: ignore[no-untyped-def]
    for i in numba.prange(left.shape[0]):
        for j in range(right.shape[0]):
            total = np.uint64(0)
            for w in range(left.shape[1]):
                total += _ones(left[i, w] ^ right[j, w])
            found[i, j] = total


def hamming(left: Words, right: Words, bits: int) -> Singles:  # noqa: ARG001 - pad bits are zero
    """Distances (a, b) of packed bits (a, w) and (b, w)."""
    found = np.empty((len(left), len(right)), np.float32)
    _fill(left, right, found)
    return found
