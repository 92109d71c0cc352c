"""What DiffPart's rows lack, put back: records whose lengths and items are as often as counted.

Which of the commonest items a record has follows the law of the basis; its other items are drawn
independently and different inside a record, then exchanged between records until each item is in as
many as it should be. Post-processing. Spec: set-valued, section 10.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.set_valued.basis_model import by_length, fitted_cells, independent
from algorithms.set_valued.lengths import SIZES
from algorithms.set_valued.margins import Margins, Pairs
from algorithms.set_valued.pair_model import with_pairs
from algorithms.set_valued.settings import Row, RowCap
from algorithms.set_valued.weights import Fit, Levelled, fitted, levelled
from tacit.encoders.set_valued_counts import MOST_LENGTH
from tacit.randomness import NoiseSource
from tacit.records.items import Ints

Floats = NDArray[np.float64]

_REDRAWING_ROUNDS: Final = 30
"""Of drawing items again that a record has already."""
_EXCHANGES: Final = 8
"""Rounds of replacing items that are too frequent by those that are too rare."""
_SKEW: Final = 0.1
"""Of what records do not keep, the part by which a count of a common item may be off."""


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

    def items(self, length: float = math.inf) -> Floats:
        """Records with each item (universe,), each with at most this many items kept."""
        weights = self.counts * np.minimum(1.0, length / self.sizes)
        return np.bincount(self.places, weights, minlength=self.universe).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Common:
    """chosen (k,): the items of the basis; table (64, 2^k): records by length and by which of them
    they have."""

    chosen: Ints
    table: Floats


@dataclass(frozen=True, eq=False)
class Remainder:
    """What DiffPart's rows lack: lengths (64,) of records, how the noisy counts of their items were
    levelled, and the weights by which items would be drawn if all were independent. others: the
    same for items outside the basis, by how many of them a record has; records (64,) of these.
    pairs: what was counted of pairs, without a basis."""

    lengths: Ints
    levelled: Levelled
    fit: Fit
    common: Common | None = None
    others: Fit | None = None
    pairs: Pairs | None = None

    @property
    def records(self) -> Floats:
        """`lengths` as floats, for expectations."""
        return self.lengths.astype(np.float64)


def kept_shares(length: int) -> Floats:
    """The share of its items that a record of 1 to 64 keeps (64,)."""
    shares: Floats = np.minimum(1.0, length / SIZES)
    return shares


def remainder(margins: Margins, measured: Measured) -> Remainder:
    """Measured lengths and items without those of the rows, none below 0: weights with which
    records of these lengths keep as many of each item as were counted."""
    shares = kept_shares(margins.kept)
    left = margins.items - measured.items(margins.kept)
    lengths = np.maximum(margins.lengths.astype(np.int64) - measured.lengths, 0)
    lengths = margins.fitting(lengths, left)
    records = lengths.astype(np.float64)
    counted = lengths * shares
    total = float(counted.sum())
    level = levelled(left, float(counted @ SIZES), total, margins.deviation)
    moved = level.of(left)
    fit = fitted(moved, records, shares, SIZES)
    if margins.basis is None or not records.any():
        return Remainder(lengths, level, fit, pairs=margins.pairs)
    chosen = margins.basis.chosen
    others = moved.copy()
    others[chosen] = 0
    chances = 1 - np.exp(-np.multiply.outer(fit.times, fit.weights[fit.place[chosen]]))
    start = independent(chances, records, int(np.count_nonzero(others)))
    single = _combined(margins, fit.expected(records)[fit.place[chosen]], records, shares)
    cells = fitted_cells(start.sum(axis=0), margins.basis, single)
    common = Common(chosen, by_length(start, records, cells, single))
    by_others, kept = _records_by_others(common.table, shares)
    return Remainder(lengths, level, fit, common, fitted(others, by_others, kept, SIZES))


def _combined(margins: Margins, counts: Floats, records: Floats, shares: Floats) -> Floats:
    """Records with each item of the basis (k,): what was counted of single items and of cells, by
    their variances."""
    assert margins.basis is not None
    cells, k = margins.basis.cells, margins.basis.chosen.size
    kept = float(records * SIZES @ shares) / float(records @ SIZES)
    bias = (margins.deviation / kept) ** 2 + np.square(_SKEW * (1 - kept) * counts)
    noise = margins.basis.deviation**2 * 2.0 ** (k - 1)
    every = np.arange(cells.size)
    sums = np.array([cells[every >> bit & 1 == 1].sum() for bit in range(k)], np.float64)
    result: Floats = (counts * noise + sums * bias) / (noise + bias)
    return result


def _records_by_others(table: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """Records by how many items outside the basis they have (64,), and the share of its items that
    such a record kept."""
    others = SIZES[:, None].astype(np.int64) - np.bitwise_count(np.arange(table.shape[1]))
    inside = (others > 0) & (table > 0)
    records: Floats = np.bincount(others[inside], table[inside], MOST_LENGTH + 1)[1:].astype(float)
    kept = np.bincount(others[inside], (table * shares[:, None])[inside], MOST_LENGTH + 1)[1:]
    return records, np.divide(kept, records, out=np.ones(MOST_LENGTH), where=records > 0)


@dataclass(frozen=True, eq=False)
class Drawn:
    """Records as entries: owner (entries,), rising, and item of each."""

    owner: Ints
    items: Ints


def rest_rows(
    left: Remainder, most_rows: int, source: NoiseSource, beat: Callable[[], None]
) -> tuple[Row, ...]:
    """Records of the remaining lengths; equal ones merged, sorted by (length, items). Raises
    RowCap."""
    fit = left.fit if left.others is None else left.others
    if not left.fit.weights.any():
        return ()
    if left.common is None:
        cells, sizes = np.zeros(int(left.lengths.sum()), np.int64), np.repeat(SIZES, left.lengths)
    else:
        counts = whole(left.common.table, float(_uniform(source, 1)[0]))
        rows, columns = np.nonzero(counts)
        cells = np.repeat(columns, counts[rows, columns])
        sizes = np.repeat(rows + 1, counts[rows, columns]) - np.bitwise_count(cells)
    drawn = _others(fit, sizes.astype(np.int64), source, beat)
    if left.pairs is not None and drawn.items.size:
        universe = fit.place.size
        items = with_pairs(drawn.owner, drawn.items, left.pairs, universe, source, beat)
        drawn = Drawn(drawn.owner, items)
    if left.common is not None:
        drawn = _with_cells(drawn, cells, left.common.chosen)
    return _merged(drawn, most_rows, beat)


def whole(table: Floats, uniform: float) -> Ints:
    """Whole numbers with the same running sums up to 1, without bias; uniform: in [0, 1)."""
    running = np.floor(np.concatenate(([0.0], np.cumsum(table.ravel()))) + uniform)
    return np.diff(running).astype(np.int64).reshape(table.shape)


def _others(fit: Fit, sizes: Ints, source: NoiseSource, beat: Callable[[], None]) -> Drawn:
    """As many items by weight as each record lacks (records,), different ones inside a record, and
    each item in as many records as the fit expects."""
    weights = fit.weights[fit.place]
    usable = int(np.count_nonzero(weights))
    sums = np.concatenate(([0.0], np.cumsum(weights)))
    sizes = np.minimum(sizes, usable)
    owner = np.repeat(np.arange(sizes.size), sizes)
    items = _places(sums, owner.size, source)
    for _ in range(_REDRAWING_ROUNDS):
        beat()
        twice = _repeated(owner, items, weights.size)
        if not twice.size:
            break
        items[twice] = _places(sums, twice.size, source)
    kept = np.ones(owner.size, np.bool_)
    kept[_repeated(owner, items, weights.size)] = False
    drawn = Drawn(owner[kept], items[kept])
    records = np.bincount(sizes, minlength=MOST_LENGTH + 1)[1:].astype(np.float64)
    expected_counts = fit.expected(records)[fit.place]
    whole_counts = np.floor(expected_counts + _uniform(source, expected_counts.size)).astype(
        np.int64
    )
    return _exchanged(drawn, whole_counts, source, beat)


def _repeated(owner: Ints, items: Ints, universe: int) -> Ints:
    """Entries whose item an earlier entry of the record has."""
    keys = owner * universe + items
    order = np.argsort(keys, kind="stable")
    again: Ints = order[1:][np.diff(keys[order]) == 0]
    return again


def _exchanged(
    drawn: Drawn, counts_wanted: Ints, source: NoiseSource, beat: Callable[[], None]
) -> Drawn:
    """Entries of items that are in too many records, chosen at random, become items that are in
    too few, if the record does not have them yet."""
    items, universe = drawn.items.copy(), counts_wanted.size
    for _ in range(_EXCHANGES):
        beat()
        surplus = np.bincount(items, minlength=universe) - counts_wanted
        lacking = np.repeat(np.arange(universe), np.maximum(-surplus, 0))
        order = np.lexsort((source.words(items.size), items))
        starts = np.searchsorted(items[order], np.arange(universe))
        rank = np.arange(items.size) - starts[items[order]]
        extra = order[rank < surplus[items[order]]]
        number = min(extra.size, lacking.size)
        if not number:
            break
        extra = extra[np.argsort(source.words(extra.size), kind="stable")][:number]
        new = lacking[np.argsort(source.words(lacking.size), kind="stable")][:number]
        keys = drawn.owner[extra] * universe + new
        first = np.zeros(number, np.bool_)
        first[np.unique(keys, return_index=True)[1]] = True
        fits = first & ~np.isin(keys, drawn.owner * universe + items)
        items[extra[fits]] = new[fits]
    return Drawn(drawn.owner, items)


def _with_cells(drawn: Drawn, cells: Ints, chosen: Ints) -> Drawn:
    """With the items of each record's cell (records,)."""
    owners, items = [drawn.owner], [drawn.items]
    for bit, item in enumerate(chosen.tolist()):
        having = np.flatnonzero(cells >> bit & 1)
        owners.append(having)
        items.append(np.full(having.size, item))
    owner = np.concatenate(owners)
    order = np.argsort(owner, kind="stable")
    return Drawn(owner[order], np.concatenate(items)[order])


def _merged(drawn: Drawn, most_rows: int, beat: Callable[[], None]) -> tuple[Row, ...]:
    order = np.lexsort((drawn.items, drawn.owner))
    items, sizes = drawn.items[order], np.bincount(drawn.owner)
    starts = np.cumsum(sizes) - sizes
    rows: list[Row] = []
    for size in np.unique(sizes[sizes > 0]).tolist():
        beat()
        table = items[starts[sizes == size][:, None] + np.arange(size)]
        distinct, counts = np.unique(table, axis=0, return_counts=True)
        if len(rows) + len(distinct) > most_rows:
            raise RowCap(most_rows, "Rows of the remainder are nearly all different.")
        rows += zip(map(tuple, distinct.tolist()), counts.tolist(), strict=True)
    return tuple(rows)


def _uniform(source: NoiseSource, count: int) -> Floats:
    return np.asarray((source.words(count) >> np.uint64(11)) * 2.0**-53, np.float64)


def _places(sums: Floats, count: int, source: NoiseSource) -> Ints:
    at = np.searchsorted(sums, _uniform(source, count) * sums[-1], side="right") - 1
    places: Ints = np.minimum(at, sums.size - 2)
    return places
