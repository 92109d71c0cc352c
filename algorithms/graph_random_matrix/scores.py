"""How far an estimate is from the truth: the measures of the source.

Spec: graph-random-matrix, section 5. None of them is private.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from algorithms.graph_random_matrix.spectrum import Floats, ranking


def normalised_mutual_information(one: NDArray[np.int64], other: NDArray[np.int64]) -> float:
    """I / ((H1 + H2) / 2) of labels (n,) from 0; 1 where neither carries information."""
    joint = np.zeros((int(one.max()) + 1, int(other.max()) + 1))
    np.add.at(joint, (one, other), 1.0)
    joint /= len(one)
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    entropies = _entropy(rows) + _entropy(columns)
    if entropies == 0:
        return 1.0
    information = _entropy(rows) + _entropy(columns) - _entropy(joint.ravel())
    return float(np.clip(2 * information / entropies, 0.0, 1.0))


def _entropy(shares: Floats) -> float:
    held = shares[shares > 0]
    return float(-(held * np.log(held)).sum())


def squared_distance(one: Floats, other: Floats) -> float:
    """The source's n * MSE: of scores (n,), each scaled to unit length first; 2 if orthogonal."""
    return float(np.square(_unit(one) - _unit(other)).sum())


def _unit(scores: Floats) -> Floats:
    length = float(np.linalg.norm(scores))
    return scores / length if length else scores


def overlap(one: Floats, other: Floats, top: int) -> float:
    """The share of common vertices among the `top` highest scores (n,) of both."""
    held = min(top, len(one))
    return np.intersect1d(ranking(one)[:held], ranking(other)[:held]).size / held


def cosines(truth: Floats, found: Floats) -> Floats:
    """|<u_i, v_i>| (k,) of unit columns (n, k)."""
    products: Floats = np.abs(np.einsum("ij,ij->j", truth, found))
    return products


def ratios(truth: Floats, found: Floats) -> Floats:
    """|1'v_i| / |1'u_i| (k,): a guess at what the source's table of ratios shows."""
    sums: Floats = np.abs(found.sum(axis=0)) / np.maximum(np.abs(truth.sum(axis=0)), 1e-300)
    return sums


def subspace_share(truth: Floats, found: Floats) -> float:
    """How much of the span of truth (n, k) lies in that of found (n, k), both orthonormal."""
    return float(np.square(truth.T @ found).sum() / truth.shape[1])
