"""Regions of the adjacency matrix: grid, numbers of cells, counts by a summed-area table; the
arguments and results of the plain and the compiled kernel of splitting points; and method `blocks`.

Method `blocks` measures an adaptive grid of the matrix, the degrees or both, with noise:

    size     |E|                                              sensitivity 1
    coarse   edges of each of B (B + 1) / 2 cells             1: an edge lies in one
    fine     of each part of those cells, cut by how many edges they seem to have: 1
    degrees  of each vertex, or these in ascending order      2: an edge has two ends

The parts of epsilon add up; the fine grid is a function of the coarse counts that were released.
All scales are k times as large.

Source: two noisy grids as of points (W. Qardaji, W. Yang and N. Li, ICDE 2013), degrees as of the
beta model (V. Karwa and A. Slavkovic, 2012). Spec: graph-der, section 10.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context
from tacit.encoders.graph_der_blocks import MOST_PARTS, Coarse, Fine
from tacit.noise import DiscreteLaplace

Ints = NDArray[np.int64]
Labels = NDArray[np.int32]
Table = NDArray[np.int32]
Beat = Callable[[], None]
_BEAT_ROWS: Final = 512


def below(rows: Any, columns: Any) -> Any:
    """How many cells above the diagonal have i < rows and j < columns."""
    fewer = np.minimum(rows, columns)
    return fewer * (columns - 1) - fewer * (fewer - 1) // 2


@dataclass(frozen=True)
class Grid:
    """Lines 0, step, 2 step, .., vertices; a region's corners are places in the list of lines."""

    vertices: int
    step: int
    triangle: bool

    @property
    def lines(self) -> Ints:
        """(blocks + 1,) labels."""
        return np.append(np.arange(0, self.vertices, self.step, dtype=np.int64), self.vertices)

    @property
    def blocks(self) -> int:
        """The number of blocks on each side."""
        return -(-self.vertices // self.step)

    @property
    def size(self) -> int:
        """Cells of the matrix that heights and smallest regions are reckoned from."""
        if self.triangle:
            return self.vertices * (self.vertices - 1) // 2
        return self.vertices**2

    def edges(self, regions: Ints) -> Ints:
        """Regions (n, 4) with labels in place of lines: rows from, to, columns from, to."""
        result: Ints = self.lines[regions]
        return result

    def cells(self, regions: Ints) -> Ints:
        """(n,) cells of each region (n, 4)."""
        top, bottom, left, right = self.edges(regions).T
        if not self.triangle:
            rectangle: Ints = (bottom - top) * (right - left)
            return rectangle
        cells: Ints = below(bottom, right) - below(top, right)
        cells += below(top, left) - below(bottom, left)
        return cells

    def diagonal(self, regions: Ints) -> Ints:
        """(n,) cells of each region on the diagonal; none in the triangle."""
        if self.triangle:
            return np.zeros(len(regions), np.int64)
        top, bottom, left, right = self.edges(regions).T
        shared: Ints = np.minimum(bottom, right) - np.maximum(top, left)
        return np.maximum(0, shared)

    def table(self, rows: Labels, columns: Labels, beat: Beat = lambda: None) -> Table:
        """Summed-area table (blocks + 1, blocks + 1) of ones at these cells; private.

        Entry (p, q) is how many lie in rows before line p and columns before line q.
        """
        blocks = self.blocks
        keys = rows.astype(np.int64) // self.step
        keys *= blocks
        keys += columns // self.step
        beat()
        if keys.size * 4 > blocks**2:
            every = np.bincount(keys, minlength=blocks**2)
            cells = np.flatnonzero(every)
            number = every[cells]
        else:
            cells, number = np.unique(keys, return_counts=True)
        table = np.zeros((blocks + 1, blocks + 1), np.int32)
        for first in range(0, blocks, _BEAT_ROWS):
            beat()
            last = min(first + _BEAT_ROWS, blocks)
            span = slice(*np.searchsorted(cells, (first * blocks, last * blocks)))
            table[1 + cells[span] // blocks, 1 + cells[span] % blocks] = number[span]
            for row in range(first + 1, last + 1):
                np.cumsum(table[row], dtype=np.int32, out=table[row])
                table[row] += table[row - 1]
        return table

    def whole(self) -> Ints:
        """The root region (1, 4)."""
        return np.array([[0, self.blocks, 0, self.blocks]], np.int64)


def counts(table: Table, regions: Ints) -> Ints:
    """(n,) ones in each region; private."""
    top, bottom, left, right = regions.T
    result: Ints = table[bottom, right].astype(np.int64) - table[top, right]
    result -= table[bottom, left]
    result += table[top, left]
    return result


def children(regions: Ints, points: Ints) -> Ints:
    """The four subregions (n, 4, 4) of regions (n, 4) at points (n, 2), lines of row and column."""
    top, bottom, left, right = regions.T
    row, column = points.T
    parts = (
        (top, row, left, column),
        (top, row, column, right),
        (row, bottom, left, column),
        (row, bottom, column, right),
    )
    return np.stack([np.stack(part, axis=1) for part in parts], axis=1)


def leaf_map(grid: Grid, leaves: Ints) -> NDArray[np.int32]:
    """(blocks, blocks) number of the leaf that a block lies in; -1 outside all."""
    leaf_of_block = np.full((grid.blocks, grid.blocks), -1, np.int32)
    for number, (top, bottom, left, right) in enumerate(leaves.tolist()):
        leaf_of_block[top:bottom, left:right] = number
    return leaf_of_block


# What the plain and the compiled kernel of splitting points take and give. Spec: graph-der,
# sections 3.1 and 3.3.

Floats: TypeAlias = NDArray[np.float64]


class Matrix(NamedTuple):
    """What scores are made of: summed-area table, private; lines of its grid."""

    table: Table
    lines: Ints
    triangle: bool

    @classmethod
    def of(cls, table: Table, grid: Grid) -> Matrix:
        """A table over a grid."""
        return cls(table, grid.lines, grid.triangle)


class Pieces(NamedTuple):
    """Some rows of some regions: region, first row line, number of rows, place of its output."""

    region: Ints
    row: Ints
    rows: Ints
    place: Ints


class Sums(NamedTuple):
    """Of all rows of all regions; those of region r from starts[r] to starts[r + 1].

    highest: score (-inf where nothing is admissible); mass: sum of e^(rate (score - highest)).
    """

    starts: Ints
    highest: Floats
    mass: Floats


class Kernel(Protocol):
    """Both forms of the two passes. rate (n,): what a score is multiplied by in the exponent."""

    def row_masses(
        self,
        matrix: Matrix,
        regions: Ints,
        rate: Floats,
        least: float,
        pieces: Pieces,
        sums: Sums,
    ) -> None:
        """Fill the sums of these rows."""
        ...

    def points(
        self,
        matrix: Matrix,
        regions: Ints,
        rate: Floats,
        least: float,
        sums: Sums,
        uniform: Floats,
    ) -> Ints:
        """(n, 2) row and column of each region, by two uniform numbers (2, n); -1: none."""
        ...


BlockShares = tuple[Fraction, Fraction, Fraction, Fraction]
"""Of the budget: for the size, the degrees, the coarse and the fine counts."""

LEAST_RANGES: Final = 4
_FINE: Final = 5
"""A part of a cell is to hold about this many edges at a budget of 1 for the fine counts."""
_COARSE: Final = 10


@dataclass(frozen=True)
class BlockPlan:
    """A run's public choices. k: edges that are protected together at epsilon; noise_share: noise
    of a count in units of one full draw (over curators: of the rounds; stored edges: 1);
    sorted_degrees: they are counted in ascending order, and name no vertex."""

    vertices: int
    epsilon: Fraction
    shares: BlockShares
    k: int
    max_cells: int
    noise_share: Fraction = Fraction(1)
    sorted_degrees: bool = False

    @property
    def inflation(self) -> float:
        """Deviation of the noise over that of one edge's full draw."""
        return self.k * math.sqrt(self.noise_share)

    def scale(self, query: int) -> Fraction:
        """Of the noise of query 0 to 3, in order of `shares`; its share is above 0."""
        touched = 2 if query == 1 else 1
        return touched * self.k / (self.epsilon * self.shares[query])

    @property
    def degrees(self) -> bool:
        """Whether degrees are requested."""
        return self.shares[1] > 0

    @property
    def grid(self) -> bool:
        """Whether edges and cells are counted; else degrees alone are."""
        return self.shares[2] > 0

    def ranges(self, size: int) -> int:
        """B, for this noisy number of edges."""
        if not self.grid:
            return 1
        budget = float(self.epsilon * (self.shares[2] + self.shares[3])) / self.inflation
        ranges_wanted = round(math.sqrt(2 * size * budget / _COARSE) / 3)
        most = min(self.vertices // 2, math.isqrt(self.max_cells))
        return max(1, min(max(ranges_wanted, LEAST_RANGES), most))

    def expected_cells(self, size: int) -> int:
        """About how many fine cells suit this many edges."""
        if not self.grid:
            return 1
        fine = float(self.epsilon * self.shares[3]) / self.inflation
        return min(self.max_cells, round(size * fine / _FINE + 2 * self.ranges(size) ** 2))

    def rectangle_deviation(self, area: Fraction, ranges: int, parts: int) -> float:
        """Of the edges in a rectangle over this part of all pairs; parts: of all cells together.

        A cell's own count takes most of the noise of its parts away, but less of it where the
        rectangle's border cuts the cell: there half of the parts count on average.
        """
        cells = ranges * (ranges + 1) / 2
        coarse = 2 * float(self.scale(2)) ** 2
        fine = 2 * float(self.scale(3)) ** 2 * parts / cells
        left = coarse / (coarse + fine)
        cut = math.sqrt(area) * ranges
        return math.sqrt(fine * (float(area) * cells * left + cut * (1 - left) / 6))


@dataclass(frozen=True, eq=False)
class Measured:
    """Released: size, at least 1; counts of coarse cells and of parts; degrees (n,), of the labels
    or in ascending order, None where their share is 0."""

    size: int
    coarse: Ints
    fine: Fine
    parts: Ints
    degrees: Ints | None

    @classmethod
    def of_degrees(cls, degrees: Ints) -> Measured:
        """Noisy degrees (n,) alone: the whole matrix is one part."""
        fine = Coarse.of(degrees.size, 1).whole()
        size = np.array([max(1, round(float(degrees.sum()) / 2))])
        return cls(int(size[0]), size, fine, size, degrees)


def sides_of(grid: Coarse, counts: Ints, plan: BlockPlan) -> Ints:
    """(cells,) s: how finely each coarse cell is cut, by its noisy count; all lowered alike until
    there are at most max_cells parts."""
    rows, columns = grid.cells
    widths = np.diff(grid.borders)
    most = np.minimum(np.minimum(widths[rows], widths[columns]), MOST_PARTS)
    budget = float(plan.epsilon * plan.shares[3]) / plan.inflation
    sides_wanted = np.sqrt(np.maximum(counts, 0) * budget / _FINE)
    while True:
        sides = np.clip(np.ceil(sides_wanted), 1, np.maximum(most, 1)).astype(np.int64)
        total = int((sides * sides).sum())
        if total <= plan.max_cells or int(sides.max()) == 1:
            return sides
        sides_wanted *= min(0.97, math.sqrt(plan.max_cells / total))


def measure(low: Labels, high: Labels, plan: BlockPlan, context: Context) -> Measured:
    """All noisy counts of the edges low < high (m,). Raises Cancelled."""

    def noisy(counts: NDArray[np.int64], query: int, stage: str) -> Ints:
        context.progress(0.1 + 0.1 * query, "counting")
        noise = DiscreteLaplace(plan.scale(query)).draw(context.noise(stage), counts.size)
        return np.asarray(counts + noise, np.int64)

    degrees = None
    if plan.degrees:
        ends = np.bincount(low, minlength=plan.vertices)
        ends += np.bincount(high, minlength=plan.vertices)
        degrees = noisy(np.sort(ends) if plan.sorted_degrees else ends, 1, "degrees")
        if not plan.grid:
            return Measured.of_degrees(degrees)
    size = max(1, int(noisy(np.array([low.size]), 0, "size")[0]))
    grid = Coarse.of(plan.vertices, plan.ranges(size))
    cells = grid.cells[0].size
    coarse = noisy(np.bincount(grid.place(low, high), minlength=cells), 2, "coarse counts")
    fine = Fine.of(grid, sides_of(grid, coarse, plan))
    counted = np.bincount(fine.place(low, high), minlength=fine.room.size)
    parts = noisy(counted, 3, "fine counts")
    return Measured(size, coarse, fine, parts, degrees)
