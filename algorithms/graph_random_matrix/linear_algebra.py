"""An adjacency matrix row by row, and leading singular vectors.

Rows: the neighbours of each vertex, in blocks of rows. Spectrum: leading left singular vectors
from a Gram matrix or of a thin matrix, and the centrality they give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int32]

Offsets = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Rows:
    """Consecutive rows of an adjacency matrix.

    number: which block it is; first: its first row; starts (rows + 1,): where each row's neighbours
    begin in neighbours (entries,), rising from 0.
    """

    number: int
    first: int
    starts: Offsets
    neighbours: Places

    @property
    def count(self) -> int:
        """The number of vertices."""
        return self.starts.size - 1


@dataclass(frozen=True, eq=False)
class Adjacency:
    """A symmetric matrix of zeros and ones; neighbours of a row rise."""

    starts: Offsets
    neighbours: Places

    @property
    def count(self) -> int:
        """The number of vertices."""
        return self.starts.size - 1

    @property
    def entries(self) -> int:
        """Twice the number of edges; private."""
        return self.neighbours.size

    def blocks(self, rows: int) -> Iterator[Rows]:
        """All rows in blocks of this size."""
        for number, first in enumerate(range(0, self.count, rows)):
            last = min(first + rows, self.count)
            begin, end = int(self.starts[first]), int(self.starts[last])
            starts = self.starts[first : last + 1] - begin
            yield Rows(number, first, starts, self.neighbours[begin:end])


# Spec: graph-random-matrix, sections 3.3 and 3.4. An SVD of n x m is never made: the m x m matrix G
# = M' M has the squared singular values, and U = M V / s.

Floats = NDArray[np.float64]
Beat = Callable[[], None]

ROWS: Final = 1 << 16
"""Rows worked on between two beats."""


def quiet() -> None:
    """No progress is reported."""


def one_thread() -> AbstractContextManager[object]:
    """Linear algebra on one thread, if that can be requested.

    A worker has one core: threads that wait for each other cost more than they gain, and sums
    are added in the same order.
    """
    if find_spec("threadpoolctl") is None:
        return nullcontext()
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[object] = threadpool_limits(1, "blas")
    return limits


@dataclass(frozen=True, eq=False)
class Spectrum:
    """values (r,): singular values, falling; scaled (n, k): left vectors times their value."""

    values: Floats
    scaled: Floats

    @property
    def vectors(self) -> Floats:
        """(n, k) of unit columns; zero where the value is zero."""
        positive = self.values[: self.scaled.shape[1]]
        return self.scaled / np.where(positive > 0, positive, 1.0)


def singular_values(gram: Floats) -> tuple[Floats, Floats]:
    """Values (m,), falling, and right vectors (m, m) as columns, of a Gram matrix."""
    squares, vectors = np.linalg.eigh(gram)
    return np.sqrt(np.maximum(squares[::-1], 0)), vectors[:, ::-1]


def gram_of(matrix: NDArray[Any]) -> Floats:
    """M' M (m, m) of some rows, by single precision over 2,048 rows at a time, added in double."""
    total = np.zeros((matrix.shape[1],) * 2)
    for first in range(0, len(matrix), 2048):
        part = matrix[first : first + 2048].astype(np.float32)
        total += part.T @ part
    return total


def from_gram(
    matrix: NDArray[Any], unit: float, gram: Floats, vectors: int, beat: Beat = quiet
) -> Spectrum:
    """Of M = unit * matrix (n, m) by the Gram matrix of `matrix`; `vectors` of them."""
    values, right = singular_values(gram)
    turned = np.ascontiguousarray(right[:, :vectors]) * unit
    scaled = np.empty((len(matrix), vectors))
    for first in range(0, len(matrix), ROWS):
        beat()
        scaled[first : first + ROWS] = matrix[first : first + ROWS] @ turned
    return Spectrum(values * unit, scaled)


def orthonormal(matrix: Floats, beat: Beat = quiet) -> tuple[Floats, Floats]:
    """Q (n, k) with orthonormal columns and R (k, k), M = Q R; by blocks of rows, then of their R.

    n >= k.
    """
    parts, triangles = [], []
    for first in range(0, len(matrix), ROWS):
        beat()
        block, triangle = np.linalg.qr(matrix[first : first + ROWS])
        parts.append(block)
        triangles.append(triangle)
    if len(parts) == 1:
        return parts[0], triangles[0]
    mixed, whole = np.linalg.qr(np.concatenate(triangles))
    basis = np.empty(matrix.shape)
    row = place = 0
    for block in parts:
        beat()
        width = block.shape[1]
        basis[row : row + len(block)] = block @ mixed[place : place + width]
        row, place = row + len(block), place + width
    return basis, whole


def of_thin(matrix: Floats, beat: Beat = quiet) -> Spectrum:
    """Of a matrix (n, k) with few columns, all of it."""
    basis, triangle = orthonormal(matrix, beat)
    left, values, _ = np.linalg.svd(triangle)
    return Spectrum(values, basis @ (left * values))


def centrality(scaled: Floats) -> Floats:
    """Principal component centrality (n,): sqrt of the sum over i of (lambda_i u_iv)^2."""
    result: Floats = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
    return result


def ranking(scores: Floats) -> NDArray[np.int64]:
    """Places of the vertices by falling score, ties by the order of rows."""
    result: NDArray[np.int64] = np.argsort(-scores, kind="stable")
    return result
