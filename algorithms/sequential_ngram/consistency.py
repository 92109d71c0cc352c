"""Counts made consistent: the successors of a gram add up to the gram's own count.

Spec: sequential-ngram, section 3, step 5. Post-processing of noisy counts, top down.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from algorithms.sequential_ngram.settings import Fill
from algorithms.sequential_ngram.tree import Tree

Floats = NDArray[np.float64]


def adjusted(tree: Tree) -> Floats:
    """Consistent counts (N, A), none negative.

    A row of the tree keeps its measured counts where they passed; the others are estimated by the
    Markov parent's row (`Settings.fill`); then the row is scaled to the gram's count. A row in
    which nothing passed is 0.
    """
    found = np.zeros(tree.noisy.shape)
    passed = tree.passed
    found[0, :-1] = np.maximum(tree.noisy[0, :-1], 0)
    for level in range(1, tree.depth):
        rows = slice(tree.bounds[level], tree.bounds[level + 1])
        links = tree.links[rows]
        counts = found[tree.parents[rows], tree.items[rows]]
        values = _filled(
            np.where(passed[rows], tree.noisy[rows], 0.0),
            passed[rows],
            counts[:, None],
            found[links],
            (links == 0)[:, None],
            tree.settings.fill,
        )
        values[~passed[rows].any(axis=1)] = 0
        total = values.sum(axis=1)
        scale = np.divide(counts, total, out=np.zeros(total.size), where=total > 0)
        found[rows] = values * scale[:, None]
    return found


def _filled(
    kept: Floats,
    passed: NDArray[np.bool_],
    counts: Floats,
    parent: Floats,
    no_parent: NDArray[np.bool_],
    fill: Fill,
) -> Floats:
    """The rows (E, A) with estimates where nothing passed; counts (E, 1): of the grams; parent
    (E, A): rows of their Markov parents; no_parent (E, 1): where that is the empty gram."""
    if fill == "none":
        return kept
    missing = ~passed
    held = kept.sum(axis=1, keepdims=True)
    rest = np.maximum(counts - held, 0)
    even = _share(missing.astype(float)) * rest
    if fill == "ratio":
        known = np.where(passed, parent, 0).sum(axis=1, keepdims=True)
        weight = np.divide(held, known, out=np.zeros_like(held), where=known > 0)
        estimate = parent * weight
    else:
        weights = np.where(missing, parent, 0)
        estimate = np.where(weights.any(axis=1, keepdims=True), _share(weights) * rest, even)
    return np.where(missing, np.where(no_parent, even, estimate), kept)


def _share(weights: Floats) -> Floats:
    total = weights.sum(axis=1, keepdims=True)
    shares = np.zeros_like(weights)
    np.divide(weights, total, out=shares, where=total > 0)
    return shares
