"""The likeliest path behind noisy labels: maximum-weight Hamiltonian paths, exactly.

Spec: path-publishing, section 3.9. An edge of the map weighs +1 where its label says "not in G",
-1 where it says "in G"; the likelihood of a path grows with the sum over its edges, whatever
epsilon is. M. Held and R. M. Karp, "A dynamic programming approach to sequencing problems" (1962):
O(2^n n^2) time and O(2^n n) memory, over all subsets of one size at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.paths.network import NetworkMap
from tacit.paths.published import RandomizedLabels

Weights = NDArray[np.int8]

MOST_VERTICES: Final = 18
NO_EDGE: Final = -100
"""Below every sum of 17 weights of -1."""


@dataclass(frozen=True)
class Best:
    """One of the heaviest paths, from the end of smaller number; how many there are, and their
    weight."""

    path: tuple[int, ...]
    count: int
    weight: int


def map_weights(network: NetworkMap, published: RandomizedLabels) -> Weights:
    """(n, n) weights of the map's edges over the published order of ids; NO_EDGE elsewhere."""
    size = network.size
    places = {each: place for place, each in enumerate(published.vertices)}
    moved = np.array([places[each] for each in network.vertices], np.int64)
    label = np.zeros((size, size), np.bool_)
    label[np.triu_indices(size, 1)] = published.labels
    ends = np.sort(moved[network.edges], axis=1)
    weights = np.full((size, size), NO_EDGE, np.int8)
    direction = np.where(label[ends[:, 0], ends[:, 1]], 1, -1)
    weights[ends[:, 0], ends[:, 1]] = weights[ends[:, 1], ends[:, 0]] = direction
    return weights


def best_paths(weights: Weights) -> Best | None:
    """The heaviest Hamiltonian paths of (n, n) symmetric weights, n >= 2; None where there is no
    such path."""
    size = len(weights)
    best, count = _tables(weights)
    whole = (1 << size) - 1
    weight = int(best[whole].max())
    if weight < -size:
        return None
    last = int(best[whole].argmax())
    ways = int(count[whole][best[whole] == weight].sum()) // 2
    path, left = [last], whole
    while left & (left - 1):
        here = path[-1]
        left ^= 1 << here
        reached = best[left].astype(np.int64) + weights[:, here]
        path.append(int((reached == best[left | 1 << here, here]).argmax()))
    ordered = path if path[0] < path[-1] else path[::-1]
    return Best(tuple(ordered), ways, weight)


def _tables(weights: Weights) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    """For each set of vertices and each end in it: the heaviest path through the set to that end,
    and how many there are."""
    size = len(weights)
    subsets = np.arange(1 << size, dtype=np.int64)
    sizes = np.bitwise_count(subsets)
    best = np.full((1 << size, size), NO_EDGE, np.int8)
    count = np.zeros((1 << size, size), np.int64)
    single = 1 << np.arange(size)
    best[single, np.arange(size)] = 0
    count[single, np.arange(size)] = 1
    for each in range(2, size + 1):
        layer = subsets[sizes == each]
        for end in range(size):
            whole = layer[(layer >> end) & 1 == 1]
            rest = whole ^ (1 << end)
            reached = best[rest].astype(np.int16) + weights[:, end]
            most = reached.max(axis=1)
            held = most >= -size
            best[whole[held], end] = most[held]
            ways = np.where(reached == most[:, None], count[rest], 0).sum(axis=1)
            count[whole[held], end] = ways[held]
    return best, count
