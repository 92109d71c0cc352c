"""Comparison with the true data: visible only to the operator, never published.

Spec: sequential-prefix-tree, section 5. Answers to count queries use the exact supports of
`set_valued`: a sequence counts by the set of its items.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from algorithms.contract import Context
from algorithms.sequential_prefix_tree.parameters import Metrics
from algorithms.sequential_prefix_tree.patterns import Beat, Ints, Pattern, frequent
from algorithms.sequential_prefix_tree.publication import Release
from algorithms.set_valued.records import itemsets
from algorithms.set_valued.supports import Supports, Weighted, deduplicated
from tacit.randomness import PublicRandom
from tacit.records.sequences import Sequences
from tacit.records.transactions import Transactions

GROUPS: Final = 4
SANITY: Final = 0.001
"""The sanity bound of a relative error, as a share of the sequences."""
MOST_BITS: Final = 1 << 34
"""Items times distinct sets of the largest bit matrix, 2 GiB."""

Query = tuple[int, ...]


def workload(items: int, height: int, each: int, seed: int) -> list[list[Query]]:
    """Four groups of random sets; group i has sizes uniform from 1 to i quarters of the height,
    items uniform; repeated ones collapse."""
    generator = PublicRandom(seed).generator
    groups = []
    for group in range(1, GROUPS + 1):
        most = max(1, group * height // GROUPS)
        sizes = generator.integers(1, most + 1, each).tolist()
        drawn = generator.integers(0, items, (each, most)).tolist()
        groups.append([tuple(set(row[:size])) for row, size in zip(drawn, sizes, strict=True)])
    return groups


class Answers:
    """How many sequences contain all items of a set, in whatever order.

    weights (n,): how often each sequence counts, none of them empty then; None for once. Raises
    ValueError where the bit matrix would be too large.
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
        found = np.zeros(len(queries), np.int64)
        for place, query in enumerate(queries):
            if place % 512 == 0:
                self._beat()
            found[place] = self._supports.support(query)
        return found


def relative_error(true: Ints, found: Ints, sequences: int) -> float:
    """The mean of |found - true| / max(true, sanity bound)."""
    bound = max(SANITY * sequences, 1e-9)
    return float(np.mean(np.abs(found - true) / np.maximum(true, bound)))


def true_positives(
    true: Sequence[tuple[Pattern, int]], found: Sequence[tuple[Pattern, int]], top: int
) -> int:
    """How many of the true top patterns the release's top has; the rest of `top` are both false
    positives and false drops."""
    return len({pattern for pattern, _ in true[:top]} & {pattern for pattern, _ in found[:top]})


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
        found = frequent(synthetic, counts, most, beat)
        result["frequent_patterns"] = [
            {"k": top, "true_positives": true_positives(true, found, top)} for top in metrics.top
        ]
    return result
