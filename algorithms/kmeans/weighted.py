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

from tacit.encoders.kmeans.encoder import Floats, Ints
from tacit.encoders.kmeans.nearest import blocks, slices

RESTARTS: Final = 8
STEPS: Final = 100
STILL: Final = 1e-4
LARGE: Final = 1 << 20
_UNSURE: Final = 1e-6
"""A lead, over the largest coordinate, that rounding cannot turn over."""

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
    columns = np.ascontiguousarray(points.T)
    chosen = np.empty((clusters, points.shape[1]))
    chosen[0] = points[_drawn(weights, 1, generator)[0]]
    distances = _squared(columns, chosen[:1])[0]
    for place in range(1, clusters):
        beat()
        picked = points[_drawn(weights * distances, candidates, generator)]
        trials = _squared(columns, picked)
        np.minimum(distances, trials, out=trials)
        best = int(np.argmin(trials @ weights))
        chosen[place] = picked[best]
        distances = trials[best]
    return chosen


def lloyd(points: Floats, weights: Floats, start: Floats, beat: Beat = quiet) -> Clustering:
    """Lloyd's steps until no label changes or the centres hardly move, at most 100.

    Hardly: the squared moves add up to at most 1e-4 of the mean variance of a column.

    A cluster that loses all its points takes the point that is dearest to its own centre.

    A point whose centre is nearer than any other by more than both can have moved keeps its label
    without a look (G. Hamerly, "Making k-means even faster", 2010).
    """
    columns = np.ascontiguousarray(points.T)
    weighted, lengths = weights * columns, np.square(columns).sum(axis=0)
    middle = weighted.sum(axis=1) / weights.sum()
    spread = np.square(columns - middle[:, None]) @ weights
    still = STILL * float(spread.mean() / weights.sum())
    unsure = _UNSURE * float(np.abs(columns).max())
    centres = start.copy()
    labels, leads = _nearest(points, lengths, centres)
    for _ in range(STEPS):
        beat()
        mass = np.bincount(labels, weights=weights, minlength=len(centres))
        held = np.maximum(mass, np.finfo(float).tiny)
        sums = [np.bincount(labels, weights=column, minlength=len(centres)) for column in weighted]
        moved = np.stack(sums, axis=1) / held[:, None]
        empty = np.flatnonzero(mass == 0)
        if empty.size:
            dear = weights * _gaps(columns, moved, labels)
            dearest = np.argsort(-dear, kind="stable")
            moved[empty] = points[np.resize(dearest, empty.size)]
        moves = np.square(moved - centres).sum(axis=1)
        reach = np.sqrt(moves)
        centres, relabelled = moved, labels.copy()
        leads -= (reach + reach.max())[labels]
        again = np.flatnonzero(leads <= unsure)
        part = points.take(again, axis=0)
        relabelled[again], leads[again] = _nearest(part, lengths[again], centres)
        settled = float(moves.sum()) <= still or np.array_equal(relabelled, labels)
        labels = relabelled
        if settled:
            break
    return Clustering(centres, labels, float(weights @ _gaps(columns, centres, labels)))


def _nearest(points: Floats, lengths: Floats, centres: Floats) -> tuple[Ints, Floats]:
    """The nearest centre (n,) of each point, and by how much it is nearer than any other (n,).

    lengths (n,): squared, of the points.
    """
    labels, best, next_best = (np.empty(len(points), kind) for kind in (np.int64, float, float))
    turned, squares = -2.0 * centres.T, np.einsum("ij,ij->i", centres, centres)
    for rows in slices(len(points), turned.size):
        scores = points[rows] @ turned
        scores += squares
        found = np.argmin(scores, axis=1, out=labels[rows])
        each = np.arange(len(scores))
        best[rows] = scores[each, found]
        scores[each, found] = np.inf
        np.minimum.reduce(scores, axis=1, out=next_best[rows])
    for scored in (best, next_best):
        scored += lengths
        np.sqrt(np.maximum(scored, 0.0, out=scored), out=scored)
    next_best -= best
    return labels, next_best


def _gaps(columns: Floats, centres: Floats, labels: Ints) -> Floats:
    """Squared distances (c,) of points, column by column (d, c), to their own centres."""
    found = np.zeros(columns.shape[1])
    for column, places in zip(columns, centres.T, strict=True):
        found += np.square(column - places[labels])
    return found


def _squared(columns: Floats, centres: Floats) -> Floats:
    """Squared distances (l, c) of points, column by column (d, c), to centres (l, d)."""
    found = np.zeros((len(centres), columns.shape[1]))
    for rows in blocks(columns.shape[1], len(centres)):
        for column, places in zip(columns[:, rows], centres.T, strict=True):
            gaps = column - places[:, None]
            gaps *= gaps
            found[:, rows] += gaps
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
