"""Table 6.2 of the source, trees without noise, and the exact privacy loss of a sequence."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import SequentialContext
from algorithms.counts.keeper import Add, no_noise
from algorithms.sequential_ngram.counts import Tree, first, grow
from algorithms.sequential_ngram.settings import Settings
from tacit.encoders.counts import Level
from tacit.encoders.sequential_ngram_counts import COUNTER, Successors
from tacit.records.items import Sequences

TABLE_6_2 = Sequences.of("123", ["231", "231", "23", "32", "32", "321", "23123", "3123"])
Gram = tuple[int, ...]


def settings(**changes: Any) -> Settings:
    """Table 6.2's: three items, threshold 3, five levels."""
    values: dict[str, Any] = {
        "items": 3,
        "epsilon": Fraction(1),
        "l_max": 5,
        "n_max": 5,
        "threshold": lambda _budget: 3.0,
    }
    return Settings(**(values | changes))


def exact_tree(data: Sequences, chosen: Settings, add: Add = no_noise, seed: int = 1) -> Tree:
    return grow(data, first(chosen), add, SequentialContext(test_seed=seed))


def gram_of(tree: Tree, node: int) -> Gram:
    gram: Gram = ()
    while node > 0:
        gram = (int(tree.items[node]), *gram)
        node = int(tree.parents[node])
    return gram


def rows_of(tree: Tree, values: NDArray[Any]) -> dict[Gram, list[float]]:
    """Rows of the tree by gram, items counted from 0."""
    return {gram_of(tree, node): values[node].tolist() for node in range(tree.nodes)}


def budgets_of(tree: Tree) -> dict[Gram, Fraction]:
    return {
        gram_of(tree, node): tree.spends[group].budget
        for node, group in enumerate(tree.groups.tolist())
    }


def counts_in(tree: Tree, data: Sequences) -> NDArray[np.int64]:
    """What the tree's questions answer on other data (N, A), single items without the end."""
    chosen = tree.settings
    levels = tuple(Level(*each) for each in tree.levels)
    rows = []
    for depth in range(tree.depth):
        asked = Successors(chosen.items, chosen.l_max, levels[:depth])
        grams = tree.bounds[depth + 1] - tree.bounds[depth]
        _, cells = COUNTER.of(data.lists, asked)
        counts = np.bincount(cells, minlength=grams * chosen.symbols)
        rows.append(counts.reshape(grams, chosen.symbols))
    return np.concatenate(rows)


def privacy_loss(tree: Tree, sequence: Sequence[int], *, end_asked: bool = False) -> Fraction:
    """The largest loss by one sequence more, the expansions fixed: sum of budget times change over
    l_max, exactly. end_asked: as if the end were counted among the single items too."""
    universe = tuple(map(str, range(tree.settings.items)))
    data = Sequences(universe, np.array(sequence, np.int32), np.array([0, len(sequence)], np.int64))
    change = counts_in(tree, data).sum(axis=1)
    if end_asked:
        change[0] += 1
    budgets = [tree.spends[group].budget for group in tree.groups.tolist()]
    total = sum(
        (budget * int(moved) for budget, moved in zip(budgets, change, strict=True)), Fraction(0)
    )
    return total / tree.settings.l_max
