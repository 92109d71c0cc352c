"""Where a sound run starts: a noisy synopsis, a packing of the box, or a noisy projection; and the
weighted k-means over its points.

All of it is post-processing of opened noisy sums and of public choices; it sees no record. Lengths
are in half sides of the box: the box is [-1, 1]^d. Spec: kmeans, sections 5.4 to 5.6.

Weighted k-means: greedy k-means++ starts, Lloyd's steps, best of restarts. Source: D. Arthur and
S. Vassilvitskii, "k-means++" (2007), with the greedy choice among 2 + ln k candidates that common
libraries use.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

import numpy as np

from algorithms.kmeans.plan import PROJECTED_CLUSTERS, PUBLIC_START_RADIUS, Plan, occupied_parts
from tacit.encoders.kmeans import PROJECTED, Floats, Ints, Projection, blocks, slices
from tacit.encoders.kmeans_sums import FineCells
from tacit.randomness import PublicRandom

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
    function over independent pieces, in order, on several workers if there are any."""

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
    return min(work.spread(run, drawn), key=lambda run_result: run_result.cost)


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
        safe_mass = np.maximum(mass, np.finfo(float).tiny)
        sums = [np.bincount(labels, weights=column, minlength=len(centres)) for column in weighted]
        moved = np.stack(sums, axis=1) / safe_mass[:, None]
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
        row_numbers = np.arange(len(scores))
        closest = scores.argmin(axis=1, out=labels[rows])
        best[rows] = scores[row_numbers, closest]
        scores[row_numbers, closest] = np.inf
        next_best[rows] = scores[row_numbers, scores.argmin(axis=1)]  # faster than the least itself
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
        part = result[:, rows]
        for column, places in zip(columns[:, rows], centres.T, strict=True):
            gaps = column - places[:, None]
            gaps *= gaps
            part += gaps
    return result


def _drawn(mass: Floats, uniform: Floats) -> Ints:
    """Indices (m,) in proportion to their mass, by uniform numbers (m,) in [0, 1); equally
    likely if all masses are 0."""
    running = np.cumsum(mass if mass.any() else np.ones_like(mass))
    places = np.searchsorted(running, uniform * running[-1], side="right")
    inside: Ints = np.minimum(places, len(mass) - 1)
    return inside


THRESHOLD: Final = 3.0
"""Of a cell's noisy count, in scales of its noise: what is below is taken for empty."""
WIDENING: Final = 1.8
LEAST_RADIUS: Final = 0.05
"""Of a zone, over d."""
_FEWEST_CELLS: Final = 8
_LIGHTEST: Final = 1e-3
_FAILURES: Final = 100
_SHRINK: Final = 0.9
_TAIL: Final = 0.005
_NARROWEST: Final = 0.05


def public(seed: int, purpose: str) -> PublicRandom:
    """The public choices of one purpose, from the seed that the result prints."""
    digest = hashlib.sha256(f"tacit kmeans {purpose} {seed}".encode()).digest()
    return PublicRandom(int.from_bytes(digest[:16]))


@dataclass(frozen=True, eq=False)
class Start:
    """Where zones begin: centres (k, d), L1 radii (k,); of a synopsis also its weights (k,) and
    the mean L1 distances (k,) of its cells."""

    centres: Floats
    radii: Floats
    counts: Floats | None = None
    distances: Floats | None = None


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a noisy histogram that count as occupied: middles (c, d), weights (c,)."""

    middles: Floats
    weights: Floats


# ---------------------------------------------------------------------------------- the synopsis


def occupied(noisy: Ints, per_side: int, dimension: int, least: int, scale: float) -> Cells:
    """The cells above three scales of noise, at least max(2 k, 8) of them (`least`: k)."""
    chosen = np.flatnonzero(noisy > THRESHOLD * scale)
    if chosen.size < 2 * least:
        chosen = np.argsort(-noisy, kind="stable")[: max(2 * least, _FEWEST_CELLS)]
        chosen.sort()
    places = np.stack(np.unravel_index(chosen, (per_side,) * dimension), axis=1)
    middles = (2 * places + 1) / per_side - 1
    return Cells(middles, np.maximum(noisy[chosen].astype(np.float64), _LIGHTEST))


def synopsis(noisy: Ints, plan: Plan, seed: int, work: Work = ALONE) -> Start:
    """Clusters of the occupied cells, and zones as wide as they look."""
    assert plan.per_side is not None
    assert plan.epsilon_histogram is not None
    cells = occupied(
        noisy,
        plan.per_side,
        plan.dimension,
        plan.clusters,
        plan.inflation / float(plan.epsilon_histogram),
    )
    generator = public(seed, "synopsis").generator
    fitted = weighted_kmeans(cells.middles, cells.weights, plan.clusters, generator, work)
    mass = np.bincount(fitted.labels, weights=cells.weights, minlength=plan.clusters)
    counts: Floats = mass.astype(np.float64)
    norms = np.abs(cells.middles - fitted.centres[fitted.labels]).sum(axis=1)
    sums = np.bincount(fitted.labels, weights=cells.weights * norms, minlength=plan.clusters)
    distances = sums / np.maximum(counts, _LIGHTEST)
    radii = WIDENING * np.hypot(distances, 0.5 * plan.dimension / plan.per_side)
    return Start(
        fitted.centres,
        np.clip(radii, LEAST_RADIUS * plan.dimension, plan.dimension),
        counts,
        distances,
    )


def two_level_synopsis(
    coarse: Ints, query: FineCells, fine: Ints, plan: Plan, seed: int, work: Work = ALONE
) -> Start:
    """The same of the two histograms of `two-level`; zones by the sides of a cluster's own parts.

    Spec: kmeans, section 5.7.
    """
    assert plan.two_level is not None
    parts = occupied_parts(plan.two_level, coarse, query, fine)
    generator = public(seed, "synopsis").generator
    fitted = weighted_kmeans(parts.middles, parts.weights, plan.clusters, generator, work)
    norms = np.abs(parts.middles - fitted.centres[fitted.labels]).sum(axis=1)
    counts, sums, halves = (
        np.bincount(fitted.labels, parts.weights * column, plan.clusters).astype(np.float64)
        for column in (np.ones(len(norms)), norms, parts.halves)
    )
    safe_counts = np.maximum(counts, _LIGHTEST)
    distances = sums / safe_counts
    radii = WIDENING * np.hypot(distances, 0.5 * plan.dimension * halves / safe_counts)
    return Start(
        fitted.centres,
        np.clip(radii, LEAST_RADIUS * plan.dimension, plan.dimension),
        counts,
        distances,
    )


# ----------------------------------------------------------------------------------- the packing


def packing(plan: Plan, seed: int) -> Start:
    """Centres far from each other and from the sides, without any data.

    Radius A = 1; one centre after the other, uniform in [-1+A, 1-A]^d, kept if no other is nearer
    than 2 A; after 100 failures in a row A shrinks by a tenth and all start over.
    """
    generator = public(seed, "packing").generator
    apart = 1.0
    while True:
        centres = _packed(plan.clusters, plan.dimension, apart, generator)
        if centres is not None:
            return Start(centres, _public_radii(plan))
        apart *= _SHRINK


def _packed(
    clusters: int, dimension: int, apart: float, generator: np.random.Generator
) -> Floats | None:
    centres = np.empty((clusters, dimension))
    for place in range(clusters):
        drawn = generator.uniform(apart - 1, 1 - apart, (_FAILURES, dimension))
        gaps = np.square(drawn[:, None, :] - centres[None, :place]).sum(axis=2)
        fits = np.flatnonzero((gaps >= (2 * apart) ** 2).all(axis=1))
        if not fits.size:
            return None
        centres[place] = drawn[fits[0]]
    return centres


def _public_radii(plan: Plan) -> Floats:
    return np.full(plan.clusters, float(PUBLIC_START_RADIUS) * plan.dimension)


# -------------------------------------------------------------------------------- the projection


def public_projection(plan: Plan, seed: int) -> Projection:
    """A random plane: the orthonormal columns of a Gaussian matrix."""
    drawn = public(seed, "projection").generator.standard_normal((plan.dimension, PROJECTED))
    orthonormal, _ = np.linalg.qr(drawn)
    return Projection.of(orthonormal, plan.steps)


def boxed(view: Projection, noisy: Ints, plan: Plan) -> Projection:
    """The projection with the box between the 0.5 % and 99.5 % quantiles of noisy marginals.

    Each bin first loses two scales of its noise and is floored at 0. A coordinate whose box would
    be narrower than 0.05 keeps the whole side.
    """
    assert plan.epsilon_marginals is not None
    scale = PROJECTED * plan.inflation / float(plan.epsilon_marginals)
    sides = []
    for bins in noisy.reshape(PROJECTED, -1):
        over_noise = np.maximum(bins - 2 * scale, 0.0)
        running = np.cumsum(over_noise)
        low, high = -1.0, 1.0
        if running[-1] > 0:
            edges = np.linspace(-1, 1, len(bins) + 1)
            share = running / running[-1]
            low = edges[np.searchsorted(share, _TAIL, side="right")]
            high = edges[np.searchsorted(share, 1 - _TAIL, side="left") + 1]
        if high - low < _NARROWEST:
            low, high = -1.0, 1.0
        sides.append((round(low * plan.steps), round(high * plan.steps)))
    return Projection(view.matrix, view.steps, tuple(sides))


def projected_centres(noisy: Ints, plan: Plan, seed: int, work: Work = ALONE) -> Ints:
    """3 k centres (3 k, 2) of the projected synopsis, on the stretched grid."""
    assert plan.per_side is not None
    assert plan.epsilon_histogram is not None
    clusters = PROJECTED_CLUSTERS * plan.clusters
    cells = occupied(
        noisy,
        plan.per_side,
        PROJECTED,
        clusters,
        plan.inflation / float(plan.epsilon_histogram),
    )
    generator = public(seed, "projected synopsis").generator
    fitted = weighted_kmeans(cells.middles, cells.weights, clusters, generator, work)
    return on_grid(fitted.centres, plan.steps)


def lifted(noisy: Ints, epsilon_counts: float, plan: Plan, seed: int, work: Work = ALONE) -> Start:
    """k centres in full space from noisy sums and counts (3 k (d + 1),) of the lift.

    Points with a noisy count of at most four scales are dropped, unless fewer than k would remain:
    then the k largest stay.
    """
    rows = noisy.reshape(-1, plan.dimension + 1)
    counts = rows[:, -1].astype(np.float64)
    scale = plan.inflation / epsilon_counts
    chosen = np.flatnonzero(counts > 4 * scale)
    if chosen.size < plan.clusters:
        chosen = np.sort(np.argsort(-counts, kind="stable")[: plan.clusters])
    weights = np.maximum(counts[chosen], max(2 * scale, 1.0))
    points = np.clip(rows[chosen, :-1] / (plan.steps * weights[:, None]), -1, 1)
    generator = public(seed, "lifted").generator
    fitted = weighted_kmeans(points, weights, plan.clusters, generator, work)
    return Start(fitted.centres, _public_radii(plan))


def on_grid(points: Floats, steps: int) -> Ints:
    """Points of the box as integers in [-G, G]."""
    return np.clip(np.rint(points * steps), -steps, steps).astype(np.int64)


def radii_on_grid(radii: Floats, steps: int) -> Ints:
    """L1 radii, floored to whole steps, at least one."""
    return np.maximum(np.floor(radii * steps), 1).astype(np.int64)
