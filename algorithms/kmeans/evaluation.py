"""Comparison with the true data: for the operator's eyes, never published.

Spec: kmeans, section 2.2. Squared distances are of the box (`sound`) or of the data's own extremes
(`paper`) scaled to [0, 1] in every column.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from algorithms.kmeans.baselines import cost
from algorithms.kmeans.parameters import Metrics
from algorithms.kmeans.starts import public
from algorithms.kmeans.weighted import lloyd, spread_start
from common.encoders.kmeans import Floats, nearest

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
        best = min(best, lloyd(points, weights, start, beat).cost)
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
    found: dict[str, Any] = {}
    inertia = cost(points, centres) if len(points) else None
    if metrics.inertia:
        found["inertia"] = inertia
    if metrics.inertia_ratio:
        best = best_cost(points, len(centres), progress=progress) if len(points) else 0.0
        found["inertia_ratio"] = None if inertia is None or best == 0 else inertia / best
    if metrics.labels:
        found["labels"] = nearest(points, centres).tolist()
    return found
