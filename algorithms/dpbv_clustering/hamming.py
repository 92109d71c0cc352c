"""Hamming distances of packed bits, block by block, by three kernels that agree bit for bit.

Spec: dpbv-clustering, section 7. `product`: with bits as +1 and -1, the distance is (s - x.y) / 2;
every partial sum is an integer below 2^24, so that single precision is exact. `count`: xor and
`bitwise_count` of words. `compiled`: the same in one pass, where numba is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tacit.encoders.dpbv_clustering.encoder import Words, unpack

Singles: TypeAlias = NDArray[np.float32]
Kernel: TypeAlias = Callable[[Words, Words, int], Singles]

Beat: TypeAlias = Callable[[], None]
"""Called between pieces of long work; raises to stop it."""

BLOCK: Final = 1024
_COUNT_ROWS: Final = 64


def quiet() -> None:
    """No progress is reported."""


def signs(words: Words, bits: int) -> Singles:
    """Packed bits (n, w) as -1 and +1 (n, s)."""
    plus = unpack(words, bits).astype(np.float32)
    plus *= 2
    plus -= 1
    return plus


def product(left: Words, right: Words, bits: int) -> Singles:
    """Distances (a, b) of packed bits (a, w) and (b, w) of s bits each."""
    found: Singles = signs(left, bits) @ signs(right, bits).T
    found *= -0.5
    found += np.float32(bits / 2)
    return found


def count(left: Words, right: Words, bits: int) -> Singles:  # noqa: ARG001 - pad bits are zero
    """The same by counting bits."""
    found = np.empty((len(left), len(right)), np.float32)
    for start in range(0, len(left), _COUNT_ROWS):
        turned = left[start : start + _COUNT_ROWS, None, :] ^ right[None, :, :]
        found[start : start + _COUNT_ROWS] = np.bitwise_count(turned).sum(axis=2, dtype=np.int32)
    return found


def best_kernel() -> Kernel:
    """The compiled one where it is installed, else the product."""
    if find_spec("numba") is None:
        return product
    from algorithms.dpbv_clustering.compiled import hamming

    return hamming


def upper_blocks(rows: int, block: int = BLOCK) -> Iterator[tuple[slice, slice]]:
    """The blocks of a symmetric (n, n) matrix on and above its diagonal."""
    for top in range(0, rows, block):
        for left in range(top, rows, block):
            yield slice(top, min(top + block, rows)), slice(left, min(left + block, rows))


def matrix(words: Words, bits: int, kernel: Kernel | None = None) -> Singles:
    """All distances (n, n) of one attribute's packed bits (n, w); by the fastest way that there is
    unless a kernel is named."""
    if kernel is None and find_spec("numba") is not None:
        from algorithms.dpbv_clustering.compiled import hamming_matrix

        return hamming_matrix(words)
    chosen = kernel or best_kernel()
    found = np.empty((len(words), len(words)), np.float32)
    for top, left in upper_blocks(len(words)):
        block = chosen(words[top], words[left], bits)
        found[top, left] = block
        found[left, top] = block.T
    return found
