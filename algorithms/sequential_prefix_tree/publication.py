"""A run from sequences to what is published: tree, consistent counts, copies of prefixes.

Spec: sequential-prefix-tree, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from algorithms.contract import Context, Stance
from algorithms.sequential_prefix_tree.consistency import consistent, consolidated, surplus
from algorithms.sequential_prefix_tree.growth import grow
from algorithms.sequential_prefix_tree.settings import Settings
from algorithms.sequential_prefix_tree.tree import Floats, Ints, Tree
from tacit.records.sequences import Sequences


@dataclass(frozen=True, eq=False)
class Release:
    """By level: consolidated and consistent counts, and how often a prefix is a synthetic sequence.

    occupied: nodes of each level with sequences behind them; visible only to the operator.
    """

    tree: Tree
    consolidated: list[Floats]
    consistent: list[Floats]
    copies: list[Ints]
    occupied: tuple[int, ...]

    @property
    def sequences(self) -> int:
        """How many synthetic sequences there are."""
        return int(sum(int(each.sum()) for each in self.copies))

    @property
    def rows(self) -> int:
        """How many distinct ones."""
        return int(sum(np.count_nonzero(each) for each in self.copies))

    def synthetic(self, universe: tuple[str, ...]) -> tuple[Sequences, Ints]:
        """The distinct sequences by length and prefix, and how often each is there."""
        values, lengths, counts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], []
        for depth, copies in enumerate(self.copies, start=1):
            chosen = np.flatnonzero(copies)
            values.append(self.tree.prefixes(depth, chosen).ravel())
            lengths.append(np.full(chosen.size, depth))
            counts.append(copies[chosen])
        starts = np.concatenate(([0], np.cumsum(np.concatenate(lengths))))
        items = np.concatenate(values).astype(np.int32)
        return Sequences(universe, items, starts), np.concatenate([*counts, lengths[0]])


def publish(dataset: Sequences, settings: Settings, context: Context) -> Release:
    """A release of a dataset over the layout's items. Raises TreeTooLarge, Cancelled."""
    context.progress(0.0, "counting")
    grown = grow(dataset, settings, context)
    return released(grown.tree, settings.stance, context, grown.occupied)


def released(
    tree: Tree, stance: Stance, context: Context, occupied: tuple[int, ...] = ()
) -> Release:
    """What a noisy tree releases. Raises Cancelled."""
    beat = partial(context.progress, 0.65, "making counts consistent")
    fitted = consolidated(tree, beat)
    beat()
    counts = consistent(tree, fitted, stance)
    copies = [
        np.floor(np.maximum(rest, 0) + 0.5).astype(np.int64) for rest in surplus(tree, counts)
    ]
    return Release(tree, fitted, counts, copies, occupied)
