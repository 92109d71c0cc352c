"""Comparison with the true data: visible only to the operator, never published.

Spec: sequential-ngram, section 5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.sequential_ngram.grams import Grams
from algorithms.sequential_ngram.parameters import Metrics
from algorithms.sequential_ngram.patterns import (
    Beat,
    Ints,
    Pattern,
    Text,
    answers,
    frequent,
    released_patterns,
)
from tacit.randomness import PublicRandom
from tacit.records.sequences import Sequences

GROUPS: Final = 5
SANITY: Final = 0.001
"""The sanity bound of a relative error, as a share of the sequences."""

Ranked = list[tuple[Pattern, int]]


def workload(items: int, longest: int, each: int, seed: int) -> list[NDArray[np.int32]]:
    """Five groups of random runs (each, longest), -1 behind the last item; group i has sizes
    uniform from 1 to i fifths of the longest, items uniform."""
    generator = PublicRandom(seed).generator
    groups = []
    for group in range(1, GROUPS + 1):
        most = max(1, group * longest // GROUPS)
        sizes = generator.integers(1, most + 1, each)
        drawn = generator.integers(0, items, (each, most)).astype(np.int32)
        drawn[np.arange(most) >= sizes[:, None]] = -1
        groups.append(drawn)
    return groups


def relative_errors(true: Sequence[Ints], found: Sequence[Ints], sequences: int) -> list[float]:
    """Mean of |found - true| / max(true, bound) in each group."""
    bound = max(SANITY * sequences, 1e-9)
    return [
        float(np.mean(np.abs(answer - exact) / np.maximum(exact, bound)))
        for exact, answer in zip(true, found, strict=True)
    ]


def pattern_figures(
    true: Ranked, found: Ranked, supports: Mapping[Pattern, int], top: int
) -> dict[str, float | None]:
    """Share of the true top K that the released one has, and the mean relative loss of support.

    supports: what the release states about a pattern; unknown patterns have 0.
    """
    ahead = true[:top]
    if not ahead:
        return {"true_positives": None, "utility_loss": None}
    known = {pattern for pattern, _ in found[:top]}
    hits = sum(pattern in known for pattern, _ in ahead)
    losses = [abs(support - supports.get(pattern, 0)) / support for pattern, support in ahead]
    return {"true_positives": hits / len(ahead), "utility_loss": sum(losses) / len(losses)}


def supports_of(grams: Grams, patterns: Ranked) -> dict[Pattern, int]:
    """Released counts of these patterns, where there are some."""
    found = {}
    for pattern, _ in patterns:
        place = -1
        for item in pattern:
            first = np.searchsorted(grams.parents, place, "left")
            last = np.searchsorted(grams.parents, place, "right")
            next_ = int(first + np.searchsorted(grams.items[first:last], item))
            if next_ == last or grams.items[next_] != item:
                break
            place = next_
        else:
            found[pattern] = int(grams.counts[place])
    return found


def evaluate(
    dataset: Sequences,
    released: Text,
    grams: Grams,
    l_max: int,
    n_max: int,
    metrics: Metrics,
    beat: Beat,
) -> dict[str, Any]:
    """All metrics; null where nothing can be measured.

    released: the synthetic database; grams: with the extended ones. Patterns twice: as the source's
    tables must have been made (cut data, sizes 2 to n_max), and with nothing omitted.
    """
    whole = Text.of_data(dataset)
    items = len(dataset.universe)
    result: dict[str, Any] = {
        "sequences": dataset.count,
        "items": int(dataset.items.size),
        "longest": int(np.diff(dataset.starts).max(initial=0)),
        "shortened": int((np.diff(dataset.starts) > l_max).sum()),
        "query_seed": metrics.query_seed,
        "relative_error": None,
    }
    if metrics.queries:
        queries = workload(items, max(l_max, 1), metrics.queries, metrics.query_seed)
        true = [answers(whole, group, beat) for group in queries]
        found = [answers(released, group, beat) for group in queries]
        result["relative_error"] = relative_errors(true, found, dataset.count)
    most = max(metrics.top, default=0)
    shortest = Text.of_data(dataset, l_max)
    for name, text, longest in (("cut", shortest, n_max), ("whole", whole, None)):
        ranked = frequent(text, most, longest, beat)
        own = released_patterns(grams, most, longest)
        supports = supports_of(grams, ranked)
        result[f"patterns_{name}"] = [
            {"k": top, **pattern_figures(ranked, own, supports, top)} for top in metrics.top
        ]
    return result
