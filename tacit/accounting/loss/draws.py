"""Noise that the adversary cannot subtract, and a figure that is rounded against us."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction


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
