"""Comparison with the true data: visible only to the operator, never published.

Frequent sequential patterns, gaps allowed: exact, for the truth and for released files.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context
from algorithms.sequential_prefix_tree.counts import Release
from algorithms.sequential_prefix_tree.parameters import Metrics
from algorithms.set_valued.records import Supports, Weighted, deduplicated, itemsets
from tacit.randomness import PublicRandom
from tacit.records.items import Sequences, Transactions

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
        sequence_weights = np.ones(lengths.size) if weights is None else weights.astype(float)
        ends = sequences.starts[1:][owner]
        return cls(sequences.items, ends, before, sequence_weights[owner], len(sequences.universe))

    def first(self) -> dict[int, tuple[int, NDArray[np.int32]]]:
        """Support and projection of each single item."""
        return self._split(np.flatnonzero(self.before < 0), 1)

    def longer(
        self, projection: NDArray[np.int32], least: float
    ) -> dict[int, tuple[int, NDArray[np.int32]]]:
        """The same for each item after a pattern, if its support is at least that."""
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
        items_found = np.flatnonzero(good)
        cuts = np.cumsum(np.bincount(items, minlength=self.universe)[items_found])
        parts: list[NDArray[np.int32]] = np.split(ordered, cuts[:-1]) if items_found.size else []
        return {
            item: (int(supports[item]), part)
            for item, part in zip(items_found.tolist(), parts, strict=True)
        }


def frequent(
    sequences: Sequences, weights: Ints | None, count: int, beat: Beat = lambda: None
) -> list[tuple[Pattern, int]]:
    """The top patterns of two or more items, by falling support, then length and items. weights
    (n,): how often each sequence counts, None for once.

    Best first: a pattern comes after its prefixes in this order. A pattern below `count`
    supports already seen cannot be among them.
    """
    text = _Text.of(sequences, weights)
    queue: list[tuple[int, int, Pattern, NDArray[np.int32]]] = [
        (-support, 1, (item,), part) for item, (support, part) in text.first().items()
    ]
    heapq.heapify(queue)
    best: list[int] = []
    result: list[tuple[Pattern, int]] = []
    while queue and len(result) < count:
        beat()
        negative, length, pattern, projection = heapq.heappop(queue)
        least = best[0] if len(best) == count else 1
        if -negative < least:
            break
        if length > 1:
            result.append((pattern, -negative))
        for item, (support, part) in text.longer(projection, least).items():
            heapq.heappush(queue, (-support, length + 1, (*pattern, item), part))
            if len(best) < count:
                heapq.heappush(best, support)
            else:
                heapq.heappushpop(best, support)
    return result


# Spec: sequential-prefix-tree, section 5. Answers to count queries use the exact supports of
# `set_valued`: a sequence counts by the set of its items.

GROUPS: Final = 4
SANITY: Final = 0.001
"""The sanity bound of a relative error, as a share of the sequences."""
MOST_BITS: Final = 1 << 34
"""Items times distinct sets of the largest bit matrix, 2 GiB."""

Query = tuple[int, ...]


def workload(items: int, height: int, count: int, seed: int) -> list[list[Query]]:
    """Four groups of random sets; group i has sizes uniform from 1 to i quarters of the height,
    items uniform; repeated ones collapse."""
    generator = PublicRandom(seed).generator
    groups = []
    for group in range(1, GROUPS + 1):
        most = max(1, group * height // GROUPS)
        sizes = generator.integers(1, most + 1, count).tolist()
        drawn = generator.integers(0, items, (count, most)).tolist()
        groups.append([tuple(set(row[:size])) for row, size in zip(drawn, sizes, strict=True)])
    return groups


class Answers:
    """How many sequences contain all items of a set, in any order.

    weights (n,): how often each sequence counts, none of them empty then; None for once. Raises
    ValueError if the bit matrix would be too large.
    """

    def __init__(self, sequences: Sequences, weights: Ints | None, context: Context) -> None:
        items = len(sequences.universe)
        records = Transactions(sequences.universe, sequences.items, sequences.starts)
        sets = itemsets(records, sequences.universe, context)
        weighted = deduplicated(sets, items) if weights is None else Weighted(sets, weights)
        if items * weighted.sets.count > MOST_BITS:
            raise ValueError("too many items times distinct sequences")
        beat = partial(context.progress, 0.98, "evaluating")
        self._supports = Supports.of(weighted, items, beat)
        self._beat = beat

    def of(self, queries: Sequence[Query]) -> Ints:
        """The answers (queries,)."""
        result = np.zeros(len(queries), np.int64)
        for place, query in enumerate(queries):
            if place % 512 == 0:
                self._beat()
            result[place] = self._supports.support(query)
        return result


def relative_error(true: Ints, answered: Ints, sequences: int) -> float:
    """The mean of |found - true| / max(true, sanity bound)."""
    bound = max(SANITY * sequences, 1e-9)
    return float(np.mean(np.abs(answered - true) / np.maximum(true, bound)))


def true_positives(
    true: Sequence[tuple[Pattern, int]], released: Sequence[tuple[Pattern, int]], top: int
) -> int:
    """How many of the true top patterns the release's top has; the rest of `top` are both false
    positives and false drops."""
    return len({pattern for pattern, _ in true[:top]} & {pattern for pattern, _ in released[:top]})


def evaluate(
    dataset: Sequences, release: Release, height: int, metrics: Metrics, context: Context
) -> dict[str, Any]:
    """All metrics; null where nothing can be measured."""
    synthetic, counts = release.synthetic(dataset.universe)
    beat: Beat = partial(context.progress, 0.98, "evaluating")
    result: dict[str, Any] = {
        "sequences": dataset.count,
        "longest": int(np.diff(dataset.starts).max(initial=0)),
        "shortened": int((np.diff(dataset.starts) > height).sum()),
        "empty_nodes": [
            level.size - occupied
            for level, occupied in zip(release.tree.levels, release.occupied, strict=True)
        ],
        "query_seed": metrics.query_seed,
        "relative_error": None,
        "frequent_patterns": [],
    }
    if metrics.queries:
        groups = workload(len(dataset.universe), height, metrics.queries, metrics.query_seed)
        try:
            truth = Answers(dataset, None, context)
            answers = Answers(synthetic, counts, context)
        except ValueError as too_large:
            result["relative_error_reason"] = str(too_large)
        else:
            result["relative_error"] = [
                relative_error(truth.of(group), answers.of(group), dataset.count)
                for group in groups
            ]
    most = max(metrics.top, default=0)
    if most:
        true = frequent(dataset, None, most, beat)
        ranked = frequent(synthetic, counts, most, beat)
        result["frequent_patterns"] = [
            {"k": top, "true_positives": true_positives(true, ranked, top)} for top in metrics.top
        ]
    return result
