"""Counts of items of released sequences: with and without the root's threshold, prefix tree."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from algorithms.contract import Outcome, SequentialContext
from algorithms.sequential_ngram import Parameters as SequenceParameters
from algorithms.sequential_ngram import run as run_sequences
from algorithms.sequential_prefix_tree import Parameters as PrefixParameters
from algorithms.sequential_prefix_tree import run as run_prefixes
from bench.utility.compare import Comparison, Contender, Figures, compare
from tacit.records.items import Sequences


def long_tail(items: int, count: int) -> Sequences:
    """Sequences of four items, some far more common than others."""
    generator = np.random.default_rng(1)
    weights = 1 / np.arange(1, items + 1) ** 0.8
    drawn = generator.choice(items, 4 * count, p=weights / weights.sum()).astype(np.int32)
    names = tuple(str(item) for item in range(1, items + 1))
    return Sequences(names, drawn, np.arange(0, 4 * count + 1, 4))


def sequences(runs: int) -> Iterator[Comparison]:
    """Counts of items: the root's threshold against none."""
    for items, count in ((5_000, 20_000), (500, 20_000)):
        data = long_tail(items, count)
        contenders: dict[str, Contender] = {
            kind: partial(released_sequences, data, kind) for kind in ("all", "threshold")
        }
        contenders["prefix tree"] = partial(_prefixes, data)
        yield compare(f"{items:,} items, {count:,} sequences, epsilon 1", contenders, runs)


def released_sequences(data: Sequences, kind: Any, seed: int, epsilon: str = "1") -> Figures:
    items = len(data.universe)
    asked = SequenceParameters(epsilon=epsilon, universe=items, root=kind, max_nodes=50_000_000)
    found = run_sequences(data, asked, "sound", SequentialContext(test_seed=seed))
    return _counted(data, found)


def _prefixes(data: Sequences, seed: int) -> Figures:
    asked = PrefixParameters(epsilon="1", universe=len(data.universe))
    return _counted(data, run_prefixes(data, asked, "sound", SequentialContext(test_seed=seed)))


def _counted(data: Sequences, found: Outcome) -> Figures:
    counted = np.zeros(len(data.universe))
    for line in found.files[0].content.decode().splitlines()[1:]:
        count, _, names = line.split(",")
        for name in names.split():
            counted[int(name) - 1] += int(count)
    true = np.bincount(data.items, minlength=len(data.universe))
    return {
        "error of items": float(np.mean(np.abs(counted - true) / np.maximum(true, 1))),
        "sequences over the true": found.result["sequences"] / data.count,
    }
