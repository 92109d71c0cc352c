"""Drawing sets of different items so that each item is in as many records as it should be.

A record of L items is drawn by weight until it has L different items. Item j with weight w_j is
then in it with a probability of about

    p_j(L) = 1 - exp(-w_j t_L),   t_L such that the sum over j of p_j(L) is L

(B. Rosen, "Asymptotic theory for successive sampling", Ann. Math. Statist. 43 (1972)). Weights in
proportion to counts would leave the commonest items far below theirs, since a record holds an item
once. `fitted` finds the weights with which the expected counts are the wanted ones:

    sum over L of n_L k_L p_j(L) = c_j      n_L records, of whose items the share k_L is counted

Both equations are concave in their unknown, so that Newton's steps from below never pass it.

Spec: set-valued, section 10.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_ROUNDS: Final = 40
"""Of solving for weights, then for t; each ends when nothing moves by more than `_CLOSE`."""
_STEPS: Final = 40
_CLOSE: Final = 1e-4
_FULL: Final = 0.999
"""An item is in at most this share of the records: with more its weight has no end."""


@dataclass(frozen=True)
class Levelled:
    """How noisy counts are moved to 0..`most` and a sum: `factor` count - `lowered`, cut there."""

    lowered: float
    factor: float
    most: float

    def of(self, counts: Floats) -> Floats:
        """The counts, moved."""
        return np.clip(self.factor * counts - self.lowered, 0.0, self.most)


def levelled(counts: Floats, total: float, records: float) -> Levelled:
    """Noisy counts (items,) of so many records, moved to this sum.

    Where they are too large together, as they are after noise below 0 was cut off, all are lowered
    alike: the projection on that set, which leaves no part of the noise in the rare items
    ("Norm-Sub", T. Wang and others, NDSS 2020). Where they are too small together all grow in
    proportion: no item that may not be there appears. The sum stays lower where no counts reach it.
    """
    most = _FULL * records
    positive = np.clip(counts, 0.0, most)
    if positive.sum() >= total:
        found = _bisected(
            lambda lowered: Levelled(lowered, 1.0, most),
            lambda each: each.of(counts).sum() > total,
            float(positive.max(initial=0.0)),
        )
    else:
        reach = most / float(positive[positive > 0].min(initial=most))  # where all are at `most`
        found = _bisected(
            lambda factor: Levelled(0.0, factor, most),
            lambda each: each.of(counts).sum() < total,
            max(reach, 1.0),
        )
    return found


def _bisected(
    made: Callable[[float], Levelled], beyond: Callable[[Levelled], bool], high: float
) -> Levelled:
    """The first, of those for 0 to `high`, that is not beyond any more."""
    low = 0.0
    for _ in range(60):
        middle = (low + high) / 2
        if beyond(made(middle)):
            low = middle
        else:
            high = middle
    return made(high)


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
        found: Floats = _held(self.weights, self.times) @ records
        return found


def fitted(counts: Floats, records: Floats, counted: Floats, lengths: Floats) -> Fit:
    """Weights for the counts (items,) of records (lengths,) of which the share `counted` of the
    items was counted. A count is at most what `levelled` leaves."""
    values, place, alike = np.unique(counts, return_inverse=True, return_counts=True)
    usable = int(alike[values > 0].sum())
    used = records > 0
    if not usable or not used.any():
        return Fit(values, np.zeros(values.size), place, np.zeros(records.size))
    wanted = np.minimum(lengths[used], usable - (1 - _FULL))
    weighted = (records * counted)[used]
    weights = values / float(values @ alike)
    times = wanted
    for _ in range(_ROUNDS):
        before = times
        times = _times(weights, alike, wanted)
        weights = _weights(values, weighted, times)
        if np.abs(times / before - 1).max() < _CLOSE:
            break
    every = np.zeros(records.size)
    every[used] = _times(weights, alike, wanted)
    return Fit(values, weights, place, every)


def _held(weights: Floats, times: Floats) -> Floats:
    found: Floats = -np.expm1(-np.multiply.outer(weights, times))
    return found


def _times(weights: Floats, alike: NDArray[np.int64], wanted: Floats) -> Floats:
    """t of each length (lengths,): as many different items as wanted."""
    times = wanted / float(weights @ alike)
    for _ in range(_STEPS):
        left = np.exp(-np.multiply.outer(times, weights))
        lacking = wanted - (1 - left) @ alike
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
