"""Thresholds where a released sum holds more noise than one whole draw.

Spec: federated-counting, section 3. Z is a Polya difference of weight R and scale b: the difference
of two negative binomials X, Y with P(X = k) proportional to Gamma(k + R) / k! a^k, a = e^(-1/b). So

    P(Z >= t) = sum over y of P(Y = y) P(X >= t + y)

in floating point: a threshold is a matter of utility, privacy does not rest on it. Whoever uses one
writes the whole number down.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np

_WIDEST: Final = 1 << 12
"""Larger scales are taken as multiples of this one: relative to b the law no longer changes."""
_REACH: Final = 60
"""Scales after which nothing of weight 1 is left; more for larger weights."""


def tail(draws: Fraction, scale: Fraction, least: int) -> float:
    """P(Z >= least) for least >= 1."""
    from scipy.special import betainc, gammaln

    a, weight = math.exp(-1 / scale), float(draws)
    reach = math.ceil((_REACH + 2 * weight) * scale) + 1
    y = np.arange(reach, dtype=float)
    log_mass = gammaln(y + weight) - gammaln(weight) - gammaln(y + 1) - y / float(scale)
    mass = np.exp(log_mass + weight * math.log(-math.expm1(-1 / scale)))
    return float((mass * betainc(y + least, weight, a)).sum())


@lru_cache(maxsize=4096)
def threshold(draws: Fraction, scale: Fraction, chance: float) -> int:
    """The smallest whole t >= 1 with P(Z >= t) <= chance, for 0 < chance < 1; draws: R > 0.

    Scales above 4,096 are rounded to within 1/4,096 of the threshold, upwards.
    """
    if scale > _WIDEST:
        return math.ceil(threshold(draws, Fraction(_WIDEST), chance) * scale / _WIDEST)
    low, high = 0, 1
    while tail(draws, scale, high) > chance:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if tail(draws, scale, middle) > chance:
            low = middle
        else:
            high = middle
    return high
