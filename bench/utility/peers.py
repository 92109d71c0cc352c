"""Published methods that `bench.utility` sets beside ours, as baselines in floating point.

None of them protects anybody here: their noise is that of a seeded generator. Each has the pure
epsilon that it is given, in the units of the method beside it.

Sources: top-m filter (Nguyen, Imine and Rusinowitch, 2015); Chung-Lu graphs of noisy degrees;
uniform grids (Qardaji, Yang and Li, 2013); PrivTree (Zhang, Xiao and Xie, 2016); piecewise and
hybrid reports (Wang et al., 2019); k-ary randomised response (Kairouz, Oh and Viswanath, 2014).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import SequentialContext
from algorithms.graph_der.block_graph import cell_of, drawn_pairs, vertex_weights
from algorithms.graph_der.evaluation import Ends
from algorithms.graph_der.regions import BlockPlan, Coarse, Fine, Ints, Labels, Measured
from algorithms.kmeans.starts import weighted_kmeans
from algorithms.simplex import on_simplex

Floats = NDArray[np.float64]
Generator = np.random.Generator

_SIZE_SHARE: Final = 0.03
_GRID_CONSTANT: Final = 10
_DEEPEST: Final = 20


# ------------------------------------------------------------------------------------------ graphs


def top_m_filter(
    low: Labels, high: Labels, vertices: int, epsilon: float, generator: Generator
) -> Ends:
    """Edges whose noisy value passes a threshold, and so many other pairs that a noisy number of
    edges is reached; that number has 3 % of epsilon."""
    pairs = vertices * (vertices - 1) // 2
    noise = generator.laplace(0, 1 / (_SIZE_SHARE * epsilon))
    wanted = int(np.clip(round(low.size + noise), 1, pairs - 1))
    own = epsilon * (1 - _SIZE_SHARE)
    border = math.log(max(pairs / wanted - 1, 1e-9))
    if own < border:
        threshold = border / (2 * own)
    else:
        threshold = math.log(pairs / (2 * wanted) + (math.exp(own) - 1) / 2) / own
    passed = np.flatnonzero(1 + generator.laplace(0, 1 / own, low.size) > threshold)
    passed = generator.permutation(passed)[:wanted]
    held = low[passed].astype(np.int64) * vertices + high[passed]
    true = np.sort(low.astype(np.int64) * vertices + high)
    while held.size < wanted:
        row, column = cell_of(generator.integers(0, pairs, wanted - held.size), vertices)
        drawn = np.setdiff1d(row * vertices + column, true)
        held = np.union1d(held, drawn)
    first, second = np.divmod(held[:wanted], vertices)
    return first.astype(np.int32), second.astype(np.int32)


def chung_lu(low: Labels, high: Labels, vertices: int, epsilon: Fraction, seed: int) -> Ends:
    """A graph whose ends follow noisy degrees, which have all of epsilon."""
    plan = BlockPlan(vertices, epsilon, (Fraction(0), Fraction(1), Fraction(0), Fraction(0)), 1, 16)
    degrees = np.bincount(low, minlength=vertices) + np.bincount(high, minlength=vertices)
    noise = np.random.default_rng(seed).laplace(0, float(plan.scale(1)), vertices)
    noisy = np.rint(degrees + noise).astype(np.int64)
    fine = Fine.of(Coarse.of(vertices, 1), np.ones(1, np.int64))
    edges = np.clip(np.array([int(noisy.sum()) // 2]), 1, fine.room)
    return _drawn(fine, edges, vertex_weights(noisy, plan), seed)


def uniform_grid(low: Labels, high: Labels, vertices: int, epsilon: float, seed: int) -> Ends:
    """Noisy counts of the cells of one grid of labels, edges uniform in each."""
    generator = np.random.default_rng(seed)
    size = max(1.0, low.size + generator.laplace(0, 1 / (_SIZE_SHARE * epsilon)))
    own = epsilon * (1 - _SIZE_SHARE)
    ranges = int(np.clip(round(math.sqrt(2 * size * own / _GRID_CONSTANT)), 4, vertices // 2))
    grid = Coarse.of(vertices, ranges)
    fine = Fine.of(grid, np.ones(grid.cells[0].size, np.int64))
    counts = np.bincount(fine.place(low, high), minlength=fine.room.size)
    noisy = on_simplex(counts + generator.laplace(0, 1 / own, counts.size))
    whole = np.floor(noisy + generator.random(noisy.size)).astype(np.int64)
    return _drawn(fine, np.minimum(whole, fine.room), np.ones(vertices), seed)


def _drawn(fine: Fine, counts: Ints, weights: Floats, seed: int) -> Ends:
    measured = Measured(int(counts.sum()), counts, fine, counts, None)
    keys = drawn_pairs(measured, counts, weights, SequentialContext(test_seed=seed))
    first, second = np.divmod(keys, weights.size)
    return first.astype(np.int32), second.astype(np.int32)


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
