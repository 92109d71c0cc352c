"""The baselines of `bench.utility` are what they are named after."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench.utility.peers import (
    hybrid,
    piecewise,
    randomised_response,
    two_points,
)
from reproduction.stand_in_data import power_law

GRAPH = power_law(400, 3_000, 1)
LOW, HIGH = GRAPH.first.astype(np.int32), GRAPH.second.astype(np.int32)


@pytest.mark.parametrize(("method", "place"), [(piecewise, -1.0), (two_points, 0.3), (hybrid, 1.0)])
def test_reports_are_unbiased(method: object, place: float) -> None:
    size = 200_000
    found = method(np.full(size, place), 1.5, np.random.default_rng(2))  # type: ignore[operator]
    assert abs(found.mean() - place) < 5 * found.std() / math.sqrt(size)


def test_the_published_variance_of_a_piecewise_report() -> None:
    """Of 0: (e^(epsilon / 2) + 3) / (3 (e^(epsilon / 2) - 1)^2)."""
    half = math.exp(1)
    found = piecewise(np.zeros(200_000), 2, np.random.default_rng(3))
    assert found.var() == pytest.approx((half + 3) / (3 * (half - 1) ** 2), rel=0.02)


def test_shares_of_randomised_response() -> None:
    places = np.repeat(np.arange(4), [50_000, 30_000, 20_000, 0])
    found = randomised_response(places, 4, 2.0, np.random.default_rng(4))
    assert found == pytest.approx([0.5, 0.3, 0.2, 0], abs=0.01)
