"""What DiffPart leaves out, put back: lengths and items of all records, with noise of their own.

What DiffPart prunes is gone with its mass, and every count is too low by that. Method
`diffpart+rest` spends 2/3 of epsilon on DiffPart, 1/30 on a histogram of the records' lengths and
3/10 on counts of items, of which each record keeps at most l, drawn by words of its own. What is
measured there beyond DiffPart's rows is released as rows in which items are independent.

    lengths  histogram of lengths 1 to 64 (the last: 64 and more)     sensitivity 1
    items    records that keep each item, at most l of each record    l

l is a function of the noisy lengths. A record's choice depends on itself alone.

Spec: set-valued, section 10.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context
from algorithms.counts.thresholds import threshold
from algorithms.set_valued.problems import RowCap
from algorithms.set_valued.records import Itemsets
from algorithms.set_valued.settings import Row
from tacit.encoders.set_valued_margins import MOST_LENGTH as MOST_LENGTH
from tacit.noise import DiscreteLaplace
from tacit.randomness import NoiseSource
from tacit.records.transactions import Ints

Floats = NDArray[np.float64]

DIFFPART_SHARE: Final = Fraction(2, 3)
LENGTHS_SHARE: Final = Fraction(1, 30)
ITEMS_SHARE: Final = Fraction(3, 10)
_THRESHOLD: Final = 3
"""Of a length's noisy count, in scales of its noise."""
_COVERED: Final = 0.85
"""The share of records that keep all their items."""
_ROUNDS: Final = 30
"""Of drawing items again that a record has already."""
_BLOCK: Final = 1 << 16


@dataclass(frozen=True, eq=False)
class Margins:
    """Released: lengths (64,), noisy numbers of records with 1 to 64 items, those that may be noise
    set to 0; kept: l; items (universe,), noisy numbers of records that kept each item."""

    lengths: Ints
    kept: int
    items: Ints

    @property
    def stretch(self) -> float:
        """All items of all records over those that were kept."""
        sizes = np.arange(1, MOST_LENGTH + 1)
        held = float((np.minimum(sizes, self.kept) * self.lengths).sum())
        return float((sizes * self.lengths).sum()) / held if held else 1.0


def measured_margins(sets: Itemsets, universe: int, epsilon: Fraction, context: Context) -> Margins:
    """Both noisy histograms; epsilon: of the whole job. Raises Cancelled."""
    context.progress(0.8, "counting lengths")
    sizes = np.minimum(np.diff(sets.offsets), MOST_LENGTH)
    counts = np.bincount(sizes, minlength=MOST_LENGTH + 1)[1:]
    scale = 1 / (epsilon * LENGTHS_SHARE)
    noisy = counts + DiscreteLaplace(scale).draw(context.noise("lengths"), MOST_LENGTH)
    lengths = told_from_noise(noisy, scale)
    kept = items_kept(lengths)
    context.progress(0.82, "counting items")
    places = kept_places(sets, kept, context.noise("kept items"))
    items = np.bincount(places, minlength=universe)
    law = DiscreteLaplace(kept / (epsilon * ITEMS_SHARE))
    return Margins(lengths, kept, items + law.draw(context.noise("items"), universe))


def told_from_noise(noisy: Ints, scale: Fraction, draws: Fraction = Fraction(1)) -> Ints:
    """Noisy lengths, 0 below three scales of their noise; where a sum holds more than one whole
    noise, below what that reaches as rarely (spec: federated-counting, section 3)."""
    least = float(_THRESHOLD * scale)
    if draws != 1:
        least = threshold(draws, scale, math.exp(-_THRESHOLD) / 2)
    return np.where(noisy < least, 0, noisy)


def items_kept(lengths: Ints) -> int:
    """l: the smallest length that 85 % of the noisy records do not pass; 1 without any."""
    total = int(lengths.sum())
    if not total:
        return 1
    return int(np.searchsorted(np.cumsum(lengths), _COVERED * total)) + 1


def kept_places(sets: Itemsets, most: int, source: NoiseSource) -> Ints:
    """The items that records keep, at most `most` of each, uniformly among its own."""
    words = source.words(sets.places.size)
    sizes = np.diff(sets.offsets)
    owner = np.repeat(np.arange(sets.count), sizes)
    order = np.lexsort((words, owner))
    rank = np.arange(owner.size) - np.repeat(sets.offsets[:-1], sizes)
    return sets.places[order[rank < most]].astype(np.int64)


@dataclass(frozen=True, eq=False)
class Remainder:
    """What DiffPart's rows lack: lengths (64,) of records, weights (universe,) of their items."""

    lengths: Ints
    weights: Floats


def remainder(margins: Margins, rows: tuple[Row, ...]) -> Remainder:
    """Measured lengths and items without those of the rows, none below 0."""
    lengths = margins.lengths.astype(np.int64).copy()
    weights = margins.items * margins.stretch
    for items, count in rows:
        lengths[min(len(items), MOST_LENGTH) - 1] -= count
        weights[list(items)] -= count
    return Remainder(np.maximum(lengths, 0), np.maximum(weights, 0.0))


def rest_rows(
    left: Remainder, most_rows: int, source: NoiseSource, beat: Callable[[], None]
) -> tuple[Row, ...]:
    """Records of the remaining lengths, items drawn by weight and different inside a record; equal
    ones merged, sorted by (length, items). Raises RowCap."""
    sums = np.concatenate(([0.0], np.cumsum(left.weights)))
    usable = int(np.count_nonzero(left.weights))
    counted: dict[tuple[int, ...], int] = {}
    if usable:
        for place in np.flatnonzero(left.lengths).tolist():
            length = min(place + 1, usable)
            records = int(left.lengths[place])
            for start in range(0, records, _BLOCK):
                beat()
                drawn = _drawn(sums, min(_BLOCK, records - start), length, source)
                for items, count in drawn:
                    counted[items] = counted.get(items, 0) + count
                if len(counted) > most_rows:
                    raise RowCap(most_rows, "Rows of the remainder are nearly all different.")
    return tuple(sorted(counted.items(), key=lambda row: (len(row[0]), row[0])))


def _drawn(sums: Floats, records: int, length: int, source: NoiseSource) -> list[Row]:
    """That many itemsets of one length; shorter where 30 rounds did not make items differ."""
    items = np.sort(_places(sums, records * length, source).reshape(records, length), axis=1)
    for _ in range(_ROUNDS):
        again = np.zeros(items.shape, np.bool_)
        again[:, 1:] = items[:, 1:] == items[:, :-1]
        wrong = np.flatnonzero(again.any(axis=1))
        if not wrong.size:
            break
        part, twice = items[wrong], again[wrong]
        part[twice] = _places(sums, int(twice.sum()), source)
        items[wrong] = np.sort(part, axis=1)
    distinct, counts = np.unique(items, axis=0, return_counts=True)
    return [
        (tuple(sorted(set(row))), count)
        for row, count in zip(distinct.tolist(), counts.tolist(), strict=True)
    ]


def _places(sums: Floats, count: int, source: NoiseSource) -> Ints:
    uniform = (source.words(count) >> np.uint64(11)) * 2.0**-53
    found = np.searchsorted(sums, uniform * sums[-1], side="right") - 1
    places: Ints = np.minimum(found, sums.size - 2)
    return places
