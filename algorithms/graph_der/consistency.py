"""Counts that add up: children to their parents, none below 0; then whole numbers.

Spec: graph-der, section 3.3, step 4. Post-processing of noisy counts and public geometry. Without
it counts that are cut at 0 add edges: the source's graphs have 4 to 15 % too many.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from algorithms.graph_der.exploration import Tree
from algorithms.graph_der.geometry import Ints
from tacit.randomness import NoiseSource

Floats = NDArray[np.float64]


def consistent(tree: Tree) -> Floats:
    """(nodes,) counts, at least 0; each inner node's is the sum of its children's."""
    value, variance = _upwards(tree)
    value[0] = max(value[0], 0.0)
    for depth in range(1, int(tree.depth[-1]) + 1):
        places = np.flatnonzero(tree.depth == depth)
        _share(value, variance, places, tree.parent[places])
    return value


def _upwards(tree: Tree) -> tuple[Floats, Floats]:
    """Each inner node's own count with the sum of its children's, by inverse variance."""
    value, variance = tree.estimate.copy(), tree.variance.copy()
    for depth in range(int(tree.depth[-1]), 0, -1):
        places = np.flatnonzero(tree.depth == depth)
        parents = tree.parent[places]
        inner = np.unique(parents)
        sums = np.bincount(parents, value[places], value.size)[inner]
        spread = np.bincount(parents, variance[places], value.size)[inner]
        own = spread / (variance[inner] + spread)  # 0 where the node itself has no count
        value[inner] = own * value[inner] + (1 - own) * sums
        variance[inner] = (1 - own) * spread
    return value, variance


def _share(value: Floats, variance: Floats, places: Ints, parents: Ints) -> None:
    """Spread what children lack to their parent's count, in proportion to their variances, without
    those that would fall below 0; in place."""
    size = value.size
    active = np.ones(places.size, np.bool_)
    found = value[places]
    for _ in range(5):  # four children: the last round changes nothing
        held, held_parents = places[active], parents[active]
        sums = np.bincount(held_parents, value[held], size)
        spread = np.bincount(held_parents, variance[held], size)
        lack = (value - sums)[held_parents]
        found = np.zeros(places.size)
        found[active] = value[held] + lack * variance[held] / spread[held_parents]
        if not (found < 0).any():
            break
        active &= found >= 0
    value[places] = np.maximum(found, 0.0)


def rounded(values: Floats, most: Ints, source: NoiseSource) -> Ints:
    """Whole numbers from 0 to `most` with these means, where they lie in that range."""
    whole = np.floor(values)
    coin = (source.words(values.size) >> np.uint64(11)) * 2.0**-53
    return np.clip((whole + (coin < values - whole)).astype(np.int64), 0, most)


def nearest(values: Floats, most: Ints) -> Ints:
    """The nearest whole numbers from 0 to `most`."""
    return np.clip(np.rint(values), 0, most).astype(np.int64)
