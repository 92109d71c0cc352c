"""Degrees of vertices from noisy ones: post-processing, no budget.

The law of the true degrees is estimated from the noisy ones by expectation maximisation, stopped
once it explains them as well as chance lets it: more steps would fit the noise. Its quantiles are
the sorted degrees, and the vertex with the i-th smallest noisy degree gets the i-th of them.

The sorted degrees alone are a query of their own with less error: `degree_sequence`.

Source: expectation maximisation of a mixing law (N. Laird, 1978), stopped by discrepancy. Spec:
graph-der, section 10.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.randomness import NoiseSource

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

LEAST_STEPS: Final = 2
"""From the histogram of noisy degrees, which is wider than the law by the noise."""
MOST_STEPS: Final = 200
_WORK: Final = 1 << 26
"""Steps times the width of the law, about."""
CLOSE: Final = 0.5
"""Largest distance of the distribution functions that is left, over 1 / sqrt(n): one of n draws is
further from its law in 96 of 100 cases."""
_TAIL: Final = 20
"""Beyond this many scales the noise is not looked at."""
_WIDEST_TAIL: Final = 1 << 20


@dataclass(frozen=True, eq=False)
class DegreeLaw:
    """law (highest + 1,): the estimated probability of each degree; blur: the characteristic
    function of the noise, at the waves of arrays in which the degree d has the index d - first."""

    law: Floats
    first: int
    blur: Floats
    noise_variance: float

    @classmethod
    def of(cls, noisy: Ints, scale: float, noise_share: float = 1.0) -> DegreeLaw:
        """noisy (n,): degrees with discrete Laplace noise of this scale, or (over curators) as many
        shares of it as make up `noise_share` draws."""
        highest = max(int(noisy.max()), 0)
        tail = min(math.ceil(_TAIL * scale * math.sqrt(noise_share)), _WIDEST_TAIL)
        first = min(int(noisy.min()), 0) - tail
        width = 1 << (highest + tail - first).bit_length()
        ratio = math.exp(-1 / scale)
        waves = 2 * math.pi * np.arange(width // 2 + 1) / width
        blur = ((1 - ratio) ** 2 / (1 - 2 * ratio * np.cos(waves) + ratio**2)) ** noise_share
        start = np.bincount(np.clip(noisy, 0, None), minlength=highest + 1) / noisy.size
        variance = noise_share * laplace_variance(scale)
        law = cls(start, first, blur, variance)
        share_seen = np.bincount(noisy - first, minlength=width) / noisy.size
        distribution = share_seen.cumsum()
        for step in range(min(MOST_STEPS, max(LEAST_STEPS, _WORK // width))):
            expected = law._blurred(law._wide())
            distance = np.abs(expected.cumsum() - distribution).max()
            if step >= LEAST_STEPS and distance <= CLOSE / math.sqrt(noisy.size):
                break
            odds = np.divide(share_seen, expected, out=np.zeros(width), where=share_seen > 0)
            # The noise is symmetric, so that its transpose is itself.
            more = law.law * law._blurred(odds)[-first : -first + highest + 1]
            law = replace(law, law=more / more.sum())
        return law

    @property
    def variance(self) -> float:
        """Of the true degrees."""
        degrees = np.arange(self.law.size)
        mean = float(self.law @ degrees)
        return float(self.law @ np.square(degrees)) - mean**2

    def means(self, noisy: Ints) -> Floats:
        """(n,) the expected degree of each vertex, given its noisy one."""
        wide = self._wide()
        degrees = np.zeros(wide.size)
        degrees[-self.first : -self.first + self.law.size] = np.arange(self.law.size)
        weighted, expected = self._blurred(wide * degrees), self._blurred(wide)
        ratio = np.divide(weighted, expected, out=np.zeros(wide.size), where=expected > 0)
        estimated: Floats = np.clip(ratio, 0, self.law.size - 1)[noisy - self.first]
        return estimated

    def ranked(self, noisy: Ints, source: NoiseSource) -> Floats:
        """(n,) a whole degree for each vertex: quantiles of the law, in the order of the noisy
        degrees, equal ones in random order."""
        size = noisy.size
        quantiles = np.searchsorted(self.law.cumsum(), (np.arange(size) + 0.5) / size)
        ranked = np.empty(size)
        keys = (noisy - noisy.min()).astype(np.uint64)
        bits = int(keys.max()).bit_length()
        keys <<= np.uint64(64 - bits)
        keys |= source.words(size) >> np.uint64(bits)
        ranked[np.argsort(keys, kind="stable")] = np.minimum(quantiles, size - 1)
        return ranked

    def _wide(self) -> Floats:
        wide = np.zeros(2 * (self.blur.size - 1))
        wide[-self.first : -self.first + self.law.size] = self.law
        return wide

    def _blurred(self, values: Floats) -> Floats:
        smooth: Floats = np.fft.irfft(np.fft.rfft(values) * self.blur, values.size)
        return np.maximum(smooth, 0)


def possible(noisy: Ints, scale: float, most: int, noise_share: float = 1.0) -> Ints:
    """Noisy degrees (n,) moved to where a degree of 0 to `most` can be seen through this noise.

    Without a proof a curator moves a count by any amount, and a law has a place for each number up
    to the largest."""
    reach = math.ceil(_TAIL * scale * math.sqrt(noise_share))
    return np.clip(noisy, -reach, most + reach)


def laplace_variance(scale: float) -> float:
    """Of a discrete Laplace draw: 2 a / (1 - a)^2, a = e^(-1 / scale)."""
    return 1 / (2 * math.sinh(1 / (2 * scale)) ** 2)
