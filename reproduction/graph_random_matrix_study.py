"""Measurements shared by the experiments on random projections.

Spec: graph-random-matrix, section 5.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

import numpy as np

from algorithms.graph_random_matrix.evaluation import (
    agreement,
    clusterings,
    eigenpairs,
    laplace_eigenpairs,
    overlap,
    squared_distance,
)
from algorithms.graph_random_matrix.findings import Labels
from algorithms.graph_random_matrix.linear_algebra import Spectrum, centrality
from reproduction.experiment import Run
from reproduction.graph_random_matrix_data import Network
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


def runs_of(run: Run) -> int:
    """How many releases each figure is the mean of."""
    return max(LEAST_RUNS, run.effort.repetitions(RUNS))


@lru_cache(maxsize=16)
def true_clusters(network: Network, k: int) -> list[Labels]:
    """Five clusterings of the true eigenvectors."""
    return clusterings(network.truth.vectors[:, :k], CLUSTERINGS, 1)


def nmi(network: Network, found: Spectrum, k: int) -> float:
    """The source's protocol, with one private clustering in place of five."""
    held = min(k, found.scaled.shape[1])
    return agreement(true_clusters(network, k), clusterings(found.vectors[:, :held], 1, 2))


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
