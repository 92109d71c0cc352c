"""K-means: what a curator computes on its own rows, in integers, and the nearest centre of each
record.

K-means: which of some centres is nearest to each record, in runs of rows that stay in the cache.

Spec: kmeans, section 5.2. Labels of whole numbers are exact; those of floats serve public values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Steps: TypeAlias = NDArray[np.int32] | Ints
"""Records (n, d) in steps of the grid, which fit into 32 bits; products of them do not."""

_CHUNK: Final = 4096
_CACHED: Final = 1 << 15
"""Numbers of a table that fit in the cache together."""
_EXACT: Final = 1 << 53
"""Up to here whole numbers are exact in floating point."""
_PRODUCTS: Final = 1 << 18
"""Multiplications of one product: with more, numpy's library wakes threads that cost more than such
small products save."""


def nearest(points: NDArray[np.float64] | Ints, centres: NDArray[np.float64] | Ints) -> Ints:
    """The index (n,) of the nearest of k centres, the lowest if several are equally near.

    argmin_i |c_i|^2 - 2 y.c_i. For integers of the grid every partial sum is an integer below
    2^53, so the labels are exact whatever the order of summation; for floats they are not.
    """
    turned = -2.0 * np.asarray(centres, np.float64).T
    squares = np.einsum("ij,ij->i", centres, centres).astype(np.float64)
    labels = np.empty(len(points), np.int64)
    runs = list(slices(len(points), turned.size))
    buffer = np.empty((runs[0].stop if runs else 0, len(centres)))
    for rows in runs:
        part = np.asarray(points[rows], np.float64)
        scores = np.matmul(part, turned, out=buffer[: len(part)])
        scores += squares
        np.argmin(scores, axis=1, out=labels[rows])
    return labels


def slices(rows: int, products: int) -> Iterator[slice]:
    """Runs of rows that stay in the cache: `_PRODUCTS` at most, with this many for each row."""
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
        """(k, d + 1): the product with a record and a 1 gives the record's scores; None if they
        would not be exact."""
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


# What a curator computes on its rows, in integers (spec: kmeans, sections 5.1, 5.2, 5.4, 5.6 and
# 6.1). A record is put on a public grid: the declared
# box becomes [-1, 1]^d in steps of 1/G. A query (`Histogram`, `Marginals`, `Lift`, `Zone`) is
# public; its `sums(records)` is a vector of integers, the sum of one vector per record, and its
# `blocks` say how far one record can move it, block by block. Noise of scale `sensitivity /
# epsilon` in each block makes a release private; the holder of the rows computes that scale here,
# and never takes it from the caller.
#
# Every record's vector depends on that record and on public values alone. That is why all of it is
# integer arithmetic: a matrix product in floating point may round a row differently when another
# row joins the block, and that would break the bound. The central form calls the same functions.

GRID: Final = 1 << 16
"""G: steps from the middle of the box to its side."""
LEVELS: Final = 256
"""V: steps of a record's distance within its zone."""
BINS: Final = 128
PROJECTED: Final = 2
_MATRIX: Final = 1 << 20
"""Unit of the entries of a projection."""
_LARGEST: Final = 1 << 50
"""Of a product that is divided: its rounded quotient has the floor of the exact one."""


@dataclass(frozen=True)
class Grid:
    """The declared box `lower`..`upper` (raw units, d each), in 2 * `steps` steps a side."""

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    steps: int = GRID

    def __post_init__(self) -> None:
        if len(self.lower) != len(self.upper) or not self.lower:
            raise ValueError("a box has two bounds in every dimension")
        if self.steps < 1 or self.steps & (self.steps - 1):
            raise ValueError("the number of steps is a power of two")
        for low, high in zip(self.lower, self.upper, strict=True):
            if not (low < high and math.isfinite(2 * (high - low))):
                raise ValueError("a side of the box has a positive, finite length")

    @property
    def dimension(self) -> int:
        """d."""
        return len(self.lower)

    def quantise(self, values: Floats) -> Ints:
        """Records (n, d) in raw units as integers in [-G, G]; what lies outside is clipped.

        y = rint(G (2 (x - lo) / (hi - lo) - 1)). Element by element: a row does not see another.
        A column's values are adjacent in memory, for callers that continue by columns.
        """
        whole_values = np.empty((self.dimension, len(values)), np.int64)
        low, high = (np.array(side, np.float64)[:, None] for side in (self.lower, self.upper))
        width = high - low
        for rows in blocks(len(values), self.dimension):
            scaled = np.maximum(values[rows].T, low, order="C")
            np.minimum(scaled, high, out=scaled)
            scaled -= low
            scaled /= width
            scaled *= 2 * self.steps  # a power of two: exact, before the difference as after it
            scaled -= self.steps
            whole_values[:, rows] = np.rint(scaled, out=scaled)
        return whole_values.T

    def raw(self, scaled: Floats) -> Floats:
        """Points (k, d) of [-1, 1]^d in raw units."""
        low, high = np.array(self.lower), np.array(self.upper)
        points: Floats = low + (scaled + 1) * ((high - low) / 2)
        return points


@dataclass(frozen=True)
class NoiseBlock:
    """A run of coordinates with one noise scale: `sensitivity` (L1, one record) over `epsilon`."""

    name: str
    dimension: int
    sensitivity: int
    epsilon: Fraction

    def scale(self, records: int = 1) -> Fraction:
        """The scale of full discrete Laplace noise that hides this many records together."""
        return self.sensitivity * records / self.epsilon


def spent(blocks: tuple[NoiseBlock, ...]) -> Fraction:
    """The epsilon of a query: blocks of one name hold disjoint records, others add up."""
    largest: dict[str, Fraction] = {}
    for block in blocks:
        largest[block.name] = max(largest.get(block.name, Fraction(0)), block.epsilon)
    return sum(largest.values(), Fraction(0))


@dataclass(frozen=True, eq=False)
class Projection:
    """A public map to the plane: `matrix` (d, 2) in units of 2^-20, then a box.

    z = y A / sqrt(d), rounded to the grid and clipped; then `box` ((lo, hi), (lo, hi)), in steps of
    the grid, is stretched over the whole grid.
    """

    matrix: Ints
    steps: int
    box: tuple[tuple[int, int], ...] | None = None

    def __post_init__(self) -> None:
        if self.matrix.ndim != 2 or self.matrix.shape[1] != PROJECTED:
            raise ValueError("a projection has two columns")
        if int(np.abs(self.matrix).max()) > _MATRIX:
            raise ValueError("a column of a projection has length 1")
        for low, high in self.box or ():
            if not -self.steps <= low < high <= self.steps:
                raise ValueError("the box of a projection lies on the grid")

    @classmethod
    def of(cls, orthonormal: Floats, steps: int) -> Projection:
        """From a real matrix with orthonormal columns."""
        return cls(np.rint(orthonormal * _MATRIX).astype(np.int64), steps)

    @property
    def real(self) -> Floats:
        """The matrix with columns of length 1, (d, 2)."""
        return self.matrix / _MATRIX

    def flat(self, records: Steps) -> Ints:
        """z (n, 2) on the grid, without the box."""
        divisor = math.ceil(math.sqrt(len(self.matrix)) * _MATRIX)
        # Exact: |y.a| <= 2^16 2^20 sqrt(256), far below 2^53.
        matrix = self.matrix.astype(np.float64)
        flattened = np.empty((len(records), PROJECTED), np.int64)
        for rows in slices(len(records), matrix.size):
            products = np.asarray(records[rows], np.float64) @ matrix
            z = (products.astype(np.int64) + divisor // 2) // divisor
            np.clip(z, -self.steps, self.steps, out=flattened[rows])
        return flattened

    def apply(self, records: Steps) -> Ints:
        """z (n, 2), with the box stretched over the grid."""
        z = self.flat(records)
        if self.box is None:
            return z
        for column, (low, high) in zip(z.T, self.box, strict=True):
            column -= low
            column *= 2 * self.steps
            column //= high - low  # by one number: several times as fast as by an array of them
            column -= self.steps
        return np.clip(z, -self.steps, self.steps, out=z)


@dataclass(frozen=True)
class Histogram:
    """How many records each of `per_side`^d cells holds; of the projected records if `view`."""

    per_side: int
    dimension: int
    steps: int
    epsilon: Fraction
    view: Projection | None = None

    kind: Literal["hist"] = "hist"

    @property
    def length(self) -> int:
        """Cells."""
        return int(self.per_side**self.dimension)

    @cached_property
    def blocks(self) -> tuple[NoiseBlock, ...]:
        """A record is in one cell."""
        return (NoiseBlock("cells", self.length, 1, self.epsilon),)

    def sums(self, records: Steps) -> Ints:
        """Counts (per_side^d,), the last coordinate running fastest."""
        viewed = records if self.view is None else self.view.apply(records)
        places = np.zeros(len(viewed), np.int64)
        for column in viewed.T:
            cells = column.astype(np.int64)
            cells += self.steps
            cells *= self.per_side
            cells //= 2 * self.steps
            places *= self.per_side
            places += np.minimum(cells, self.per_side - 1, out=cells)
        return np.bincount(places, minlength=self.length)


@dataclass(frozen=True)
class Marginals:
    """A histogram of `bins` for each projected coordinate, one after the other."""

    view: Projection
    epsilon: Fraction
    bins: int = BINS

    kind: Literal["marginal"] = "marginal"

    @property
    def length(self) -> int:
        """Bins of both coordinates."""
        return PROJECTED * self.bins

    @cached_property
    def blocks(self) -> tuple[NoiseBlock, ...]:
        """A record is in one bin of each coordinate."""
        return (NoiseBlock("bins", self.length, PROJECTED, self.epsilon),)

    def sums(self, records: Steps) -> Ints:
        """Counts (2 bins,)."""
        steps = self.view.steps
        z = self.view.flat(records)
        places = np.minimum((z + steps) * self.bins // (2 * steps), self.bins - 1)
        return np.concatenate([np.bincount(column, minlength=self.bins) for column in places.T])


@dataclass(frozen=True, eq=False)
class Lift:
    """Sums and counts in full space of the records nearest to each projected centre.

    centres (k', 2) on the stretched grid; offsets from the middle of the box are clipped to an L1
    norm of `radius` steps.
    """

    view: Projection
    centres: Ints
    radius: int
    epsilon_sums: Fraction
    epsilon_counts: Fraction

    kind: Literal["lift"] = "lift"

    def __post_init__(self) -> None:
        widest = 2 * len(self.view.matrix) * self.view.steps
        if not 1 <= self.radius <= widest:
            raise ValueError("the radius of a lift lies between 1 and 2 d G")
        if widest * self.view.steps > _LARGEST:
            raise ValueError("a lift of this many steps is not exact")

    @property
    def length(self) -> int:
        """Coordinates and a count for each projected centre."""
        return len(self.centres) * (len(self.view.matrix) + 1)

    @cached_property
    def blocks(self) -> tuple[NoiseBlock, ...]:
        """A record touches the block of one projected centre."""
        one = (
            NoiseBlock("offsets", len(self.view.matrix), self.radius, self.epsilon_sums),
            NoiseBlock("counts", 1, 1, self.epsilon_counts),
        )
        return one * len(self.centres)

    def sums(self, records: Steps) -> Ints:
        """(k' (d + 1),): for each projected centre the sum of its offsets, and their number."""
        finder = Nearest(self.centres, self.view.steps)
        labels = finder.labels(self.view.apply(records).T.astype(np.float64))
        totals = np.zeros((len(self.centres), len(self.view.matrix) + 1))
        for rows in blocks(len(records), totals.shape[1]):
            part = records[rows].T.astype(np.float64)
            norms = np.abs(part).sum(axis=0)
            _clip(part, norms, np.full(norms.shape, float(self.radius)))
            _add_by_cluster(totals, labels[rows], (*part, None))
        return totals.astype(np.int64).ravel()


@dataclass(frozen=True, eq=False)
class Zone:
    """A zone round: sums of clipped offsets, counts and distances for each published centre.

    centres (k, d) on the grid; radii (k,) L1, in steps of the grid, 1 <= R_i <= 2 d G.
    """

    centres: Ints
    radii: Ints
    steps: int
    epsilon_sums: Fraction
    epsilon_counts: Fraction
    epsilon_distances: Fraction
    levels: int = LEVELS

    kind: Literal["zone"] = "zone"

    def __post_init__(self) -> None:
        if self.centres.ndim != 2 or self.radii.shape != (len(self.centres),):
            raise ValueError("every centre has one radius")
        if int(np.abs(self.centres).max()) > self.steps:
            raise ValueError("centres lie on the grid")
        widest = 2 * self.centres.shape[1] * self.steps
        if widest * max(2 * self.steps, self.levels) > _LARGEST:
            raise ValueError("a zone of this many steps or levels is not exact")
        if not (self.radii.min() >= 1 and self.radii.max() <= widest):
            raise ValueError("the radius of a zone lies between 1 and 2 d G")

    @property
    def length(self) -> int:
        """d coordinates, a count and a distance for each cluster."""
        return len(self.centres) * (int(self.centres.shape[1]) + 2)

    @cached_property
    def blocks(self) -> tuple[NoiseBlock, ...]:
        """A record touches its own cluster's blocks only, by at most R_i, 1 and V."""
        dimension = self.centres.shape[1]
        return tuple(
            block
            for radius in self.radii.tolist()
            for block in (
                NoiseBlock("offsets", dimension, radius, self.epsilon_sums),
                NoiseBlock("counts", 1, 1, self.epsilon_counts),
                NoiseBlock("distances", 1, self.levels, self.epsilon_distances),
            )
        )

    def sums(self, records: Steps) -> Ints:
        """(k (d + 2),): for each cluster (sum of clipped offsets, records, sum of distances).

        The distance of a record is floor(min(a, R) V / R), a its L1 distance from the centre.
        """
        finder = Nearest(self.centres, self.steps)
        centres, radii = self.centres.T.astype(np.float64), self.radii.astype(np.float64)
        totals = np.zeros((len(self.centres), len(centres) + 2))
        for rows in blocks(len(records), totals.shape[1]):
            offsets = records[rows].T.astype(np.float64)
            labels = finder.labels(offsets)
            offsets -= np.take(centres, labels, axis=1)
            norms, reach = np.abs(offsets).sum(axis=0), radii[labels]
            _clip(offsets, norms, reach)
            np.minimum(norms, reach, out=norms)
            norms *= self.levels
            norms /= reach
            _add_by_cluster(totals, labels, (*offsets, None, np.floor(norms, out=norms)))
        return totals.astype(np.int64).ravel()


# Whole numbers in floating point. An offset is at most 2 G and a reach 2 d G: products stay below
# 2^50. If x and y are whole and x + y < 2^53, the quotient x / y is 1 / y or more away from a whole
# number above it, which is more than it is rounded by: its floor is that of the exact one.


def _clip(columns: Floats, norms: Floats, reach: Floats) -> None:
    """Scale vectors that are longer than their reach down to it, toward zero; columns (d, n), in
    L1."""
    outside = np.flatnonzero(norms > reach)
    if outside.size:
        far = columns[:, outside] * reach[outside]
        far /= norms[outside]
        columns[:, outside] = np.trunc(far, out=far)


def _add_by_cluster(totals: Floats, labels: Ints, columns: tuple[Floats | None, ...]) -> None:
    """Add to `found` (k, columns) the sums of each column over the records of each cluster; None
    counts records."""
    for place, column in enumerate(columns):
        totals[:, place] += np.bincount(labels, weights=column, minlength=len(totals))
