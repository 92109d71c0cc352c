"""The compiled kernel of splitting points; needs numba, and is imported only where that is
installed.

The same as `splitting.PlainKernel`.
"""

from __future__ import annotations

import numba
import numpy as np

from algorithms.graph_der.geometry import Ints
from algorithms.graph_der.splitting import Floats, Matrix, Pieces, Sums

_jit = numba.njit(cache=False, nogil=True)


@numba.njit(inline="always")  # type: ignore[untyped-decorator, unused-ignore]
def _below(rows, columns):  # type: ignore[no-untyped-def]
    fewer = min(rows, columns)
    return fewer * (columns - 1) - fewer * (fewer - 1) // 2


@_jit  # type: ignore[untyped-decorator, unused-ignore]
def _row(table, lines, triangle, region, row, least, scores):  # type: ignore[no-untyped-def]
    """Fill the scores of one row of points; the highest of them."""
    top, bottom, left, right = region[0], region[1], region[2], region[3]
    first, middle, last = lines[top], lines[row], lines[bottom]
    start, end = lines[left], lines[right]
    corner, side = np.int64(table[top, left]), np.int64(table[row, left])
    foot = np.int64(table[bottom, left])
    all_north = table[row, right] - side - table[top, right] + corner
    all_ones = table[bottom, right] - foot - table[top, right] + corner
    if triangle:
        before_first, before_middle = _below(first, start), _below(middle, start)
        before_last = _below(last, start)
        north_cells = _below(middle, end) - _below(first, end) - before_middle + before_first
        all_cells = _below(last, end) - _below(first, end) - before_last + before_first
    else:
        before_first = before_middle = before_last = np.int64(0)
        north_cells = (middle - first) * (end - start)
        all_cells = (last - first) * (end - start)
    best = -np.inf
    for column in range(left + 1, right):
        line = lines[column]
        above = np.int64(table[top, column])
        ones0 = table[row, column] - side - above + corner
        west = table[bottom, column] - foot - above + corner
        if triangle:
            over = _below(first, line)
            cells0 = _below(middle, line) - over - before_middle + before_first
            west_cells = _below(last, line) - over - before_last + before_first
        else:
            cells0 = (middle - first) * (line - start)
            west_cells = (last - first) * (line - start)
        ones1, cells1 = all_north - ones0, north_cells - cells0
        ones2, cells2 = west - ones0, west_cells - cells0
        ones3 = all_ones - west - ones1
        cells3 = all_cells - west_cells - cells1
        low, high, score = np.inf, -np.inf, -np.inf
        if (
            (cells0 == 0 or cells0 >= least)
            and (cells1 == 0 or cells1 >= least)
            and (cells2 == 0 or cells2 >= least)
            and (cells3 == 0 or cells3 >= least)
        ):
            if cells0 > 0:
                density = ones0 / cells0
                low, high = min(low, density), max(high, density)
            if cells1 > 0:
                density = ones1 / cells1
                low, high = min(low, density), max(high, density)
            if cells2 > 0:
                density = ones2 / cells2
                low, high = min(low, density), max(high, density)
            if cells3 > 0:
                density = ones3 / cells3
                low, high = min(low, density), max(high, density)
            score = high - low
            best = max(best, score)
        scores[column - left - 1] = score
    return best


@_jit  # type: ignore[untyped-decorator, unused-ignore]
def _row_masses(  # type: ignore[no-untyped-def]
    table, lines, triangle, regions, rate, least, owner, start, rows, place, highest, mass
):
    scores = np.empty(table.shape[1])
    for piece in range(owner.size):
        region = regions[owner[piece]]
        factor = rate[owner[piece]]
        width = region[3] - region[2] - 1
        for number in range(rows[piece]):
            best = _row(table, lines, triangle, region, start[piece] + number, least, scores)
            total = 0.0
            if best > -np.inf:
                for at in range(width):
                    total += np.exp(factor * (scores[at] - best))
            highest[place[piece] + number] = best
            mass[place[piece] + number] = total


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
def _points(  # type: ignore[no-untyped-def]
    table, lines, triangle, regions, rate, least, starts, highest, mass, uniform, chosen
):
    scores = np.empty(table.shape[1])
    weights = np.empty(table.shape[1])
    for number in range(rate.size):
        region, first = regions[number], starts[number]
        size = starts[number + 1] - first
        best = -np.inf
        for at in range(size):
            best = max(best, highest[first + at])
        if best == -np.inf:
            continue
        for at in range(size):
            higher = highest[first + at] - best
            weights[at] = mass[first + at] * np.exp(rate[number] * higher)
        row = region[0] + 1 + _picked(weights, size, uniform[0, number])
        best = _row(table, lines, triangle, region, row, least, scores)
        width = region[3] - region[2] - 1
        for at in range(width):
            weights[at] = np.exp(rate[number] * (scores[at] - best))
        chosen[number, 0] = row
        chosen[number, 1] = region[2] + 1 + _picked(weights, width, uniform[1, number])


class CompiledKernel:
    """In loops."""

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
        _row_masses(
            matrix.table,
            matrix.lines,
            matrix.triangle,
            regions,
            rate,
            least,
            pieces.region,
            pieces.row,
            pieces.rows,
            pieces.place,
            sums.highest,
            sums.mass,
        )

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
        _points(
            matrix.table,
            matrix.lines,
            matrix.triangle,
            regions,
            rate,
            least,
            sums.starts,
            sums.highest,
            sums.mass,
            uniform,
            chosen,
        )
        return chosen
