"""Counts of private lists in the cells of a public question.

Spec: federated-counting, section 2. A question's cells are numbered through: those of its first
group, then those of the second, and so on. A document says in public what the cells are. It has one
level for each question before, so that who holds the lists needs the document alone; who is asked
question after question remembers how far it has come (`Counter.follow`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.encoders.count_paths import Paths

Ints = NDArray[np.int64]
Places = NDArray[np.int32]

_SPARSE: Final = 4
"""A histogram is dense up to this many cells for each count."""
_SMALL: Final = 1 << 12
_TABLE: Final = range(1 << 16, 1 << 23)
"""Cells of a table from keys to places: always up to the first, never from the last on."""
_DENSE: Final = 32
"""In between, up to this many cells for each key."""


@dataclass(frozen=True, eq=False)
class Lists:
    """Private records: items (total,) places in the universe, record after record; starts (n + 1,):
    where each begins and the last one ends."""

    items: Places
    starts: Ints

    @property
    def count(self) -> int:
        """How many records."""
        return self.starts.size - 1

    def over(self, items: int) -> Lists:
        """The same records, empty where an item is no place below `items`."""
        outside = (self.items < 0) | (self.items >= items)
        if not outside.any():
            return self
        lengths = np.diff(self.starts)
        owners = np.repeat(np.arange(self.count), lengths)
        kept = np.ones(self.count, bool)
        kept[owners[outside]] = False
        return self.only(kept)

    def only(self, kept: NDArray[np.bool_]) -> Lists:
        """The same records, empty where they are not kept (n,): each keeps its number."""
        lengths = np.diff(self.starts)
        inside = np.repeat(kept, lengths)
        return Lists(self.items[inside], np.concatenate(([0], np.cumsum(lengths * kept))))

    def blocks(self, size: int) -> list[Lists]:
        """The records in blocks of this many, at least one block."""
        bounds = [*range(0, max(self.count, 1), size), self.count]
        return [self._part(first, last) for first, last in pairwise(bounds)]

    def _part(self, first: int, last: int) -> Lists:
        starts = self.starts[first : last + 1]
        return Lists(self.items[starts[0] : starts[-1]], starts - starts[0])


def sorted_sets(lists: Lists, size: int) -> tuple[Ints, Ints]:
    """The pairs (record, place in the universe) in order, each once; size: of the universe."""
    keys = np.repeat(np.arange(lists.count) * size, np.diff(lists.starts)) + lists.items
    steps = np.diff(keys)
    if (steps <= 0).any():
        keys.sort()
        keys = keys[np.concatenate(([True], np.diff(keys) > 0))]
    records = keys // size
    return records, keys - records * size


@dataclass(frozen=True, eq=False)
class Level:
    """What a document keeps of the question before, (n,): of each kept prefix or gram the one on
    the level before that it makes longer (0 on the first level), and its last item."""

    parents: NDArray[np.integer]
    items: NDArray[np.integer]

    def json(self) -> dict[str, list[int]]:
        """As JSON."""
        return {"parents": self.parents.tolist(), "items": self.items.tolist()}


@dataclass(frozen=True, eq=False)
class Counts:
    """Occupied cells (rising), and how often each is."""

    cells: Ints
    counts: Ints

    def of(self, cells: Ints) -> Ints:
        """The counts of these cells."""
        at = places_among(self.cells, cells)
        return np.where(at < 0, 0, np.append(self.counts, 0)[at])


@dataclass(frozen=True)
class Counter:
    """What touches private records, by functions of an algorithm's encoder.

    `follow(walk, document) -> walk`: through the levels of the document that the walk has not
    passed yet, lists being the first walk; `cells(walk, document) -> (records, cells)`: one entry
    for each count of 1, records on demand. Walks are private. `paths(document)`: its groups as
    nodes of the tree that records go along; None where they are no tree.
    """

    follow: Callable[[Any, Any], Any]
    cells: Callable[[Any, Any], tuple[Callable[[], Ints], Ints]]
    paths: Callable[[Any], Paths | None] = lambda _document: None

    def of(self, lists: Lists, document: Any) -> tuple[Ints, Ints]:
        """Records and cells of all counts that a document asks of lists, from the start."""
        records, cells = self.cells(self.follow(lists, document), document)
        return records(), cells

    def counted(self, walk: Any, document: Any, size: int) -> tuple[Any, Counts]:
        """One question more: the walk after it, and the counts of its `size` cells."""
        walk = self.follow(walk, document)
        return walk, occupied(self.cells(walk, document)[1], size)


def occupied(cells: NDArray[Any], size: int) -> Counts:
    """Which of `size` cells have a count, and how many."""
    if size <= max(_SPARSE * cells.size, _SMALL):
        counts = np.bincount(cells, minlength=size)
        held = np.flatnonzero(counts)
        return Counts(held, counts[held])
    held, counts = np.unique(cells, return_counts=True)
    return Counts(held.astype(np.int64), counts)


def together(parts: Sequence[Counts], size: int) -> Counts:
    """The counts of all blocks."""
    if len(parts) == 1:
        return parts[0]
    cells = np.concatenate([part.cells for part in parts])
    counts = np.concatenate([part.counts for part in parts])
    if size <= max(_SPARSE * cells.size, _SMALL):
        total = np.zeros(size, np.int64)
        np.add.at(total, cells, counts)
        held = np.flatnonzero(total)
        return Counts(held, total[held])
    held, back = np.unique(cells, return_inverse=True)
    total = np.zeros(held.size, np.int64)
    np.add.at(total, back, counts)
    return Counts(held, total)


def places_among(kept: Ints, keys: NDArray[np.int64], size: int | None = None) -> Ints:
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


def ranges(firsts: Ints, sizes: Ints) -> Ints:
    """firsts[0], firsts[0] + 1, ... `sizes[0]` of them, then those from firsts[1] on, ..."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if ends.size else 0
    cells: Ints = np.arange(total) + np.repeat(firsts - (ends - sizes), sizes)
    return cells
