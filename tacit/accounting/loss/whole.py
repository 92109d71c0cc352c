"""Sums of whole discrete Laplaces (facts 4 and 5 of the package)."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np

from tacit.accounting.loss.laplace import laplace_delta
from tacit.accounting.loss.laws import (
    LARGEST_EXPONENT,
    AddedLaws,
    Law,
    half_line_delta,
    reach_of,
    tail_bound,
)
from tacit.accounting.loss.rounding import ONE, PRECISE, UNIT, ZERO, Floats, capped, precise

MAX_WHOLE_DRAWS: Final = 32
"""Whole draws beyond these are left out, which can only raise delta."""

_FINE_SENSITIVITY: Final = 256
_FINE_SCALE: Final = 1_000
_MOST_POINTS: Final = 4_000_000


@lru_cache(maxsize=512)
def whole_law(draws: int, scale: Fraction) -> Law:
    """The law of `draws` discrete Laplaces by fact 4, on a window with a tail below 1e-22."""
    width = float(scale)
    reach = reach_of(draws, width)
    half = whole_masses(draws, scale, reach)
    mass = np.concatenate([half[:0:-1], half])
    error = (3 * draws + 4 * reach / width + 64) * UNIT
    tail = tail_bound(draws, width, reach)
    return Law(mass, np.cumsum(mass), reach, tail, error + mass.size * UNIT)


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
    found = half_line_delta(law, epsilon, -(-sensitivity // units))
    return min(alone, capped(found))
