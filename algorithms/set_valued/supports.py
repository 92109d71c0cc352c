"""How many records contain an itemset: exact, over bit matrices, and the most frequent itemsets.

Spec: set-valued, sections 5 to 7. Equal sets are one column with a weight; weights are kept in bit
planes, so that a count is a few ANDs and population counts.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.set_valued.records import Itemsets
from algorithms.set_valued.settings import Row
from tacit.records.transactions import Ints

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
        """A release."""
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
            held = np.zeros((items, _BLOCK_COLUMNS), np.bool_)
            held[sets.places[low:high], owner[low:high] - first] = True
            rows[:, word] = _packed(held)
            digits = np.zeros((bits, _BLOCK_COLUMNS), np.bool_)
            digits[:, : last - first] = weights[first:last] >> np.arange(bits)[:, None] & 1
            planes[:, word] = _packed(digits)
        single = np.bincount(sets.places, weights[owner], minlength=items).astype(np.int64)
        return cls(rows, planes, single)

    def weight(self, columns: Words) -> int:
        """The weight of the chosen sets (words,)."""
        held = np.flatnonzero(columns)
        if not held.size:
            return 0
        ones = np.bitwise_count(columns[held] & self.planes[:, held]).sum(axis=1, dtype=np.int64)
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


def _packed(held: NDArray[np.bool_]) -> Words:
    return np.packbits(held, axis=1, bitorder="little").view(np.uint64)


def most_frequent(supports: Supports, count: int, beat: Beat = lambda: None) -> list[Row]:
    """The top itemsets by (support falling, length, items); fewer where fewer have any support.

    Best first: an itemset comes after its prefixes in this order, hence it is in the queue before
    its turn. What lies below the supports of `count` itemsets already seen is in none of the top.
    """
    items = np.flatnonzero(supports.single > 0).tolist()
    queue: list[tuple[int, int, tuple[int, ...]]] = [
        (-int(supports.single[item]), 1, (item,)) for item in items
    ]
    best = sorted(-negative for negative, _, _ in queue)[-count:]
    heapq.heapify(queue)
    heapq.heapify(best)
    found: list[Row] = []
    while queue and len(found) < count:
        beat()
        negative, length, chosen = heapq.heappop(queue)
        found.append((chosen, -negative))
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
    return found
