"""The noisy tree of regions, level by level.

Splitting points are chosen by the exponential mechanism with exact probabilities; the counts of
children are made to add up to their parents' and rounded to whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from importlib.util import find_spec
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context, floating_source
from algorithms.graph_der.parameters import Plan
from algorithms.graph_der.regions import (
    Floats,
    Ints,
    Kernel,
    Matrix,
    Pieces,
    Sums,
    Table,
    below,
    children,
    counts,
)
from tacit.noise import DiscreteLaplace, floating_laplace
from tacit.randomness import NoiseSource

CHUNK_POINTS: Final = 1 << 21
"""Points that are scored between two checks of the clock."""


def scores(matrix: Matrix, region: Ints, first: int, rows: int, least: float) -> Floats:
    """(rows, columns) scores of the points of some row lines of a region (4,); -inf: not
    admissible."""
    top, bottom, left, right = (int(edge) for edge in region)
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
    """The kernel in numpy."""

    def row_masses(
        self,
        matrix: Matrix,
        regions: Ints,
        rate: Floats,
        least: float,
        pieces: Pieces,
        sums: Sums,
    ) -> None:
        """See `Kernel`."""
        for region, row, rows, place in zip(
            pieces.region.tolist(),
            pieces.row.tolist(),
            pieces.rows.tolist(),
            pieces.place.tolist(),
            strict=True,
        ):
            row_scores = scores(matrix, regions[region], row, rows, least)
            best = row_scores.max(axis=1)
            with np.errstate(invalid="ignore"):
                weights = np.exp(rate[region] * (row_scores - best[:, None]))
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
            candidates = slice(sums.starts[number], sums.starts[number + 1])
            best = sums.highest[candidates].max()
            if best == -np.inf:
                continue
            weights = sums.mass[candidates] * np.exp(
                rate[number] * (sums.highest[candidates] - best)
            )
            row = int(regions[number, 0]) + 1 + picked(weights, float(uniform[0, number]))
            point_scores = scores(matrix, regions[number], row, 1, least)[0]
            weights = np.exp(rate[number] * (point_scores - point_scores.max()))
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
    """(n, 2) lines of row and column at which each region (n, 4) is split; -1 if no point is
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
    rows_at_once = np.maximum(1, CHUNK_POINTS // np.maximum(1, widths))
    parts = -(-heights // rows_at_once)
    region = np.repeat(np.arange(len(regions)), parts)
    number = np.arange(region.size) - np.repeat(np.cumsum(parts) - parts, parts)
    offset = number * rows_at_once[region]
    rows = np.minimum(rows_at_once[region], heights[region] - offset)
    chunk = np.cumsum(rows * widths[region]) // CHUNK_POINTS
    bounds = np.flatnonzero(np.diff(chunk, prepend=-1)).tolist()
    for first, last in pairwise([*bounds, region.size]):
        span = slice(first, last)
        yield Pieces(
            region[span],
            regions[region[span], 0] + 1 + offset[span],
            rows[span],
            starts[region[span]] + offset[span],
        )


# Source: Chen's thesis, Algorithm 7.2 ExploreDenseRegion. Spec: graph-der, section 3. Which regions
# there are follows from noisy counts and public geometry alone.

Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Tree:
    """Regions, parents before children; all published but `ones`.

    bounds (nodes, 4): lines of the grid; parent (nodes,): place, -1 for the root; estimate,
    variance: of the count, infinite for the root; leaf; cells; ones: true counts, private.
    """

    bounds: Ints
    depth: Ints
    parent: Ints
    cells: Ints
    estimate: Floats
    variance: Floats
    leaf: Flags
    ones: Ints

    @property
    def leaves(self) -> Ints:
        """The places of the leaves."""
        return np.flatnonzero(self.leaf)


def explore(table: Table, plan: Plan, context: Context) -> Tree:
    """The tree of a table. Raises Cancelled."""
    work = _Exploration(Matrix.of(table, plan.grid), plan, context)
    levels: list[Tree] = []
    bounds, parent, before = plan.grid.whole(), np.full(1, -1, np.int64), 0
    for depth in range(plan.height + 1):
        level, points = work.level(bounds, parent, depth)
        levels.append(level)
        inner = np.flatnonzero(~level.leaf)
        if not inner.size:
            break
        bounds = children(level.bounds[inner], points[inner]).reshape(-1, 4)
        parent = np.repeat(before + inner, 4)
        before += level.leaf.size
        there = plan.grid.cells(bounds) > 0
        bounds, parent = bounds[there], parent[there]
    return Tree(
        *(
            np.concatenate([getattr(level, name) for level in levels])
            for name in Tree.__dataclass_fields__
        )
    )


@dataclass(frozen=True)
class _Exploration:
    matrix: Matrix
    plan: Plan
    context: Context

    def level(self, bounds: Ints, parent: Ints, depth: int) -> tuple[Tree, Ints]:
        """All regions of a depth, and the points at which those that are not leaves are split."""
        plan, budget = self.plan, self.plan.budget
        tell = partial(self.context.progress, 0.1 + 0.5 * depth / (plan.height + 1), "exploring")
        tell()
        size = len(bounds)
        ones, cells = counts(self.matrix.table, bounds), plan.grid.cells(bounds)
        points = np.full((size, 2), -1, np.int64)
        if depth == plan.height:
            estimate, variance = self._noisy(ones, bounds, budget.leaf, f"leaf counts {depth}")
            leaf = np.ones(size, np.bool_)
        else:
            estimate, variance = np.zeros(size), np.full(size, np.inf)
            open_ = np.ones(size, np.bool_)
            if depth:
                amount = budget.level(depth)
                estimate, variance = self._noisy(ones, bounds, amount, f"counts {depth}")
                open_ = (estimate < plan.dense * cells) & (estimate >= plan.few)
            open_places = np.flatnonzero(open_)
            points[open_places] = splitting_points(
                self.matrix,
                bounds[open_places],
                plan.rate(bounds[open_places], depth),
                plan.held(depth + 1),
                self.context.noise(f"splits {depth}"),
                tell,
            )
            leaf = points[:, 0] < 0
            self._counted_again(ones, bounds, leaf, depth, estimate, variance)
        level = Tree(bounds, np.full(size, depth), parent, cells, estimate, variance, leaf, ones)
        return level, points

    def _counted_again(
        self,
        ones: Ints,
        bounds: Ints,
        leaf: Flags,
        depth: int,
        estimate: Floats,
        variance: Floats,
    ) -> None:
        """A leaf above the height has a second count; both are combined, in place."""
        early = np.flatnonzero(leaf)
        budget = self.plan.budget
        stage = f"leaf counts {depth}"
        second, its_variance = self._noisy(ones[early], bounds[early], budget.leaf, stage)
        if not depth:
            estimate[early], variance[early] = second, its_variance
            return
        first, again = combination(budget.level(depth), budget.leaf, self.plan.stance == "paper")
        estimate[early] = first * estimate[early] + again * second
        variance[early] = first**2 * variance[early] + again**2 * its_variance

    def _noisy(
        self, ones: Ints, bounds: Ints, amount: Fraction, stage: str
    ) -> tuple[Floats, Floats]:
        return noisy_counts(ones, bounds, amount, self.plan, self.context.noise(stage))


def noisy_counts(
    ones: Ints, bounds: Ints, amount: Fraction, plan: Plan, source: NoiseSource
) -> tuple[Floats, Floats]:
    """Counts (n,) of regions with the noise of this budget, and its variance as the law's
    continuous limit has it."""
    scale = plan.sensitivity(bounds) / float(amount)
    if plan.stance == "paper":
        noise = floating_laplace(floating_source(source), 1.0, ones.size) * scale
    else:
        noise = DiscreteLaplace(plan.k / amount).draw(source, ones.size).astype(np.float64)
    return ones + noise, 2 * scale**2


def combination(first: Fraction, second: Fraction, printed: bool) -> tuple[float, float]:
    """Weights of two counts with these budgets: by inverse variance, or as Theorem 7.6 has it."""
    one, other = float(first) ** 2, float(second) ** 2
    if printed:
        other = (other / float(first)) ** 2
    return one / (one + other), other / (one + other)


# Counts that add up: children to their parents, none below 0; then whole numbers. Spec: graph-der,
# section 3.3, step 4. Post-processing of noisy counts and public geometry. Without it counts that
# are cut at 0 add edges: the source's graphs have 4 to 15 % too many.


def consistent(tree: Tree) -> Floats:
    """(nodes,) counts, at least 0; each inner node's is the sum of its children's."""
    value, variance = _upwards(tree)
    value[0] = max(value[0], 0.0)
    for depth in range(1, int(tree.depth[-1]) + 1):
        places = np.flatnonzero(tree.depth == depth)
        _share(value, variance, places, tree.parent[places])
    return value


def _upwards(tree: Tree) -> tuple[Floats, Floats]:
    """Each inner node's own count with the sum of its children's, by inverse variance."""
    value, variance = tree.estimate.copy(), tree.variance.copy()
    for depth in range(int(tree.depth[-1]), 0, -1):
        places = np.flatnonzero(tree.depth == depth)
        parents = tree.parent[places]
        inner = np.unique(parents)
        sums = np.bincount(parents, value[places], value.size)[inner]
        spread = np.bincount(parents, variance[places], value.size)[inner]
        own_weight = spread / (variance[inner] + spread)  # 0 where the node itself has no count
        value[inner] = own_weight * value[inner] + (1 - own_weight) * sums
        variance[inner] = (1 - own_weight) * spread
    return value, variance


def _share(value: Floats, variance: Floats, places: Ints, parents: Ints) -> None:
    """Spread what children lack to their parent's count, in proportion to their variances, without
    those that would fall below 0; in place."""
    size = value.size
    active = np.ones(places.size, np.bool_)
    shares = value[places]
    for _ in range(5):  # four children: the last round changes nothing
        active_places, held_parents = places[active], parents[active]
        sums = np.bincount(held_parents, value[active_places], size)
        spread = np.bincount(held_parents, variance[active_places], size)
        lack = (value - sums)[held_parents]
        shares = np.zeros(places.size)
        shares[active] = (
            value[active_places] + lack * variance[active_places] / spread[held_parents]
        )
        if not (shares < 0).any():
            break
        active &= shares >= 0
    value[places] = np.maximum(shares, 0.0)


def rounded(values: Floats, most: Ints, source: NoiseSource) -> Ints:
    """Random whole numbers from 0 to `most` with these means, clipped to that range."""
    whole = np.floor(values)
    coin = (source.words(values.size) >> np.uint64(11)) * 2.0**-53
    return np.clip((whole + (coin < values - whole)).astype(np.int64), 0, most)


def nearest(values: Floats, most: Ints) -> Ints:
    """The nearest whole numbers from 0 to `most`."""
    return np.clip(np.rint(values), 0, most).astype(np.int64)
