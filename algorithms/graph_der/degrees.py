"""Degrees of vertices from noisy ones: post-processing, no budget.

The law of the true degrees is estimated from the noisy ones by expectation maximisation, stopped
once it explains them as well as chance lets it: more steps would fit the noise. Its quantiles are
the sorted degrees, and the vertex with the i-th smallest noisy degree gets the i-th of them.

An isotonic regression of a noisy sequence that was sorted before the noise (Hay et al., 2009) has
less error in the sequence, but is a query of its own that says nothing of any vertex.

Source: expectation maximisation of a mixing law (N. Laird, 1978), stopped by discrepancy. Spec:
graph-der, section 10.2.
"""

from __future__ import annotations

import math
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


def degree_law(noisy: Ints, scale: float, noise_share: float = 1.0) -> Floats:
    """(largest + 1,) the probability of each degree. noisy (n,): degrees with discrete Laplace
    noise of this scale, or (over curators) as many shares of it as make up `noise_share` draws."""
    highest = max(int(noisy.max()), 0)
    tail = min(math.ceil(_TAIL * scale * math.sqrt(noise_share)), _WIDEST_TAIL)
    first = min(int(noisy.min()), 0) - tail
    width = 1 << (highest + tail - first).bit_length()
    seen = np.bincount(noisy - first, minlength=width) / noisy.size
    law = np.zeros(width)
    own = slice(-first, -first + highest + 1)
    law[own] = np.bincount(np.clip(noisy, 0, None), minlength=highest + 1)
    law /= law.sum()
    # The noise's characteristic function; it is symmetric, so that its transpose is itself.
    ratio = math.exp(-1 / scale)
    waves = 2 * math.pi * np.arange(width // 2 + 1) / width
    blur = ((1 - ratio) ** 2 / (1 - 2 * ratio * np.cos(waves) + ratio**2)) ** noise_share

    def blurred(values: Floats) -> Floats:
        smooth: Floats = np.fft.irfft(np.fft.rfft(values) * blur, width)
        return np.maximum(smooth, 0)

    distribution = seen.cumsum()
    for step in range(min(MOST_STEPS, max(LEAST_STEPS, _WORK // width))):
        expected = blurred(law)
        distance = np.abs(expected.cumsum() - distribution).max()
        if step >= LEAST_STEPS and distance <= CLOSE / math.sqrt(noisy.size):
            break
        odds = np.divide(seen, expected, out=np.zeros(width), where=seen > 0)
        law *= blurred(odds)
        law /= law.sum()
    return law[own]


def ranked_degrees(noisy: Ints, scale: float, noise_share: float, source: NoiseSource) -> Ints:
    """(n,) a whole degree for each vertex: quantiles of the estimated law, in the order of the
    noisy degrees, equal ones in random order; none above n - 1."""
    size = noisy.size
    law = degree_law(noisy, scale, noise_share)
    quantiles = np.searchsorted(law.cumsum(), (np.arange(size) + 0.5) / size)
    order = np.lexsort((source.words(size), noisy))
    ranked = np.empty(size, np.int64)
    ranked[order] = np.minimum(quantiles, size - 1)
    return ranked
