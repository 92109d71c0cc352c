"""What DiffPart leaves out, put back: lengths and items of all records, with noise of their own.

What DiffPart prunes is gone with its mass, and every count is too low by that. Method
`diffpart+rest` spends 2/3 of epsilon on DiffPart, 1/30 on a histogram of the records' lengths and
3/10 on counts of items, of which each record keeps at most l, drawn by words of its own. What is
measured there beyond DiffPart's rows is released as rows whose items are drawn independently, by
weights with which each item occurs as often as it was counted (`inclusion`).

    lengths  histogram of lengths 1 to 64 (the last: 64 and more)     sensitivity 1
    items    records that keep each item, at most l of each record    l

l is a function of the noisy lengths. A record's choice depends on itself alone.

Spec: set-valued, section 10.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from algorithms.contract import Context
from algorithms.counts.thresholds import threshold
from algorithms.set_valued.inclusion import Fit, Floats, Levelled, fitted, levelled
from algorithms.set_valued.problems import RowCap
from algorithms.set_valued.records import Itemsets
from algorithms.set_valued.settings import Row
from tacit.encoders.set_valued_margins import MOST_LENGTH as MOST_LENGTH
from tacit.noise import DiscreteLaplace
from tacit.randomness import NoiseSource
from tacit.records.transactions import Ints

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
SIZES: Final = np.arange(1.0, MOST_LENGTH + 1)
"""Items of a record of each counted length."""


@dataclass(frozen=True, eq=False)
class Margins:
    """Released: lengths (64,), noisy numbers of records with 1 to 64 items, those that may be noise
    set to 0; kept: l; items (universe,), noisy numbers of records that kept each item; hidden: how
    many records may have a length that was set to 0: two standard deviations above their count."""

    lengths: Ints
    kept: int
    items: Ints
    hidden: float = 0.0


def measured_margins(sets: Itemsets, universe: int, epsilon: Fraction, context: Context) -> Margins:
    """Both noisy histograms; epsilon: of the whole job. Raises Cancelled."""
    context.progress(0.8, "counting lengths")
    sizes = np.minimum(np.diff(sets.offsets), MOST_LENGTH)
    counts = np.bincount(sizes, minlength=MOST_LENGTH + 1)[1:]
    scale = 1 / (epsilon * LENGTHS_SHARE)
    noisy = counts + DiscreteLaplace(scale).draw(context.noise("lengths"), MOST_LENGTH)
    lengths, hidden = told_from_noise(noisy, scale)
    kept = items_kept(lengths)
    context.progress(0.82, "counting items")
    places = kept_places(sets, kept, context.noise("kept items"))
    items = np.bincount(places, minlength=universe)
    law = DiscreteLaplace(kept / (epsilon * ITEMS_SHARE))
    return Margins(lengths, kept, items + law.draw(context.noise("items"), universe), hidden)


def told_from_noise(
    noisy: Ints, scale: Fraction, draws: Fraction = Fraction(1)
) -> tuple[Ints, float]:
    """Noisy lengths, those below three scales of their noise 0, unless all of these together hold
    more records than two standard deviations: then they keep that sum, levelled. And how many
    records of theirs may be missing. Where a sum holds more than one whole noise, below what that
    reaches as rarely (spec: federated-counting, section 3)."""
    least = float(_THRESHOLD * scale)
    if draws != 1:
        least = threshold(draws, scale, math.exp(-_THRESHOLD) / 2)
    hidden = noisy < least
    below = noisy[hidden].astype(np.float64)
    records = float(below.sum())
    wide = 2 * float(scale) * math.sqrt(2 * draws * below.size)  # two standard deviations
    found = np.where(hidden, 0, noisy)
    if records > max(least, wide):
        found[hidden] = np.rint(levelled(below, records, 2 * records).of(below))
    return found, max(0.0, float((noisy - found)[hidden].sum()) + wide)


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
class Measured:
    """DiffPart's rows as arrays. lengths: (64,) records of each; places, counts, sizes: one entry
    for each item of each row, with the row's count and its number of items."""

    universe: int
    lengths: Ints
    places: Ints
    counts: Ints
    sizes: Ints

    @classmethod
    def of(cls, rows: Sequence[Row], universe: int) -> Measured:
        """These rows."""
        sizes = np.array([len(items) for items, _ in rows], np.int64)
        counts = np.array([count for _, count in rows], np.int64)
        lengths = np.zeros(MOST_LENGTH, np.int64)
        np.add.at(lengths, np.minimum(sizes, MOST_LENGTH) - 1, counts)
        places = np.fromiter((item for items, _ in rows for item in items), np.int64)
        return cls(universe, lengths, places, np.repeat(counts, sizes), np.repeat(sizes, sizes))

    def items(self, kept: float = math.inf) -> Floats:
        """Records with each item (universe,), of whose items so many are kept at most."""
        weights = self.counts * np.minimum(1.0, kept / self.sizes)
        return np.bincount(self.places, weights, minlength=self.universe).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Remainder:
    """What DiffPart's rows lack: lengths (64,) of records, how the noisy counts of their items were
    levelled, and the weights by which their items are drawn."""

    lengths: Ints
    levelled: Levelled
    fit: Fit

    @property
    def weights(self) -> Floats:
        """Of each item (universe,)."""
        return self.fit.weights[self.fit.place]

    @property
    def records(self) -> Floats:
        """`lengths` as floats, for expectations."""
        return self.lengths.astype(np.float64)


def kept_shares(kept: int) -> Floats:
    """The share of its items that a record of 1 to 64 keeps (64,)."""
    shares: Floats = np.minimum(1.0, kept / SIZES)
    return shares


def remainder(margins: Margins, measured: Measured) -> Remainder:
    """Measured lengths and items without those of the rows, none below 0: weights with which
    records of these lengths keep as many of each item as were counted."""
    lengths = np.maximum(margins.lengths.astype(np.int64) - measured.lengths, 0)
    shares = kept_shares(margins.kept)
    counted = lengths * shares
    left = margins.items - measured.items(margins.kept)
    level = levelled(left, float(counted @ SIZES), float(counted.sum()))
    fit = fitted(level.of(left), lengths.astype(np.float64), shares, SIZES)
    return Remainder(lengths, level, fit)


def rest_rows(
    left: Remainder, most_rows: int, source: NoiseSource, beat: Callable[[], None]
) -> tuple[Row, ...]:
    """Records of the remaining lengths, items drawn by weight and different inside a record; equal
    ones merged, sorted by (length, items). Raises RowCap."""
    weights = left.weights
    sums = np.concatenate(([0.0], np.cumsum(weights)))
    usable = int(np.count_nonzero(weights))
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
