"""Private records as sets over the universe, and as the masks that nodes of the taxonomy see.

How many records contain an itemset (exact, over bit matrices), the most frequent itemsets, and the
baseline `basic`: a noisy histogram over all itemsets, and sums over supersets.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context, Stance, floating_source
from algorithms.set_valued.settings import Row
from tacit.encoders.counts import Lists, sorted_sets
from tacit.encoders.set_valued_counts import Masks, Taxonomy, block_masks, joined_masks
from tacit.noise import DiscreteLaplace, floating_laplace
from tacit.records.items import Ints, Places, Transactions
from tacit.records.text_files import UnknownItem

BLOCK_RECORDS: Final = 131_072


@dataclass(frozen=True, eq=False)
class Itemsets:
    """Records as sets: `places` in the universe rise inside a record; offsets (records + 1,)."""

    places: Places
    offsets: Ints

    @property
    def count(self) -> int:
        """The number of sets."""
        return self.offsets.size - 1


def universe_places(dataset: Transactions, universe: tuple[str, ...]) -> Places:
    """The index in the universe of each of the dataset's items, -1 outside it."""
    place_of = {item: place for place, item in enumerate(universe)}
    return np.array([place_of.get(item, -1) for item in dataset.items], np.int32)


def check_items(dataset: Transactions, universe: tuple[str, ...]) -> None:
    """Raises UnknownItem for the first record with an item outside the universe."""
    outside = universe_places(dataset, universe) < 0
    if not outside.any() or not dataset.values.size:
        return
    wrong = outside[dataset.values]
    if wrong.any():
        entry = int(wrong.argmax())
        row = int(np.searchsorted(dataset.offsets, entry, side="right"))
        column = entry - int(dataset.offsets[row - 1]) + 1
        raise UnknownItem(row, "an item is not in the universe", column)


def itemsets(dataset: Transactions, universe: tuple[str, ...], context: Context) -> Itemsets:
    """All non-empty records as sets, in their order."""
    table = universe_places(dataset, universe)
    parts = [sorted_sets(block, len(universe)) for block in _blocks(dataset, table, context)]
    lengths = [np.bincount(records) for records, _ in parts]
    sizes = np.concatenate([length[length > 0] for length in lengths] or [np.zeros(0, np.int64)])
    places = np.concatenate([place for _, place in parts] or [np.zeros(0, np.int32)])
    return Itemsets(places.astype(np.int32), np.concatenate(([0], np.cumsum(sizes))))


def record_masks(
    dataset: Transactions, universe: tuple[str, ...], taxonomy: Taxonomy, context: Context
) -> Masks:
    """The masks of all records, computed block by block."""
    blocks = _blocks(dataset, universe_places(dataset, universe), context)
    return joined_masks(list(context.map_blocks(partial(block_masks, taxonomy), blocks)))


def _blocks(dataset: Transactions, table: Places, context: Context) -> Iterator[Lists]:
    """Blocks of records as places in the universe."""
    for first in range(0, dataset.records, BLOCK_RECORDS):
        context.progress(0.3 * first / dataset.records, "reading records")
        offsets = dataset.offsets[first : first + BLOCK_RECORDS + 1]
        yield Lists(table[dataset.values[offsets[0] : offsets[-1]]], offsets - offsets[0])


# Spec: set-valued, sections 5 to 7. Equal sets are one column with a weight; weights are kept in
# bit planes, so that a count is a few ANDs and population counts.

Words = NDArray[np.uint64]
Beat = Callable[[], None]
_BLOCK_COLUMNS: Final = 8192


@dataclass(frozen=True, eq=False)
class Weighted:
    """Distinct or repeated itemsets with weights (sets,)."""

    sets: Itemsets
    weights: Ints

    @classmethod
    def of_rows(cls, rows: Sequence[Row]) -> Weighted:
        """The rows of a release."""
        lengths = np.array([len(items) for items, _ in rows], np.int64)
        places = np.array([item for items, _ in rows for item in items], np.int32)
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        return cls(Itemsets(places, offsets), np.array([count for _, count in rows], np.int64))


def deduplicated(sets: Itemsets, items: int) -> Weighted:
    """Equal sets once. Compared by two random 64-bit sums: wrong with a chance below 2^-80."""
    if not sets.count:
        return Weighted(sets, np.zeros(0, np.int64))
    codes = np.random.default_rng(0).integers(0, 1 << 64, (2, items), np.uint64, endpoint=False)
    one, two = (np.add.reduceat(code[sets.places], sets.offsets[:-1]) for code in codes)
    order = np.lexsort((two, one))
    new = (np.diff(one[order]) != 0) | (np.diff(two[order]) != 0)
    starts = np.concatenate(([0], np.flatnonzero(new) + 1))
    kept = order[starts]
    weights = np.diff(np.append(starts, order.size))
    lengths = np.diff(sets.offsets)[kept]
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    entries = np.repeat(sets.offsets[kept] - offsets[:-1], lengths) + np.arange(offsets[-1])
    return Weighted(Itemsets(sets.places[entries], offsets), weights)


@dataclass(frozen=True, eq=False)
class Supports:
    """rows (items, words): which sets hold an item; planes (bits, words): binary digits of the
    weights; single (items,): the support of each item."""

    rows: Words
    planes: Words
    single: Ints

    @classmethod
    def of(cls, weighted: Weighted, items: int, beat: Beat = lambda: None) -> Supports:
        """The matrix of weighted sets."""
        sets, weights = weighted.sets, weighted.weights
        bits = max(int(weights.max(initial=0)).bit_length(), 1)
        words = -(-sets.count // _BLOCK_COLUMNS) * (_BLOCK_COLUMNS // 64)
        rows, planes = np.zeros((items, words), np.uint64), np.zeros((bits, words), np.uint64)
        owner = np.repeat(np.arange(sets.count), np.diff(sets.offsets))
        for first in range(0, sets.count, _BLOCK_COLUMNS):
            beat()
            last = min(first + _BLOCK_COLUMNS, sets.count)
            low, high = sets.offsets[first], sets.offsets[last]
            word = slice(first // 64, (first + _BLOCK_COLUMNS) // 64)
            is_in = np.zeros((items, _BLOCK_COLUMNS), np.bool_)
            is_in[sets.places[low:high], owner[low:high] - first] = True
            rows[:, word] = _packed(is_in)
            digits = np.zeros((bits, _BLOCK_COLUMNS), np.bool_)
            digits[:, : last - first] = weights[first:last] >> np.arange(bits)[:, None] & 1
            planes[:, word] = _packed(digits)
        single = np.bincount(sets.places, weights[owner], minlength=items).astype(np.int64)
        return cls(rows, planes, single)

    def weight(self, columns: Words) -> int:
        """The weight of the chosen sets (words,)."""
        words = np.flatnonzero(columns)
        if not words.size:
            return 0
        ones = np.bitwise_count(columns[words] & self.planes[:, words]).sum(axis=1, dtype=np.int64)
        return int((ones << np.arange(ones.size)).sum())

    def support(self, itemset: Sequence[int]) -> int:
        """Of one itemset: rarest item first, no further than to nothing."""
        order = sorted(itemset, key=self.single.__getitem__)
        if len(order) == 1:
            return int(self.single[order[0]])
        if not self.single[order[0]]:
            return 0
        columns = self.rows[order[0]]
        for item in order[1:]:
            columns = columns & self.rows[item]
            if not columns.any():
                return 0
        return self.weight(columns)


def _packed(bits: NDArray[np.bool_]) -> Words:
    return np.packbits(bits, axis=1, bitorder="little").view(np.uint64)


def most_frequent(supports: Supports, count: int, beat: Beat = lambda: None) -> list[Row]:
    """The top itemsets by (support falling, length, items); fewer where fewer have any support.

    Best first: an itemset comes after its prefixes in this order, hence it is in the queue before
    its turn. What is below the supports of `count` itemsets already seen is in none of the top.
    """
    items = np.flatnonzero(supports.single > 0).tolist()
    queue: list[tuple[int, int, tuple[int, ...]]] = [
        (-int(supports.single[item]), 1, (item,)) for item in items
    ]
    best = sorted(-negative for negative, _, _ in queue)[-count:]
    heapq.heapify(queue)
    heapq.heapify(best)
    result: list[Row] = []
    while queue and len(result) < count:
        beat()
        negative, length, chosen = heapq.heappop(queue)
        result.append((chosen, -negative))
        columns = np.bitwise_and.reduce(supports.rows[list(chosen)], axis=0)
        for item in items:
            least = best[0] if len(best) == count else 1
            if item <= chosen[-1] or supports.single[item] < least:
                continue
            weight = supports.weight(columns & supports.rows[item])
            if weight >= least:
                heapq.heappush(queue, (-weight, length + 1, (*chosen, item)))
                if len(best) < count:
                    heapq.heappush(best, weight)
                else:
                    heapq.heappushpop(best, weight)
    return result


# Spec: set-valued, section 3.6. Itemset m is the cell of its bit mask (bit i: item i of the
# universe); a record is in one cell, so the sensitivity is 1. Cell 0 is no itemset and stays 0.

BLOCK: Final = 1 << 18
_HALF: Final = 11
"""Bits of half a mask; 22 items are the most."""


def exact_histogram(sets: Itemsets, items: int, weights: Ints | None = None) -> Ints:
    """How many records (or how much weight) are exactly each itemset (2^items,)."""
    if not sets.count:
        return np.zeros(1 << items, np.int64)
    bits = np.left_shift(1, sets.places.astype(np.int64))
    masks = np.bitwise_or.reduceat(bits, sets.offsets[:-1])
    return np.bincount(masks, weights, minlength=1 << items).astype(np.int64)


def noisy_histogram(
    exact: Ints, epsilon: Fraction, stance: Stance, context: Context
) -> NDArray[Any]:
    """Every cell but 0 with noise: integers in `sound`, floats in `paper`."""
    noisy: NDArray[Any] = exact.astype(np.float64 if stance == "paper" else np.int64)
    for block, start in enumerate(range(1, noisy.size, BLOCK)):
        context.progress(0.3 + 0.5 * start / noisy.size, "drawing noise")
        part, secret = noisy[start : start + BLOCK], context.noise("cells", block)
        if stance == "sound":
            part += DiscreteLaplace(1 / epsilon).draw(secret, part.size)
        else:
            seeded = floating_source(secret)
            part += floating_laplace(seeded, float(1 / epsilon), part.size)
    return noisy


def clipped(noisy: NDArray[Any]) -> Ints:
    """The publishable variant: whole counts, none below 0."""
    return np.maximum(np.floor(noisy + 0.5), 0).astype(np.int64)


def rows_of(cells: Ints, beat: Callable[[], None] = lambda: None) -> tuple[Row, ...]:
    """The cells above 0 as itemsets, sorted by (length, items)."""
    masks = np.flatnonzero(cells > 0)
    turned = np.zeros_like(masks)
    for bit in range(_HALF * 2):  # of two sets of one length the one with the lower item is first
        turned = turned << 1 | (masks >> bit & 1)
    order = masks[np.lexsort((-turned, np.bitwise_count(masks)))]
    half = [tuple(bit for bit in range(_HALF) if mask >> bit & 1) for mask in range(1 << _HALF)]
    high = [tuple(bit + _HALF for bit in items) for items in half]
    rows: list[Row] = []
    for start in range(0, order.size, BLOCK):
        beat()
        part = order[start : start + BLOCK]
        rows += [
            (half[mask & (1 << _HALF) - 1] + high[mask >> _HALF], count)
            for mask, count in zip(part.tolist(), cells[part].tolist(), strict=True)
        ]
    return tuple(rows)


def superset_sums(cells: NDArray[Any]) -> NDArray[Any]:
    """For each mask the sum over all masks that contain it (zeta transform), (2^items,)."""
    sums = cells.copy()
    width = 1
    while width < sums.size:
        pairs = sums.reshape(-1, 2, width)
        pairs[:, 0] += pairs[:, 1]
        width *= 2
    return sums
