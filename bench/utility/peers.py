"""Published methods that `bench.utility` sets beside ours, as baselines in floating point.

None of them protects anybody here: their noise is that of a seeded generator. Each has the pure
epsilon that it is given, in the units of the method beside it.

Sources: PrivTree (Zhang, Xiao and Xie, 2016); piecewise and
hybrid reports (Wang et al., 2019); k-ary randomised response (Kairouz, Oh and Viswanath, 2014).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.kmeans.starts import weighted_kmeans
from algorithms.simplex import on_simplex

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Generator = np.random.Generator

_DEEPEST: Final = 20


# ---------------------------------------------------------------------------------------- clusters


def privtree(points: Floats, epsilon: float, generator: Generator) -> tuple[Floats, Floats]:
    """Middles (c, d) and noisy counts (c,) of the leaves of a tree over the unit box: half of
    epsilon for where it splits, half for the counts."""
    dimension = points.shape[1]
    fanout = 1 << dimension
    scale = (2 * fanout - 1) / (fanout - 1) / (epsilon / 2)
    decay = scale * math.log(fanout)
    corners = np.array(np.meshgrid(*[(0, 1)] * dimension, indexing="ij")).reshape(dimension, -1).T
    open_cells = [(np.zeros(dimension), points, 0)]
    middles, counts = [], []
    while open_cells:
        corner, inside, depth = open_cells.pop()
        side = 0.5**depth
        biased = max(len(inside) - decay * depth, -decay)
        if depth < _DEEPEST and biased + generator.laplace(0, scale) > 0:
            halves = np.minimum((inside - corner) / (side / 2), 1).astype(np.int64)
            place = halves @ (1 << np.arange(dimension)[::-1])
            for number, offset in enumerate(corners):
                open_cells.append((corner + offset * side / 2, inside[place == number], depth + 1))
            continue
        middles.append(corner + side / 2)
        counts.append(len(inside) + generator.laplace(0, 2 / epsilon))
    return np.array(middles), np.array(counts)


def privtree_means(points: Floats, clusters: int, epsilon: float, seed: int) -> Floats:
    """Weighted k-means on the leaves that seem occupied, (k, d)."""
    generator = np.random.default_rng(seed)
    middles, counts = privtree(points, epsilon, generator)
    chosen = np.flatnonzero(counts > 0)
    if not chosen.size:
        return generator.random((clusters, points.shape[1]))
    return weighted_kmeans(middles[chosen], counts[chosen], clusters, generator).centres


# ----------------------------------------------------------------------------------------- reports


def piecewise(values: Floats, epsilon: float, generator: Generator) -> Floats:
    """Unbiased reports of values (n,) in [-1, 1], near them or anywhere in [-C, C]."""
    half = math.exp(epsilon / 2)
    most = (half + 1) / (half - 1)
    left = (most + 1) / 2 * values - (most - 1) / 2
    near = generator.random(values.size) < half / (half + 1)
    inside = left + (most - 1) * generator.random(values.size)
    beside = generator.random(values.size) * (most + 1) - most
    beside += np.where(beside > left, most - 1, 0)
    return np.asarray(np.where(near, inside, beside))


def two_points(values: Floats, epsilon: float, generator: Generator) -> Floats:
    """Unbiased reports of one of two values."""
    most = (math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)
    upper = generator.random(values.size) < 0.5 + values / (2 * most)
    return np.where(upper, most, -most)


def hybrid(values: Floats, epsilon: float, generator: Generator) -> Floats:
    """Piecewise for a share 1 - e^(-epsilon / 2) above epsilon 0.61, else of two points."""
    share = 1 - math.exp(-epsilon / 2) if epsilon > 0.61 else 0.0
    chosen = generator.random(values.size) < share
    one, other = (method(values, epsilon, generator) for method in (piecewise, two_points))
    return np.where(chosen, one, other)


def randomised_response(places: Ints, buckets: int, epsilon: float, generator: Generator) -> Floats:
    """Unbiased shares (d,) of reports of one bucket each, moved to the simplex."""
    odds = math.exp(epsilon)
    truth, lie = odds / (odds + buckets - 1), 1 / (odds + buckets - 1)
    others = (places + generator.integers(1, buckets, places.size)) % buckets
    sent = np.where(generator.random(places.size) < truth, places, others)
    counted = np.bincount(sent, minlength=buckets) / max(1, places.size)
    return on_simplex((counted - lie) / (truth - lie))
