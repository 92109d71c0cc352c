"""Fractional weights above 1 (fact 8 of the package)."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np

from tacit.accounting.loss.laws import AddedLaws, Law, half_line_delta, reach_of, tail_bound
from tacit.accounting.loss.rounding import ONE, PRECISE, UNIT, ZERO, capped, precise
from tacit.accounting.loss.whole import MAX_WHOLE_DRAWS, whole_delta

_MOST_DECIMALS: Final = 25_000


@lru_cache(maxsize=64)
def polya_law(weight: Fraction, scale: Fraction, reach: int) -> tuple[Decimal, ...]:
    """P(0..W) of a Polya difference by the backward recurrence (fact 8), 50-digit decimals.

    For weights of at least 1 the relative error is below 1e-24. The mass beyond W is taken as 0 in
    the normalisation: divide by no more than 1 - tail to bound from below.
    """
    # Methods of the context: an operator would round to the calling thread's own precision.
    add, subtract = PRECISE.add, PRECISE.subtract
    multiply, divide = PRECISE.multiply, PRECISE.divide
    a = PRECISE.exp(precise(-1 / scale))
    square, r = add(1, multiply(a, a)), precise(weight)
    start = reach + math.ceil(30 * scale)
    ratio = a
    ratios = []
    for z in range(start, 0, -1):
        denominator = subtract(
            multiply(square, z), multiply(multiply(a, subtract(z + 1, r)), ratio)
        )
        ratio = divide(multiply(a, add(z - 1, r)), denominator)
        if z <= reach:
            ratios.append(ratio)
    masses = [ONE]
    for ratio in reversed(ratios):
        masses.append(multiply(masses[-1], ratio))
    total = ZERO
    for mass in masses:
        total = add(total, mass)
    total = subtract(multiply(2, total), 1)
    return tuple(divide(mass, total) for mass in masses)


@lru_cache(maxsize=256)
def _fractional_law(weight: Fraction, scale: Fraction) -> Law:
    width = float(scale)
    reach = reach_of(float(weight), width)
    half = np.array([float(mass) for mass in polya_law(weight, scale, reach)])
    tail = tail_bound(float(weight), width, reach)
    mass = np.concatenate([half[:0:-1], half])
    return Law(mass, np.cumsum(mass), reach, tail, (mass.size + 8) * UNIT + 2 * tail + 1e-24)


@lru_cache(maxsize=4096)
def log_concave_delta(
    epsilon: Fraction, sensitivity: int, scale: Fraction, weight: Fraction
) -> Decimal:
    """delta of a Polya difference of weight R >= 1, in any dimension.

    A fractional R is taken at full resolution where the window is short, else as its whole part.
    """
    if weight < 1:
        raise ValueError("a weight below 1 is not log-concave")
    whole = int(weight)
    found = whole_delta(epsilon, sensitivity, ((whole, scale),))
    short = scale * 90 < _MOST_DECIMALS and whole < MAX_WHOLE_DRAWS
    if not found or weight == whole or not short:
        return found
    law = AddedLaws(None, _fractional_law(weight, scale))
    return min(found, capped(half_line_delta(law, epsilon, sensitivity)))
