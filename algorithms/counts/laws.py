"""What a noisy count must reach, and the draws of both stances.

Spec: sequential-prefix-tree, section 3; set-valued, section 3.3 (table). `sound`: discrete Laplace
on integers. `paper`: Laplace in floating point.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.noise import DiscreteLaplace, floating_laplace
from tacit.randomness import NoiseSource, SeededRandom

COIN_BITS: Final = 128
"""An empty cell passes with a probability that is off by at most 2^-COIN_BITS."""


@dataclass(frozen=True, eq=False)
class IntegerTest:
    """Discrete Laplace of rate alpha against an integer threshold of at least 1.

    Compared by identity, which is cheap: who makes one caches it by its figures.
    """

    rate: Fraction
    threshold: int
    chance: Fraction

    @property
    def law(self) -> DiscreteLaplace:
        """The noise."""
        return DiscreteLaplace(1 / self.rate)

    def noisy(self, counts: NDArray[np.int64], source: NoiseSource) -> NDArray[np.int64]:
        """Counts with noise, exact integers."""
        return counts + self.law.draw(source, counts.size)

    def passing(self, count: int, source: NoiseSource) -> NDArray[np.int64]:
        """threshold + G, G geometric: Z is G or -1 - G with a coin that does not depend on G, so
        G is found again by turning negative draws over."""
        drawn = self.law.draw(source, count)
        return self.threshold + (drawn ^ (drawn >> 63))


@dataclass(frozen=True, eq=False)
class FloatingTest:
    """Laplace noise of scale 1 / rate in floating point; for reproducing the source only."""

    rate: Fraction
    threshold: float
    chance: Fraction

    def noisy(self, counts: NDArray[np.int64], source: NoiseSource) -> NDArray[np.float64]:
        """Counts with noise."""
        return counts + floating_laplace(_seeded(source), 1 / float(self.rate), counts.size)

    def passing(self, count: int, source: NoiseSource) -> NDArray[np.float64]:
        """threshold + Exp(rate)."""
        scale = 1 / float(self.rate)
        return self.threshold + _seeded(source).generator.exponential(scale, count)


def _seeded(source: NoiseSource) -> SeededRandom:
    if not isinstance(source, SeededRandom):
        raise TypeError("floating-point noise is for seeded simulations")
    return source
