"""What method `blocks` measures: an adaptive grid of the matrix and the degrees, with noise.

    size     |E|                                              sensitivity 1
    coarse   edges of each of B (B + 1) / 2 cells             1: an edge lies in one
    fine     of each part of those cells, cut by how many edges they seem to have: 1
    degrees  of each vertex                                   2: an edge has two ends

The parts of epsilon add up; the fine grid is a function of the coarse counts that were released.
All scales are k times as large.

Source: two noisy grids as of points (W. Qardaji, W. Yang and N. Li, ICDE 2013), degrees as of the
beta model (V. Karwa and A. Slavkovic, 2012). Spec: graph-der, section 10.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context
from algorithms.graph_der.geometry import Ints, Labels
from tacit.noise import DiscreteLaplace

BlockShares = tuple[Fraction, Fraction, Fraction, Fraction]
"""Of the budget: for the size, the degrees, the coarse and the fine counts."""

LEAST_RANGES: Final = 4
MOST_PARTS: Final = 40
"""On each side of a coarse cell."""
_FINE: Final = 5
"""A part of a cell is to hold about this many edges at a budget of 1 for the fine counts."""
_COARSE: Final = 10


@dataclass(frozen=True)
class BlockPlan:
    """A run's public choices. k: edges that are protected together at epsilon."""

    vertices: int
    epsilon: Fraction
    shares: BlockShares
    k: int
    max_cells: int

    def scale(self, query: int) -> Fraction:
        """Of the noise of query 0 to 3, in order of `shares`; its share is above 0."""
        touched = 2 if query == 1 else 1
        return touched * self.k / (self.epsilon * self.shares[query])

    @property
    def degrees(self) -> bool:
        """Whether they are asked for."""
        return self.shares[1] > 0

    def ranges(self, size: int) -> int:
        """B, for this noisy number of edges."""
        budget = float(self.epsilon * (self.shares[2] + self.shares[3]) / self.k)
        wanted = round(math.sqrt(2 * size * budget / _COARSE) / 3)
        most = min(self.vertices // 2, math.isqrt(self.max_cells))
        return max(1, min(max(wanted, LEAST_RANGES), most))

    def expected_cells(self, size: int) -> int:
        """About how many fine cells this many edges ask for."""
        fine = float(self.epsilon * self.shares[3] / self.k)
        return min(self.max_cells, round(size * fine / _FINE + 2 * self.ranges(size) ** 2))


@dataclass(frozen=True, eq=False)
class Coarse:
    """The cells of B equal ranges of labels, B (B + 1) / 2 of them: rows (cells,) and columns
    (cells,) as numbers of ranges, row <= column; borders (B + 1,)."""

    borders: Ints

    @classmethod
    def of(cls, vertices: int, ranges: int) -> Coarse:
        """Of this many ranges."""
        return cls(np.arange(ranges + 1) * vertices // ranges)

    @property
    def ranges(self) -> int:
        """B."""
        return self.borders.size - 1

    @cached_property
    def cells(self) -> tuple[Ints, Ints]:
        """Rows and columns of all cells, row by row."""
        rows, columns = np.triu_indices(self.ranges)
        return rows.astype(np.int64), columns.astype(np.int64)

    def place(self, low: Labels, high: Labels) -> Ints:
        """(m,) the cell of each pair of labels."""
        row = np.searchsorted(self.borders, low, side="right") - 1
        column = np.searchsorted(self.borders, high, side="right") - 1
        return row * self.ranges - row * (row - 1) // 2 + column - row


@dataclass(frozen=True, eq=False)
class Fine:
    """Parts of coarse cells: sides (cells,) is s of each of them.

    coarse (parts,): the cell of each part; bounds (parts, 4): labels of its rows and columns, from
    and to (exclusive); room (parts,): pairs low < high in it. Parts without room are left out.
    """

    grid: Coarse
    sides: Ints
    coarse: Ints
    bounds: Ints
    room: Ints
    numbers: Ints
    """(all parts,) the place among `coarse`, -1 where left out."""
    starts: Ints

    @classmethod
    def of(cls, grid: Coarse, sides: Ints) -> Fine:
        """All parts of these sides."""
        rows, columns = grid.cells
        squares = sides * sides
        starts = np.concatenate(([0], np.cumsum(squares)))
        coarse = np.repeat(np.arange(sides.size), squares)
        within = np.arange(int(starts[-1])) - starts[coarse]
        side = sides[coarse]
        first, second = np.divmod(within, side)
        bounds = np.empty((coarse.size, 4), np.int64)
        for column, (numbers, part) in enumerate(((rows, first), (columns, second))):
            begin = grid.borders[numbers[coarse]]
            width = grid.borders[numbers[coarse] + 1] - begin
            bounds[:, 2 * column] = begin + part * width // side
            bounds[:, 2 * column + 1] = begin + (part + 1) * width // side
        high, wide = bounds[:, 1] - bounds[:, 0], bounds[:, 3] - bounds[:, 2]
        diagonal = (rows == columns)[coarse]
        room = high * wide
        room = np.where(diagonal & (first == second), high * (high - 1) // 2, room)
        room = np.where(diagonal & (first > second), 0, room)
        there = room > 0
        numbers = np.where(there, np.cumsum(there) - 1, -1)
        return cls(grid, sides, coarse[there], bounds[there], room[there], numbers, starts[:-1])

    def place(self, low: Labels, high: Labels) -> Ints:
        """(m,) the part of each pair of labels."""
        cell = self.grid.place(low, high)
        rows, columns = self.grid.cells
        side = self.sides[cell]
        parts = []
        for labels, numbers in ((low, rows), (high, columns)):
            begin = self.grid.borders[numbers[cell]]
            width = self.grid.borders[numbers[cell] + 1] - begin
            parts.append(((labels - begin + 1) * side - 1) // width)
        found: Ints = self.numbers[self.starts[cell] + parts[0] * side + parts[1]]
        return found


@dataclass(frozen=True, eq=False)
class Measured:
    """Released: size, at least 1; counts of coarse cells and of parts; degrees (n,), None where
    their share is 0."""

    size: int
    coarse: Ints
    fine: Fine
    parts: Ints
    degrees: Ints | None


def sides_of(grid: Coarse, counts: Ints, plan: BlockPlan) -> Ints:
    """(cells,) s: how finely each coarse cell is cut, by its noisy count; all lowered alike until
    there are at most max_cells parts."""
    rows, columns = grid.cells
    widths = np.diff(grid.borders)
    most = np.minimum(np.minimum(widths[rows], widths[columns]), MOST_PARTS)
    budget = float(plan.epsilon * plan.shares[3] / plan.k)
    wanted = np.sqrt(np.maximum(counts, 0) * budget / _FINE)
    while True:
        sides = np.clip(np.ceil(wanted), 1, np.maximum(most, 1)).astype(np.int64)
        total = int((sides * sides).sum())
        if total <= plan.max_cells or int(sides.max()) == 1:
            return sides
        wanted *= min(0.97, math.sqrt(plan.max_cells / total))


def measure(low: Labels, high: Labels, plan: BlockPlan, context: Context) -> Measured:
    """All noisy counts of the edges low < high (m,). Raises Cancelled."""

    def noisy(counts: NDArray[np.int64], query: int, stage: str) -> Ints:
        context.progress(0.1 + 0.1 * query, "counting")
        noise = DiscreteLaplace(plan.scale(query)).draw(context.noise(stage), counts.size)
        return np.asarray(counts + noise, np.int64)

    size = max(1, int(noisy(np.array([low.size]), 0, "size")[0]))
    grid = Coarse.of(plan.vertices, plan.ranges(size))
    cells = grid.cells[0].size
    coarse = noisy(np.bincount(grid.place(low, high), minlength=cells), 2, "coarse counts")
    fine = Fine.of(grid, sides_of(grid, coarse, plan))
    counted = np.bincount(fine.place(low, high), minlength=fine.room.size)
    parts = noisy(counted, 3, "fine counts")
    degrees = None
    if plan.degrees:
        ends = np.bincount(low, minlength=plan.vertices)
        ends += np.bincount(high, minlength=plan.vertices)
        degrees = noisy(ends, 1, "degrees")
    return Measured(size, coarse, fine, parts, degrees)
