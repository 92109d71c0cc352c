"""Table 6.1 of the source, counts without noise, and trees by prefix."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from algorithms.contract import SequentialContext
from algorithms.sequential_prefix_tree.counts import Level, Release, Tree, publish
from algorithms.sequential_prefix_tree.parameters import Settings
from tacit.encoders.sequential_prefix_tree_counts import Layout
from tacit.randomness import NoiseSource
from tacit.records.items import Sequences

TABLE_6_1 = Sequences.of("1234", ["123", "12", "321", "124", "123", "32", "1241", "31"])
Prefix = tuple[int, ...]


@dataclass(frozen=True)
class NoNoise:
    """A test of true counts; no empty candidate passes."""

    threshold: float
    rate: Fraction = Fraction(1)
    chance: Fraction = Fraction(0)

    def noisy(self, counts: np.ndarray, source: NoiseSource) -> np.ndarray:
        return counts.copy()

    def passing(self, count: int, source: NoiseSource) -> np.ndarray:
        assert count == 0
        return np.zeros(0, np.int64)


def settings(**changes: Any) -> Settings:
    values: dict[str, Any] = {
        "layout": Layout(4),
        "height": 4,
        "group_test": None,
        "item_test": NoNoise(1),
    }
    return Settings(**(values | changes))


def released(data: Sequences, chosen: Settings, seed: int = 1) -> Release:
    return publish(data, chosen, SequentialContext(test_seed=seed))


def by_prefix(tree: Tree, values: list[np.ndarray] | None = None) -> dict[Prefix, Any]:
    """Values of each node (its noisy count unless given), items counted from 1."""
    found = {}
    for depth, level in enumerate(tree.levels, start=1):
        prefixes = tree.prefixes(depth, np.arange(level.size)).tolist()
        held = level.counts if values is None else values[depth - 1]
        for prefix, value in zip(prefixes, held.tolist(), strict=True):
            found[tuple(item + 1 for item in prefix)] = value
    return found


def star(parent: int, children: list[int]) -> Tree:
    """One node and its children."""
    none = np.zeros(1, np.int64)
    below = Level(
        np.zeros(len(children), np.int64), np.arange(len(children)), np.array(children, np.int64)
    )
    return Tree((Level(none, none, np.array([parent])), below))
