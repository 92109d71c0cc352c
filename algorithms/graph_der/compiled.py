"""The compiled kernel of splitting points; needs numba, and is imported only where that is
installed.

The same as `splitting.PlainKernel`.
"""

from __future__ import annotations

import numba
import numpy as np

from algorithms.graph_der.regions import Floats, Ints, Matrix, Pieces, Sums

_jit = numba.njit(cache=False, nogil=True)
_inline = numba.njit(inline="always")


@_inline  # type: ignore[untyped-decorator, unused-ignore]
def _before(triangle, rows, columns):  # type: ignore[no-untyped-def]
    """How many cells have i < rows and j < columns; in the triangle, see `geometry.below`."""
    if not triangle:
        return rows * columns
    fewer = min(rows, columns)
    return fewer * (columns - 1) - fewer * (fewer - 1) // 2


@_inline  # type: ignore[untyped-decorator, unused-ignore]
def _band(matrix, upper, lower, column):  # type: ignore[no-untyped-def]
    """Ones and cells between two lines of rows, in the columns before a line."""
    ones = np.int64(matrix.table[lower, column]) - np.int64(matrix.table[upper, column])
    line = matrix.lines[column]
    cells = _before(matrix.triangle, matrix.lines[lower], line)
    return ones, cells - _before(matrix.triangle, matrix.lines[upper], line)


@_inline  # type: ignore[untyped-decorator, unused-ignore]
def _fits(cells, least):  # type: ignore[no-untyped-def]
    """Whether a part may have this many cells."""
    return cells == 0 or cells >= least


@_inline  # type: ignore[untyped-decorator, unused-ignore]
def _widened(low, high, ones, cells):  # type: ignore[no-untyped-def]
    """The range of densities with that of one more part, if it has cells."""
    if cells > 0:
        density = ones / cells
        low, high = min(low, density), max(high, density)
    return low, high


@_jit  # type: ignore[untyped-decorator, unused-ignore]
def _row(matrix, region, row, least, scores):  # type: ignore[no-untyped-def]
    """Fill the scores of one row of points; the highest of them. A line of columns cuts the rows
    above the point (north) and those below it (south) into two parts each."""
    top, bottom, left, right = region[0], region[1], region[2], region[3]
    north_first, north_cells_first = _band(matrix, top, row, left)
    north_last, north_cells_last = _band(matrix, top, row, right)
    south_first, south_cells_first = _band(matrix, row, bottom, left)
    south_last, south_cells_last = _band(matrix, row, bottom, right)
    best = -np.inf
    for column in range(left + 1, right):
        north, north_cells = _band(matrix, top, row, column)
        south, south_cells = _band(matrix, row, bottom, column)
        cells0, cells1 = north_cells - north_cells_first, north_cells_last - north_cells
        cells2, cells3 = south_cells - south_cells_first, south_cells_last - south_cells
        score = -np.inf
        if (
            _fits(cells0, least)
            and _fits(cells1, least)
            and _fits(cells2, least)
            and _fits(cells3, least)
        ):
            low, high = _widened(np.inf, -np.inf, north - north_first, cells0)
            low, high = _widened(low, high, north_last - north, cells1)
            low, high = _widened(low, high, south - south_first, cells2)
            low, high = _widened(low, high, south_last - south, cells3)
            score = high - low
            best = max(best, score)
        scores[column - left - 1] = score
    return best


@_jit  # type: ignore[untyped-decorator, unused-ignore]
def _row_masses(matrix, regions, rate, least, pieces, sums):  # type: ignore[no-untyped-def]
    """Fill the sums of these rows."""
    scores = np.empty(matrix.table.shape[1])
    for piece in range(pieces.region.size):
        number = pieces.region[piece]
        region = regions[number]
        width = region[3] - region[2] - 1
        for offset in range(pieces.rows[piece]):
            best = _row(matrix, region, pieces.row[piece] + offset, least, scores)
            mass = 0.0
            if best > -np.inf:
                for at in range(width):
                    mass += np.exp(rate[number] * (scores[at] - best))
            place = pieces.place[piece] + offset
            sums.highest[place] = best
            sums.mass[place] = mass


@_jit  # type: ignore[untyped-decorator, unused-ignore]
def _picked(weights, size, uniform):  # type: ignore[no-untyped-def]
    """The place that a uniform number falls on; its weight is above 0."""
    total = 0.0
    for at in range(size):
        total += weights[at]
    target, partial, last = uniform * total, 0.0, 0
    for at in range(size):
        partial += weights[at]
        if weights[at] > 0:
            last = at
        if partial > target:
            return at
    return last


@_jit  # type: ignore[untyped-decorator, unused-ignore]
def _points(matrix, regions, rate, least, sums, uniform, chosen):  # type: ignore[no-untyped-def]
    """Draw a row of each region by the rows' masses, then a column of it; chosen keeps -1 where no
    point is admissible."""
    scores = np.empty(matrix.table.shape[1])
    weights = np.empty(matrix.table.shape[1])
    for number in range(rate.size):
        region, first = regions[number], sums.starts[number]
        size = sums.starts[number + 1] - first
        best = -np.inf
        for at in range(size):
            best = max(best, sums.highest[first + at])
        if best == -np.inf:
            continue
        for at in range(size):
            higher = sums.highest[first + at] - best
            weights[at] = sums.mass[first + at] * np.exp(rate[number] * higher)
        row = region[0] + 1 + _picked(weights, size, uniform[0, number])
        best = _row(matrix, region, row, least, scores)
        width = region[3] - region[2] - 1
        for at in range(width):
            weights[at] = np.exp(rate[number] * (scores[at] - best))
        chosen[number, 0] = row
        chosen[number, 1] = region[2] + 1 + _picked(weights, width, uniform[1, number])


class CompiledKernel:
    """The kernel in compiled loops."""

    def row_masses(
        self,
        matrix: Matrix,
        regions: Ints,
        rate: Floats,
        least: float,
        pieces: Pieces,
        sums: Sums,
    ) -> None:
        """See splitting.Kernel."""
        _row_masses(matrix, regions, rate, least, pieces, sums)

    def points(
        self,
        matrix: Matrix,
        regions: Ints,
        rate: Floats,
        least: float,
        sums: Sums,
        uniform: Floats,
    ) -> Ints:
        """See splitting.Kernel."""
        chosen = np.full((len(regions), 2), -1, np.int64)
        _points(matrix, regions, rate, least, sums, uniform, chosen)
        return chosen
