"""Privacy loss of sums of discrete Laplaces and of their shares, bounded from above.

Noise: Z = X - Y, X, Y ~ NegativeBinomial(R, a), a = e^(-1/b): a Polya difference of weight R, the
sum of R discrete Laplaces of scale b. What a release loses at epsilon, for a value that changes by
at most Delta (L1, ring units), is

    delta(epsilon) = max_{s <= Delta} sum_z max(0, P(z) - e^epsilon P(z - s)).

Every figure here is an upper bound: approximations enter with their error bounds on the side that
makes delta larger. Facts used (R is what the adversary cannot subtract; more noise never hurts):

1. R >= 1 holds one whole discrete Laplace: epsilon = Delta/b, delta = 0, in any dimension.
2. The law is symmetric and unimodal for every R > 0, and so is every mixture and every sum of such
   laws. Then in *one* dimension s = Delta is the worst shift: a term with z > s/2 is 0, since
   |z - s| <= |z|; a term with z <= s/2 has |z - s| = s - z, which grows with s.
3. R >= 1 is log-concave. Then {P(z) > e^epsilon P(z - Delta)} is a half-line, so
   delta = F(z) - e^epsilon F(z - Delta) at its end; and in d dimensions the worst change puts all
   of Delta into one coordinate (shift families of log-concave laws compose as a semigroup).
   R < 1 is not log-concave: for d > 1 spreading the change is worse, and nothing is stated.
4. R = k whole: P(z) = (1-a)^(2k) a^z sum_i c_i C(z, k-1-i), z >= 0, where
   c_i = sum_{m=k-1}^{k-1+i} m! / ((m-i)! (m-k+1)! (i+k-1-m)!) x^(m-k+1) / (1-x)^(m+1), x = a^2
   (Vandermonde's identity in sum_y C(z+y+k-1, k-1) C(y+k-1, k-1) x^y). Only positive terms: the
   relative error in floating point is a few hundred units in the last place, in the tails too.
   An FFT instead has an *absolute* floor near 1e-16, and e^epsilon stands in front of it.
5. R = k whole, large Delta: a geometric is its low digits plus an independent coarse geometric.
   So X - Y with a is a function of the one with a^m, and delta at ceil(Delta/m) units with scale
   b/m bounds the fine one. Not so for fractional R.
6. 0 < R < 1: on z >= 0 the law is a mixture of geometrics,
   P(z) = (1-a)^(2R) sin(pi R)/pi int_0^1 (at)^z t^(R-1) (1-t)^(-R) (1-a^2 t)^(-R) dt
   (Beta integral for Gamma(k+R)/k!). So P is log-convex there, P(z)/P(z-Delta) is largest at
   z = 0 and falls to both sides, and delta is a difference of tail sums, each of them the same
   integral with one more factor 1/(1-at). With t = e^(-x/b) the integrand is convex in x (a
   product of decreasing log-convex functions): trapezoids lie above, midpoints below. The cost
   does not depend on Delta: no grid, no coarse grid.
7. A truncated tail is added to delta whole (Chernoff): handing the truncated law on would lose it.
8. R > 1 not whole: the backward recurrence f(z)/f(z-1) = a(z-1+R) / ((1+a^2) z
   - a(z+1-R) f(z+1)/f(z)) in 50-digit decimals; its map contracts by a^2 a step, so starting 30 b
   beyond the window leaves a relative error below e^-60.

Source: the spec of the aggregation, section 7; Ghosh, Roughgarden and Sundararajan (2009) for the
discrete Laplace; B. Balle and Y.-X. Wang (2018) for the hockey-stick form of delta.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MAX_WHOLE_DRAWS: Final = 32
"""Whole draws beyond these are left out, which can only raise delta."""

_UNIT: Final = 2.0**-53
_PRECISE: Final = Context(prec=50, Emin=MIN_EMIN, Emax=MAX_EMAX)
_UP: Final = Context(prec=17, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
_DOWN: Final = Context(prec=17, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
_ZERO: Final = Decimal(0)
_ONE: Final = Decimal(1)

_TAIL_TARGET: Final = 1e-22
_FINE_SENSITIVITY: Final = 256
_FINE_SCALE: Final = 1_000
_MOST_POINTS: Final = 4_000_000
_MOST_DECIMALS: Final = 25_000
_MOST_PRODUCTS: Final = 60_000_000
_MOST_REVEALED: Final = 8

_LARGEST_EXPONENT: Final = 600

_STEP: Final = 1 / 500
_FIRST: Final = 1e-12
_SLACK: Final = 1e-10


@dataclass(frozen=True, slots=True)
class Certified:
    """A figure rounded against us; `certified` tells whether it is a proven upper bound."""

    value: Decimal
    certified: bool = True


@dataclass(frozen=True, slots=True)
class Draws:
    """Noise of one scale that the adversary cannot subtract.

    `parties` honest parties draw independently, each a share of this `weight` (1: one whole
    discrete Laplace) with this `probability`, else nothing.
    """

    scale: Fraction
    parties: int
    weight: Fraction = Fraction(1)
    probability: Fraction = Fraction(1)

    @property
    def total(self) -> Fraction:
        """R, if all of them draw."""
        return self.parties * self.weight


# ------------------------------------------------------------------ numbers, rounded on purpose


def decimal_up(value: Fraction, digits: int = 17) -> Decimal:
    """A rational as a decimal that is not below it."""
    context = Context(prec=digits, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
    return context.divide(Decimal(value.numerator), Decimal(value.denominator))


def _precise(value: Fraction) -> Decimal:
    return _PRECISE.divide(Decimal(value.numerator), Decimal(value.denominator))


def both_deltas(one: Decimal, other: Decimal) -> Decimal:
    """delta of two independent parts at the sum of their epsilons: d1 + d2 (1 - d1).

    An (epsilon, d) mechanism is, with probability 1 - d, epsilon-indistinguishable (P. Kairouz,
    S. Oh and P. Viswanath, 2015, theorem 3.5), and so are both with (1 - d1)(1 - d2).
    """
    return min(_UP.add(one, _UP.multiply(other, _UP.subtract(1, one))), _ONE)


def _capped(value: Decimal | float) -> Decimal:
    """A delta: within [0, 1], rounded up."""
    exact = value if isinstance(value, Decimal) else Decimal(value)
    return _UP.plus(min(max(exact, _ZERO), _ONE))


# --------------------------------------------------------------------- one whole discrete Laplace


@lru_cache(maxsize=4096)
def laplace_delta(epsilon: Fraction, sensitivity: int, scale: Fraction) -> Decimal:
    """delta of one discrete Laplace, in closed form: F(z) - e^epsilon F(z - Delta),
    z = floor((Delta - epsilon b) / 2); F(z) = a^-z / (1 + a) for z < 0, 1 - a^(z+1) / (1 + a) else.
    """
    if epsilon >= sensitivity / scale:
        return _ZERO
    end = int((sensitivity - epsilon * scale) // 2)
    a = _PRECISE.exp(_precise(-1 / scale))
    below = _PRECISE.multiply(  # e^epsilon F(end - Delta), end - Delta < 0
        _PRECISE.exp(_precise(epsilon + (end - sensitivity) / scale)), 1 / _PRECISE.add(1, a)
    )
    if end < 0:
        above = _PRECISE.divide(_PRECISE.exp(_precise(end / scale)), 1 + a)
    else:
        above = 1 - _PRECISE.divide(_PRECISE.exp(_precise(Fraction(-end - 1) / scale)), 1 + a)
    difference = _PRECISE.subtract(above, below)
    slack = _PRECISE.multiply(above, Decimal("1e-26"))  # 50 digits, arguments up to 1e14
    return _capped(_PRECISE.add(difference, slack))


def continuous_laplace_delta(epsilon: float, ratio: float) -> float:
    """The limit of ever finer resolution: 1 - e^((epsilon - Delta/b) / 2), ratio = Delta/b."""
    return max(0.0, -math.expm1((epsilon - ratio) / 2))


# ------------------------------------------------------------------------------- whole weights R


@dataclass(frozen=True, slots=True)
class _Law:
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


def _reach(draws: float, scale: float) -> int:
    reach = math.ceil(52 * scale) + 20
    while tail_bound(draws, scale, reach) > _TAIL_TARGET:
        reach = math.ceil(reach * 1.15)
    return reach


@lru_cache(maxsize=512)
def _whole_law(draws: int, scale: Fraction) -> _Law:
    """The law of `draws` discrete Laplaces by fact 4, on a window with a tail below 1e-22."""
    width = float(scale)
    reach = _reach(draws, width)
    half = _whole_masses(draws, scale, reach)
    mass = np.concatenate([half[:0:-1], half])
    error = (3 * draws + 4 * reach / width + 64) * _UNIT
    tail = tail_bound(draws, width, reach)
    return _Law(mass, np.cumsum(mass), reach, tail, error + mass.size * _UNIT)


def _whole_masses(draws: int, scale: Fraction, reach: int) -> Floats:
    """P(0..W), each with a relative error of at most (3 k + 4 z/b + 20) units of 2^-53."""
    rate = _precise(1 / scale)
    one_less = 1 - _PRECISE.exp(-rate)
    square = _PRECISE.exp(_PRECISE.multiply(rate, -2))
    rest = 1 - square
    front = _PRECISE.power(one_less, 2 * draws)
    z = np.arange(reach + 1, dtype=np.float64)
    total = np.zeros(reach + 1)
    binomial = np.ones(reach + 1)  # C(z, j), j = k-1-i
    for j in range(draws):
        i = draws - 1 - j
        coefficient = _ZERO
        for m in range(draws - 1, draws + i):
            ways = math.factorial(m) // (
                math.factorial(m - i)
                * math.factorial(m - draws + 1)
                * math.factorial(i + draws - 1 - m)
            )
            term = _PRECISE.divide(
                _PRECISE.multiply(ways, _PRECISE.power(square, m - draws + 1)),
                _PRECISE.power(rest, m + 1),
            )
            coefficient = _PRECISE.add(coefficient, term)
        total += float(_PRECISE.multiply(coefficient, front)) * binomial
        binomial *= np.maximum(z - j, 0.0)
        binomial /= j + 1
    masses: Floats = total * np.exp(-z / float(scale))
    return masses


@dataclass(frozen=True, slots=True)
class _Sum:
    """Up to two independent symmetric laws added: masses and sums below, one point at a time."""

    inner: _Law | None
    outer: _Law

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
        return self.outer.error + self.inner.error + self.inner.mass.size * _UNIT

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


def _half_line_delta(law: _Sum, epsilon: Fraction, sensitivity: int) -> float:
    """delta of a log-concave law (fact 3), raised by all errors, plus the truncated tail."""
    growth = math.exp(epsilon)
    error = law.error + (4 + float(epsilon)) * _UNIT
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
        return _ONE
    if len({scale for _, scale in laws}) < len(laws):
        merged: dict[Fraction, int] = {}
        for draws, scale in laws:
            merged[scale] = merged.get(scale, 0) + draws
        return whole_delta(epsilon, sensitivity, tuple((n, s) for s, n in merged.items()))
    alone = min(laplace_delta(epsilon, sensitivity, scale) for _, scale in laws)
    if not alone or laws == ((1, laws[0][1]),) or epsilon > _LARGEST_EXPONENT:
        return alone
    widest = max(scale for _, scale in laws)
    units = _coarse(sensitivity, widest)
    if widest / units * 55 > _MOST_POINTS:
        return alone
    built = sorted(
        (_whole_law(draws, scale / units) for draws, scale in laws), key=lambda law: law.reach
    )
    law = _Sum(built[0] if len(built) == 2 else None, built[-1])
    found = _half_line_delta(law, epsilon, -(-sensitivity // units))
    return min(alone, _capped(found))


# ----------------------------------------------------------------------- fractional weights above 1


@lru_cache(maxsize=64)
def polya_law(weight: Fraction, scale: Fraction, reach: int) -> tuple[Decimal, ...]:
    """P(0..W) of a Polya difference by the backward recurrence (fact 8), 50-digit decimals.

    For weights of at least 1 the relative error is below 1e-24. The mass beyond W is taken as 0 in
    the normalisation: divide by no more than 1 - tail to bound from below.
    """
    multiply, divide, subtract = _PRECISE.multiply, _PRECISE.divide, _PRECISE.subtract
    a = _PRECISE.exp(_precise(-1 / scale))
    square, r = 1 + multiply(a, a), _precise(weight)
    start = reach + math.ceil(30 * scale)
    ratio = a
    ratios = []
    for z in range(start, 0, -1):
        denominator = subtract(multiply(square, z), multiply(multiply(a, z + 1 - r), ratio))
        ratio = divide(multiply(a, z - 1 + r), denominator)
        if z <= reach:
            ratios.append(ratio)
    masses = [_ONE]
    for ratio in reversed(ratios):
        masses.append(multiply(masses[-1], ratio))
    total = 2 * sum(masses, _ZERO) - 1
    return tuple(divide(mass, total) for mass in masses)


@lru_cache(maxsize=256)
def _fractional_law(weight: Fraction, scale: Fraction) -> _Law:
    width = float(scale)
    reach = _reach(float(weight), width)
    half = np.array([float(mass) for mass in polya_law(weight, scale, reach)])
    tail = tail_bound(float(weight), width, reach)
    mass = np.concatenate([half[:0:-1], half])
    return _Law(mass, np.cumsum(mass), reach, tail, (mass.size + 8) * _UNIT + 2 * tail + 1e-24)


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
    law = _Sum(None, _fractional_law(weight, scale))
    return min(found, _capped(_half_line_delta(law, epsilon, sensitivity)))


# ----------------------------------------------------------------------- fractional weights below 1


class _Share:
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

    def _smooth(self, x: Floats) -> Floats:
        b, r = self.scale, self._weight
        smooth: Floats = np.exp(
            -r * x / b - r * np.log(-np.expm1(-x / b)) - r * np.log(-np.expm1(-(2 + x) / b))
        )
        return smooth

    def mass(self, w: int) -> tuple[float, float]:
        """Bounds of log P(w), w >= 0."""
        return self._bracket(w, tail=False)

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
def _share(weight: Fraction, scale: Fraction) -> _Share:
    return _Share(weight, scale)


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
    return _UP.plus(Decimal(share.mass(0)[1] - share.mass(sensitivity)[0]))


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
        return _ZERO
    share = _share(weight, scale)
    slope = -math.expm1(level - float(pure)) + _SLACK  # every term is at most this times P(z)

    def margin(one: int, other: int) -> tuple[float, float]:
        """Bounds of ln(P(one) / P(other)) - epsilon."""
        first, second = share.mass(one), share.mass(other)
        return first[0] - second[1] - level, first[1] - second[0] - level

    def right(z: int) -> tuple[float, float]:
        return margin(z, sensitivity - z) if 2 * z <= sensitivity else (-level, -level)

    def left(y: int) -> tuple[float, float]:
        return margin(y, sensitivity + y)

    def doubtful(bounds: tuple[float, float], start: int) -> float:
        return -math.expm1(-max(0.0, bounds[1])) * math.exp(share.tail(start)[1])

    if right(0)[0] < 0:
        return _capped(slope)
    end = _last_true(lambda z: right(z)[0] >= 0, 0, sensitivity // 2)
    above = 1 - math.exp(share.tail(end + 1)[0])
    below = math.exp(level + share.tail(sensitivity - end)[0])
    doubt = doubtful(right(end + 1), end + 1)
    if epsilon > sensitivity / scale:
        # Far to the left the ratio falls to e^(Delta/b): the set ends there, too.
        far, furthest = 1, math.ceil(600 * scale)
        while far < furthest and left(far)[0] >= 0:
            far = min(2 * far, furthest)
        end = _last_true(lambda y: left(y)[0] >= 0, 0, far)
        above -= math.exp(share.tail(end + 1)[0])
        below -= math.exp(level + share.tail(sensitivity + end + 1)[1])
        doubt += doubtful(left(end + 1), end + 1)
    found = above - max(0.0, below) * (1 - _SLACK) + doubt + _SLACK
    return _capped(min(found, slope))


# --------------------------------------------------------------------------------- the front door


def pure_epsilon(sensitivity: int, draws: tuple[Draws, ...], dimension: int = 1) -> Decimal | None:
    """The epsilon from which delta = 0 is certain; None if there is none or it is not known.

    Only draws that are sure to happen count.
    """
    weights: dict[Fraction, Fraction] = {}
    for layer in draws:
        if layer.probability == 1 and layer.parties:
            weights[layer.scale] = weights.get(layer.scale, Fraction(0)) + layer.total
    whole = [sensitivity / scale for scale, weight in weights.items() if weight >= 1]
    if whole:
        return decimal_up(min(whole))
    if dimension > 1 or not weights:
        return None
    return min(share_pure_epsilon(sensitivity, scale, weight) for scale, weight in weights.items())


def delta_at(
    epsilon: Fraction, sensitivity: int, draws: tuple[Draws, ...], dimension: int = 1
) -> Certified:
    """An upper bound of delta at this epsilon for one part of a query.

    At most two layers; shares of fractional weight in one scale only (two scales of fractional
    weight: the better one alone). 1 where nothing is known.
    """
    if any(layer.probability != 1 for layer in draws if layer.parties):
        return Certified(mixture_delta(((epsilon, sensitivity, draws, dimension),)))
    weights: dict[Fraction, Fraction] = {}
    for layer in draws:
        if layer.parties:
            weights[layer.scale] = weights.get(layer.scale, Fraction(0)) + layer.total
    if any(weight >= 1 and epsilon >= sensitivity / scale for scale, weight in weights.items()):
        return Certified(_ZERO)
    candidates = [_ONE]
    whole = tuple((int(weight), scale) for scale, weight in weights.items() if weight >= 1)
    if len(whole) == 2:
        candidates.append(whole_delta(epsilon, sensitivity, whole))
    for scale, weight in weights.items():
        if weight >= 1:
            candidates.append(log_concave_delta(epsilon, sensitivity, scale, weight))
        elif dimension == 1:
            candidates.append(share_delta(epsilon, sensitivity, scale, weight))
    return Certified(min(candidates))


# ---------------------------------------------------------------- noise that is drawn with a coin

Piece = tuple[Fraction, int, tuple[Draws, ...], int]
"""One part of a query: its epsilon, sensitivity, layers (whole draws) and dimension."""


def binomial_masses(parties: int, probability: Fraction, most: int) -> tuple[Decimal, ...]:
    """P(K = 0..most-1) and P(K >= most) for a Binomial, or P(K = 0..parties); rounded up."""
    if probability == 1:
        count = min(parties, most)
        return (_ZERO,) * count + (_ONE,)
    if parties == 0 or probability == 0:
        return (_ONE,)
    p, q = _precise(probability), _precise(1 - probability)
    mass = _PRECISE.power(q, parties)
    masses = []
    left = _ONE
    for k in range(min(parties, most) + 1):
        if k == most and parties > most:
            masses.append(_UP.add(max(left, _ZERO), Decimal("1e-40")))
            break
        masses.append(_UP.plus(mass))
        left = _PRECISE.subtract(left, mass)
        mass = _PRECISE.divide(
            _PRECISE.multiply(_PRECISE.multiply(mass, parties - k), p),
            _PRECISE.multiply(q, k + 1),
        )
    return tuple(masses)


@lru_cache(maxsize=4096)
def mixture_delta(pieces: tuple[Piece, ...]) -> Decimal:
    """delta of parts that share their coins: one coin per party covers all parts.

    Exact for one part in one dimension, where the window is short: the mixture itself is
    convolved, and fact 2 needs no log-concavity. Otherwise by revealing who drew:
    delta <= sum_pattern Pr(pattern) delta_pattern, each pattern log-concave, the silent one with
    delta 1; the parts of a pattern by basic composition, 1 - (1-delta_1)(1-delta_2)...
    """
    if all(
        layer.parties and layer.probability == 1 and epsilon >= sensitivity / layer.scale
        for epsilon, sensitivity, draws, _ in pieces
        for layer in _surest(draws)
    ):
        return _ZERO
    if len(pieces) == 1 and pieces[0][3] == 1:
        epsilon, sensitivity, draws, _ = pieces[0]
        exact = exact_mixture_delta(epsilon, sensitivity, draws)
        if exact is not None:
            return exact
    return revealed_delta(pieces)


def _surest(draws: tuple[Draws, ...]) -> tuple[Draws, ...]:
    """The layer of the widest noise among those sure to draw, else any one."""
    sure = [layer for layer in draws if layer.parties and layer.probability == 1]
    return (max(sure, key=lambda layer: layer.scale),) if sure else draws[:1]


def revealed_delta(pieces: tuple[Piece, ...]) -> Decimal:
    """sum over who drew: the certified bound that holds in any dimension and for any parts."""
    layers = pieces[0][2]
    if len(layers) > 2:
        raise ValueError("at most two layers")
    spread = [
        binomial_masses(
            layer.parties,
            layer.probability,
            MAX_WHOLE_DRAWS if layer.probability == 1 else _MOST_REVEALED,
        )
        for layer in layers
    ]
    total = _ZERO
    first = spread[0]
    second = spread[1] if len(spread) == 2 else (_ONE,)
    for i, one in enumerate(first):
        for j, other in enumerate(second):
            chance = _UP.multiply(one, other)
            if chance == 0:
                continue
            if chance < Decimal("1e-20"):
                total = _UP.add(total, chance)
                continue
            pattern = _ZERO
            for epsilon, sensitivity, draws, _ in pieces:
                laws = tuple((n, layer.scale) for n, layer in zip((i, j), draws, strict=False) if n)
                pattern = both_deltas(pattern, whole_delta(epsilon, sensitivity, laws))
            total = _UP.add(total, _UP.multiply(chance, pattern))
    return _capped(total)


def exact_mixture_delta(
    epsilon: Fraction, sensitivity: int, draws: tuple[Draws, ...]
) -> Decimal | None:
    """One dimension, full resolution: the mixture convolved. None where that is too long."""
    law = _mixture(draws) if epsilon <= _LARGEST_EXPONENT else None
    if law is None:
        return None
    growth = math.exp(epsilon)
    error = law.error + (4 + float(epsilon)) * _UNIT
    mass = law.mass
    shifted = np.zeros(mass.size)
    if sensitivity < mass.size:
        shifted[sensitivity:] = mass[: mass.size - sensitivity]
    terms = mass * (1 + error) - growth * (1 - 2 * error) * shifted
    found = float(terms[terms > 0].sum()) * (1 + mass.size * _UNIT)
    return _capped(found + law.tail)


@lru_cache(maxsize=64)
def _mixture(draws: tuple[Draws, ...]) -> _Law | None:
    """The law of two independent mixtures, or None if it is too long."""
    if any(layer.weight != 1 for layer in draws):
        raise ValueError("a coin decides on whole draws only")
    spread = [binomial_masses(layer.parties, layer.probability, MAX_WHOLE_DRAWS) for layer in draws]
    cut = 0.0
    products = 1.0
    for place, (layer, masses) in enumerate(zip(draws, tuple(spread), strict=True)):
        if layer.parties > MAX_WHOLE_DRAWS and layer.probability != 1:
            if masses[-1] > Decimal("1e-15"):
                return None
            cut += float(masses[-1])
            spread[place] = masses[:-1]
        if len(masses) > 1:
            products *= 120 * float(layer.scale) + 40
    if products > _MOST_PRODUCTS:
        return None
    joined: _Law | None = None
    for layer, masses in zip(draws, spread, strict=True):
        law = _one_mixture(layer.scale, masses)
        if joined is None:
            joined = law
            continue
        mass = np.convolve(joined.mass, law.mass)
        error = joined.error + law.error + min(joined.mass.size, law.mass.size) * _UNIT
        joined = _Law(mass, mass, joined.reach + law.reach, joined.tail + law.tail, error)
    assert joined is not None
    return _Law(joined.mass, joined.below, joined.reach, joined.tail + cut, joined.error)


def _one_mixture(scale: Fraction, masses: tuple[Decimal, ...]) -> _Law:
    laws = [
        (float(chance), _whole_law(k, scale))
        for k, chance in enumerate(masses)
        if k and chance > Decimal("1e-18")
    ]
    reach = max((law.reach for _, law in laws), default=0)
    mass = np.zeros(2 * reach + 1)
    mass[reach] = float(masses[0])
    tail = sum(float(chance) for k, chance in enumerate(masses) if k and chance <= Decimal("1e-18"))
    error = 0.0
    for chance, law in laws:
        mass[reach - law.reach : reach + law.reach + 1] += chance * law.mass
        tail += chance * law.tail
        error = max(error, law.error)
    return _Law(mass, mass, reach, tail * (1 + 1e-9), error + (len(laws) + 4) * _UNIT)
