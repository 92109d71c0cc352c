"""The choice of splitting points, by the exponential mechanism with exact probabilities.

Source: Chen's thesis, section 7.4.1. Spec: graph-der, sections 3.1 and 3.3. A point (p, q) of grid
lines inside a region cuts it into four; its score is the largest less the smallest density of
those that have cells. A point with a part of fewer than `least` cells is not admissible. Rows are
drawn first, by the sum of their points' weights, and then a column: no list of all points is kept.

`compiled` does the same in loops, where numba is installed; this is its specification.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from typing import Final

import numpy as np

from algorithms.graph_der.geometry import Ints, below
from algorithms.graph_der.kernel import Floats, Kernel, Matrix, Pieces, Sums
from tacit.randomness import NoiseSource

CHUNK_POINTS: Final = 1 << 21
"""Points that are scored between two checks of the clock."""


def scores(matrix: Matrix, region: Ints, first: int, rows: int, least: float) -> Floats:
    """(rows, columns) scores of the points of some row lines of a region (4,); -inf: not
    admissible."""
    top, bottom, left, right = (int(each) for each in region)
    row = np.arange(first, first + rows)[:, None]
    column = np.arange(left + 1, right)[None, :]
    lowest = np.full((rows, column.size), np.inf)
    highest = np.full((rows, column.size), -np.inf)
    admissible = np.ones((rows, column.size), np.bool_)
    for corners in (
        (top, row, left, column),
        (top, row, column, right),
        (row, bottom, left, column),
        (row, bottom, column, right),
    ):
        ones, cells = _part(matrix, *corners)
        there = cells > 0
        admissible &= ~there | (cells >= least)
        density = ones / np.maximum(cells, 1)
        lowest = np.where(there & (density < lowest), density, lowest)
        highest = np.where(there & (density > highest), density, highest)
    return np.where(admissible, highest - lowest, -np.inf)


def _part(
    matrix: Matrix, top: int | Ints, bottom: int | Ints, left: int | Ints, right: int | Ints
) -> tuple[Ints, Ints]:
    table, lines = matrix.table, matrix.lines
    ones = table[bottom, right].astype(np.int64) - table[top, right]
    ones = ones - table[bottom, left] + table[top, left]
    rows, last, columns, end = lines[top], lines[bottom], lines[left], lines[right]
    if not matrix.triangle:
        return ones, (last - rows) * (end - columns)
    cells = below(last, end) - below(rows, end) - below(last, columns) + below(rows, columns)
    return ones, cells


class PlainKernel:
    """By numpy."""

    def row_masses(
        self,
        matrix: Matrix,
        regions: Ints,
        rate: Floats,
        least: float,
        pieces: Pieces,
        sums: Sums,
    ) -> None:
        """See Kernel."""
        for region, row, rows, place in zip(
            pieces.region.tolist(),
            pieces.row.tolist(),
            pieces.rows.tolist(),
            pieces.place.tolist(),
            strict=True,
        ):
            found = scores(matrix, regions[region], row, rows, least)
            best = found.max(axis=1)
            with np.errstate(invalid="ignore"):
                weights = np.exp(rate[region] * (found - best[:, None]))
            sums.highest[place : place + rows] = best
            sums.mass[place : place + rows] = np.where(best > -np.inf, weights.sum(axis=1), 0.0)

    def points(
        self,
        matrix: Matrix,
        regions: Ints,
        rate: Floats,
        least: float,
        sums: Sums,
        uniform: Floats,
    ) -> Ints:
        """See Kernel."""
        chosen = np.full((len(regions), 2), -1, np.int64)
        for number in np.flatnonzero(np.diff(sums.starts)).tolist():
            own = slice(sums.starts[number], sums.starts[number + 1])
            best = sums.highest[own].max()
            if best == -np.inf:
                continue
            weights = sums.mass[own] * np.exp(rate[number] * (sums.highest[own] - best))
            row = int(regions[number, 0]) + 1 + picked(weights, float(uniform[0, number]))
            found = scores(matrix, regions[number], row, 1, least)[0]
            weights = np.exp(rate[number] * (found - found.max()))
            column = picked(weights, float(uniform[1, number]))
            chosen[number] = row, regions[number, 2] + 1 + column
        return chosen


def picked(weights: Floats, uniform: float) -> int:
    """The place that a uniform number in [0, 1) falls on; one with a weight above 0."""
    sums = np.cumsum(weights)
    place = int(np.searchsorted(sums, uniform * sums[-1], side="right"))
    return min(place, int(np.flatnonzero(weights)[-1]))


@cache
def kernel() -> Kernel:
    """The compiled one where numba is installed."""
    if find_spec("numba") is None:
        return PlainKernel()
    from algorithms.graph_der.compiled import CompiledKernel

    return CompiledKernel()


def splitting_points(
    matrix: Matrix,
    regions: Ints,
    rate: Floats,
    least: float,
    source: NoiseSource,
    beat: Callable[[], None] = lambda: None,
    work: Kernel | None = None,
) -> Ints:
    """(n, 2) lines of row and column where each region (n, 4) is split; -1 where no point is
    admissible.

    rate (n,): budget of the choice over twice the score's sensitivity; least: fewest cells of a
    part. `beat` is called several times a second.
    """
    work = kernel() if work is None else work
    heights = np.maximum(0, regions[:, 1] - regions[:, 0] - 1)
    widths = np.maximum(0, regions[:, 3] - regions[:, 2] - 1)
    heights[widths == 0] = 0
    starts = np.concatenate(([0], np.cumsum(heights)))
    sums = Sums(starts, np.empty(starts[-1]), np.empty(starts[-1]))
    for pieces in _pieces(regions, heights, widths, starts):
        beat()
        work.row_masses(matrix, regions, rate, least, pieces, sums)
    beat()
    words = source.words(2 * len(regions)).reshape(2, -1)
    uniform: Floats = (words >> np.uint64(11)).astype(float) * 2.0**-53
    return work.points(matrix, regions, rate, least, sums, uniform)


def _pieces(regions: Ints, heights: Ints, widths: Ints, starts: Ints) -> Iterator[Pieces]:
    """All rows of all regions, this many points at a time."""
    each = np.maximum(1, CHUNK_POINTS // np.maximum(1, widths))
    parts = -(-heights // each)
    region = np.repeat(np.arange(len(regions)), parts)
    number = np.arange(region.size) - np.repeat(np.cumsum(parts) - parts, parts)
    offset = number * each[region]
    rows = np.minimum(each[region], heights[region] - offset)
    chunk = np.cumsum(rows * widths[region]) // CHUNK_POINTS
    bounds = np.flatnonzero(np.diff(chunk, prepend=-1)).tolist()
    for first, last in pairwise([*bounds, region.size]):
        own = slice(first, last)
        yield Pieces(
            region[own],
            regions[region[own], 0] + 1 + offset[own],
            rows[own],
            starts[region[own]] + offset[own],
        )
