"""How many records have each length, from noisy counts of 64 lengths.

Counts that noise covers are seen together with those beside them: the number of records of a length
is likely to be near that of the next one in proportion, and likely 0 where that is 0. So that long
records, few of each length, add up, and noise alone does not: a false record of 60 items has as
many pairs as a hundred of six. The mean of what each count can be is computed exactly, by one pass
over the lengths in either direction. Items, of which far more is known, then correct the counts
that are known least. Post-processing. Spec: set-valued, section 10.

Source: sums over a chain of hidden states (L. Baum, T. Petrie, G. Soules, N. Weiss, 1970).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.encoders.set_valued_counts import MOST_LENGTH
from tacit.records.items import Ints

Floats = NDArray[np.float64]

SIZES: Final = np.arange(1.0, MOST_LENGTH + 1)
"""Items of a record of each counted length."""
_STEP: Final = 1.25
"""Of the classes of counts, which are geometric; class 0 is no record."""
_FINEST: Final = 1 / 20
"""Of the scale of the noise: the first class."""
_ANYWHERE: Final = 0.02
"""The chance that the count of a length has nothing to do with that of the one before."""
_STILL_NONE: Final = 0.98
"""The chance that no record has a length if none has the one before."""
_HIDDEN: Final = 5
"""Scales of the noise; of smaller counts records may be missing."""
_LEAST: Final = 50
"""Scales of the noise below 0; no noise goes further, but a curator that lies can."""


@dataclass(frozen=True, eq=False)
class LengthCounts:
    """noisy (64,): as released; counts, deviations (64,): mean and standard deviation of what these
    can be, given all of them, and 0 where that is likelier than not; hidden: how many records may
    be missing where noise covers the counts, two standard deviations of its sum included."""

    noisy: Ints
    counts: Ints
    deviations: Floats
    hidden: float

    @classmethod
    def of(
        cls, noisy: Ints, longest: int, scale: Fraction, draws: Fraction = Fraction(1)
    ) -> LengthCounts:
        """noisy (64,); longest: no record has more items. draws: whole noises of this scale that a
        count holds; their sum is taken for one of the same variance."""
        spread = float(scale) * math.sqrt(draws)
        seen = np.maximum(noisy[:longest], -_LEAST * spread)
        edges = _edges(spread, float(seen.max(initial=0)))
        chances, means = _seen(seen, edges, spread)
        walk = _walk(edges.size)
        ends = np.ones(edges.size) if longest >= MOST_LENGTH else walk[:, 0]
        likely = _smoothed(chances, walk, ends)
        found = (likely * means).sum(axis=1)
        inside = np.minimum(np.diff(edges, prepend=0.0) ** 2 / 12, 2 * spread**2)
        variances = (likely * ((means - found[:, None]) ** 2 + inside)).sum(axis=1)
        counts = np.where(likely[:, 0] > 0.5, 0, np.rint(found)).astype(np.int64)
        covered = counts < _HIDDEN * spread
        missing = float((noisy[:longest] - counts)[covered].sum())
        missing += 2 * spread * math.sqrt(2 * np.count_nonzero(covered))
        rest = (0, MOST_LENGTH - counts.size)
        deviations = np.pad(np.sqrt(variances), rest)
        return cls(noisy, np.pad(counts, rest), deviations, max(0.0, missing))


def _edges(spread: float, most: float) -> Floats:
    """Upper ends of the classes of counts, the first 0."""
    first = max(_FINEST * spread, 0.5)
    steps = max(math.ceil(math.log(max(1.3 * most, 10 * spread) / first, _STEP)), 1)
    return np.append(0.0, first * _STEP ** np.arange(steps + 1))


def _seen(seen: Floats, edges: Floats, spread: float) -> tuple[Floats, Floats]:
    """How likely each noisy count is if the true one is in each class, evenly, and the mean of the
    true one then (lengths, classes)."""

    def below(off: Floats) -> Floats:
        """The integral of e^-|off|."""
        tail = np.exp(-np.abs(off))
        result: Floats = np.where(off < 0, tail, 2 - tail)
        return result

    def weighted(off: Floats) -> Floats:
        """The integral of off e^-|off|."""
        size = np.abs(off)
        result: Floats = -np.exp(-size) * (size + 1)
        return result

    off = (edges - seen[:, None]) / spread
    mass = below(off[:, 1:]) - below(off[:, :-1])
    moment = weighted(off[:, 1:]) - weighted(off[:, :-1])
    nearest = np.clip(0.0, off[:, :-1], off[:, 1:])
    inside = np.divide(moment, mass, out=nearest, where=mass > 1e-12)
    means = seen[:, None] + spread * np.clip(inside, off[:, :-1], off[:, 1:])
    density = mass * spread / np.diff(edges)
    none = np.exp(-np.abs(off[:, :1]))
    return np.hstack((none, density)), np.hstack((np.zeros_like(none), means))


def _walk(classes: int) -> Floats:
    """The chance of each class after each other one (classes, classes): fewer by a factor e for
    each factor e between the counts, or any."""
    places = np.arange(classes)
    near = _STEP ** -np.abs(places[:, None] - places).astype(np.float64)
    walk: Floats = (1 - _ANYWHERE) * near / near.sum(axis=1, keepdims=True) + _ANYWHERE / classes
    walk[0] = (1 - _STILL_NONE) / (classes - 1)
    walk[0, 0] = _STILL_NONE
    return walk


def _smoothed(chances: Floats, walk: Floats, ends: Floats) -> Floats:
    """The chance of each class of each length (lengths, classes), given all lengths; ends: how
    likely what is known of greater lengths is, by the class of the last."""
    lengths, classes = chances.shape
    before, after = np.empty((lengths, classes)), np.empty((lengths, classes))
    after[-1] = ends
    law = np.full(classes, 0.5 / (classes - 1))
    law[0] = 0.5
    for length in range(lengths):
        law = law * chances[length]
        before[length] = law / law.sum()
        law = before[length] @ walk
    for length in range(lengths - 2, -1, -1):
        law = walk @ (chances[length + 1] * after[length + 1])
        after[length] = law / law.sum()
    both = before * after
    result: Floats = both / both.sum(axis=1, keepdims=True)
    return result


def consistent_lengths(
    counts: Ints, deviations: Floats, kept: int, items: Floats, deviation: float
) -> Ints:
    """Counts of lengths (64,) whose records keep as many items, at most `kept` of each, as were
    counted, by the variances of both sums: the nearest ones in least squares by their deviations,
    none below 0, no length that was not there. deviation: of the noise of an item's count."""
    there = np.flatnonzero(counts)
    each, known = np.minimum(SIZES, kept)[there], counts[there].astype(np.float64)
    loose = np.square(deviations[there]) * each
    by_lengths, by_items = float(loose @ each), items.size * deviation**2
    if not by_lengths:
        return counts
    total = float(each @ known)
    wanted = total + (float(items.sum()) - total) * by_lengths / (by_lengths + by_items)
    bound = float((known / np.maximum(loose, 1e-300)).max()) + abs(wanted) / by_lengths
    low, high = -bound, bound
    for _ in range(100):
        middle = (low + high) / 2
        more = each @ np.maximum(known - middle * loose, 0) > wanted
        low, high = (middle, high) if more else (low, middle)
    moved = counts.copy()
    moved[there] = np.rint(np.maximum(known - high * loose, 0)).astype(np.int64)
    return moved
