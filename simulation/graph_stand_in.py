"""Generated graphs in place of large social networks, which are not shipped.

Spec: graph-random-matrix, section 5 (stand-ins for the book's graphs). Vertex i has the weight
(i + 10)^(-1/1.5); both ends of a pair are drawn by weight, loops and repeats are dropped and more
pairs drawn until there are enough, and vertices are permuted. With groups the same within 16 groups
of sizes in proportion to 1..16, 80 % of pairs inside a group.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.datasets.edge_list import EdgeList

GROUPS: Final = 16
INSIDE: Final = 0.8

Places = NDArray[np.int64]


def power_law(vertices: int, edges: int, seed: int, groups: int = 1) -> EdgeList:
    """A graph with exactly these numbers; groups: 1, or as many communities of unequal size."""
    generator = np.random.default_rng(seed)
    sizes = np.arange(1, groups + 1) / (groups * (groups + 1) / 2)
    borders = np.rint(np.concatenate(([0], np.cumsum(sizes))) * vertices).astype(np.int64)
    place = np.concatenate([np.arange(size) for size in np.diff(borders)])
    weights = np.cumsum((place + 10.0) ** (-1 / 1.5))
    keys = np.zeros(0, np.int64)
    while keys.size < edges:
        wanted = int((edges - keys.size) * 1.1) + 100
        first = _drawn(weights, generator.random(wanted))
        second = _drawn(weights, generator.random(wanted))
        if groups > 1:
            _move_inside(second, first, weights, borders, generator)
        low, high = np.minimum(first, second), np.maximum(first, second)
        fresh = (low * vertices + high)[low != high]
        del first, second, low, high
        keys = np.unique(np.concatenate([keys, fresh]))
    keys = keys[np.sort(generator.permutation(keys.size)[:edges])] if keys.size > edges else keys
    places = generator.permutation(vertices).astype(np.int32)
    left, right = places[keys // vertices], places[keys % vertices]
    del keys
    return EdgeList.from_pairs(np.arange(vertices), left, right)


def blocks(sizes: tuple[int, ...], inside: float, between: float, seed: int) -> EdgeList:
    """A stochastic block model: pairs are joined with these chances."""
    generator = np.random.default_rng(seed)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    first, second = np.triu_indices(groups.size, 1)
    chance = np.where(groups[first] == groups[second], inside, between)
    there = generator.random(first.size) < chance
    ends = first[there].astype(np.int32), second[there].astype(np.int32)
    return EdgeList.from_pairs(np.arange(groups.size), *ends)


def _drawn(weights: NDArray[np.float64], uniform: NDArray[np.float64]) -> Places:
    """Places by their cumulated weights; sorted look-ups stay in the cache."""
    uniform *= weights[-1]
    order = np.argsort(uniform)
    found = np.empty(uniform.size, np.int64)
    found[order] = np.searchsorted(weights, uniform[order], side="right")
    return np.minimum(found, weights.size - 1)


def _move_inside(
    second: Places,
    first: Places,
    weights: NDArray[np.float64],
    borders: Places,
    generator: np.random.Generator,
) -> None:
    """Draw again, within the first end's group, the second end of most pairs."""
    moved = np.flatnonzero(generator.random(first.size) < INSIDE)
    group = np.searchsorted(borders, first[moved], side="right") - 1
    totals = np.concatenate(([0.0], weights))
    low, high = totals[borders[group]], totals[borders[group + 1]]
    uniform = low + (high - low) * generator.random(moved.size)
    found = np.searchsorted(weights, uniform, side="right")
    second[moved] = np.clip(found, borders[group], borders[group + 1] - 1)
