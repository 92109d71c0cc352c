"""The exact privacy loss of k randomised responses, and the budget of one of them.

One response reports its bit truthfully with probability p = e^eps / (1 + e^eps), q = 1 - p. For two
inputs that differ in k bits, with J ~ Bin(k, p) true answers, the loss is eps (2J - k), hence

    delta(E) = sum over j with eps (2j - k) > E of C(k, j) p^j q^(k-j) (1 - e^(E - eps (2j - k))).

Every mechanism with pure epsilon is a function of one such response on any pair of neighbours, so
the figure bounds *every* composition of k mechanisms of epsilon each, and none below it does
(P. Kairouz, S. Oh and P. Viswanath, "The composition theorem for differential privacy", 2015,
theorem 3.3). Non-decreasing in k and eps, falling in E.

Spec: dpbv-clustering, section 4.2; crowd-tasking, section 4. All terms are positive, so that floats
err by a small factor only, which is added (`_SLACK`).
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOST_RESPONSES: Final = 1_000_000
"""Logarithms of factorials up to here are good to 1e-8."""

_SLACK: Final = 1e-7
_TINY: Final = 1e-300
_GRAIN: Final = 1 << 48
_STEPS: Final = 80


def delta_of_responses(count: int, epsilon: Fraction, total: Fraction) -> Fraction:
    """delta at `total` of `count` responses (or pure mechanisms) of `epsilon` each, rounded up."""
    _check(count, epsilon)
    if total < 0:
        raise ValueError("a total epsilon is not negative")
    if total >= count * epsilon:
        return Fraction(0)
    return Fraction(min(1.0, _delta(count, float(epsilon), float(total)) * (1 + _SLACK) + _TINY))


def total_epsilon(count: int, epsilon: Fraction, delta: Fraction) -> Fraction:
    """The least total epsilon that is certain at this delta; rounded up, at most count * epsilon.

    Raises ValueError for a delta outside [0, 1).
    """
    _check(count, epsilon)
    _check_delta(delta)
    most = count * epsilon
    if delta == 0:
        return most
    if delta_of_responses(count, epsilon, Fraction(0)) <= delta:
        return Fraction(0)
    low, high = Fraction(0), most  # delta(low) > delta >= delta(high)
    for _ in range(_STEPS):
        middle = Fraction(math.floor((low + high) / 2 * _GRAIN), _GRAIN)
        if not low < middle < high:
            break
        if delta_of_responses(count, epsilon, middle) <= delta:
            high = middle
        else:
            low = middle
    return high


def response_epsilon(count: int, total: Fraction, delta: Fraction) -> Fraction:
    """The largest epsilon of each response that keeps `count` of them at (total, delta).

    Rounded down, from total / count to total (a large delta might allow more). Raises ValueError
    for a total that is not above 0 and a delta outside [0, 1).
    """
    _check(count, Fraction(0))
    _check_delta(delta)
    if total <= 0:
        raise ValueError("a total epsilon is above 0")
    low, high = total / count, total  # low is good
    if delta == 0 or count == 1:
        return low
    for _ in range(_STEPS):
        middle = Fraction(math.floor((low + high) / 2 * _GRAIN), _GRAIN)
        if not low < middle < high:
            break
        if delta_of_responses(count, middle, total) <= delta:
            low = middle
        else:
            high = middle
    return low


def _check(count: int, epsilon: Fraction) -> None:
    if not 1 <= count <= MOST_RESPONSES:
        raise ValueError(f"between 1 and {MOST_RESPONSES} responses")
    if epsilon < 0:
        raise ValueError("an epsilon is not negative")


def _check_delta(delta: Fraction) -> None:
    if not 0 <= delta < 1:
        raise ValueError("delta lies in [0, 1)")


def _delta(count: int, epsilon: float, total: float) -> float:
    first = max(0, math.floor((count + total / epsilon) / 2))
    true = np.arange(first, count + 1, dtype=np.float64)
    beyond = epsilon * (2 * true - count) - total
    # log C + j log p + (k - j) log q, with p = 1 / (1 + e^-eps) and q = p e^-eps
    logs = _log_binomials(count)[first:] - epsilon * (count - true)
    logs -= count * math.log1p(math.exp(-epsilon))
    return float((np.exp(logs) * -np.expm1(-np.maximum(beyond, 0.0))).sum())


@lru_cache(maxsize=8)
def _log_binomials(count: int) -> Floats:
    """log C(count, j) for j = 0..count."""
    logs = np.array([math.lgamma(j + 1.0) for j in range(count + 1)])
    return np.asarray(logs[-1] - logs - logs[::-1], np.float64)
