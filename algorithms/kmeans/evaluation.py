"""Comparison with the true data: visible only to the operator, never published.

Spec: kmeans, section 2.2. Squared distances are of the box (`sound`) or of the data's own extremes
(`paper`), scaled to [0, 1] in every column.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from algorithms.kmeans.parameters import Metrics
from algorithms.kmeans.starts import public
from algorithms.kmeans.weighted import lloyd as weighted_lloyd
from algorithms.kmeans.weighted import spread_start
from tacit.encoders.kmeans.encoder import Floats, Ints, nearest


def cost(points: Floats, centres: Floats) -> float:
    """The sum of squared distances to the nearest centre."""
    return float(np.square(points - centres[nearest(points, centres)]).sum())


RESTARTS: Final = 20


def best_cost(
    points: Floats,
    clusters: int,
    restarts: int = RESTARTS,
    progress: Callable[[float], None] = lambda _share: None,
) -> float:
    """The lowest cost of this many non-private runs, each from a greedy k-means++ start."""
    weights = np.ones(len(points))
    generator = public(0, "evaluation").generator
    best = np.inf
    for done in range(restarts):
        beat = partial(progress, done / restarts)
        start = spread_start(points, weights, clusters, generator, beat)
        best = min(best, weighted_lloyd(points, weights, start, beat).cost)
    return best


def evaluate(
    points: Floats,
    centres: Floats,
    metrics: Metrics,
    progress: Callable[[float], None] = lambda _share: None,
) -> dict[str, Any]:
    """The metrics of centres (k, d) on points (n, d), both scaled to [0, 1]; null without points.

    `inertia_ratio` is null where the best cost is 0.
    """
    result: dict[str, Any] = {}
    inertia = cost(points, centres) if len(points) else None
    if metrics.inertia:
        result["inertia"] = inertia
    if metrics.inertia_ratio:
        best = best_cost(points, len(centres), progress=progress) if len(points) else 0.0
        result["inertia_ratio"] = None if inertia is None or best == 0 else inertia / best
    labels = nearest(points, centres)
    if metrics.clusters:
        result["clusters"] = clusters_of(points, labels, centres)
    if metrics.labels:
        result["labels"] = labels.tolist()
    return result


def clusters_of(points: Floats, labels: Ints, centres: Floats) -> list[dict[str, Any]]:
    """How many points (n, d) each centre (k, d) has, and how far their mean lies from it (null
    without any): Euclidean, in sides of the box."""
    rows = np.bincount(labels, minlength=len(centres))
    means = (
        np.stack(
            [np.bincount(labels, weights=column, minlength=len(centres)) for column in points.T],
            axis=1,
        )
        / np.maximum(rows, 1)[:, None]
    )
    off = np.linalg.norm(means - centres, axis=1)
    return [
        {"rows": count, "mean_distance_off": distance if count else None}
        for count, distance in zip(rows.tolist(), off.tolist(), strict=True)
    ]
