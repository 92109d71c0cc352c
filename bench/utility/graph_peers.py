"""Published and simple methods for graphs, as baselines in floating point.

None of them protects anybody here: their noise is that of a seeded generator. Each has the pure
epsilon that it is given, for an edge more or less. The simple ones are what a user would try first:
noisy degrees with all of epsilon, and what follows from them.

Sources: top-m filter (Nguyen, Imine and Rusinowitch, 2015); uniform grids (Qardaji, Yang and Li,
2013); isotonic regression of sorted degrees (Hay, Li, Miklau and Jensen, 2009); graphs of expected
degrees (Chung and Lu, 2002).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import SequentialContext
from algorithms.graph_der.block_graph import cell_of, drawn_pairs
from algorithms.graph_der.evaluation import Ends
from algorithms.graph_der.regions import Coarse, Fine, Ints, Labels
from algorithms.simplex import on_simplex

Floats = NDArray[np.float64]
Generator = np.random.Generator

_SIZE_SHARE: Final = 0.03
_GRID_CONSTANT: Final = 10


def degrees_of(ends: Ends, vertices: int) -> Ints:
    """(vertices,) how many edges each label has."""
    low, high = ends
    return np.bincount(low, minlength=vertices) + np.bincount(high, minlength=vertices)


def noisy_degrees(true: Ints, epsilon: float, seed: int) -> Floats:
    """(n,) degrees with all of epsilon, whole numbers from 0 to n - 1: an edge has two ends."""
    noise = np.random.default_rng(seed).laplace(0, 2 / epsilon, true.size)
    return np.clip(np.rint(true + noise), 0, true.size - 1)


def isotonic_degrees(true: Ints, epsilon: float, seed: int) -> Floats:
    """(n,) sorted degrees alone, all of epsilon: noise on the sorted sequence, which an edge
    changes by 2 in L1, then the nearest rising sequence."""
    noise = np.random.default_rng(seed).laplace(0, 2 / epsilon, true.size)
    return np.clip(np.rint(rising(np.sort(true) + noise)), 0, true.size - 1)


def rising(values: Floats) -> Floats:
    """The nearest sequence in least squares that never falls: adjacent violators are pooled."""
    sums: list[float] = []
    sizes: list[int] = []
    for value in values.tolist():
        sums.append(value)
        sizes.append(1)
        while len(sums) > 1 and sums[-2] / sizes[-2] >= sums[-1] / sizes[-1]:
            total, size = sums.pop(), sizes.pop()
            sums[-1] += total
            sizes[-1] += size
    return np.repeat(np.array(sums) / np.array(sizes), sizes)


def chung_lu(true: Ints, epsilon: float, seed: int) -> Ends:
    """A graph whose ends are drawn by noisy degrees with all of epsilon; half of their sum is the
    number of edges."""
    noise = np.random.default_rng(seed).laplace(0, 2 / epsilon, true.size)
    weights = np.maximum(true + noise, 0)
    fine = Coarse.of(true.size, 1).whole()
    edges = np.clip(np.array([round(float((true + noise).sum()) / 2)]), 1, fine.room)
    return _drawn(fine, edges, np.maximum(weights, 1e-9), seed)


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
    keys = drawn_pairs(fine, counts, weights, SequentialContext(test_seed=seed))
    first, second = np.divmod(keys, weights.size)
    return first.astype(np.int32), second.astype(np.int32)
