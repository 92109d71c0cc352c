"""Does a curator add its noise? A one-sided test on what the aggregator sees in local mode.

Spec: budget, section 4. In local mode the aggregator sees y_t = f_t + Z_t, Z_t discrete Laplace of
scale b. For compliant noise and *any* f_t, unknown, varying, even chosen from all that went before,

    |1/T sum_t e^(i u y_t)| <= phi(u) + sqrt(4 ln(4/alpha) / T)    with probability 1 - alpha,
    phi(u) = E e^(iuZ) = (1-a)^2 / (1 - 2 a cos u + a^2),  a = e^(-1/b):

given the past, e^(i u y_t) has a mean of absolute value phi(u); its real and imaginary part lie in
intervals of length 2, and Azuma's inequality bounds each of them at half of the squared distance.

The frequency is u = 2 pi / P with the whole number P >= 2 next to 2 pi b / 3, that is u = 3/b and
phi = 0.1 but for rounding: y is reduced modulo P exactly before a float is made of it.

It is post-processing of noisy values and costs no budget. What it cannot do:

- distinguish missing noise from data that varies by b or more: it then makes no statement;
- detect noise that is known to others, or only slightly too small;
- make a statement in shared modes, where no one sees a single y_t.

A value above the threshold is a reason to ask; only an operator makes a curator `non_compliant`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

_FLOATS = 1e-9
"""What floats may add to a mean of unit vectors: given to the curator."""


def characteristic(frequency: Floats, scale: Floats) -> Floats:
    """phi(u) of discrete Laplace noise of scale b (ring units), elementwise, in (0, 1]."""
    a = np.exp(-1 / scale)
    gap = -np.expm1(-1 / scale)
    found: Floats = gap**2 / (gap**2 + 4 * a * np.sin(frequency / 2) ** 2)
    return found


def threshold(phi: Floats, rounds: Ints, alpha: float) -> Floats:
    """What compliant noise passes with probability at most alpha; infinite before a first round."""
    if not 0 < alpha < 1:
        raise ValueError("alpha lies in (0, 1)")
    with np.errstate(divide="ignore"):
        found: Floats = phi + np.sqrt(4 * math.log(4 / alpha) / rounds) + _FLOATS
    return found


@dataclass(frozen=True)
class Verdict:
    """One look: what was measured, what compliant noise may show, and who showed more."""

    flagged: Flags
    strength: Floats
    threshold: Floats
    alpha_each: float


@dataclass(frozen=True)
class NoiseAudit:
    """The sums of cos(u y) and sin(u y) of each curator, over the rounds it was seen in.

    All (n,): `period` P in ring units, `phi` in (0, 1], `rounds` counts. One row is one coordinate
    of one curator: who audits d coordinates uses d rows for each, and n counts them all.
    """

    period: Ints
    phi: Floats
    rounds: Ints
    cosines: Floats
    sines: Floats

    @classmethod
    def of_scales(cls, scales: Sequence[Fraction]) -> NoiseAudit:
        """Nothing seen yet of curators whose declared noise has these scales (ring units)."""
        if any(scale <= 0 for scale in scales):
            raise ValueError("a noise scale is above 0")
        scale = np.array([float(scale) for scale in scales])
        period = np.maximum(2, np.rint(2 * np.pi * scale / 3)).astype(np.int64)
        zeros = np.zeros(scale.size)
        phi = characteristic(2 * np.pi / period, scale)
        return cls(period, phi, np.zeros(scale.size, np.int64), zeros, zeros)

    def plus(self, values: Ints, seen: Flags | None = None) -> NoiseAudit:
        """With one more round: (n,) noisy values in ring units, of those that took part."""
        if values.shape != self.period.shape or values.dtype != np.int64:
            raise ValueError("one whole value for each curator")
        here = np.ones(values.shape, np.bool_) if seen is None else seen
        angle = (values % self.period) * (2 * np.pi / self.period)
        return NoiseAudit(
            self.period,
            self.phi,
            self.rounds + here,
            self.cosines + np.cos(angle) * here,
            self.sines + np.sin(angle) * here,
        )

    @property
    def strength(self) -> Floats:
        """|mean_t e^(i u y_t)|, in [0, 1]; 0 where no round was seen."""
        return np.hypot(self.cosines, self.sines) / np.maximum(self.rounds, 1)

    def verdict(self, alpha: float, look: int) -> Verdict:
        """Look number `look` (1, 2, ...): who shows more than compliant noise may.

        Each row is tested at alpha / (n look (look + 1)): over all rows and all looks ever taken,
        an honest deployment sees any flag with probability at most alpha.
        """
        if look < 1:
            raise ValueError("looks are counted from 1")
        each = alpha / (max(1, self.period.size) * look * (look + 1))
        limit = threshold(self.phi, self.rounds, each)
        strength = self.strength
        return Verdict(strength > limit, strength, limit, each)


def rounds_to_tell(alpha: float, phi: float = 0.1) -> int:
    """After how many rounds a constant value without noise passes the threshold at this alpha."""
    return math.floor(4 * math.log(4 / alpha) / (1 - phi) ** 2) + 1
