"""What k-means is compared with: exact Lloyd, published private methods, weighted clustering."""

from __future__ import annotations

import numpy as np
import pytest

from algorithms.kmeans.starts import STEPS, STILL, spread_start, weighted_kmeans
from algorithms.kmeans.starts import lloyd as weighted_lloyd
from reproduction.kmeans_baselines import lloyd
from tacit.encoders.kmeans import Floats, nearest


def test_lloyd_counts_the_iteration_that_confirms() -> None:
    corners = np.array([(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)])
    found = lloyd(corners, corners[:1])
    assert (found.iterations, found.centres.tolist()) == (2, [[0.5, 0.5]])
    assert lloyd(corners, np.array([(0.0, 0.5), (1.0, 0.5)])).iterations == 1
    lonely = lloyd(corners, np.array([(0.5, 0.5), (9.0, 9.0)]))
    assert lonely.centres[1].tolist() == [9, 9]  # an empty cluster keeps its centre


def test_weighted_clustering_is_clustering_with_repeated_points() -> None:
    generator = np.random.default_rng(3)
    points = generator.random((40, 2))
    weights = generator.integers(1, 6, 40)
    start = points[:4]
    once = weighted_lloyd(points, weights.astype(float), start)
    repeated = weighted_lloyd(np.repeat(points, weights, axis=0), np.ones(weights.sum()), start)
    assert np.abs(once.centres - repeated.centres).max() < 1e-12
    assert once.cost == pytest.approx(repeated.cost)


def test_points_that_are_not_looked_at_keep_the_label_they_would_get() -> None:
    """Against a plain loop that looks at all of them in every step."""
    for seed in range(10):
        generator = np.random.default_rng(seed)
        cells = generator.choice(900, 300, replace=False)
        points = np.stack(np.divmod(cells, 30), axis=1) / 15 - 1
        weights = generator.uniform(0.1, 9.0, 300)
        start = spread_start(points, weights, 12, generator)
        found = weighted_lloyd(points, weights, start)
        centres, labels = start, nearest(points, start)
        for _ in range(STEPS):
            mass = np.bincount(labels, weights=weights, minlength=12)[:, None]
            sums = [np.bincount(labels, weights * column, 12) for column in points.T]
            moved = np.stack(sums, axis=1) / mass
            still = np.square(moved - centres).sum() <= STILL * weighted_variance(points, weights)
            centres, before, labels = moved, labels, nearest(points, moved)
            if still or np.array_equal(labels, before):
                break
        assert np.array_equal(found.labels, labels)
        assert np.array_equal(found.centres, centres)


def weighted_variance(points: Floats, weights: Floats) -> float:
    """The mean over the columns."""
    middle = weights @ points / weights.sum()
    return float(weights @ np.square(points - middle).mean(axis=1) / weights.sum())


def test_more_clusters_than_points() -> None:
    points = np.array([(0.0, 0.0), (1.0, 1.0)])
    found = weighted_kmeans(points, np.ones(2), 5, np.random.default_rng(1))
    assert found.cost == 0
    assert found.centres.shape == (5, 2)
    start = spread_start(np.zeros((3, 2)), np.ones(3), 4, np.random.default_rng(1))
    assert start.tolist() == [[0.0, 0.0]] * 4
