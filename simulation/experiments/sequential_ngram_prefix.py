"""The noisy prefix tree in its simple form, as n-grams are compared with it.

Spec: sequential-prefix-tree, section 3 (simple, floating-point noise), with the threshold
max(2 sqrt 2, ln L) that keeps it from growing without end; sequential-ngram, section 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from algorithms.sequential_ngram.patterns import Text
from common.datasets.sequences import Sequences
from common.noise import floating_laplace
from common.randomness import SeededRandom

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PrefixTree:
    """Nodes by level, the root left out: parents (N,), -1 for the root; items, counts (N,);
    bounds: where each level begins, and N."""

    parents: Ints
    items: Ints
    counts: Floats
    bounds: tuple[int, ...]


def prefix_text(dataset: Sequences, epsilon: float, height: int, source: SeededRandom) -> Text:
    """The synthetic database of a prefix tree of this height."""
    tree = _built(dataset, epsilon / height, height, source)
    counts = _consistent(tree)
    inner = tree.parents >= 0
    below = np.bincount(tree.parents[inner], counts[inner], counts.size)
    copies = np.floor(np.maximum(counts - below, 0) + 0.5).astype(np.int64)
    rows: list[tuple[NDArray[np.integer], int]] = []
    prefix = np.zeros((1, 0), np.int32)
    for level in range(len(tree.bounds) - 1):
        own = slice(tree.bounds[level], tree.bounds[level + 1])
        above = tree.parents[own] - (tree.bounds[level - 1] if level else -1)
        prefix = np.column_stack((prefix[above], tree.items[own].astype(np.int32)))
        rows += [
            (path, count) for path, count in zip(prefix, copies[own].tolist(), strict=True) if count
        ]
    return Text.of_rows(rows, len(dataset.universe))


def _built(dataset: Sequences, budget: float, height: int, source: SeededRandom) -> PrefixTree:
    items = len(dataset.universe)
    threshold = max(2 * math.sqrt(2), math.log(items)) / budget
    lengths = np.diff(dataset.starts)
    inside = np.arange(dataset.count)
    row = np.zeros(dataset.count, np.int64)
    parents, labels, counts, bounds = [], [], [], [0]
    rows, first = 1, -1
    for level in range(height):
        longer = lengths[inside] > level
        inside, row = inside[longer], row[longer]
        cells = row * items + dataset.items[dataset.starts[inside] + level]
        exact = np.bincount(cells, minlength=rows * items)
        noisy = exact + floating_laplace(source, 1 / budget, exact.size)
        kept = np.flatnonzero(noisy >= threshold)
        if not kept.size:
            break
        parents.append(kept // items + first)
        labels.append(kept % items)
        counts.append(noisy[kept])
        table = np.full(exact.size, -1)
        table[kept] = np.arange(kept.size)
        row = table[cells]
        inside, row = inside[row >= 0], row[row >= 0]
        rows, first = kept.size, bounds[-1]
        bounds.append(first + rows)
    nothing: list[Ints] = [np.zeros(0, np.int64)]
    return PrefixTree(
        np.concatenate(parents or nothing),
        np.concatenate(labels or nothing),
        np.concatenate(counts or [np.zeros(0)]),
        tuple(bounds),
    )


def _consistent(tree: PrefixTree) -> Floats:
    """Steps 7 to 9: a monotone fit of each path from a leaf, its mean over leaves, children within
    their parents."""
    size = tree.parents.size
    leaves = np.setdiff1d(np.arange(size), tree.parents)
    total, paths = np.zeros(size), np.zeros(size)
    for level in range(len(tree.bounds) - 1):
        own = leaves[(leaves >= tree.bounds[level]) & (leaves < tree.bounds[level + 1])]
        if not own.size:
            continue
        path = np.empty((own.size, level + 1), np.int64)
        path[:, 0] = own
        for step in range(1, level + 1):
            path[:, step] = tree.parents[path[:, step - 1]]
        fitted = _rising(tree.counts[path])
        total += np.bincount(path.ravel(), fitted.ravel(), size)
        paths += np.bincount(path.ravel(), minlength=size)
    mean = total / np.maximum(paths, 1)
    found = mean.copy()
    inner = tree.parents >= 0
    children = np.bincount(tree.parents[inner], minlength=size)
    sums = np.bincount(tree.parents[inner], mean[inner], size)
    for level in range(1, len(tree.bounds) - 1):
        span = slice(tree.bounds[level], tree.bounds[level + 1])
        above = tree.parents[span]
        found[span] = mean[span] + np.minimum(0, (found[above] - sums[above]) / children[above])
    return found


def _rising(values: Floats) -> Floats:
    """The nearest non-decreasing rows (paths, depth): min over j >= m of max over i <= j of the
    mean of i..j."""
    depth = values.shape[1]
    sums = np.concatenate((np.zeros((len(values), 1)), np.cumsum(values, axis=1)), axis=1)
    highest = np.empty_like(values)
    for end in range(depth):
        spans = np.arange(end + 1, 0, -1)
        highest[:, end] = ((sums[:, end + 1, None] - sums[:, : end + 1]) / spans).max(axis=1)
    return np.minimum.accumulate(highest[:, ::-1], axis=1)[:, ::-1]
