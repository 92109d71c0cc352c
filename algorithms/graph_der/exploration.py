"""The noisy tree of regions, level by level.

Source: Chen's thesis, Algorithm 7.2 ExploreDenseRegion. Spec: graph-der, section 3. Which regions
there are follows from noisy counts and public geometry alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context
from algorithms.graph_der.geometry import Ints, Table, children, counts
from algorithms.graph_der.kernel import Floats, Matrix
from algorithms.graph_der.settings import Plan
from algorithms.graph_der.splitting import splitting_points
from tacit.noise import DiscreteLaplace, floating_laplace
from tacit.randomness import NoiseSource, SeededRandom

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
        """Their places."""
        return np.flatnonzero(self.leaf)


def repeatable(secret: NoiseSource) -> SeededRandom:
    """A generator for floating-point noise, which protects nobody, made from a secret stream."""
    return SeededRandom(int.from_bytes(secret.bytes(16)))


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
        """All regions of a depth, and the points at which those that are no leaves are split."""
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
            asked = np.flatnonzero(open_)
            points[asked] = splitting_points(
                self.matrix,
                bounds[asked],
                plan.rate(bounds[asked], depth),
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
        """A leaf above the height has a second count: both are combined, in place."""
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
        noise = floating_laplace(repeatable(source), 1.0, ones.size) * scale
    else:
        noise = DiscreteLaplace(plan.k / amount).draw(source, ones.size).astype(np.float64)
    return ones + noise, 2 * scale**2


def combination(first: Fraction, second: Fraction, printed: bool) -> tuple[float, float]:
    """Weights of two counts with these budgets: by inverse variance, or as Theorem 7.6 has it."""
    one, other = float(first) ** 2, float(second) ** 2
    if printed:
        other = (other / float(first)) ** 2
    return one / (one + other), other / (one + other)
