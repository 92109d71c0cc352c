"""Figures rounded upward on purpose, and noise that the adversary cannot subtract: every figure of
this package is an upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

UNIT: Final = 2.0**-53
"""Half a unit in the last place of a double: the relative error of one rounding."""
PRECISE: Final = Context(prec=50, Emin=MIN_EMIN, Emax=MAX_EMAX)
UP: Final = Context(prec=17, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
ZERO: Final = Decimal(0)
ONE: Final = Decimal(1)
LEAST: Final = Decimal("1e-40")
"""A smaller delta says nothing more, and as a fraction it may have millions of digits."""


def decimal_up(value: Fraction, digits: int = 17) -> Decimal:
    """A rational as a decimal that is not below it."""
    context = Context(prec=digits, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
    return context.divide(Decimal(value.numerator), Decimal(value.denominator))


def precise(value: Fraction) -> Decimal:
    """A rational to 50 digits."""
    return PRECISE.divide(Decimal(value.numerator), Decimal(value.denominator))


def both_deltas(one: Decimal, other: Decimal) -> Decimal:
    """delta of two independent parts at the sum of their epsilons: d1 + d2 (1 - d1).

    An (epsilon, d) mechanism is, with probability 1 - d, epsilon-indistinguishable (P. Kairouz,
    S. Oh and P. Viswanath, 2015, theorem 3.5), and so are both with (1 - d1)(1 - d2).
    """
    return min(UP.add(one, UP.multiply(other, UP.subtract(1, one))), ONE)


def capped(value: Decimal | float) -> Decimal:
    """A delta: within [0, 1], rounded up, and above 0 never below LEAST."""
    exact = value if isinstance(value, Decimal) else Decimal(value)
    return UP.plus(min(max(exact, LEAST), ONE)) if exact > 0 else ZERO


# Noise that the adversary cannot subtract, and a figure that is rounded against us.


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


@dataclass(frozen=True, slots=True)
class GaussianDraws:
    """Gaussian noise that the adversary cannot subtract: `variance` of the sum of all of it, in
    ring units squared; `weight`: its share of the variance that covers the query."""

    variance: Fraction
    weight: Fraction = Fraction(1)
