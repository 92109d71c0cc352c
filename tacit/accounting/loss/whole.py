"""Whole discrete Laplaces and their sums: symmetric laws on a window, delta of one and of several.

Symmetric laws on a window, and delta of the log-concave ones (facts 3 and 7 of the package).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np

from tacit.accounting.loss.rounding import ONE, PRECISE, UNIT, ZERO, Floats, capped, precise

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


# One whole discrete Laplace: delta in closed form (fact 1 of the package is where it is 0).


@lru_cache(maxsize=4096)
def laplace_delta(epsilon: Fraction, sensitivity: int, scale: Fraction) -> Decimal:
    """delta of one discrete Laplace, in closed form: F(z) - e^epsilon F(z - Delta),
    z = floor((Delta - epsilon b) / 2) >= 0 below the ratio; F(z) = 1 - a^(z+1) / (1 + a) there, and
    F(z - Delta) = a^(Delta-z) / (1 + a).
    """
    if epsilon >= sensitivity / scale:
        return ZERO
    end = int((sensitivity - epsilon * scale) // 2)
    # Methods of the context: an operator would round to the calling thread's own precision.
    one_and_a = PRECISE.add(1, PRECISE.exp(precise(-1 / scale)))
    below = PRECISE.divide(  # e^epsilon F(end - Delta), end - Delta < 0
        PRECISE.exp(precise(epsilon + (end - sensitivity) / scale)), one_and_a
    )
    beyond = PRECISE.divide(PRECISE.exp(precise(Fraction(-end - 1) / scale)), one_and_a)
    above = PRECISE.subtract(1, beyond)
    difference = PRECISE.subtract(above, below)
    slack = PRECISE.multiply(above, Decimal("1e-26"))  # 50 digits, arguments up to 1e14
    return capped(PRECISE.add(difference, slack))


def continuous_laplace_delta(epsilon: float, ratio: float) -> float:
    """The limit of ever finer resolution: 1 - e^((epsilon - Delta/b) / 2), ratio = Delta/b."""
    return max(0.0, -math.expm1((epsilon - ratio) / 2))


# Sums of whole discrete Laplaces (facts 4 and 5 of the package).

MAX_WHOLE_DRAWS: Final = 32
"""Whole draws beyond these are left out, which can only raise delta."""

_FINE_SENSITIVITY: Final = 256
_FINE_SCALE: Final = 1_000
_MOST_POINTS: Final = 4_000_000


def whole_law(draws: int, scale: Fraction) -> Law:
    """The law of `draws` discrete Laplaces by fact 4, on a window with a tail below 1e-22."""
    return (long_law if scale > _FINE_SCALE else _short_law)(draws, scale)


def _law(draws: int, scale: Fraction) -> Law:
    width = float(scale)
    reach = reach_of(draws, width)
    half = whole_masses(draws, scale, reach)
    mass = np.concatenate([half[:0:-1], half])
    error = (3 * draws + 4 * reach / width + 64) * UNIT
    tail = tail_bound(draws, width, reach)
    return Law(mass, np.cumsum(mass), reach, tail, error + mass.size * UNIT)


_short_law = lru_cache(maxsize=128)(_law)
"""2 MB each."""
long_law = lru_cache(maxsize=2)(_law)
"""Up to 130 MB each; as many as one figure takes."""


def whole_masses(draws: int, scale: Fraction, reach: int) -> Floats:
    """P(0..W), each with a relative error of at most (3 k + 4 z/b + 20) units of 2^-53."""
    rate = precise(1 / scale)
    # Methods of the context: an operator would round to the calling thread's own precision.
    one_less = PRECISE.subtract(1, PRECISE.exp(PRECISE.minus(rate)))
    square = PRECISE.exp(PRECISE.multiply(rate, -2))
    rest = PRECISE.subtract(1, square)
    front = PRECISE.power(one_less, 2 * draws)
    z = np.arange(reach + 1, dtype=np.float64)
    total = np.zeros(reach + 1)
    binomial = np.ones(reach + 1)  # C(z, j), j = k-1-i
    for j in range(draws):
        i = draws - 1 - j
        coefficient = ZERO
        for m in range(draws - 1, draws + i):
            ways = math.factorial(m) // (
                math.factorial(m - i)
                * math.factorial(m - draws + 1)
                * math.factorial(i + draws - 1 - m)
            )
            term = PRECISE.divide(
                PRECISE.multiply(ways, PRECISE.power(square, m - draws + 1)),
                PRECISE.power(rest, m + 1),
            )
            coefficient = PRECISE.add(coefficient, term)
        total += float(PRECISE.multiply(coefficient, front)) * binomial
        binomial *= np.maximum(z - j, 0.0)
        binomial /= j + 1
    masses: Floats = total * np.exp(-z / float(scale))
    return masses


def _coarse(sensitivity: int, widest: Fraction) -> int:
    """m of fact 5: how many ring units make a coarse one. ceil(Delta/m) m is as tight as can be."""
    units = max(-(-sensitivity // _FINE_SENSITIVITY), math.ceil(widest / _FINE_SCALE), 1)
    coarse = max(1, -(-sensitivity // units))
    return -(-sensitivity // coarse)


@lru_cache(maxsize=16384)
def whole_delta(
    epsilon: Fraction, sensitivity: int, laws: tuple[tuple[int, Fraction], ...]
) -> Decimal:
    """delta of added discrete Laplaces, (how many, scale) for at most two scales; any dimension.

    Numerical error and tail are inside; the least of this and the closed forms of each scale alone.
    """
    laws = tuple((min(draws, MAX_WHOLE_DRAWS), scale) for draws, scale in laws if draws > 0)
    if not laws:
        return ONE
    if len({scale for _, scale in laws}) < len(laws):
        merged: dict[Fraction, int] = {}
        for draws, scale in laws:
            merged[scale] = merged.get(scale, 0) + draws
        return whole_delta(epsilon, sensitivity, tuple((n, s) for s, n in merged.items()))
    alone = min(laplace_delta(epsilon, sensitivity, scale) for _, scale in laws)
    if not alone or laws == ((1, laws[0][1]),) or epsilon > LARGEST_EXPONENT:
        return alone
    widest = max(scale for _, scale in laws)
    units = _coarse(sensitivity, widest)
    if widest / units * 55 > _MOST_POINTS:
        return alone
    built = sorted(
        (whole_law(draws, scale / units) for draws, scale in laws), key=lambda law: law.reach
    )
    law = AddedLaws(built[0] if len(built) == 2 else None, built[-1])
    delta = half_line_delta(law, epsilon, -(-sensitivity // units))
    return min(alone, capped(delta))
