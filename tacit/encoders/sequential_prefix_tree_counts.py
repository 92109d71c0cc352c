"""Counts of sequences by their first items, level by level.

Spec: sequential-prefix-tree, section 7; federated-counting, section 2. A sequence sits in the
prefix that it begins with, for as long as that prefix was kept; its next item is its one count.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.encoders.counts import Counter, Ints, Level, Lists
from tacit.encoders.sequential_prefix_tree_layout import Layout

_TABLE: Final = range(1 << 16, 1 << 23)
"""Cells of a table from keys to places: always up to the first, never from the last on."""
_DENSE: Final = 32
"""In between, up to this many cells for each key."""


@dataclass(frozen=True, eq=False)
class Below:
    """Asks what follows the kept prefixes of the last level (without levels: the empty prefix): the
    group of the next item, or that item itself in pairs of prefix and group.

    levels: each sorted by (parent, item); pairs: prefix times groups plus group, rising; None where
    groups are asked.
    """

    layout: Layout
    levels: tuple[Level, ...] = ()
    pairs: Ints | None = None

    @property
    def prefixes(self) -> int:
        """How many prefixes are asked about."""
        return self.levels[-1].items.size if self.levels else 1

    @cached_property
    def earlier(self) -> Ints:
        """Of each pair's items how many lie in earlier time bins than its prefix."""
        assert self.pairs is not None
        prefix, group = np.divmod(self.pairs, self.layout.count)
        last: Ints = (
            self.levels[-1].items.astype(np.int64) if self.levels else np.zeros(1, np.int64)
        )
        found: Ints = self.layout.earlier[group, self.layout.bin_of(last)[prefix]]
        return found

    @cached_property
    def sizes(self) -> Ints:
        """Cells of each prefix (groups), or of each pair (items)."""
        if self.pairs is None:
            return np.full(self.prefixes, self.layout.count)
        return self.layout.sizes[self.pairs % self.layout.count] - self.earlier

    @cached_property
    def firsts(self) -> Ints:
        """The first cell of each."""
        return np.cumsum(self.sizes) - self.sizes

    def named(self, cells: Ints) -> tuple[Ints, Ints]:
        """Prefixes and items of cells."""
        assert self.pairs is not None
        # The pair of a cell: the last one that begins there; pairs without items begin too.
        pair = np.searchsorted(self.firsts, cells, side="right") - 1
        prefix, group = np.divmod(self.pairs[pair], self.layout.count)
        within = cells - self.firsts[pair] + self.earlier[pair]
        return prefix, self.layout.order[self.layout.starts[group] + within]


@dataclass(frozen=True, eq=False)
class Walk:
    """Sequences that are still in the tree.

    lists: all of the block; at, ends: places of the next item, and of the sequence's end; prefixes:
    of the last level, `depth`.
    """

    lists: Lists
    at: Ints
    ends: Ints
    prefixes: Ints
    depth: int


def follow(walk: Lists | Walk, document: Below) -> Walk:
    """The walk at the prefixes that the document kept last."""
    if isinstance(walk, Lists):
        at, ends = walk.starts[:-1], walk.starts[1:]
        walk = _in_tree(Walk(walk, at, ends, np.zeros(walk.count, np.int64), 0))
    for level in document.levels[walk.depth :]:
        size = document.layout.items
        keys = walk.prefixes * size + walk.lists.items[walk.at]
        found = places(level.parents * np.int64(size) + level.items, keys)
        kept = np.flatnonzero(found >= 0)
        at, ends = walk.at[kept] + 1, walk.ends[kept]
        walk = _in_tree(Walk(walk.lists, at, ends, found[kept], walk.depth + 1))
    return walk


def _in_tree(walk: Walk) -> Walk:
    """Without the sequences that have ended."""
    on = np.flatnonzero(walk.at < walk.ends)
    return Walk(walk.lists, walk.at[on], walk.ends[on], walk.prefixes[on], walk.depth)


def cells(walk: Walk, document: Below) -> tuple[partial[Ints], Ints]:
    """Records, on demand, and cells of each count of 1."""
    layout, at = document.layout, walk.at
    items = walk.lists.items[at]
    found = walk.prefixes
    if layout.groups is not None:
        found = found * layout.count + layout.groups[items]
    if document.pairs is not None:
        pair = places(document.pairs, found, document.prefixes * layout.count)
        kept = pair >= 0
        if layout.bins > 1:  # times that fall count nowhere
            kept &= layout.rank[items] >= np.append(document.earlier, 0)[pair]
        if not kept.all():
            pair, items, at = pair[kept], items[kept], at[kept]
        found = (document.firsts - document.earlier)[pair] + layout.rank[items]
    return partial(_records, walk.lists.starts, at), found


def _records(starts: Ints, at: Ints) -> Ints:
    return np.searchsorted(starts, at, side="right") - 1


def places(kept: Ints, keys: NDArray[np.int64], size: int | None = None) -> Ints:
    """Of each key its place among the kept ones (rising), -1 for one that was not kept; size: one
    more than the greatest possible key, if known."""
    if kept.size == size:
        return keys
    if not kept.size:
        return np.full(keys.size, -1)
    if kept[-1] < min(max(_DENSE * keys.size, _TABLE.start), _TABLE.stop):
        table = np.full(int(kept[-1]) + 2, -1)
        table[kept] = np.arange(kept.size)
        return table[np.minimum(keys, table.size - 1)]
    at = np.minimum(np.searchsorted(kept, keys), kept.size - 1)
    return np.where(kept[at] == keys, at, -1)


COUNTER: Final = Counter(follow, cells)
