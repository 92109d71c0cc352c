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
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context
from tacit.encoders.graph_der_blocks import MOST_PARTS, Coarse, Fine, Ints, Labels
from tacit.noise import DiscreteLaplace

BlockShares = tuple[Fraction, Fraction, Fraction, Fraction]
"""Of the budget: for the size, the degrees, the coarse and the fine counts."""

LEAST_RANGES: Final = 4
_FINE: Final = 5
"""A part of a cell is to hold about this many edges at a budget of 1 for the fine counts."""
_COARSE: Final = 10


@dataclass(frozen=True)
class BlockPlan:
    """A run's public choices. k: edges that are protected together at epsilon; noise_share: noise
    of a count in units of one full draw (over curators: of the rounds; stored edges: 1)."""

    vertices: int
    epsilon: Fraction
    shares: BlockShares
    k: int
    max_cells: int
    noise_share: Fraction = Fraction(1)

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

    def ranges(self, size: int) -> int:
        """B, for this noisy number of edges."""
        budget = float(self.epsilon * (self.shares[2] + self.shares[3])) / self.inflation
        wanted = round(math.sqrt(2 * size * budget / _COARSE) / 3)
        most = min(self.vertices // 2, math.isqrt(self.max_cells))
        return max(1, min(max(wanted, LEAST_RANGES), most))

    def expected_cells(self, size: int) -> int:
        """About how many fine cells suit this many edges."""
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
    budget = float(plan.epsilon * plan.shares[3]) / plan.inflation
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
