"""The baselines of `bench.utility` are what they are named after."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from bench.utility.peers import (
    chung_lu,
    hybrid,
    piecewise,
    privtree,
    privtree_means,
    randomised_response,
    top_m_filter,
    two_points,
    uniform_grid,
)
from simulation.graph_stand_in import power_law

GRAPH = power_law(400, 3_000, 1)
LOW, HIGH = GRAPH.first.astype(np.int32), GRAPH.second.astype(np.int32)


def keys(ends: tuple[np.ndarray, np.ndarray]) -> set[int]:
    low, high = (each.astype(np.int64) for each in ends)
    assert (low < high).all()
    found = set((low * GRAPH.count + high).tolist())
    assert len(found) == low.size
    return found


def test_graphs_without_noise_to_speak_of() -> None:
    """Top-m gives most of the graph (its threshold tends to 1, which every fourth edge misses),
    Chung-Lu its degrees, a grid its counts of cells."""
    true = keys((LOW, HIGH))
    found = keys(top_m_filter(LOW, HIGH, GRAPH.count, 500, np.random.default_rng(1)))
    assert 0.7 < len(found & true) / len(true) < 0.8
    low, high = chung_lu(LOW, HIGH, GRAPH.count, Fraction(500), 1)
    keys((low, high))
    degrees, drawn = (
        np.bincount(np.concatenate(each), minlength=GRAPH.count)
        for each in ((LOW, HIGH), (low, high))
    )
    assert np.corrcoef(degrees, drawn)[0, 1] > 0.9
    low, high = uniform_grid(LOW, HIGH, GRAPH.count, 5_000, 1)
    assert len(keys((low, high))) == pytest.approx(len(true), rel=0.01)
    inside, seen = ((a < 100).sum() for a in (HIGH, high))
    assert seen == pytest.approx(inside, rel=0.05)


def test_a_tree_splits_where_points_are() -> None:
    generator = np.random.default_rng(1)
    points = np.concatenate([generator.normal(0.2, 0.01, (3_000, 2)), [[1.0, 1.0]]]).clip(0, 1)
    middles, counts = privtree(points, 50.0, generator)
    assert counts.sum() == pytest.approx(len(points), rel=0.02)
    near = np.abs(middles - 0.2).max(axis=1) < 0.1
    assert counts[near].sum() > 0.9 * len(points)
    assert near.sum() > 0.5 * len(middles)
    centres = privtree_means(points, 2, 50.0, 1)
    assert np.abs(centres - 0.2).max(axis=1).min() < 0.02


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
