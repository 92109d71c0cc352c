"""A run's public choices: grid, height, budget, sensitivities, labels.

Spec: graph-der, sections 2 and 3. Everything here follows from parameters and the public vertex
set.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Stance
from algorithms.graph_der.budget import SPARSE, Budget, Shares, tree_height
from algorithms.graph_der.geometry import Grid, Ints

MOST_LINES: Final = 2_048
"""Of the grid that `sound` uses by default."""
LIMIT_LINES: Final = 20_001
"""Of any grid: a table of 1.6 GB."""
MOST_DENSE: Final = 20_000
"""Vertices of the whole matrix that `paper` keeps."""


@dataclass(frozen=True)
class Plan:
    """k: edges that are protected together at epsilon; dense: the density from which a region is
    not split."""

    grid: Grid
    budget: Budget
    k: int
    dense: float
    consistency: bool
    stance: Stance

    @classmethod
    def of(
        cls,
        vertices: int,
        epsilon: Fraction,
        shares: Shares,
        k: int,
        step: int,
        dense: float,
        stance: Stance,
        *,
        consistency: bool,
    ) -> Plan:
        """For this many vertices."""
        grid = Grid(vertices, step, stance == "sound")
        sensitivity = k if stance == "sound" else 2 * k
        height = tree_height(grid.size, epsilon * shares[0], sensitivity)
        return cls(grid, Budget.of(epsilon, shares, height), k, dense, consistency, stance)

    @property
    def height(self) -> int:
        """Of the tree."""
        return self.budget.height

    @property
    def few(self) -> float:
        """A region with a noisy count below it is not split."""
        return float(SPARSE * self.grid.size / 4.0**self.height)

    def least(self, depth: int) -> float:
        """Fewest cells of a part at this depth; it bounds the sensitivity of scores."""
        return float(self.grid.size / 4.0 ** (depth + 1))

    def held(self, depth: int) -> float:
        """Fewest cells that are asked for: as printed, none of leaves."""
        if self.stance == "paper" and depth == self.height:
            return 0.0
        return self.least(depth)

    def sensitivity(self, regions: Ints) -> Ints:
        """(n,) of the counts and arrangements of regions (n, 4)."""
        if self.stance == "sound":
            return np.full(len(regions), self.k, np.int64)
        most = np.where(self.grid.diagonal(regions) > 0, 2 * self.k, self.k)
        return np.minimum(most, self.grid.cells(regions))

    def rate(self, regions: Ints, depth: int) -> NDArray[np.float64]:
        """(n,) what scores of splits of regions at this depth are multiplied by."""
        sensitivity = np.full(len(regions), float(self.k))
        if self.stance == "paper":
            sensitivity[self.grid.diagonal(regions) > 0] *= 2
        return float(self.budget.splitting) * self.least(depth + 1) / (2 * sensitivity)


def default_step(vertices: int, stance: Stance) -> int:
    """The smallest with at most 2,048 lines; 1 as printed."""
    return 1 if stance == "paper" else max(1, -(-vertices // (MOST_LINES - 1)))
