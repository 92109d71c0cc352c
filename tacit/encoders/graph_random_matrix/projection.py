"""Public random projections in whole numbers, and the exact sensitivity of what they project.

Spec: graph-random-matrix, sections 3.6 and 4.2. An edge {i, j} changes row i of A P by row j of P,
and row j by row i: the squared L2 change is the sum of two squared row norms of P.

    rademacher  signs; every row has squared norm m exactly
    sparse      s signs in distinct columns, one in each of s ranges of columns; squared norm s
    gaussian    N(0, 1/m) rounded to the grid 2^-20; the two largest squared norms are found

The seed is public, the generator (Philox) has nothing to do with the noise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

Kind = Literal["rademacher", "gaussian", "sparse"]

GRID_BITS: Final = 20
_PART: Final = 1 << 20


@dataclass(frozen=True)
class Projection:
    """Which matrix (vertices, columns) it is; nonzeros: in each row of a sparse one."""

    kind: Kind
    vertices: int
    columns: int
    seed: int
    nonzeros: int = 8

    @property
    def unit(self) -> float:
        """The value of one integer unit of the product."""
        if self.kind == "gaussian":
            return float(2.0**-GRID_BITS)
        return float((self.columns if self.kind == "rademacher" else self.nonzeros) ** -0.5)


@dataclass(frozen=True, eq=False)
class Entries:
    """The matrix as it is used.

    values, by kind: bits (n, ceil(m / 8)) of uint8, the lowest first, 1 for +1; or (n, s) of
    uint16, twice the column, plus 1 for -1; or (n, m) of int32. largest_pair: the two largest
    squared row norms together.
    """

    kind: Kind
    columns: int
    values: NDArray[np.uint8] | NDArray[np.uint16] | NDArray[np.int32]
    largest_pair: int

    def dense(self) -> NDArray[np.int32]:
        """All entries (n, m) as integers: for tests and small graphs."""
        if self.kind == "rademacher":
            bits = np.unpackbits(
                self.values.astype(np.uint8), axis=1, count=self.columns, bitorder="little"
            )
            return 2 * bits.astype(np.int32) - 1
        if self.kind == "gaussian":
            return self.values.astype(np.int32)
        full = np.zeros((len(self.values), self.columns), np.int32)
        columns = (self.values >> 1).astype(np.intp)
        np.put_along_axis(full, columns, 1 - 2 * (self.values & 1).astype(np.int32), axis=1)
        return full


_last: dict[Projection, Entries] = {}


def entries(projection: Projection, beat: Callable[[], None] = lambda: None) -> Entries:
    """The matrix; the last one is kept, so that the blocks on one worker draw it once."""
    if projection not in _last:
        found = _drawn(projection, beat)
        _last.clear()
        _last[projection] = found
    return _last[projection]


def forget() -> None:
    """Give the memory of the last matrix back."""
    _last.clear()


def _drawn(projection: Projection, beat: Callable[[], None]) -> Entries:
    n, m = projection.vertices, projection.columns
    bits = philox(projection.seed, projection.kind)
    if projection.kind == "rademacher":
        width = (m + 7) // 8
        words = bits.random_raw((n * width + 7) // 8)
        signs = words.astype("<u8", copy=False).view(np.uint8)[: n * width].reshape(n, width)
        return Entries("rademacher", m, signs, 2 * m)
    generator = np.random.Generator(bits)
    if projection.kind == "sparse":
        s = projection.nonzeros
        borders = np.arange(s + 1) * m // s
        codes = generator.integers(2 * borders[:-1], 2 * borders[1:], (n, s), dtype=np.int64)
        return Entries("sparse", m, codes.astype(np.uint16), 2 * s)
    drawn = np.empty((n, m), np.int32)
    norms = np.empty(n, np.int64)
    step = max(1, _PART // m)
    for first in range(0, n, step):
        beat()
        part = generator.standard_normal((min(step, n - first), m))
        part *= 2.0**GRID_BITS / m**0.5
        drawn[first : first + step] = np.rint(part)
        norms[first : first + step] = squared_norms(drawn[first : first + step])
    return Entries("gaussian", m, drawn, largest_pair(norms))


def largest_pair_of(projection: Projection, beat: Callable[[], None] = lambda: None) -> int:
    """The squared change of an edge, in integers; of a gaussian one it takes drawing it."""
    if projection.kind == "rademacher":
        return 2 * projection.columns
    if projection.kind == "sparse":
        return 2 * projection.nonzeros
    return entries(projection, beat).largest_pair


def philox(seed: int, purpose: str) -> np.random.Philox:
    """The public generator of a purpose; the seed has 64 bits, purposes share no words."""
    text = f"tacit graph-random-matrix {purpose} {seed}".encode()
    return np.random.Philox(key=int.from_bytes(hashlib.sha256(text).digest()[:16], "big"))


def squared_norms(values: NDArray[np.int32]) -> NDArray[np.int64]:
    """(n,) of rows (n, m); exact, entries of magnitude at most 2^26 and at most 1,000 columns."""
    wide = values.astype(np.int64)
    found: NDArray[np.int64] = np.einsum("ij,ij->i", wide, wide)
    return found


def largest_pair(norms: NDArray[np.int64]) -> int:
    """The two largest together: what one edge can change, squared."""
    return int(np.partition(norms, norms.size - 2)[-2:].sum())
