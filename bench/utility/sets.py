"""Releases of sets of items: DiffPart, diffpart+rest and items alone."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from itertools import combinations
from typing import Any, Final

import numpy as np

from algorithms.contract import SequentialContext
from algorithms.set_valued import Parameters as SetParameters
from algorithms.set_valued import run as run_sets
from algorithms.set_valued.algorithm import mining_utility, relative_errors
from algorithms.set_valued.margins import SIZES, items_kept, kept_places
from algorithms.set_valued.records import Supports, Weighted, deduplicated, itemsets, most_frequent
from algorithms.set_valued.settings import Row
from bench.utility.compare import Contender, Figures, compare
from reproduction.stand_in_data import stm_like_concentrated, stm_like_diffuse
from tacit.encoders.set_valued_counts import MOST_LENGTH
from tacit.noise import floating_laplace
from tacit.randomness import SeededRandom
from tacit.records.items import Transactions

PAIRS: Final = 300
TOP: Final = 100


def sets(runs: int) -> None:
    """Mass, items, pairs and frequent itemsets of fare-card-like records: diffpart+rest against
    DiffPart and items alone."""
    for name, population in (
        ("diffuse", stm_like_diffuse(100_000)),
        ("concentrated", stm_like_concentrated(100_000)),
    ):
        data = population.dataset
        contenders: dict[str, Contender] = {
            kind: partial(released_sets, data, kind) for kind in ("diffpart", "diffpart+rest")
        }
        contenders["items alone"] = partial(_items_alone, data)
        compare(f"STM-like, {name}, 100,000 records, epsilon 1", contenders, runs)


def released_sets(
    data: Transactions, method: Any, seed: int, epsilon: str = "1", *, whole: bool = True
) -> Figures:
    """whole: with what takes long, pairs and frequent itemsets."""
    asked = SetParameters(epsilon=epsilon, universe=data.items, method=method, fanout=12)
    found = run_sets(data, asked, "sound", SequentialContext(test_seed=seed))
    place = {item: number for number, item in enumerate(data.items)}
    lines = found.files[0].content.decode().splitlines()
    skip = lines[0].startswith("kind")
    rows: list[Row] = []
    for line in lines[1:]:
        count, _, items = line.split(",")[skip:]
        rows.append((tuple(sorted(place[item] for item in items.split())), int(count)))
    released = Weighted.of_rows(rows)
    lengths = np.diff(released.sets.offsets)
    counted = np.bincount(
        released.sets.places, np.repeat(released.weights, lengths), minlength=len(data.items)
    )
    true = np.bincount(data.values, minlength=len(data.items))
    figures = {
        "+ records kept": found.result["records"] / data.records,
        "error of items": relative_errors([true], [counted], data.records).mean[0],
    }
    if whole:
        raw = deduplicated(itemsets(data, data.items, SequentialContext()), len(data.items))
        held = [Supports.of(each, len(data.items)) for each in (raw, released)]
        pairs = common_pairs(held[0])
        answers = [np.array([each.support(pair) for pair in pairs]) for each in held]
        figures["error of common pairs"] = relative_errors(answers[:1], answers[1:], 0).mean[0]
        tops = [most_frequent(each, TOP) for each in held]
        figures["+ utility of the first 100"] = mining_utility(*tops) or 0.0
    return figures


def common_pairs(supports: Supports) -> list[tuple[int, int]]:
    """The most frequent pairs of the 60 most frequent items."""
    items = np.sort(np.argsort(-supports.single, kind="stable")[:60]).tolist()
    pairs = list(combinations(items, 2))
    return sorted(pairs, key=lambda pair: -supports.support(pair))[:PAIRS]


def _items_alone(data: Transactions, seed: int) -> Figures:
    """Counts of items with nine tenths of epsilon 1, a tenth for the lengths that cap records."""
    source, size = SeededRandom(seed), len(data.items)
    sets = itemsets(data, data.items, SequentialContext())
    counts = np.bincount(np.minimum(np.diff(sets.offsets), MOST_LENGTH), minlength=MOST_LENGTH + 1)
    noisy = np.maximum(counts[1:] + floating_laplace(source, 10, MOST_LENGTH), 0)
    kept = items_kept(
        np.where(noisy < 30, 0, np.rint(noisy)).astype(np.int64), Fraction(9, 10), size
    )
    held = np.bincount(kept_places(sets, kept, source), minlength=size)
    stretch = (SIZES @ noisy) / (np.minimum(SIZES, kept) @ noisy)
    found = stretch * (held + floating_laplace(source, kept / 0.9, size))
    true = np.bincount(data.values, minlength=size)
    return {"error of items": relative_errors([true], [found], data.records).mean[0]}
