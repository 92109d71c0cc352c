"""Height of the tree and the geometric budget of its levels.

Source: Chen's thesis, section 7.4.1, equation 7.4. Spec: graph-der, section 3.1. All follows from
public numbers; budgets are rationals, so that what a path spends can be added up exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

Shares = tuple[Fraction, Fraction, Fraction]
"""Of the budget: for counts, for choosing splitting points, for arranging edges."""

_GRAIN: Final = 1 << 40
_ROOT: Final = 2 ** (1 / 3)
SPARSE: Final = 0.8
"""A region with a noisy count below this part of the mean leaf's cells is not split."""


def tree_height(cells: int, budget: Fraction, sensitivity: int) -> int:
    """The largest height at which an average leaf has twice the cells of its count's deviation.

    cells: of the whole matrix; budget: for counts; sensitivity: of one count.
    """
    most = (_ROOT - 1) * cells * float(budget) / (2 * math.sqrt(2) * sensitivity)
    height = 0
    while _ROOT * 4.0 ** (height + 1) - 2 ** (5 * (height + 1) / 3) <= most:
        height += 1
    return height


@dataclass(frozen=True)
class Budget:
    """What each step on a path from root to leaf spends.

    levels: of the counts at depths 1 to height - 1; leaf: of a leaf's count, in addition to them
    where it lies above the height; splitting: of one choice of a point; reconstruct: of a leaf's
    arrangement.
    """

    epsilon: Fraction
    height: int
    counting: Fraction
    levels: tuple[Fraction, ...]
    leaf: Fraction
    splitting: Fraction
    reconstruct: Fraction

    @classmethod
    def of(cls, epsilon: Fraction, shares: Shares, height: int) -> Budget:
        """Geometric by depth; the root's part goes to the leaves. Each is rounded down."""
        counting, partition, reconstruct = (epsilon * share for share in shares)
        if height == 0:
            arranging = reconstruct + partition
            return cls(epsilon, 0, counting, (), counting, Fraction(0), arranging)
        unit = (_ROOT - 1) * float(counting) / (2 ** ((height + 1) / 3) - 1)
        levels = tuple(_down(2 ** (depth / 3) * unit) for depth in range(1, height))
        rest = counting - sum(levels, Fraction(0))
        leaf = min(rest, _down((2 ** (height / 3) + 1) * unit))
        splitting = partition / height
        return cls(epsilon, height, counting, levels, leaf, splitting, reconstruct)

    def level(self, depth: int) -> Fraction:
        """Of the count at a depth from 1 to the height."""
        return self.levels[depth - 1] if depth < self.height else self.leaf

    def left(self, depth: int) -> Fraction:
        """Of the counts below a leaf at this depth: its arrangement gets it."""
        if depth == self.height:
            return Fraction(0)
        return self.counting - sum(self.levels[:depth], Fraction(0)) - self.leaf

    def arrangement(self, depth: int) -> Fraction:
        """Of the arrangement of a leaf at this depth."""
        return self.reconstruct + self.left(depth)

    def path(self, depth: int) -> Iterator[tuple[str, Fraction]]:
        """What a leaf at this depth has spent: (what for, how much)."""
        for number in range(1, min(depth, self.height - 1) + 1):
            yield f"count at depth {number}", self.levels[number - 1]
        yield "count of the leaf", self.leaf
        # a region may stop because no point is admissible: that is public and costs nothing
        yield "splitting points", self.splitting * depth
        yield "arrangement", self.arrangement(depth)

    def spent(self, depth: int) -> Fraction:
        """All of a path; at most epsilon."""
        return sum((each for _, each in self.path(depth)), Fraction(0))


def _down(value: float) -> Fraction:
    return Fraction(math.floor(value * _GRAIN), _GRAIN)
