"""Gaussian noise: zero-concentrated privacy, the exact profile, and what a source's theorem says.

A mechanism is rho-zCDP when the Renyi divergence of every order a > 1 between neighbours is at
most a rho. Gaussian noise of deviation sigma on a value of L2 sensitivity D has
rho = D^2 / (2 sigma^2), in whole numbers (the discrete Gaussian) as in reals; rho adds up over
releases, chosen one after the other or not.

    delta(eps) <= inf over a > 1 of exp((a - 1)(a rho - eps)) / (a - 1) (1 - 1/a)^a

(C. Canonne, G. Kamath and T. Steinke, "The discrete Gaussian for differential privacy", NeurIPS
2020, proposition 7). Each a gives a valid bound, so an approximate minimum is harmless; the exact
profile of the continuous Gaussian is given for comparison (B. Balle and Y.-X. Wang, "Improving the
Gaussian mechanism", ICML 2018, theorem 8):

    delta(eps) = Phi(D / 2 sigma - eps sigma / D) - e^eps Phi(-D / 2 sigma - eps sigma / D).

Floats err by far less than 1e-12 relatively, which is added against us.

Spec: graph-random-matrix, sections 3.6 and 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final

_SLACK: Final = 1e-12
_GOLDEN: Final = (math.sqrt(5) - 1) / 2
_STEPS: Final = 120
_GRAIN: Final = 1 << 20
_FAR: Final = 25.0
_ROUNDED_VARIANCE: Final = 0.98
_EACH_ROUNDING: Final = 1e-16
_MOST_COORDINATES: Final = 1_000_000
_ORDERS: Final = tuple(10 ** (place / 4) for place in range(-12, 13))
"""Orders less 1 that are tried: each gives a valid bound."""


def zcdp_delta(rho: float, epsilon: float) -> float:
    """delta at `epsilon` >= 0 of a rho-zCDP mechanism, rho >= 0; rounded up, at most 1."""
    if rho < 0 or epsilon < 0:
        raise ValueError("neither rho nor epsilon is negative")
    if rho == 0:
        return 0.0
    least = _minimum(lambda above: above * ((1 + above) * rho - epsilon) + _log_shape(above))
    return min(1.0, math.exp(min(0.0, least)) * (1 + _SLACK))


def zcdp_epsilon(rho: float, delta: float) -> float:
    """The least epsilon that holds at `delta` of a rho-zCDP mechanism; rounded up.

    Raises ValueError for a negative rho or a delta outside (0, 1).
    """
    _check_delta(delta)
    if rho < 0:
        raise ValueError("rho is not negative")
    if rho == 0:
        return 0.0
    least = _minimum(
        lambda above: (1 + above) * rho + (_log_shape(above) - math.log(delta)) / above
    )
    return max(0.0, least) * (1 + _SLACK) + _SLACK


def zcdp_rho(epsilon: float, delta: float) -> float:
    """The largest rho whose `zcdp_delta(rho, epsilon)` is at most delta; rounded down.

    Raises ValueError for an epsilon that is not above 0 or a delta outside (0, 1).
    """
    _check_delta(delta)
    if not epsilon > 0:
        raise ValueError("epsilon is above 0")
    return _bisected(lambda rho: zcdp_delta(rho, epsilon) <= delta, 0.0, epsilon)


def zcdp_sigma(epsilon: float, delta: float, sensitivity: float) -> Fraction:
    """The deviation of Gaussian noise that keeps (epsilon, delta) by zCDP, rounded up to 2^-20.

    sensitivity: L2, above 0.
    """
    rho = zcdp_rho(epsilon, delta)
    exact = sensitivity / math.sqrt(2 * rho) * (1 + _SLACK)
    return Fraction(math.ceil(exact * _GRAIN), _GRAIN)


def gaussian_delta(epsilon: float, sigma: float, sensitivity: float) -> float:
    """The exact delta of continuous Gaussian noise; epsilon >= 0, the others above 0."""
    if epsilon < 0 or not sigma > 0 or not sensitivity > 0:
        raise ValueError("epsilon is not negative; sigma and sensitivity are above 0")
    half, shift = sensitivity / (2 * sigma), epsilon * sigma / sensitivity
    mass = _log_upper_tail(shift - half)
    part = epsilon + _log_upper_tail(shift + half)
    if part >= mass:
        return 0.0
    return math.exp(mass) * -math.expm1(part - mass)


def gaussian_epsilon(sigma: float, delta: float, sensitivity: float) -> float:
    """The least epsilon of continuous Gaussian noise at `delta` in (0, 1); rounded up."""
    _check_delta(delta)
    if gaussian_delta(0.0, sigma, sensitivity) <= delta:
        return 0.0
    high = 1.0
    while gaussian_delta(high, sigma, sensitivity) > delta:
        high *= 2
    least = _bisected(
        lambda share: gaussian_delta(high - share, sigma, sensitivity) <= delta, 0, high
    )
    return (high - least) * (1 + _SLACK)


def gaussian_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """The least deviation of continuous Gaussian noise that is (epsilon, delta)-private; rounded
    up. Raises ValueError for an epsilon that is not above 0 or a delta outside (0, 1)."""
    _check_delta(delta)
    if not epsilon > 0:
        raise ValueError("epsilon is above 0")
    most = 1e9  # of 1 / sigma
    inverse = _bisected(
        lambda rate: gaussian_delta(epsilon, sensitivity / rate, sensitivity) <= delta, 0.0, most
    )
    return sensitivity / inverse * (1 + _SLACK)


def projection_theorem_sigma(epsilon: float, delta: float, vertices: int) -> float:
    """What the book requires: (1/eps) sqrt(10 (eps + ln(1 / (2 delta))) ln(n / delta)).

    It protects one entry of an n x n matrix that is projected by Gaussians of variance 1 /
    columns, whatever the number of columns. Raises ValueError outside delta < 1/2, n >= 2,
    epsilon > 0.
    """
    _check_theorem(delta, vertices)
    if not epsilon > 0:
        raise ValueError("epsilon is above 0")
    inner = epsilon + math.log(1 / (2 * delta))
    return math.sqrt(10 * inner * math.log(vertices / delta)) / epsilon


def projection_theorem_epsilon(sigma: float, delta: float, vertices: int) -> float:
    """The epsilon that the book claims at this sigma: the positive root of
    sigma^2 eps^2 = 10 (eps + ln(1 / (2 delta))) ln(n / delta)."""
    _check_theorem(delta, vertices)
    if not sigma > 0:
        raise ValueError("sigma is above 0")
    weight = 10 * math.log(vertices / delta) / sigma**2
    return (weight + math.sqrt(weight**2 + 4 * weight * math.log(1 / (2 * delta)))) / 2


def distinguishing_advantage(sigma: float, sensitivity: float) -> float:
    """2 Phi(D / 2 sigma) - 1: the advantage over a coin flip in detecting an edge, for an adversary
    that knows everything else."""
    return math.erf(sensitivity / (2 * sigma) / math.sqrt(2))


def gaussian_right(rho: float) -> float:
    """How often a guess between two neighbours with even odds is right at most, 0.5 to 1, after
    releases in whole numbers by Gaussian noise alone, each of a deviation of ten or more, whose rho
    add up to this; adaptively, too.

    Phi(mu / 2) with mu^2 = 2 rho / 0.98: rounding at random with variance 2 makes such a release of
    a continuous Gaussian of a variance of at least 0.98 of its own, but for 10^-16 a coordinate.
    Spec: profiles, section 3.
    """
    half = math.sqrt(2 * rho / _ROUNDED_VARIANCE) / 2
    return min(1.0, (1 + math.erf(half / math.sqrt(2))) / 2 + _EACH_ROUNDING * _MOST_COORDINATES)


def zcdp_right(rho: float, delta: float = 0.0) -> float:
    """The same after any releases that are together delta-approximate rho-zCDP, 0.5 to 1.

    A test that is right with probability p under both neighbours distinguishes a coin of p from
    one of 1 - p, whose Renyi divergence of order a is at most a rho, for every a: the result is
    the largest p that a choice of orders allows.
    """
    low, high = 0.5, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if _divergent(middle, rho) else (middle, high)
    return min(1.0, high + delta / 2)


def _divergent(right: float, rho: float) -> bool:
    """Whether coins of `right` and 1 - `right`, above a half, are further apart than rho-zCDP."""
    if right == 1.0:
        return True
    odds = math.log(right / (1 - right))
    if (2 * right - 1) * odds > rho:
        return True
    for above in _ORDERS:
        far = above * odds
        powers = far + math.log(right + (1 - right) * math.exp(-2 * far))
        if powers > above * (1 + above) * rho:
            return True
    return False


def _log_shape(above: float) -> float:
    """log of (1 - 1/a)^a / (a - 1) at a = 1 + above, without the cancellation near a = 1."""
    if above < 1:
        return above * math.log(above) - (1 + above) * math.log1p(above)
    return -(1 + above) * math.log1p(1 / above) - math.log(above)


def _minimum(value: Callable[[float], float]) -> float:
    """About the least value over a - 1 > 0, by golden section in its logarithm."""

    def at(place: float) -> float:
        return value(math.exp(place))

    # A coarse grid first: the section search alone could fail where the orders are huge.
    marks = [-20.0 + 60.0 * step / 240 for step in range(241)]
    best = min(range(241), key=lambda step: at(marks[step]))
    low, high = marks[max(0, best - 1)], marks[min(240, best + 1)]
    for _ in range(60):
        one, other = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        if at(one) < at(other):
            high = other
        else:
            low = one
    return min(at(low), at(high), at((low + high) / 2))


def _bisected(holds: Callable[[float], bool], low: float, high: float) -> float:
    """About the largest value in [low, high] with the property, which holds below it; it holds
    there."""
    if holds(high):
        return high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        # A geometric step where the bounds are far apart: rates reach over many powers of ten.
        if low > 0 and high / low > 4:
            middle = math.sqrt(low * high)
        if not low < middle < high:
            break
        if holds(middle):
            low = middle
        else:
            high = middle
    return low


def _log_upper_tail(x: float) -> float:
    """log P(N > x)."""
    if x < _FAR:
        return math.log(math.erfc(x / math.sqrt(2)) / 2)
    # Mills' ratio as a continued fraction; 30 terms are exact to the last digits from 25 on.
    ratio = x
    for term in range(30, 0, -1):
        ratio = x + term / ratio
    return -x * x / 2 - math.log(ratio) - math.log(2 * math.pi) / 2


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise ValueError("delta lies between 0 and 1")


def _check_theorem(delta: float, vertices: int) -> None:
    if not 0 < delta < 0.5 or vertices < 2:
        raise ValueError("the theorem needs delta below 1/2 and two vertices")
