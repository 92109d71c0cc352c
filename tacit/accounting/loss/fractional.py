"""Fractional weights: above 1 (fact 8 of the package), and below 1 (fact 6)."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np

from tacit.accounting.loss.rounding import (
    ONE,
    PRECISE,
    UNIT,
    UP,
    ZERO,
    Floats,
    capped,
    decimal_up,
    precise,
)
from tacit.accounting.loss.whole import (
    MAX_WHOLE_DRAWS,
    AddedLaws,
    Law,
    half_line_delta,
    reach_of,
    tail_bound,
    whole_delta,
)

_MOST_DECIMALS: Final = 25_000


@lru_cache(maxsize=64)
def polya_law(weight: Fraction, scale: Fraction, reach: int) -> tuple[Decimal, ...]:
    """P(0..W) of a Polya difference by the backward recurrence (fact 8), 50-digit decimals.

    For weights of at least 1 the relative error is below 1e-24. The mass beyond W is taken as 0
    in the normalisation: divide by no more than 1 - tail to bound from below.
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
    whole_weight = int(weight)
    delta = whole_delta(epsilon, sensitivity, ((whole_weight, scale),))
    short = scale * 90 < _MOST_DECIMALS and whole_weight < MAX_WHOLE_DRAWS
    if not delta or weight == whole_weight or not short:
        return delta
    law = AddedLaws(None, _fractional_law(weight, scale))
    return min(delta, capped(half_line_delta(law, epsilon, sensitivity)))


# Fractional weights below 1: the mixture of geometrics (fact 6), in one dimension.

_STEP: Final = 1 / 500
_FIRST: Final = 1e-12
_SLACK: Final = 1e-10


class Share:
    """The law of a weight 0 < R < 1 (fact 6): brackets of log P(w) and log T(w), T(w) = P(Z >= w).

    Both are e^(-w/b) C/b int_0^infinity e^(-wx/b) g(x) dx with a convex integrand.
    """

    def __init__(self, weight: Fraction, scale: Fraction) -> None:
        r, rest, b = float(weight), float(1 - weight), float(scale)
        self.scale = b
        last = max(50.0 * b / r, 1e3)
        count = math.ceil(math.log(last / _FIRST) / _STEP)
        edges = _FIRST * np.exp(np.arange(count + 1) * _STEP)
        self._weight = r
        self._edges = edges
        self._middles = (edges[1:] + edges[:-1]) / 2
        self._widths = np.diff(edges)
        self._log_front = 2 * r * math.log(-math.expm1(-1 / b)) + math.log(
            math.sin(math.pi * min(r, rest)) / math.pi / b
        )
        self._at_edges = self._smooth(edges)
        self._at_middles = self._smooth(self._middles)
        # The first cell, 0..x0: x^-R integrated exactly, the rest bracketed by its two ends.
        first = float(edges[0])
        self._first_cell = first**rest / rest
        ratio = first / -math.expm1(-first / b)
        self._first_low = b**r * math.exp(-r * first / b) * (-math.expm1(-(2 + first) / b)) ** -r
        self._first_high = ratio**r * (-math.expm1(-2 / b)) ** -r
        self._masses: dict[int, tuple[float, float]] = {}

    def _smooth(self, x: Floats) -> Floats:
        b, r = self.scale, self._weight
        smooth: Floats = np.exp(
            -r * x / b - r * np.log(-np.expm1(-x / b)) - r * np.log(-np.expm1(-(2 + x) / b))
        )
        return smooth

    def mass(self, w: int) -> tuple[float, float]:
        """Bounds of log P(w), w >= 0. Cached, as searches at several epsilons ask for the same
        w."""
        if w not in self._masses:
            self._masses[w] = self._bracket(w, tail=False)
        return self._masses[w]

    def tail(self, w: int) -> tuple[float, float]:
        """Bounds of log P(Z >= w), w >= 1."""
        return self._bracket(w, tail=True)

    def _bracket(self, w: int, *, tail: bool) -> tuple[float, float]:
        b, r = self.scale, self._weight

        def factor(x: Floats) -> Floats:
            value: Floats = np.exp(x * (-w / b))
            return value / -np.expm1(-(1 + x) / b) if tail else value

        # Beyond x = 600 b/w the integrand is below e^-600 of its start: left to the remainder.
        cells = self._widths.size
        if w * float(self._edges[-1]) > 600 * b:
            cells = int(np.searchsorted(self._edges, 600 * b / w))
        edges = self._at_edges[: cells + 1] * factor(self._edges[: cells + 1])
        middles = self._at_middles[:cells] * factor(self._middles[:cells])
        widths = self._widths[:cells]
        low = float(middles @ widths)
        high = float((edges[1:] + edges[:-1]) @ widths) / 2
        ends = factor(np.array([0.0, float(self._edges[0])]))
        low += float(self._first_low * ends[1] * self._first_cell)
        high += float(self._first_high * ends[0] * self._first_cell)
        high += float(edges[-1]) * b / (r + w)
        front = self._log_front - w / b
        return front + math.log(low) - _SLACK, front + math.log(high) + _SLACK


@lru_cache(maxsize=64)
def _share(weight: Fraction, scale: Fraction) -> Share:
    return Share(weight, scale)


def _last_true(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The last whole number in [low, high] where a falling predicate holds; it holds at low."""
    while high > low:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low


@lru_cache(maxsize=4096)
def share_pure_epsilon(sensitivity: int, scale: Fraction, weight: Fraction) -> Decimal:
    """ln(P(0) / P(Delta)) of a weight 0 < R < 1 in one dimension, rounded up: delta = 0 there."""
    share = _share(weight, scale)
    return UP.plus(Decimal(share.mass(0)[1] - share.mass(sensitivity)[0]))


@lru_cache(maxsize=4096)
def share_delta(epsilon: Fraction, sensitivity: int, scale: Fraction, weight: Fraction) -> Decimal:
    """delta of a Polya difference of weight 0 < R < 1, in one dimension, at full resolution.

    The set {z : P(z) > e^epsilon P(z - Delta)} is -y..z. The sums run over what surely belongs to
    it; beyond, the ratio falls, so a term is at most (1 - e^-g) P(z), g how far the bracket of the
    first doubtful ratio reaches above epsilon.
    """
    pure = share_pure_epsilon(sensitivity, scale, weight)
    level = float(epsilon)
    if decimal_up(epsilon) >= pure:
        return ZERO
    share = _share(weight, scale)
    slope = -math.expm1(level - float(pure)) + _SLACK  # every term is at most this times P(z)

    def margin(one: int, other: int) -> tuple[float, float]:
        """Bounds of ln(P(one) / P(other)) - epsilon."""
        first, second = share.mass(one), share.mass(other)
        return first[0] - second[1] - level, first[1] - second[0] - level

    def right(z: int) -> tuple[float, float]:
        return margin(z, sensitivity - z) if 2 * z <= sensitivity else (-level, -level)

    def difference(y: int) -> tuple[float, float]:
        return margin(y, sensitivity + y)

    def doubtful(bounds: tuple[float, float], start: int) -> float:
        return -math.expm1(-max(0.0, bounds[1])) * math.exp(share.tail(start)[1])

    if right(0)[0] < 0:
        return capped(slope)
    end = _last_true(lambda z: right(z)[0] >= 0, 0, sensitivity // 2)
    above = 1 - math.exp(share.tail(end + 1)[0])
    below = math.exp(level + share.tail(sensitivity - end)[0])
    doubt = doubtful(right(end + 1), end + 1)
    if epsilon > sensitivity / scale:
        # Far to the left the ratio falls to e^(Delta/b): the set ends there, too.
        far, furthest = 1, math.ceil(600 * scale)
        while far < furthest and difference(far)[0] >= 0:
            far = min(2 * far, furthest)
        end = _last_true(lambda y: difference(y)[0] >= 0, 0, far)
        above -= math.exp(share.tail(end + 1)[0])
        below -= math.exp(level + share.tail(sensitivity + end + 1)[1])
        doubt += doubtful(difference(end + 1), end + 1)
    delta = above - max(0.0, below) * (1 - _SLACK) + doubt + _SLACK
    return capped(min(delta, slope))
