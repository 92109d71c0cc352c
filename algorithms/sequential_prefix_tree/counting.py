"""The descent of private sequences in the tree, and the counts of its nodes.

Spec: sequential-prefix-tree, section 7. A block of sequences stores, for each one that is still in
the tree, its next item and its last counted candidate; a level is one lookup in a table of what was
kept, and one histogram. Numbers of candidates are those of `growth`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.datasets.sequences import Sequences
from algorithms.sequential_prefix_tree.layout import Layout

Ints = NDArray[np.int64]

BLOCK_SEQUENCES: Final = 1 << 18
_TABLE: Final = 1 << 23
_SPARSE: Final = 4
"""A histogram is dense up to this many cells for each sequence."""


@dataclass(frozen=True, eq=False)
class Walk:
    """Sequences of a block that are still in the tree. Private.

    items: of the whole block; at, ends: the place of the last counted item, and of the sequence's
    end; keys: the number of the candidate that it was counted as.
    """

    items: NDArray[np.int32]
    at: Ints
    ends: Ints
    keys: Ints

    @classmethod
    def start(cls, dataset: Sequences, first: int, last: int) -> Walk:
        """All sequences of a block at the root."""
        starts = dataset.starts[first : last + 1]
        low = int(starts[0])
        return cls(
            dataset.items[low : int(starts[-1])],
            starts[:-1] - low - 1,
            starts[1:] - low,
            np.zeros(last - first, np.int64),
        )


@dataclass(frozen=True, eq=False)
class Kept:
    """Which candidates of `size` were kept: keys (rising), and the place of each among the kept."""

    keys: Ints
    places: Ints
    size: int

    @classmethod
    def all(cls, size: int) -> Kept:
        """Every one."""
        return cls(np.arange(size), np.arange(size), size)

    def find(self, keys: Ints) -> Ints:
        """The places of candidates, -1 for one that was not kept."""
        if self.keys.size == self.size:
            return self.places[keys]
        if not self.keys.size:
            return np.full(keys.size, -1)
        if self.size <= _TABLE:
            table = np.full(self.size, -1)
            table[self.keys] = self.places
            return table[keys]
        at = np.minimum(np.searchsorted(self.keys, keys), self.keys.size - 1)
        return np.where(self.keys[at] == keys, self.places[at], -1)


Counts = tuple[Ints, Ints]
"""Occupied candidates (rising), and how many sequences each has."""


def in_groups(walk: Walk, nodes: Kept, layout: Layout) -> tuple[Walk, Counts]:
    """Sequences that have an item behind their node, by (node, group of that item)."""
    node = nodes.find(walk.keys)
    on = np.flatnonzero((node >= 0) & (walk.at + 1 < walk.ends))
    at = walk.at[on] + 1
    keys = node[on]
    if layout.groups is not None:
        keys = keys * layout.count + layout.groups[walk.items[at]]
    moved = Walk(walk.items, at, walk.ends[on], keys)
    return moved, occupied(keys, nodes.keys.size * layout.count)


def in_items(
    walk: Walk, cells: Kept, firsts: Ints, total: int, layout: Layout
) -> tuple[Walk, Counts]:
    """The same sequences by the item itself, in the cells that were kept.

    firsts (cells,): what to add to an item's rank in its group.
    """
    cell = cells.find(walk.keys)
    on = np.flatnonzero(cell >= 0)
    at = walk.at[on]
    keys = firsts[cell[on]] + layout.rank[walk.items[at]]
    return Walk(walk.items, at, walk.ends[on], keys), occupied(keys, total)


def occupied(keys: Ints, size: int) -> Counts:
    """Which of `size` candidates have a key, and how many."""
    if size <= max(_SPARSE * keys.size, 1 << 12):
        counts = np.bincount(keys, minlength=size)
        held = np.flatnonzero(counts)
        return held, counts[held]
    return np.unique(keys, return_counts=True)


def together(parts: Sequence[Counts]) -> Counts:
    """The counts of all blocks."""
    if len(parts) == 1:
        return parts[0]
    held, back = np.unique(np.concatenate([keys for keys, _ in parts]), return_inverse=True)
    counts = np.zeros(held.size, np.int64)
    np.add.at(counts, back, np.concatenate([counts for _, counts in parts]))
    return held, counts
