"""Weighted k-means over public points: greedy k-means++ starts, Lloyd's steps, best of restarts.

Post-processing of a noisy synopsis; it sees no record. Spec: kmeans, section 5.4 step 3. Source:
D. Arthur and S. Vassilvitskii, "k-means++" (2007), with the greedy choice among 2 + ln k
candidates that common libraries use.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

import numpy as np

from tacit.encoders.kmeans.encoder import Floats, Ints, blocks, slices

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


def in_turn(
    function: Callable[[Floats], Clustering], blocks: Iterable[Floats]
) -> Sequence[Clustering]:
    """Apply a function to one block after the other."""
    return [function(block) for block in blocks]


@dataclass(frozen=True)
class Work:
    """How long-running work is done: `beat` is called a few times a second; `spread` maps a
    function over independent pieces, in order, on several workers where there are some."""

    beat: Beat = quiet
    spread: Callable[[Callable[[Floats], Clustering], Iterable[Floats]], Sequence[Clustering]] = (
        in_turn
    )


ALONE: Final = Work()


def weighted_kmeans(
    points: Floats,
    weights: Floats,
    clusters: int,
    generator: np.random.Generator,
    work: Work = ALONE,
) -> Clustering:
    """The best of 8 runs over points (c, d) with weights (c,) > 0; c >= 1.

    Fewer runs, at least one, where k times c exceeds 2^20: a run takes seconds there. With fewer
    distinct points than clusters, some centres coincide.
    """
    restarts = min(RESTARTS, max(1, RESTARTS * LARGE // (clusters * len(points))))
    drawn = [_draws(clusters, generator) for _ in range(restarts)]
    run = partial(_run, points, weights, clusters, work.beat)
    return min(work.spread(run, drawn), key=lambda each: each.cost)


def _run(points: Floats, weights: Floats, clusters: int, beat: Beat, drawn: Floats) -> Clustering:
    return lloyd(points, weights, _spread_start(points, weights, clusters, drawn, beat), beat)


def spread_start(
    points: Floats,
    weights: Floats,
    clusters: int,
    generator: np.random.Generator,
    beat: Beat = quiet,
) -> Floats:
    """Greedy k-means++: each next point in proportion to weight times squared distance."""
    return _spread_start(points, weights, clusters, _draws(clusters, generator), beat)


def _draws(clusters: int, generator: np.random.Generator) -> Floats:
    """What one start draws: a uniform number for the first centre, and for each of the others as
    many as it has candidates."""
    return generator.random(1 + (clusters - 1) * _candidates(clusters))


def _candidates(clusters: int) -> int:
    return 2 + int(math.log(clusters))


def _spread_start(
    points: Floats, weights: Floats, clusters: int, drawn: Floats, beat: Beat
) -> Floats:
    columns = np.ascontiguousarray(points.T)
    chosen = np.empty((clusters, points.shape[1]))
    chosen[0] = points[_drawn(weights, drawn[:1])[0]]
    distances = _squared(columns, chosen[:1])[0]
    for place, uniform in enumerate(drawn[1:].reshape(-1, _candidates(clusters)), start=1):
        beat()
        picked = points[_drawn(weights * distances, uniform)]
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
        each = np.arange(len(scores))
        found = scores.argmin(axis=1, out=labels[rows])
        best[rows] = scores[each, found]
        scores[each, found] = np.inf
        next_best[rows] = scores[each, scores.argmin(axis=1)]  # faster than the least itself
    for scored in (best, next_best):
        scored += lengths
        np.sqrt(np.maximum(scored, 0.0, out=scored), out=scored)
    next_best -= best
    return labels, next_best


def _gaps(columns: Floats, centres: Floats, labels: Ints) -> Floats:
    """Squared distances (c,) of points, column by column (d, c), to their own centres."""
    result = np.zeros(columns.shape[1])
    for column, places in zip(columns, centres.T, strict=True):
        result += np.square(column - places[labels])
    return result


def _squared(columns: Floats, centres: Floats) -> Floats:
    """Squared distances (l, c) of points, column by column (d, c), to centres (l, d)."""
    result = np.zeros((len(centres), columns.shape[1]))
    for rows in blocks(columns.shape[1], len(centres)):
        held = result[:, rows]
        for column, places in zip(columns[:, rows], centres.T, strict=True):
            gaps = column - places[:, None]
            gaps *= gaps
            held += gaps
    return result


def _drawn(mass: Floats, uniform: Floats) -> Ints:
    """Places (m,) in proportion to their mass, by uniform numbers (m,) in [0, 1); all alike where
    there is none."""
    running = np.cumsum(mass if mass.any() else np.ones_like(mass))
    places = np.searchsorted(running, uniform * running[-1], side="right")
    inside: Ints = np.minimum(places, len(mass) - 1)
    return inside
