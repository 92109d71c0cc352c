"""Rows of the adjacency matrix times a matrix of integers, exactly.

By numpy; `compiled` holds the kernels of the same functions, equal number for number.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.graph_random_matrix.rows import Rows
from tacit.encoders.graph_random_matrix.projection import Entries

WORTH_COMPILING: Final = 20_000_000
"""Additions from which the seconds of compiling pay."""
_PART: Final = 1 << 22

Signed = NDArray[np.int32] | NDArray[np.int64]


def can_compile(additions: int) -> bool:
    """Whether numba is installed and so much work pays."""
    return additions >= WORTH_COMPILING and find_spec("numba") is not None


def product(rows: Rows, matrix: Entries, *, compiled: bool = False) -> Signed:
    """(rows, m): int32 where the matrix has signs, else int64."""
    if compiled:
        from algorithms.graph_random_matrix import compiled as kernels

        return kernels.product(rows, matrix)
    if matrix.kind == "rademacher":
        return _signs(rows, matrix)
    if matrix.kind == "sparse":
        return _sparse(rows, matrix)
    held = matrix.values
    return _summed(rows, matrix.columns, np.dtype(np.int64), lambda places: held[places])


def dense_product(
    rows: Rows, matrix: NDArray[np.int32], *, compiled: bool = False
) -> NDArray[np.int64]:
    """The same of any integers (n, k)."""
    found = product(rows, Entries("gaussian", matrix.shape[1], matrix, 0), compiled=compiled)
    return found.astype(np.int64, copy=False)


def _signs(rows: Rows, matrix: Entries) -> NDArray[np.int32]:
    def ones(places: NDArray[np.int32]) -> NDArray[np.uint8]:
        chosen = matrix.values[places].astype(np.uint8, copy=False)
        return np.unpackbits(chosen, axis=1, count=matrix.columns, bitorder="little")

    found = _summed(rows, matrix.columns, np.dtype(np.int32), ones).astype(np.int32, copy=False)
    found *= 2
    found -= np.diff(rows.starts).astype(np.int32)[:, None]
    return found


def _sparse(rows: Rows, matrix: Entries) -> NDArray[np.int32]:
    m = matrix.columns
    owners = np.repeat(np.arange(rows.count, dtype=np.int64), np.diff(rows.starts))
    codes = matrix.values[rows.neighbours].astype(np.int64)
    cells = (owners[:, None] * m + (codes >> 1)).ravel()
    weights = (1 - 2 * (codes & 1)).ravel().astype(np.float64)
    summed = np.bincount(cells, weights, minlength=rows.count * m)
    return summed.astype(np.int32).reshape(rows.count, m)


def _summed(
    rows: Rows,
    columns: int,
    kind: np.dtype[np.int32] | np.dtype[np.int64],
    chosen: Callable[[NDArray[np.int32]], NDArray[np.generic]],
) -> Signed:
    """Sums of the matrix's rows that each row has as neighbours, some rows at a time."""
    found: Signed = np.zeros((rows.count, columns), kind)
    marks = np.arange(0, rows.neighbours.size, max(1, _PART // columns))
    cuts = np.unique(np.concatenate(([0], np.searchsorted(rows.starts, marks), [rows.count])))
    for first, last in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        begin, end = int(rows.starts[first]), int(rows.starts[last])
        if begin == end:
            continue
        occupied = first + np.flatnonzero(np.diff(rows.starts[first : last + 1]))
        part = chosen(rows.neighbours[begin:end])
        found[occupied] = np.add.reduceat(part, rows.starts[occupied] - begin, axis=0, dtype=kind)
    return found
