"""Comparison with the true data: visible only to the operator, never published.

Occurrences of runs of items in weighted sequences: answers to count queries, and frequent runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.sequential_ngram.grams import Grams
from algorithms.sequential_ngram.joining import Multiset
from algorithms.sequential_ngram.parameters import Metrics
from tacit.encoders.counts import Lists
from tacit.encoders.sequential_ngram_counts import Symbols, cut
from tacit.randomness import PublicRandom
from tacit.records.items import Sequences

Ints = NDArray[np.int64]
Places = NDArray[np.int32]
Beat = Callable[[], None]
Pattern = tuple[int, ...]
_DENSE: Final = 1 << 25
"""Cells of a table; beyond, places are found by bisection."""


@dataclass(frozen=True, eq=False)
class Text:
    """Sequences one after the other, each followed by the end sign (the last symbol).

    symbols (total,); weights (total,): how often the sequence of a symbol counts, None for once;
    items: how many there are.
    """

    symbols: Symbols
    weights: NDArray[np.float64] | None
    items: int

    @classmethod
    def of_data(cls, dataset: Sequences, l_max: int | None = None) -> Text:
        """A dataset, whole or cut."""
        items = len(dataset.universe)
        return cls(cut(dataset.lists, l_max, items)[0], None, items)

    @classmethod
    def of_counts(cls, sequences: Sequences, counts: Ints) -> Text:
        """Sequences and how often each counts (n,)."""
        weights = np.repeat(counts.astype(np.float64), np.diff(sequences.starts) + 1)
        return replace(cls.of_data(sequences), weights=weights)

    @classmethod
    def of_copies(cls, grams: Grams, copies: Ints, items: int) -> Text:
        """A synthetic database."""
        return cls.of_rows(synthetic_rows(grams, copies), items)

    @classmethod
    def of_multiset(cls, synthetic: Multiset, items: int) -> Text:
        """A released database."""
        symbols, _ = cut(Lists(synthetic.items.astype(np.int32), synthetic.starts), None, items)
        weights = synthetic.counts.astype(np.float64)
        return cls(symbols, np.repeat(weights, synthetic.lengths + 1), items)

    @classmethod
    def of_rows(cls, rows: list[tuple[NDArray[np.integer], int]], items: int) -> Text:
        """Sequences with their multiplicities."""
        lengths = np.array([row.size for row, _ in rows], np.int64)
        values = np.concatenate([row for row, _ in rows] or [np.zeros(0, np.int32)])
        starts = np.concatenate(([0], np.cumsum(lengths)))
        symbols, _ = cut(Lists(values.astype(np.int32), starts), None, items)
        weights = np.array([count for _, count in rows], np.float64)
        return cls(symbols, np.repeat(weights, lengths + 1), items)


def synthetic_rows(grams: Grams, copies: Ints) -> list[tuple[NDArray[np.integer], int]]:
    """The published sequences with their multiplicities, by length and items."""
    rows: list[tuple[NDArray[np.integer], int]] = []
    for length in range(1, grams.longest + 1):
        first, last = grams.bounds[length - 1 : length + 1]
        chosen = first + np.flatnonzero(copies[first:last])
        rows += zip(grams.listed(chosen, length), copies[chosen].tolist(), strict=True)
    return rows


@dataclass(frozen=True, eq=False)
class _Level:
    """Runs of one length that continue: places where they start, and the number of each run."""

    starts: NDArray[np.int64]
    cells: NDArray[np.int64]
    length: int


def _first(text: Text) -> _Level:
    starts = np.flatnonzero(text.symbols != text.items)
    return _Level(starts, text.symbols[starts].astype(np.int64), 1)


def _longer(text: Text, level: _Level, places_kept: Ints) -> _Level:
    """One item more after the runs whose cells are `kept` (ascending): row * items + item."""
    if not places_kept.size:
        return _Level(places_kept, places_kept, level.length + 1)
    if places_kept[-1] < _DENSE:
        table = np.full(int(places_kept[-1]) + 2, -1, np.int64)
        table[places_kept] = np.arange(places_kept.size)
        rows = table[np.minimum(level.cells, places_kept[-1] + 1)]
    else:
        rows = np.minimum(np.searchsorted(places_kept, level.cells), places_kept.size - 1)
        rows[places_kept[rows] != level.cells] = -1
    on = np.flatnonzero(rows >= 0)
    starts = level.starts[on]
    follows = text.symbols[starts + level.length]
    inside = np.flatnonzero(follows != text.items)
    cells = rows[on[inside]] * text.items + follows[inside]
    return _Level(starts[inside], cells, level.length + 1)


def _counted(text: Text, level: _Level) -> tuple[Ints, NDArray[np.float64]]:
    """Cells that occur (rising), and the weight of each."""
    weights = None if text.weights is None else text.weights[level.starts]
    most = int(level.cells.max(initial=-1)) + 1
    if most <= _DENSE:
        counts_of_cells = np.bincount(level.cells, weights, most).astype(float)
        cells = np.flatnonzero(np.bincount(level.cells, minlength=most))
        return cells, counts_of_cells[cells]
    cells, back = np.unique(level.cells, return_inverse=True)
    return cells, np.bincount(back, weights).astype(float)


def answers(text: Text, queries: NDArray[np.int32], beat: Beat = lambda: None) -> Ints:
    """Occurrences of each query (q,). queries (q, longest): items, then -1.

    A trie of the queries is followed level by level; branches that do not occur are dropped.
    """
    result = np.zeros(len(queries), np.int64)
    level = _first(text)
    rows = np.zeros(len(queries), np.int64)
    live = np.arange(len(queries))
    for length in range(1, queries.shape[1] + 1):
        beat()
        live = live[queries[live, length - 1] >= 0]
        cells = rows[live] * text.items + queries[live, length - 1]
        present, weights = _counted(text, level)
        if not (live.size and present.size):
            break
        place = np.minimum(np.searchsorted(present, cells), present.size - 1)
        hit = present[place] == cells
        live, place = live[hit], place[hit]
        ends = np.ones(live.size, bool) if length == queries.shape[1] else queries[live, length] < 0
        result[live[ends]] = np.rint(weights[place[ends]]).astype(np.int64)
        live, place = live[~ends], place[~ends]
        present_places, row_of = np.unique(place, return_inverse=True)
        rows[live] = row_of
        level = _longer(text, level, present[present_places])
    return result


def frequent(
    text: Text, count: int, longest: int | None = None, beat: Beat = lambda: None
) -> list[tuple[Pattern, int]]:
    """The most frequent runs of 2 or more items (at most `longest`), by falling support, then
    length and items; fewer if fewer occur.

    A run is at most as frequent as its beginning.
    """
    level = _first(text)
    runs: list[Pattern] = [()]
    best: list[tuple[Pattern, int]] = []
    while level.cells.size and count:
        beat()
        cells, weights = _counted(text, level)
        if level.length >= 2:
            least = best[-1][1] if len(best) == count else 1
            good = np.flatnonzero(weights >= least)
            supports = np.rint(weights[good]).astype(int).tolist()
            patterns = [_run(runs, cell, text.items) for cell in cells[good].tolist()]
            best += zip(patterns, supports, strict=True)
            best = sorted(best, key=lambda pattern: (-pattern[1], len(pattern[0]), pattern[0]))[
                :count
            ]
        if level.length == longest:
            break
        least = best[-1][1] if len(best) == count else 1
        kept = cells[weights >= least]
        runs = [_run(runs, cell, text.items) for cell in kept.tolist()]
        level = _longer(text, level, kept)
    return best


def _run(runs: list[Pattern], cell: int, items: int) -> Pattern:
    return (*runs[cell // items], cell % items)


def commonest(grams: Grams, count: int, longest: int | None = None) -> NDArray[np.int64]:
    """The places of the most frequent grams of 2 or more items, by their released counts."""
    last = grams.longest if longest is None else min(longest, grams.longest)
    if last < 2:
        return np.zeros(0, np.int64)
    candidates = np.arange(grams.bounds[1], grams.bounds[last])
    return candidates[np.argsort(-grams.counts[candidates], kind="stable")[:count]]


def released_patterns(
    grams: Grams, count: int, longest: int | None = None
) -> list[tuple[Pattern, int]]:
    """The most frequent grams of 2 or more items, in the same order, by their released counts."""
    return patterns_at(grams, commonest(grams, count, longest))


def patterns_at(grams: Grams, places: NDArray[np.int64]) -> list[tuple[Pattern, int]]:
    """The items and released counts of these grams."""
    lengths = grams.lengths
    return [
        (
            tuple(grams.listed(np.array([gram]), int(lengths[gram]))[0].tolist()),
            int(grams.counts[gram]),
        )
        for gram in places.tolist()
    ]


# Spec: sequential-ngram, section 5.

GROUPS: Final = 5
SANITY: Final = 0.001
"""The sanity bound of a relative error, as a share of the sequences."""

Ranked = list[tuple[Pattern, int]]


def workload(items: int, longest: int, count: int, seed: int) -> list[NDArray[np.int32]]:
    """Five groups of random runs (each, longest), -1 behind the last item; group i has sizes
    uniform from 1 to i fifths of the longest, items uniform."""
    generator = PublicRandom(seed).generator
    groups = []
    for group in range(1, GROUPS + 1):
        most = max(1, group * longest // GROUPS)
        sizes = generator.integers(1, most + 1, count)
        drawn = generator.integers(0, items, (count, most)).astype(np.int32)
        drawn[np.arange(most) >= sizes[:, None]] = -1
        groups.append(drawn)
    return groups


def relative_errors(true: Sequence[Ints], answered: Sequence[Ints], sequences: int) -> list[float]:
    """Mean of |found - true| / max(true, bound) in each group."""
    bound = max(SANITY * sequences, 1e-9)
    return [
        float(np.mean(np.abs(answer - exact) / np.maximum(exact, bound)))
        for exact, answer in zip(true, answered, strict=True)
    ]


def pattern_figures(
    true: Ranked, released: Ranked, supports: Mapping[Pattern, int], top: int
) -> dict[str, float | None]:
    """Share of the true top K that the released one has, and the mean relative loss of support.

    supports: what the release states about a pattern; unknown patterns have 0.
    """
    ahead = true[:top]
    if not ahead:
        return {"true_positives": None, "utility_loss": None}
    known = {pattern for pattern, _ in released[:top]}
    hits = sum(pattern in known for pattern, _ in ahead)
    losses = [abs(support - supports.get(pattern, 0)) / support for pattern, support in ahead]
    return {"true_positives": hits / len(ahead), "utility_loss": sum(losses) / len(losses)}


def supports_of(grams: Grams, patterns: Ranked) -> dict[Pattern, int]:
    """Released counts of these patterns, where there are some."""
    result = {}
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
            result[pattern] = int(grams.counts[place])
    return result


def evaluate(
    dataset: Sequences,
    released: Text,
    grams: Grams,
    l_max: int,
    n_max: int,
    metrics: Metrics,
    beat: Beat,
    stretch: float = 1.0,
) -> dict[str, Any]:
    """All metrics; null where nothing can be measured.

    released: the synthetic database; grams: with the extended ones. Patterns twice: as the source's
    tables must have been made (cut data, sizes 2 to n_max), and with nothing omitted. stretch: of
    the released counts, from cut to whole sequences.
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
        answered = [answers(released, group, beat) for group in queries]
        result["relative_error"] = relative_errors(true, answered, dataset.count)
    most = max(metrics.top, default=0)
    shortest = Text.of_data(dataset, l_max)
    cases = (("cut", shortest, n_max, stretch), ("whole", whole, None, 1.0))
    for name, text, longest, factor in cases:
        ranked = frequent(text, most, longest, beat)
        patterns = released_patterns(grams, most, longest)
        counts = supports_of(grams, ranked)
        supports = {pattern: round(count / factor) for pattern, count in counts.items()}
        result[f"patterns_{name}"] = [
            {"k": top, **pattern_figures(ranked, patterns, supports, top)} for top in metrics.top
        ]
    return result
