"""Frequent sequential patterns, gaps allowed: exact, for the truth and for released files.

Spec: sequential-prefix-tree, section 5 (PrefixSpan). The support of a pattern is the number of
sequences in which its items occur in this order. A pattern's projection is, for each of these, the
place where its first occurrence ends.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.records.sequences import Sequences

Ints = NDArray[np.int64]
Pattern = tuple[int, ...]
Beat = Callable[[], None]


@dataclass(frozen=True, eq=False)
class _Text:
    """items (total,); owner, ends (total,): the sequence of each place and where it ends; before
    (total,): the last place of the same item in the same sequence, -1 for none; weights: of each
    sequence."""

    items: NDArray[np.int32]
    ends: Ints
    before: Ints
    weights: NDArray[np.float64]
    universe: int

    @classmethod
    def of(cls, sequences: Sequences, weights: Ints | None) -> _Text:
        lengths = np.diff(sequences.starts)
        owner = np.repeat(np.arange(lengths.size), lengths)
        keys = owner * max(len(sequences.universe), 1) + sequences.items
        order = np.argsort(keys, kind="stable")
        same = keys[order[1:]] == keys[order[:-1]]
        before = np.full(keys.size, -1)
        before[order[1:][same]] = order[:-1][same]
        each = np.ones(lengths.size) if weights is None else weights.astype(float)
        ends = sequences.starts[1:][owner]
        return cls(sequences.items, ends, before, each[owner], len(sequences.universe))

    def first(self) -> dict[int, tuple[int, NDArray[np.int32]]]:
        """Support and projection of each single item."""
        return self._split(np.flatnonzero(self.before < 0), 1)

    def longer(
        self, projection: NDArray[np.int32], least: float
    ) -> dict[int, tuple[int, NDArray[np.int32]]]:
        """The same of each item behind a pattern, if its support is at least that."""
        begins = projection.astype(np.int64) + 1
        lengths = self.ends[projection] - begins
        ends = np.cumsum(lengths)
        from_here = np.repeat(begins, lengths)
        places = np.repeat(begins - ends + lengths, lengths) + np.arange(from_here.size)
        return self._split(places[self.before[places] < from_here], least)

    def _split(self, places: Ints, least: float) -> dict[int, tuple[int, NDArray[np.int32]]]:
        items = self.items[places]
        supports = np.bincount(items, self.weights[places], self.universe)
        good = supports >= max(least, 1)
        places = places[good[items]]
        items = self.items[places]
        ordered = places[np.argsort(items, kind="stable")].astype(np.int32)
        found = np.flatnonzero(good)
        cuts = np.cumsum(np.bincount(items, minlength=self.universe)[found])
        parts: list[NDArray[np.int32]] = np.split(ordered, cuts[:-1]) if found.size else []
        return {
            item: (int(supports[item]), part)
            for item, part in zip(found.tolist(), parts, strict=True)
        }


def frequent(
    sequences: Sequences, weights: Ints | None, count: int, beat: Beat = lambda: None
) -> list[tuple[Pattern, int]]:
    """The top patterns of two or more items, by falling support, then length and items.

    weights (n,): how often each sequence counts, None for once. Best first: a pattern comes after
    its prefixes in this order. What lies below `count` supports already seen is in none of it.
    """
    text = _Text.of(sequences, weights)
    queue: list[tuple[int, int, Pattern, NDArray[np.int32]]] = [
        (-support, 1, (item,), part) for item, (support, part) in text.first().items()
    ]
    heapq.heapify(queue)
    best: list[int] = []
    found: list[tuple[Pattern, int]] = []
    while queue and len(found) < count:
        beat()
        negative, length, pattern, projection = heapq.heappop(queue)
        least = best[0] if len(best) == count else 1
        if -negative < least:
            break
        if length > 1:
            found.append((pattern, -negative))
        for item, (support, part) in text.longer(projection, least).items():
            heapq.heappush(queue, (-support, length + 1, (*pattern, item), part))
            if len(best) < count:
                heapq.heappush(best, support)
            else:
                heapq.heappushpop(best, support)
    return found
