"""What DiffPart omits, put back: lengths and items of all records, with their own noise.

Sets of different items are drawn so that each item is in as many records as it should be. Also how
far the released file's counts of items are from the true ones, by simulation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context
from algorithms.counts.contract import threshold
from algorithms.counts.released_files import RUNS, SEED, ErrorOfCounts, Seen, by_class, probes
from algorithms.set_valued.records import Itemsets
from algorithms.set_valued.settings import Row, RowCap
from tacit.encoders.set_valued_counts import MOST_LENGTH
from tacit.noise import DiscreteLaplace
from tacit.randomness import NoiseSource, SeededRandom
from tacit.records.items import Ints

Floats = NDArray[np.float64]

_SOLVING_ROUNDS: Final = 40
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
    """Noisy counts (items,) of this many records, moved to this sum.

    Where they are too large together, as they are after noise below 0 was cut off, all are lowered
    alike: the projection on that set, which leaves no part of the noise in the rare items
    ("Norm-Sub", T. Wang and others, NDSS 2020). Where they are too small together all grow in
    proportion: no item that may not be there appears. The sum stays lower where no counts reach it.
    """
    most = _FULL * records
    positive = np.clip(counts, 0.0, most)
    if positive.sum() >= total:
        result = _bisected(
            lambda lowered: Levelled(lowered, 1.0, most),
            lambda each: each.of(counts).sum() > total,
            float(positive.max(initial=0.0)),
        )
    else:
        reach = most / float(positive[positive > 0].min(initial=most))  # where all are at `most`
        result = _bisected(
            lambda factor: Levelled(0.0, factor, most),
            lambda each: each.of(counts).sum() < total,
            max(reach, 1.0),
        )
    return result


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
    wanted = np.minimum(lengths[used], usable - (1 - _FULL))
    weighted = (records * counted)[used]
    weights = values / float(values @ alike)
    times = wanted
    for _ in range(_SOLVING_ROUNDS):
        before = times
        times = _times(weights, alike, wanted)
        weights = _weights(values, weighted, times)
        if np.abs(times / before - 1).max() < _CLOSE:
            break
    every = np.zeros(records.size)
    every[used] = _times(weights, alike, wanted)
    return Fit(values, weights, place, every)


def _held(weights: Floats, times: Floats) -> Floats:
    result: Floats = -np.expm1(-np.multiply.outer(weights, times))
    return result


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


# What DiffPart prunes is gone with its mass, and every count is too low by that. Method
# `diffpart+rest` spends 2/3 of epsilon on DiffPart, 1/30 on a histogram of the records' lengths and
# 3/10 on counts of items, of which each record keeps at most l, drawn by words of its own. What is
# measured there beyond DiffPart's rows is released as rows whose items are drawn independently, by
# weights with which each item occurs as often as it was counted (`inclusion`).
#
#     lengths  histogram of lengths 1 to 64 (the last: 64 and more)     sensitivity 1
#     items    records that keep each item, at most l of each record    l
#
# l is a function of the noisy lengths. A record's choice depends on itself alone. Spec: set-valued,
# section 10.

DIFFPART_SHARE: Final = Fraction(2, 3)
LENGTHS_SHARE: Final = Fraction(1, 30)
ITEMS_SHARE: Final = Fraction(3, 10)
_THRESHOLD: Final = 3
"""Of a length's noisy count, in scales of its noise."""
_COVERED: Final = 0.85
"""The share of records that keep all their items."""
_REDRAWING_ROUNDS: Final = 30
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
        """Records with each item (universe,), each with at most this many items kept."""
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
        """The weight of each item (universe,)."""
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
    for _ in range(_REDRAWING_ROUNDS):
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


# Between the noisy counts and the file lie steps with errors that no formula of the noise states:
# lengths that noise hides, items that records did not keep, the levelling of counts that are too
# large together, the drawing of records. All of them are done again, with other noise, on a truth
# that looks like the release; what differs is the error. A function of noisy counts and of public
# parameters, so that it costs no privacy. Spec: set-valued, section 10.


def errors_of_items(
    margins: Margins,
    measured: Measured,
    epsilon: Fraction,
    beat: Callable[[], None],
    draws: Fraction = Fraction(1),
) -> tuple[ErrorOfCounts, ...]:
    """By classes of counts, up to the largest. epsilon: of the whole job; draws: whole noises that
    a sum holds."""
    truth = _Truth.of(margins, measured)
    generator = SeededRandom(SEED).generator
    runs = []
    for _ in range(RUNS):
        beat()
        runs.append(_released_again(truth, epsilon, draws, generator))
    items = measured.universe
    known = Seen.together([run.part(slice(None, items)) for run in runs])
    return by_class(known, Seen.together([each.part(slice(items, None)) for each in runs]))


@dataclass(frozen=True, eq=False)
class _Truth:
    """A population that looks like the release: its items, then the probes, which no row has and
    which change nothing for the others. in_rows: records of DiffPart's rows; rest: the others."""

    margins: Margins
    measured: Measured
    left: Remainder
    in_rows: Floats
    rest: Floats
    share: Floats
    """Of `in_rows`, what is true: where rows hold more of an item than was counted, some are
    false."""

    @classmethod
    def of(cls, margins: Margins, measured: Measured) -> _Truth:
        left = remainder(margins, measured)
        in_rows, rest = measured.items(), left.fit.expected(left.records)[left.fit.place]
        false = (rest == 0) & (margins.items < in_rows)
        share = np.where(false, np.maximum(margins.items, 0) / np.maximum(in_rows, 1), 1.0)
        more = probes(float(rest.max(initial=0.0)))
        none = np.zeros(more.size)
        return cls(
            margins,
            measured,
            left,
            np.concatenate((in_rows, none)),
            np.concatenate((rest, more)),
            np.concatenate((share, none)),
        )


def _released_again(
    truth: _Truth, epsilon: Fraction, draws: Fraction, generator: np.random.Generator
) -> Seen:
    margins, measured, left = truth.margins, truth.measured, truth.left
    items, records = measured.universe, left.records
    scale = 1 / (epsilon * LENGTHS_SHARE)
    lengths = margins.lengths + _noise(generator, draws, scale, SIZES.size)
    lengths, _ = told_from_noise(lengths, scale, draws)
    kept = items_kept(lengths)
    totals = left.fit.expected(records)
    counted = _along(truth.rest, totals, left.fit.expected(records * kept_shares(kept)))
    thinned = np.sqrt(counted * (1 - counted / np.maximum(truth.rest, 1)).clip(0))
    counted = counted + thinned * generator.standard_normal(counted.size)
    noise = _noise(generator, draws, kept / (epsilon * ITEMS_SHARE), counted.size)
    rows = np.zeros(counted.size)
    rows[:items] = measured.items(kept)
    noisy = np.rint(counted + truth.share * rows).astype(np.int64) + noise
    again = remainder(Margins(lengths, kept, noisy[:items]), measured)
    most = int(again.lengths.sum())
    expected = _along(
        again.levelled.of(noisy - rows),
        np.append(again.fit.counts, again.levelled.most),
        np.append(again.fit.expected(again.records), most),
    )
    drawn = generator.binomial(most, np.clip(expected / max(most, 1), 0, 1))
    short, long = _other_lengths(truth)
    true_rows, released = truth.share * truth.in_rows, truth.in_rows + drawn
    return Seen(
        true_rows + truth.rest, released, released - true_rows - short, released - true_rows - long
    )


def _other_lengths(truth: _Truth) -> tuple[Floats, Floats]:
    """Records of the rest that hold each item if, of those of whom it was counted, records were as
    long as all records are; and if long ones were preferred twice as much as drawing prefers them
    (in proportion to the square of the length), and all records were there that noise may hide,
    with the greatest length. What was not counted lies in records of more than l items alone."""
    records = truth.left.records
    shares = kept_shares(truth.margins.kept)
    fit = truth.left.fit
    counted = _along(truth.rest, fit.expected(records), fit.expected(records * shares))
    if not records.any():
        return truth.rest, truth.rest
    short = counted / (records @ shares / records.sum())
    long = counted / (records * SIZES**2 @ shares / (records @ SIZES**2))
    most = counted + records @ (1 - shares)
    longest = int(np.flatnonzero(records)[-1])
    time = fit.times[longest] * SIZES[-1] / SIZES[longest]
    weights = _along(truth.rest, fit.expected(records), fit.weights)
    hidden = -truth.margins.hidden * np.expm1(-weights * time)
    return np.minimum(short, truth.rest), np.maximum(np.minimum(long, most), truth.rest) + hidden


def _noise(generator: np.random.Generator, draws: Fraction, scale: Fraction, count: int) -> Ints:
    """Differences of two negative binomials; of weight 1 they are discrete Laplace."""
    chance = -math.expm1(-1 / float(scale))
    both = generator.negative_binomial(float(draws), chance, (2, count)).astype(np.int64)
    result: Ints = both[0] - both[1]
    return result


def _along(values: Floats, known: Floats, there: Floats) -> Floats:
    """A rising function that is known at `known`, and 0 at 0."""
    result: Floats = np.interp(values, np.append(0.0, known), np.append(0.0, there))
    return result
