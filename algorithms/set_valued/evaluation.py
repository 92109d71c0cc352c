"""Comparison with the true data: visible only to the operator, never published.

Spec: set-valued, section 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.set_valued.parameters import Metrics
from algorithms.set_valued.records import (
    Beat,
    Supports,
    Weighted,
    exact_histogram,
    most_frequent,
    superset_sums,
)
from algorithms.set_valued.settings import Row
from tacit.randomness import PublicRandom
from tacit.records.items import Ints

GROUPS: Final = 5
SANITY: Final = 0.001
"""The sanity bound of a relative error, as a share of the records."""
DENSE_ITEMS: Final = 20
"""Up to this number all supports are computed together."""

Queries = tuple[tuple[int, ...], ...]
Floats = NDArray[np.float64]


def workload(items: int, longest: int, each: int, seed: int) -> tuple[Queries, ...]:
    """Five groups of random itemsets; group i has lengths uniform up to i fifths of the longest
    record, at most all items."""
    generator = PublicRandom(seed).generator
    groups = []
    for group in range(1, GROUPS + 1):
        top = max(1, min(group * longest // GROUPS, items))
        lengths = generator.integers(1, top + 1, each)
        drawn = (generator.choice(items, length, replace=False) for length in lengths.tolist())
        groups.append(tuple(tuple(sorted(itemset.tolist())) for itemset in drawn))
    return tuple(groups)


def query_counts(
    weighted: Weighted, items: int, queries: Sequence[Queries], beat: Beat = lambda: None
) -> list[Ints]:
    """The answers of each group, exact."""
    if items <= DENSE_ITEMS:
        cells = exact_histogram(weighted.sets, items, weighted.weights)
        return dense_counts(superset_sums(cells), queries)
    supports = Supports.of(weighted, items, beat)
    answers = []
    for group in queries:
        found = np.zeros(len(group), np.int64)
        for place, query in enumerate(group):
            if place % 512 == 0:
                beat()
            found[place] = supports.support(query)
        answers.append(found)
    return answers


def dense_counts(sums: NDArray[Any], queries: Sequence[Queries]) -> list[NDArray[Any]]:
    """The answers, looked up in the sums over supersets."""
    return [
        sums[np.array([sum(1 << item for item in query) for query in group], np.int64)]
        for group in queries
    ]


@dataclass(frozen=True)
class Errors:
    """Mean relative errors by group; `large`: over queries whose true answer reaches the sanity
    bound, and `share`, how many do."""

    mean: Floats
    large: Floats
    share: Floats


def relative_errors(true: Sequence[Ints], found: Sequence[NDArray[Any]], records: int) -> Errors:
    """|found - true| / max(true, bound); NaN where a group has no such query."""
    bound = max(SANITY * records, 1e-9)
    means, large, shares = [], [], []
    for exact, answer in zip(true, found, strict=True):
        error = np.abs(answer - exact) / np.maximum(exact, bound)
        reached = exact >= bound
        means.append(error.mean() if error.size else np.nan)
        large.append(error[reached].mean() if reached.any() else np.nan)
        shares.append(reached.mean() if error.size else np.nan)
    return Errors(np.array(means), np.array(large), np.array(shares))


def mining_utility(true: Sequence[Row], found: Sequence[Row]) -> float | None:
    """1 - the mean relative loss of support over the true top; an itemset outside the release's top
    has lost all of it. None without a true top."""
    if not true:
        return None
    held = dict(found)
    losses = [abs(support - held.get(chosen, 0)) / support for chosen, support in true]
    return 1 - sum(losses) / len(losses)


def precision(true: Sequence[Row], found: Sequence[Row]) -> float | None:
    """The share of the true top that the release's top has. None without a true top."""
    if not true:
        return None
    return len({chosen for chosen, _ in true} & {chosen for chosen, _ in found}) / len(true)


def evaluate(
    raw: Weighted,
    rows: Sequence[Row],
    items: int,
    metrics: Metrics,
    beat: Beat,
    histogram: NDArray[Any] | None = None,
) -> dict[str, Any]:
    """All metrics of a release on the true data; null where nothing can be measured.

    histogram: noisy counts of all itemsets, also negative ones, measured in addition.
    """
    records = int(raw.weights.sum())
    longest = int(np.diff(raw.sets.offsets).max(initial=1))
    released = Weighted.of_rows(rows)
    queries = workload(items, longest, metrics.queries, metrics.query_seed)
    true = query_counts(raw, items, queries, beat)
    found = query_counts(released, items, queries, beat)
    errors = relative_errors(true, found, records)
    most = max(metrics.top, default=0)
    tops = [
        most_frequent(Supports.of(each, items, beat), most, beat) if most else []
        for each in (raw, released)
    ]
    compared: dict[str, Any] = {}
    if histogram is not None:
        answers = dense_counts(superset_sums(histogram), queries)
        raw_errors = relative_errors(true, answers, records)
        compared["relative_error_of_histogram"] = _plain(raw_errors.mean)
    return {
        **compared,
        "records": records,
        "longest_record": longest,
        "query_seed": metrics.query_seed,
        "relative_error": _plain(errors.mean),
        "relative_error_of_large": _plain(errors.large),
        "share_of_large": _plain(errors.share),
        "frequent_itemsets": [
            {
                "k": k,
                "utility": mining_utility(tops[0][:k], tops[1][:k]),
                "precision": precision(tops[0][:k], tops[1][:k]),
            }
            for k in metrics.top
        ],
    }


def _plain(values: Floats) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]
