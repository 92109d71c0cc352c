"""Weighted k-means over public points: greedy k-means++ starts, Lloyd's steps, best of restarts.

Post-processing of a noisy synopsis; it sees no record. Spec: kmeans, section 5.4 step 3. Source:
D. Arthur and S. Vassilvitskii, "k-means++" (2007), with the greedy choice among 2 + ln k
candidates that common libraries use.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from tacit.encoders.kmeans.encoder import Floats, Ints, nearest, slices

RESTARTS: Final = 8
STEPS: Final = 100
STILL: Final = 1e-4
LARGE: Final = 1 << 20

Beat: TypeAlias = Callable[[], None]
"""Called now and then; may raise to end the work."""


def quiet() -> None:
    """No progress is reported."""


@dataclass(frozen=True, eq=False)
class Clustering:
    """centres (k, d), labels (c,) of the points, and the weighted sum of squared distances."""

    centres: Floats
    labels: Ints
    cost: float


def weighted_kmeans(
    points: Floats,
    weights: Floats,
    clusters: int,
    generator: np.random.Generator,
    beat: Beat = quiet,
) -> Clustering:
    """The best of 8 runs over points (c, d) with weights (c,) > 0; c >= 1.

    Fewer runs, at least one, where k times c exceeds 2^20: a run takes seconds there. With fewer
    distinct points than clusters, some centres coincide. `beat` is called a few times a second.
    """
    restarts = min(RESTARTS, max(1, RESTARTS * LARGE // (clusters * len(points))))
    found = (
        lloyd(points, weights, spread_start(points, weights, clusters, generator, beat), beat)
        for _ in range(restarts)
    )
    return min(found, key=lambda each: each.cost)


def spread_start(
    points: Floats,
    weights: Floats,
    clusters: int,
    generator: np.random.Generator,
    beat: Beat = quiet,
) -> Floats:
    """Greedy k-means++: each next point in proportion to weight times squared distance."""
    candidates = 2 + int(math.log(clusters))
    norms = np.einsum("ij,ij->i", points, points)
    chosen = np.empty((clusters, points.shape[1]))
    chosen[0] = points[_drawn(weights, 1, generator)[0]]
    distances = _squared(points, norms, chosen[:1])[:, 0]
    for place in range(1, clusters):
        beat()
        picked = points[_drawn(weights * distances, candidates, generator)]
        trials = np.minimum(distances[:, None], _squared(points, norms, picked))
        best = int(np.argmin(weights @ trials))
        chosen[place] = picked[best]
        distances = trials[:, best]
    return chosen


def lloyd(points: Floats, weights: Floats, start: Floats, beat: Beat = quiet) -> Clustering:
    """Lloyd's steps until no label changes or the centres hardly move, at most 100.

    Hardly: the squared moves add up to at most 1e-4 of the mean variance of a column.

    A cluster that loses all its points takes the point that is dearest to its own centre.
    """
    centres = start.copy()
    labels = nearest(points, centres)
    middle = weights @ points / weights.sum()
    variance = weights @ np.square(points - middle).mean(axis=1) / weights.sum()
    for _ in range(STEPS):
        beat()
        mass = np.bincount(labels, weights=weights, minlength=len(centres))
        held = np.maximum(mass, np.finfo(float).tiny)
        sums = [
            np.bincount(labels, weights=weights * column, minlength=len(centres))
            for column in points.T
        ]
        moved = np.stack(sums, axis=1) / held[:, None]
        empty = np.flatnonzero(mass == 0)
        if empty.size:
            dear = weights * np.square(points - moved[labels]).sum(axis=1)
            dearest = np.argsort(-dear, kind="stable")
            moved[empty] = points[np.resize(dearest, empty.size)]
        shift = float(np.square(moved - centres).sum())
        centres = moved
        relabelled = nearest(points, centres)
        settled = shift <= STILL * variance or np.array_equal(relabelled, labels)
        labels = relabelled
        if settled:
            break
    cost = float(weights @ np.square(points - centres[labels]).sum(axis=1))
    return Clustering(centres, labels, cost)


def _squared(points: Floats, norms: Floats, centres: Floats) -> Floats:
    """Squared distances (c, l) of points (c, d), whose squared lengths are `norms`, to centres."""
    turned, squares = -2 * centres.T, np.einsum("ij,ij->i", centres, centres)
    found = np.empty((len(points), len(centres)))
    for rows in slices(len(points), turned.size):
        distances = points[rows] @ turned
        distances += norms[rows, None]
        distances += squares
        np.maximum(distances, 0.0, out=found[rows])
    return found


def _drawn(mass: Floats, count: int, generator: np.random.Generator) -> Ints:
    """Places drawn in proportion to their mass; uniformly where there is none."""
    if not mass.any():
        anywhere: Ints = generator.integers(0, len(mass), count)
        return anywhere
    running = np.cumsum(mass)
    places = np.searchsorted(running, generator.random(count) * running[-1], side="right")
    inside: Ints = np.minimum(places, len(mass) - 1)
    return inside
