"""Accounting of Gaussian noise. Spec: graph-random-matrix, sections 4.2 and 8, check 3."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from tacit.noise.gaussian_privacy import (
    distinguishing_advantage,
    gaussian_epsilon,
    gaussian_sigma,
    projection_theorem_epsilon,
    projection_theorem_sigma,
    zcdp_epsilon,
    zcdp_sigma,
)

EDGE = math.sqrt(2)
DELTA = 1e-6
VERTICES = 3_097_165

SIGMAS = {
    0.1: (616.7, 36.305, 51.343, 55.810),
    0.5: (125.2, 8.058, 11.395, 12.271),
    1: (63.73, 4.2247, 5.9746, 6.4076),
    2: (32.98, 2.2305, 3.1544, 3.3681),
    4: (17.54, 1.1935, 1.6879, 1.7930),
    8: (9.743, 0.6529, 0.9234, 0.9748),
}
EPSILONS = {
    0.1: (166.36, 172.18),
    0.5: (16.860, 17.861),
    1: (7.286, 7.766),
    2: (3.308, 3.542),
    5: (1.212, 1.305),
    10: (0.575, 0.622),
}


@pytest.mark.parametrize("epsilon", SIGMAS, ids=str)
def test_the_table_of_sigmas(epsilon: float) -> None:
    theorem, entry, exact, zcdp = SIGMAS[epsilon]
    assert projection_theorem_sigma(epsilon, DELTA, VERTICES) == pytest.approx(theorem, rel=1e-3)
    assert gaussian_sigma(epsilon, DELTA, 1) == pytest.approx(entry, rel=1e-3)
    assert gaussian_sigma(epsilon, DELTA, EDGE) == pytest.approx(exact, rel=1e-3)
    assert float(zcdp_sigma(epsilon, DELTA, EDGE)) == pytest.approx(zcdp, rel=1e-3)


@pytest.mark.parametrize("sigma", EPSILONS, ids=str)
def test_the_table_of_epsilons(sigma: float) -> None:
    exact, zcdp = EPSILONS[sigma]
    assert gaussian_epsilon(sigma, DELTA, EDGE) == pytest.approx(exact, rel=2e-3)
    assert zcdp_epsilon(1 / sigma**2, DELTA) == pytest.approx(zcdp, rel=2e-3)


@pytest.mark.parametrize(("sigma", "epsilon"), [(1, 300.19), (0.5, 1163.4), (0.1, 28774.6)])
def test_the_theorem(sigma: float, epsilon: float) -> None:
    found = projection_theorem_epsilon(sigma, DELTA, VERTICES)
    assert found == pytest.approx(epsilon, abs=0.05)
    assert projection_theorem_sigma(found, DELTA, VERTICES) == pytest.approx(sigma, rel=1e-9)


def test_the_theorem_asks_for_enough() -> None:
    """Spec: graph-random-matrix, section 4.2.

    At least 1.31 times what an edge needs with a Gaussian projection, at total delta.

    The share of delta for the row norms is optimised here over a few values.
    """
    least = math.inf
    for n in (2, 50, 4_000, 200_000, 3_100_000):
        for m in (1, 2, 20, 200):
            for delta in (1e-9, 1e-6, 1e-2, 0.3):
                for epsilon in (0.01, 0.1, 1, 10, 100):
                    given_sigma = projection_theorem_sigma(epsilon, delta, n)
                    needed = math.inf
                    for share in (0.02, 0.1, 0.3, 0.6):
                        norm = stats.chi2.isf(delta * share / n, m) / m
                        exact = gaussian_sigma(epsilon, delta * (1 - share), math.sqrt(2 * norm))
                        needed = min(needed, exact)
                    least = min(least, given_sigma / needed)
    assert least >= 1.3


def test_the_advantage() -> None:
    """Spec: graph-random-matrix, section 8, check 5."""
    assert distinguishing_advantage(1, EDGE) == pytest.approx(0.5205, abs=5e-5)
    assert distinguishing_advantage(6.4076, EDGE) == pytest.approx(0.0879, abs=5e-5)
