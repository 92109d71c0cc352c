"""Symmetric laws on a window, and delta of the log-concave ones (facts 3 and 7 of the package)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tacit.accounting.loss.rounding import UNIT, Floats

_TAIL_TARGET: Final = 1e-22
LARGEST_EXPONENT: Final = 600
"""Beyond this epsilon e^epsilon is left alone: the closed form of one draw is taken."""


@dataclass(frozen=True, slots=True)
class Law:
    """P(-W..W) of a symmetric law, its cumulative sums, the mass beyond W, a relative error."""

    mass: Floats
    below: Floats
    reach: int
    tail: float
    error: float


def tail_bound(draws: float, scale: float, reach: float) -> float:
    """Chernoff: P(|Z| > W) <= 2 M(theta) e^(-theta W), best of a few theta < 1/b."""
    rate = 1 / scale
    best = 1.0
    for share in (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98):
        theta = share * rate
        growth = math.log(-math.expm1(theta - rate)) + math.log(-math.expm1(-theta - rate))
        exponent = draws * (2 * math.log(-math.expm1(-rate)) - growth) - theta * reach
        if exponent < 0:
            best = min(best, 2 * math.exp(exponent) * 1.000001)
    return best


def reach_of(draws: float, scale: float) -> int:
    """A window that leaves out at most 1e-22."""
    reach = math.ceil(52 * scale) + 20
    while tail_bound(draws, scale, reach) > _TAIL_TARGET:
        reach = math.ceil(reach * 1.15)
    return reach


@dataclass(frozen=True, slots=True)
class AddedLaws:
    """Up to two independent symmetric laws added: masses and sums below, one point at a time."""

    inner: Law | None
    outer: Law

    @property
    def reach(self) -> int:
        return self.outer.reach + (self.inner.reach if self.inner else 0)

    @property
    def tail(self) -> float:
        return self.outer.tail + (self.inner.tail if self.inner else 0.0)

    @property
    def error(self) -> float:
        if self.inner is None:
            return self.outer.error
        return self.outer.error + self.inner.error + self.inner.mass.size * UNIT

    def mass(self, z: int) -> float:
        return self._at(self.outer.mass, z, 0.0)

    def below(self, z: int) -> float:
        return self._at(self.outer.below, z, float(self.outer.below[-1]))

    def _at(self, values: Floats, z: int, beyond: float) -> float:
        """sum_x p(x) g(z - x), g = 0 before its window and `beyond` after it."""
        last = values.size - 1
        index = z + self.outer.reach
        if self.inner is None:
            return 0.0 if index < 0 else beyond if index > last else float(values[index])
        inner = self.inner
        # x runs over -w..w; g's index is index - x.
        low, high = max(-inner.reach, index - last), min(inner.reach, index)
        total = 0.0
        if high >= low:
            piece = inner.mass[low + inner.reach : high + inner.reach + 1]
            total = float(piece @ values[index - high : index - low + 1][::-1])
        if beyond and low > -inner.reach:  # x < low: everything of the outer law lies below z - x
            total += beyond * float(inner.below[min(low - 1, inner.reach) + inner.reach])
        return total


def half_line_delta(law: AddedLaws, epsilon: Fraction, sensitivity: int) -> float:
    """delta of a log-concave law (fact 3), raised by all errors, plus the truncated tail."""
    growth = math.exp(epsilon)
    error = law.error + (4 + float(epsilon)) * UNIT
    # The last z that may belong to the half-line: never below the true one.
    low, high = -law.reach - 1, sensitivity // 2 + 1
    while high - low > 1:
        middle = (low + high) // 2
        if law.mass(middle) * (1 + 8 * error) >= growth * law.mass(middle - sensitivity):
            low = middle
        else:
            high = middle
    above = law.below(low)
    subtracted = growth * law.below(low - sensitivity)
    return above * (1 + 14 * error) - subtracted * (1 - 2 * error) + law.tail
