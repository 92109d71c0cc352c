"""K-means: which of some centres is nearest to each record, in runs of rows that stay in the cache.

Spec: kmeans, section 5.2. Labels of whole numbers are exact; those of floats serve public values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Steps: TypeAlias = NDArray[np.int32] | Ints
"""Records (n, d) in steps of the grid, which fit into 32 bits; products of them do not."""

_CHUNK: Final = 4096
_CACHED: Final = 1 << 15
"""Numbers of a table that stay in the cache beside their like."""
_EXACT: Final = 1 << 53
"""Up to here whole numbers are exact in floating point."""
_PRODUCTS: Final = 1 << 18
"""Multiplications of one product: with more, numpy's library wakes threads that cost more than such
small products save."""


def nearest(points: NDArray[np.float64] | Ints, centres: NDArray[np.float64] | Ints) -> Ints:
    """The index (n,) of the nearest of k centres, the lowest of equals.

    argmin_i |c_i|^2 - 2 y.c_i. For integers of the grid every partial sum is an integer below 2^53,
    so the labels are exact whatever the order of summation; for floats they are not.
    """
    turned = -2.0 * np.asarray(centres, np.float64).T
    squares = np.einsum("ij,ij->i", centres, centres).astype(np.float64)
    labels = np.empty(len(points), np.int64)
    runs = list(slices(len(points), turned.size))
    held = np.empty((runs[0].stop if runs else 0, len(centres)))
    for rows in runs:
        part = np.asarray(points[rows], np.float64)
        scores = np.matmul(part, turned, out=held[: len(part)])
        scores += squares
        np.argmin(scores, axis=1, out=labels[rows])
    return labels


def slices(rows: int, products: int) -> Iterator[slice]:
    """Runs of rows that stay in the cache, and below `_PRODUCTS` with this many for each row."""
    return _runs(rows, min(_CHUNK, max(1, _PRODUCTS // products)))


def blocks(rows: int, columns: int) -> Iterator[slice]:
    """Runs of rows of which this many columns stay in the cache."""
    return _runs(rows, max(1, _CACHED // columns))


def _runs(rows: int, size: int) -> Iterator[slice]:
    return (slice(start, start + size) for start in range(0, rows, size))


@dataclass(frozen=True, eq=False)
class Nearest:
    """The nearest of centres (k, d) on a grid of this many steps, the lowest of equals: exact.

    A score is |c_i|^2 - 2 y.c_i with i in its low bits, so that the smallest score holds its own
    index. Every partial sum is an integer of at most 3 d G^2 times a power of two above k: below
    2^53 for up to 256 columns and 1,024 centres, hence exact whatever the order of summation.
    """

    centres: Ints
    steps: int

    @cached_property
    def _low(self) -> int:
        """Bits of an index."""
        return (len(self.centres) - 1).bit_length()

    @cached_property
    def _scores(self) -> Floats | None:
        """(k, d + 1): a record's scores are the product with it and a 1; None where they would not
        be exact."""
        clusters, dimension = self.centres.shape
        if 3 * dimension * self.steps**2 << self._low > _EXACT:
            return None
        centres = self.centres.astype(np.float64)
        squares = np.einsum("ij,ij->i", centres, centres)
        packed = np.column_stack([-2 * centres, squares]) * (1 << self._low)
        packed[:, -1] += np.arange(clusters)
        return packed

    def labels(self, columns: Floats) -> Ints:
        """(n,) of whole numbers on the grid, column by column (d, n)."""
        scores = self._scores
        if scores is None:
            return nearest(columns.T, self.centres)
        best = np.empty(columns.shape[1])
        for rows in slices(best.size, scores.size):
            products = scores[:, :-1] @ columns[:, rows]
            products += scores[:, -1:]
            np.minimum.reduce(products, axis=0, out=best[rows])
        labels = best.astype(np.int64)
        labels &= (1 << self._low) - 1
        return labels
