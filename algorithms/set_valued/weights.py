"""Noisy counts of items, made consistent with the lengths of records, and the weights with which
independent draws give these counts.

Post-processing. Spec: set-valued, section 10.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_SOLVING_ROUNDS: Final = 40
"""Of solving for weights, then for t; each ends when nothing moves by more than `_CLOSE`."""
_STEPS: Final = 40
_CLOSE: Final = 1e-4
_FULL: Final = 0.999
"""An item is in at most this share of the records: with more its weight has no end."""
_CLEAR: Final = 3
"""Standard deviations from which on a count is no noise."""


@dataclass(frozen=True)
class Rule:
    """`factor` count - `lowered`, cut to 0..`most`."""

    lowered: float
    factor: float
    most: float

    def of(self, counts: Floats) -> Floats:
        """The counts, moved."""
        return np.clip(self.factor * counts - self.lowered, 0.0, self.most)


@dataclass(frozen=True)
class Levelled:
    """How noisy counts are moved to a sum: those from `clear` on by one rule, the others, which may
    be noise, by another."""

    clear: float
    above: Rule
    below: Rule

    @property
    def most(self) -> float:
        """The greatest count."""
        return self.above.most

    def of(self, counts: Floats) -> Floats:
        """The counts, moved; they keep their order."""
        return np.where(counts >= self.clear, self.above.of(counts), self.below.of(counts))


def levelled(counts: Floats, total: float, records: float, deviation: float = 0.0) -> Levelled:
    """Noisy counts (items,) of this many records, moved to this sum. deviation: of their noise.

    Counts below three deviations share what the others leave of the sum, if anything: each is
    lowered by the same amount, none below 0 ("Norm-Sub", T. Wang and others, NDSS 2020), so that
    the noise of many rare items is not mass that the common ones lack. If clear counts are too
    large together, they are lowered equally; if all are too small, the others grow in proportion
    up to the border, then the clear ones: no item that may be absent appears.
    """
    most = _FULL * records
    clear = min(_CLEAR * deviation, most)
    known, rest = counts[counts >= clear], counts[counts < clear]
    plain = float(np.clip(known, 0.0, most).sum())
    below = _moved(rest, max(total - plain, 0.0), clear)
    above = _moved(known, total - float(below.of(rest).sum()), most)
    return Levelled(clear, above, below)


def _moved(counts: Floats, total: float, most: float) -> Rule:
    """The rule that moves these counts to this sum, or as near to it as they reach."""
    positive = np.clip(counts, 0.0, most)
    if positive.sum() >= total:
        return _bisected(
            lambda lowered: Rule(lowered, 1.0, most),
            lambda rule: rule.of(counts).sum() > total,
            float(positive.max(initial=0.0)),
        )
    least = positive[positive > 0].min(initial=max(most, 1e-9))
    return _bisected(
        lambda factor: Rule(0.0, factor, most),
        lambda rule: rule.of(counts).sum() < total,
        max(most / float(least), 1.0),
    )


def _bisected(
    rule_at: Callable[[float], Rule], beyond: Callable[[Rule], bool], high: float
) -> Rule:
    """The first, of those for 0 to `high`, that is not beyond any more."""
    low = 0.0
    for _ in range(60):
        middle = (low + high) / 2
        if beyond(rule_at(middle)):
            low = middle
        else:
            high = middle
    return rule_at(high)


@dataclass(frozen=True, eq=False)
class Fit:
    """counts: (distinct,) rising; weights: (distinct,) of items with these counts; place: (items,)
    which count is an item's; times: (lengths,), t of each length, 0 where there is no record."""

    counts: Floats
    weights: Floats
    place: NDArray[np.intp]
    times: Floats

    def expected(self, records: Floats) -> Floats:
        """How many of the records (lengths,) hold an item of each count (distinct,)."""
        result: Floats = _held(self.weights, self.times) @ records
        return result


def fitted(counts: Floats, records: Floats, counted: Floats, lengths: Floats) -> Fit:
    """Weights for the counts (items,) of records (lengths,) of which the share `counted` of the
    items was counted. A count is at most what `levelled` leaves."""
    values, place, alike = np.unique(counts, return_inverse=True, return_counts=True)
    usable = int(alike[values > 0].sum())
    used = records > 0
    if not usable or not used.any():
        return Fit(values, np.zeros(values.size), place, np.zeros(records.size))
    target_lengths = np.minimum(lengths[used], usable - (1 - _FULL))
    weighted = (records * counted)[used]
    weights = values / float(values @ alike)
    times = target_lengths
    for _ in range(_SOLVING_ROUNDS):
        before = times
        times = _times(weights, alike, target_lengths)
        weights = _weights(values, weighted, times)
        if np.abs(times / before - 1).max() < _CLOSE:
            break
    every = np.zeros(records.size)
    every[used] = _times(weights, alike, target_lengths)
    return Fit(values, weights, place, every)


def _held(weights: Floats, times: Floats) -> Floats:
    result: Floats = -np.expm1(-np.multiply.outer(weights, times))
    return result


def _times(weights: Floats, alike: NDArray[np.int64], target_lengths: Floats) -> Floats:
    """t of each length (lengths,): as many different items as wanted."""
    times = target_lengths / float(weights @ alike)
    for _ in range(_STEPS):
        left = np.exp(-np.multiply.outer(times, weights))
        lacking = target_lengths - (1 - left) @ alike
        step = lacking / np.maximum(left @ (weights * alike), 1e-300)
        times = times + np.maximum(step, 0.0)
        if (step <= _CLOSE * times).all():
            break
    return times


def _weights(values: Floats, weighted: Floats, times: Floats) -> Floats:
    """w of each count (values,): as many records hold it as wanted."""
    weights = values / float(weighted @ times)
    for _ in range(_STEPS):
        left = np.exp(-np.multiply.outer(weights, times))
        lacking = values - (1 - left) @ weighted
        step = lacking / np.maximum(left @ (weighted * times), 1e-300)
        weights = weights + np.maximum(step, 0.0)
        if (step <= _CLOSE * np.maximum(weights, 1e-300)).all():
            break
    return weights
