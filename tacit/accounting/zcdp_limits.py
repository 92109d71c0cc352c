"""Limits in zCDP, stated as epsilon at delta, and what sums of zCDP guarantee.

Releases that are delta_i-approximate rho_i-zCDP, chosen one after the other or not, are together
approximate zCDP of the sums (M. Bun and T. Steinke, "Concentrated differential privacy", TCC 2016;
adaptively: J. Whitehouse, A. Ramdas, R. Rogers and Z. S. Wu, "Fully-adaptive composition in
differential privacy", ICML 2023). They keep a limit (epsilon, delta) if

    zcdp_delta(sum of rho, epsilon) + sum of delta <= delta (1 - 10^-9).

Sums are whole numbers, rho in 10^-9 and delta in 10^-15, so the limit is a largest whole rho for
each sum of deltas. Spec: profiles, section 4.
"""

from __future__ import annotations

import math
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.amounts import FEMTO, MOST_RHO, NANO, SMALLEST_DELTA
from tacit.noise.gaussian_privacy import zcdp_delta, zcdp_epsilon

Ints = NDArray[np.int64]
Bits = NDArray[np.bool_]

LARGEST_EPSILON: Final = 10**4
"""Of a limit; sums of rho that reach `MOST_RHO` keep none."""
STATED_DELTA: Final = Fraction(1, 10**6)
"""The delta at which a rho is stated as an epsilon, where none is given."""
_SMALLEST: Final = Fraction(SMALLEST_DELTA)
_KEPT: Final = 1 - Fraction(1, 10**9)
"""How much of a limit's delta is used: floats err by less than the rest."""


class Currency(StrEnum):
    """What a limit counts: sums of epsilon (basic composition), or of zCDP."""

    EPSILON = "epsilon"
    ZCDP = "zcdp"


class ZcdpLimit(NamedTuple):
    """At most `epsilon` in [0, 10^4] at `delta` in (0, 1)."""

    epsilon: Fraction
    delta: Fraction

    def most_rho(self, spent_delta: int = 0) -> int:
        """The largest sum of rho, in 10^-9, that keeps the limit beside deltas of this sum, in
        10^-15; -1: none does."""
        return _most_rho(self, spent_delta)

    def exceeded(self, rho: Ints, delta: Ints) -> Bits:
        """Which sums (n,) in 10^-9 and 10^-15 the limit does not admit."""
        if not rho.size:
            return np.zeros(rho.shape, np.bool_)
        fewest, most = int(delta.min()), int(delta.max())
        over: Bits = rho > self.most_rho(fewest)
        # The more delta, the less rho: only what lies between the bounds of a range of deltas needs
        # a closer look, and of many sums that all differ few do.
        waiting = [np.flatnonzero(~over & (rho > self.most_rho(most)))]
        while waiting:
            places = waiting.pop()
            if not places.size:
                continue
            middle = int(np.partition(delta[places], places.size // 2)[places.size // 2])
            above = rho[places] > self.most_rho(middle)
            over[places[above & (delta[places] >= middle)]] = True
            waiting.append(places[above & (delta[places] < middle)])
            waiting.append(places[~above & (delta[places] > middle)])
        return over


@lru_cache(maxsize=1 << 14)
def _most_rho(limit: ZcdpLimit, spent_delta: int) -> int:
    left = limit.delta * _KEPT - Fraction(spent_delta, FEMTO)
    if left < _SMALLEST:
        return 0 if left >= 0 else -1  # without rho there is no delta
    most, epsilon = math.nextafter(float(left), 0.0), float(limit.epsilon)

    def holds(rho: int) -> bool:
        return zcdp_delta(rho / NANO, epsilon) <= most

    low, high = 0, 1
    while high < MOST_RHO and holds(high):
        low, high = high, 2 * high
    high = min(high, MOST_RHO)  # sums that reach it may be larger than they say
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def stated_epsilon(rho: int, delta: int, at: Fraction = STATED_DELTA) -> Fraction | None:
    """The epsilon at the delta `at` that sums of rho in 10^-9 and of delta in 10^-15 guarantee,
    rounded up to 10^-6; None where none does."""
    left = at * _KEPT - Fraction(delta, FEMTO)
    if rho >= MOST_RHO or left < _SMALLEST:
        return None
    most = math.nextafter(float(left), 0.0)
    return Fraction(math.ceil(Fraction(zcdp_epsilon(rho / NANO, most)) * 10**6), 10**6)
