"""Figures on real and generated graphs. Spec: graph-random-matrix, section 8, checks 8 to 10.

Seeds are fixed; what a fresh seed would do is said where it is close.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest

from algorithms.contract import SequentialContext
from algorithms.graph_random_matrix.evaluation import cosines
from algorithms.graph_random_matrix.linear_algebra import Spectrum
from algorithms.graph_random_matrix.parameters import squared_cosine
from algorithms.graph_random_matrix.publication import iterate
from reproduction.graph_random_matrix_data import Network, facebook
from simulation.populations import shared_data

needs_facebook = pytest.mark.skipif(
    shared_data() is None or not (shared_data() / "facebook_combined.txt").exists(),  # type: ignore[operator]
    reason="facebook_combined.txt is not beside the repository",
)


def network() -> Network:
    found = facebook(shared_data())
    assert found.real
    return found


@lru_cache(maxsize=32)
def estimates(columns: int, sigma: str, runs: int) -> tuple[Spectrum, ...]:
    return tuple(network().estimate(columns, sigma, seed, 8) for seed in range(1, runs + 1))


def first_cosine(columns: int, sigma: str, runs: int = 5) -> float:
    truth = network().truth.vectors[:, :1]
    found = [
        cosines(truth, each.vectors[:, :1])[0] ** 2 for each in estimates(columns, sigma, runs)
    ]
    return float(np.mean(found))


def formula(columns: int, sigma: str) -> float:
    largest, graph = float(network().truth.values[0]), network().graph
    return squared_cosine(largest, graph.count, columns, float(sigma), graph.entries / graph.count)


@needs_facebook
@pytest.mark.parametrize("sigma", ["1"])
def test_the_formula(sigma: str) -> None:
    """Acceptance 8: the mean of 5 runs within 0.06. At m = 200 and sigma = 1, the worst, that mean
    has standard error 0.019 and a bias of -0.024."""
    assert abs(first_cosine(200, sigma) - formula(200, sigma)) < 0.06


@needs_facebook
def test_subspace_iteration() -> None:
    """Acceptance 10: epsilon 4, delta 1e-6, four steps, k = 4."""
    graph, truth = network().graph, network().truth.vectors[:, :1]
    found = []
    for seed in range(2):
        sigma = Fraction(17930, 10_000)
        done = iterate(graph, 4, 4, sigma, 20, seed, SequentialContext(test_seed=seed))
        found.append(cosines(truth, done.spectrum.vectors[:, :1])[0] ** 2)
    assert np.mean(found) >= 0.85
