"""One whole discrete Laplace: delta in closed form (fact 1 of the package is where it is 0)."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from tacit.accounting.loss.rounding import PRECISE, ZERO, capped, precise


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
