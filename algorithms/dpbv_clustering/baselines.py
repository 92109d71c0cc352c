"""What the source compares with: plain k-means, ADP and RSP.

Spec: dpbv-clustering, section 6. They run on true records and protect little or nothing: their
labels are for the evaluation, their true figures for the report. Noise is floating-point Gaussian,
from public randomness; nothing here is released.
"""

from __future__ import annotations

import math

import numpy as np

from algorithms.dpbv_clustering.points import KMeansResult, kmeans
from tacit.encoders.dpbv_clustering.encoder import Floats


def adp(
    values: Floats, sigma: float, clusters: int, generator: np.random.Generator, restarts: int = 10
) -> KMeansResult:
    """k-means of p + N(0, sigma), sigma a standard deviation."""
    return kmeans(values + generator.normal(0, sigma, values.shape), clusters, generator, restarts)


def rsp(
    values: Floats,
    dimensions: int,
    clusters: int,
    generator: np.random.Generator,
    restarts: int = 10,
) -> KMeansResult:
    """k-means of p R / sqrt(q), R (d, q) of independent N(0, 1)."""
    matrix = generator.normal(0, 1, (values.shape[1], dimensions))
    return kmeans(values @ matrix / math.sqrt(dimensions), clusters, generator, restarts)


def gaussian_delta(epsilon: float, sigma: float, diameter: float) -> float:
    """delta of Gaussian noise for points at most `diameter` apart (L2).

    Phi(D/2s - eps s/D) - e^eps Phi(-D/2s - eps s/D); B. Balle and Y.-X. Wang (2018), theorem 8.
    """
    from scipy.special import log_ndtr

    half, shift = diameter / (2 * sigma), epsilon * sigma / diameter
    more = float(log_ndtr(half - shift))
    less = epsilon + float(log_ndtr(-half - shift))
    return 0.0 if less >= more else math.exp(more) * -math.expm1(less - more)


def gaussian_epsilon(delta: float, sigma: float, diameter: float) -> float:
    """The least epsilon with that delta, rounded up by bisection; 0 < delta < 1."""
    low, high = 0.0, 1.0
    while gaussian_delta(high, sigma, diameter) > delta:
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        if gaussian_delta(middle, sigma, diameter) > delta:
            low = middle
        else:
            high = middle
    return high * (1 + 1e-9)
