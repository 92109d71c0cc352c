"""What the aggregator computes of reports: averages, histograms, classifiers. Post-processing.

Spec: crowd-tasking, sections 3.4 and 3.5; source: equations 12.6 to 12.8. Reports are (n, k) in the
sensor's unit; standard errors are the noise's alone (they say how far the estimate lies from the
true aggregate of those who reported, not from a population's). `tick` is called between steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from algorithms.crowd_tasking.prediction import NORMAL_95, cumulative
from tacit.encoders.crowd_tasking import Component, Floats, Ints
from tacit.encoders.crowd_tasking_bounded import bucket_of
from tacit.randomness import PublicRandom

ITERATIONS: Final = 400
LATTICE: Final = 101
"""Points of the lattice over the bounds on which a histogram is deconvolved."""
LARGEST_TRAINING: Final = {"knn": 20_000, "svm": 4_000}
FOLDS: Final = 5


@dataclass(frozen=True, eq=False)
class Reports:
    """Noisy reports, sorted by user and round. labels (n,): indices in the public list of
    classes, as sent; None without labels."""

    users: Ints
    rounds: Ints
    values: Floats
    labels: Ints | None = None

    @property
    def count(self) -> int:
        """The number of reports."""
        return int(self.users.size)


# -------------------------------------------------------------------------------------- averages


@dataclass(frozen=True, eq=False)
class Averages:
    """Per round t = 1..T: counts (T,), means and standard errors (T, k), NaN without reports; over
    all reports: mean and standard error (k,)."""

    counts: Ints
    means: Floats
    errors: Floats
    mean: Floats
    error: Floats

    @property
    def interval(self) -> tuple[Floats, Floats]:
        """95 %, of the mean over all reports."""
        return self.mean - NORMAL_95 * self.error, self.mean + NORMAL_95 * self.error


def averages(
    reports: Reports,
    rounds: int,
    scales: Floats,
    components: tuple[Component, ...],
    persistence: float,
) -> Averages:
    """Means per round and over all of them; scales b (k,) in the unit of the reports."""
    counts = np.bincount(reports.rounds - 1, minlength=rounds)
    dimension = scales.size
    sums = np.stack(
        [
            np.bincount(reports.rounds - 1, weights=reports.values[:, place], minlength=rounds)
            for place in range(dimension)
        ],
        axis=1,
    )
    empty = counts == 0
    divisors = np.where(empty, np.nan, counts.astype(np.float64))[:, None]
    errors = scales * math.sqrt(2 * len(components)) / np.sqrt(divisors)
    total = reports.count
    if not total:
        nothing = np.full(dimension, np.nan)
        return Averages(counts, sums / divisors, errors, nothing, nothing)
    variance = 2 * noise_pairs(reports.users, reports.rounds, components, persistence)
    return Averages(
        counts,
        sums / divisors,
        errors,
        reports.values.mean(axis=0),
        scales * math.sqrt(variance) / total,
    )


def noise_pairs(
    users: Ints, rounds: Ints, components: tuple[Component, ...], persistence: float
) -> float:
    """The variance of the sum of all noise in one coordinate, over 2 b^2.

    A user with rounds r_1 < ... < r_m adds m [Y] + m^2 [G] + sum_{i,j} p^|r_i - r_j| [L]; rows are
    sorted by user and round.
    """
    if not users.size:
        return 0.0
    starts = np.flatnonzero(np.concatenate([[True], users[1:] != users[:-1]]))
    sizes = np.diff(np.concatenate([starts, [users.size]]))
    result = 0.0
    if "Y" in components:
        result += float(users.size)
    if "G" in components:
        result += float((sizes.astype(np.float64) ** 2).sum())
    if "L" in components:
        result += float(users.size) + 2 * _decaying_pairs(rounds, starts, sizes, persistence)
    return result


def _decaying_pairs(rounds: Ints, starts: Ints, sizes: Ints, persistence: float) -> float:
    """sum over users of sum_{i<j} p^(r_j - r_i), by S_j = p^(r_j - r_(j-1)) (S_(j-1) + 1)."""
    total, carried = 0.0, np.zeros(starts.size)
    for place in range(1, int(sizes.max())):
        going = sizes > place
        starts, sizes, carried = starts[going], sizes[going], carried[going]
        gaps = rounds[starts + place] - rounds[starts + place - 1]
        carried = persistence ** gaps.astype(np.float64) * (carried + 1)
        total += float(carried.sum())
    return total


# ------------------------------------------------------------------------------------- histograms


def shares(values: Floats, edges: Floats) -> Floats:
    """(m,) shares of values in buckets; NaN of none."""
    counted = np.bincount(bucket_of(values, edges), minlength=edges.size - 1)
    return np.asarray(counted / (counted.sum() or np.nan), np.float64)


def shares_by_round(values: Floats, in_round: Ints, rounds: int, edges: Floats) -> Floats:
    """(T, m) shares in each round 1..T; NaN where no device reported."""
    buckets = edges.size - 1
    places = (in_round - 1) * buckets + bucket_of(values, edges)
    counted = np.bincount(places, minlength=rounds * buckets).reshape(rounds, buckets)
    totals = counted.sum(axis=1, keepdims=True)
    return np.asarray(counted / np.where(totals == 0, np.nan, totals), np.float64)


def histogram_distance(one: Floats, other: Floats) -> float:
    """Half the L1 distance of two lists of shares (Definition 12.4)."""
    return float(np.abs(one - other).sum() / 2)


def deconvolved(
    values: Floats, edges: Floats, lower: float, upper: float, scale: float, parts: int
) -> Floats:
    """(m,) shares with the known noise removed: expectation-maximisation, 400 iterations.

    Readings are assumed to lie on 101 even positions within the bounds, noisy values in cells of
    the same width (the outermost without end). Source of the method: the noise's law is public
    (spec: crowd-tasking, section 3.4).
    """
    if not values.size:
        return np.full(edges.size - 1, np.nan)
    lattice = np.linspace(lower, upper, LATTICE)
    width = lattice[1] - lattice[0]
    reach = math.ceil(min(12 * scale, 30 * (upper - lower)) / width)
    inner = lower + (np.arange(-reach, LATTICE + reach) + 0.5) * width
    limits = np.concatenate([[-np.inf], inner, [np.inf]])
    observed = np.bincount(np.searchsorted(inner, values), minlength=limits.size - 1) / values.size
    reached = cumulative(limits[:, None] - lattice, scale, parts)
    likely = np.maximum(np.diff(reached, axis=0), 1e-300)
    mass = np.full(LATTICE, 1 / LATTICE)
    used = observed > 0
    likely, observed = likely[used], observed[used]
    for _ in range(ITERATIONS):
        mass = mass * (likely.T @ (observed / (likely @ mass)))
    masses = np.bincount(bucket_of(lattice, edges), weights=mass, minlength=edges.size - 1)
    return np.asarray(masses, np.float64)


# ------------------------------------------------------------------------------------ classifiers


def classifier(name: str, neighbours: int) -> Any:
    """k nearest neighbours, or a support vector machine with a radial kernel; not yet trained."""
    if name == "knn":
        from sklearn.neighbors import KNeighborsClassifier

        return KNeighborsClassifier(n_neighbors=neighbours)
    from sklearn.svm import SVC

    return SVC()


@dataclass(frozen=True)
class Classified:
    """Accuracy and a confusion matrix (true class by row), over all test points."""

    accuracy: float
    confusion: tuple[tuple[int, ...], ...]
    points: int


def cross_validated(
    name: str,
    neighbours: int,
    training: Floats,
    labels: Ints,
    classes: int,
    source: PublicRandom,
    tested: Floats | None = None,
    tick: Callable[[], None] = lambda: None,
) -> Classified | None:
    """Accuracy in 5 folds of a classifier trained on the other folds' `training` (n, k).

    Tested on `tested` (n, k) if given (the readings without noise: evaluation only), else on the
    training points of the omitted fold. At most 20,000 points (svm: 4,000) are used, a public
    choice. None if there are fewer than 2 points a fold or only one class.
    """
    count = labels.size
    order = source.generator.permutation(count)[: LARGEST_TRAINING[name]]
    if order.size < 2 * FOLDS or np.unique(labels[order]).size < 2:
        return None
    points = training if tested is None else tested
    confusion = np.zeros((classes, classes), np.int64)
    for fold in range(FOLDS):
        tick()
        out = order[fold::FOLDS]
        rest = np.concatenate([order[other::FOLDS] for other in range(FOLDS) if other != fold])
        if np.unique(labels[rest]).size < 2:
            return None
        trained = classifier(name, min(neighbours, rest.size))
        trained.fit(training[rest], labels[rest])
        np.add.at(confusion, (labels[out], trained.predict(points[out])), 1)
    right = int(np.trace(confusion))
    return Classified(
        right / int(confusion.sum()), tuple(map(tuple, confusion.tolist())), int(confusion.sum())
    )
