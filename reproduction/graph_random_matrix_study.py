"""Measurements shared by the experiments on random projections.

Spec: graph-random-matrix, section 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import numpy as np

from algorithms.graph_random_matrix.evaluation import (
    agreement,
    clusterings,
    eigenpairs,
    overlap,
    squared_distance,
)
from algorithms.graph_random_matrix.linear_algebra import Floats, Spectrum, centrality
from algorithms.graph_random_matrix.outcome import Labels
from reproduction.experiment import Run
from reproduction.graph_random_matrix_data import Network
from tacit.noise import floating_laplace
from tacit.randomness import SeededRandom

SIGMAS: Final = ("0.1", "0.5", "1", "5.97")
"""The source's three, and what an exact Gaussian needs at epsilon 1, delta 1e-6."""
BASELINE_EPSILON: Final = 7.29
"""The source's sigma of 1, read as the epsilon of an exact Gaussian."""
RUNS: Final = 20
LEAST_RUNS: Final = 8
"""Fewer say too little about how much one differs from the next."""
CLUSTERINGS: Final = 5

Estimate = Callable[[int], Spectrum]


# LNPP: eigenpairs under Laplace noise.
#
# The scale of an eigenvector's noise is sqrt(n) over the gap of its own eigenvalue: a local
# sensitivity, and only of first order. Two equal disjoint cliques have gap 0 and noise without
# bound, one edge less has a finite one: no epsilon holds.
#
# Source: Y. Wang, X. Wu, L. Wu, "Differential privacy preserving spectral graph analysis", PAKDD
# 2013, as far as it could be rebuilt. Spec: graph-random-matrix, section 6.


def laplace_eigenpairs(
    values: Floats, vectors: Floats, epsilon: float, source: SeededRandom
) -> Spectrum:
    """Noisy eigenpairs k from k + 1 true ones: values (k + 1,), falling; vectors (n, k + 1).

    epsilon is split evenly over the values and each of the k vectors. Not private.
    """
    n, k = vectors.shape[0], vectors.shape[1] - 1
    share = epsilon / (k + 1)
    noisy = values[:k] + floating_laplace(source, math.sqrt(2 * k) / share, k)
    found = np.empty((n, k))
    for place in range(k):
        gap = values[place] - values[place + 1]
        if place:
            gap = min(gap, values[place - 1] - values[place])
        noise = floating_laplace(source, 1.0, n)
        if gap > 0:
            scale = math.sqrt(n) / gap / share
            found[:, place] = vectors[:, place] + scale * noise
        else:
            found[:, place] = noise  # a scale without bound leaves nothing else
    found /= np.linalg.norm(found, axis=0)
    # X (X'X)^(-1/2): the nearest matrix with orthonormal columns.
    left, _, right = np.linalg.svd(found, full_matrices=False)
    return Spectrum(np.abs(noisy), (left @ right) * np.abs(noisy))


def runs_of(run: Run) -> int:
    """How many releases each figure is the mean of."""
    return max(LEAST_RUNS, run.effort.repetitions(RUNS))


@lru_cache(maxsize=16)
def true_clusters(network: Network, k: int) -> list[Labels]:
    """Five clusterings of the true eigenvectors."""
    return clusterings(network.truth.vectors[:, :k], CLUSTERINGS, 1)


def nmi(network: Network, found: Spectrum, k: int) -> float:
    """The source's protocol, with one private clustering in place of five."""
    return agreement(true_clusters(network, k), [private_clusters(found, k)])


def private_clusters(found: Spectrum, k: int) -> Labels:
    """One clustering by k noisy eigenvectors, or as many as there are."""
    return clusterings(found.vectors[:, : min(k, found.scaled.shape[1])], 1, 2)[0]


def shares(labels: Labels, k: int) -> Floats:
    """The share of the vertices (n,) in each of k clusters, largest first."""
    return np.sort(np.bincount(labels, minlength=k) / len(labels))[::-1]


def distance(network: Network, found: Spectrum, k: int) -> float:
    """n * MSE of the scores of k components."""
    return squared_distance(_scores(network.truth, k), _scores(found, k))


def top_share(network: Network, found: Spectrum, k: int, top: int) -> float:
    """Common vertices of the two rankings' heads."""
    return overlap(_scores(network.truth, k), _scores(found, k), top)


def _scores(spectrum: Spectrum, k: int) -> np.ndarray:
    return centrality(spectrum.scaled[:, :k])


@lru_cache(maxsize=4)
def _algebraic(network: Network, count: int) -> tuple[np.ndarray, np.ndarray]:
    return eigenpairs(network.graph, count, algebraic=True)


def baseline(network: Network, k: int, source: SeededRandom) -> Spectrum:
    """LNPP, which is not private."""
    values, vectors = _algebraic(network, k + 1)
    return laplace_eigenpairs(values, vectors, BASELINE_EPSILON, source)


def mean(values: list[float]) -> float:
    """Of what the runs gave."""
    return float(np.mean(values))
