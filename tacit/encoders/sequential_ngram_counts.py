"""Counts of grams in sequences, level by level, without listing any gram.

Spec: sequential-ngram, section 7; federated-counting, section 2. Cut sequences are concatenated in
one array of symbols, each followed by the end sign. For every place where an expanded gram starts,
the number of this gram is kept; one table lookup gives the cells of the next level. No expanded
gram contains the end sign, hence none runs into the next sequence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.encoders.count_sums import MOST_CELLS, CountSum, read_levels, read_with, whole_number
from tacit.encoders.counts import Counter, Ints, Layer, Level, Lists, Paths, Places

Symbols = NDArray[np.int16] | NDArray[np.int32]
MOST_LENGTH: Final = 1_000
"""Items of a sequence that may count."""
_NARROW: Final = np.iinfo(np.int16).max


@dataclass(frozen=True, eq=False)
class Successors:
    """Asks which items follow expanded grams: how often each of `items` follows the empty gram
    (if there are no levels), or each of them and the end follow a gram of the last level. l_max:
    how many items of a sequence count."""

    items: int
    l_max: int
    levels: tuple[Level, ...] = ()

    @property
    def symbols(self) -> int:
        """The items, and the end, which is the last symbol."""
        return self.items + 1

    @property
    def sizes(self) -> Ints:
        """Cells of each group: one group for each gram."""
        if not self.levels:
            return np.array([self.items])
        return np.full(self.levels[-1].items.size, self.symbols)

    def json(self) -> dict[str, Any]:
        """As JSON."""
        levels = [level.json() for level in self.levels]
        return {"items": self.items, "l_max": self.l_max, "levels": levels}


@dataclass(frozen=True)
class Lengths:
    """Asks how many sequences over `items` have each length 1 to `cap`, the last one `cap` and
    more."""

    items: int
    cap: int

    @property
    def sizes(self) -> Ints:
        """One group."""
        return np.array([self.cap])

    def json(self) -> dict[str, Any]:
        """As JSON."""
        return {"items": self.items, "cap": self.cap}


@dataclass(frozen=True)
class LengthsByRange:
    """Asks how many sequences over `items` have 1, 2, 3 to 4, 5 to 8, ... items; the last range
    ends at `cap` and has the longer ones too."""

    items: int
    cap: int

    @property
    def sizes(self) -> Ints:
        """One group."""
        return np.array([1 + (self.cap - 1).bit_length()])

    def json(self) -> dict[str, Any]:
        """As JSON."""
        return {"items": self.items, "cap": self.cap, "ranges": True}


@dataclass(frozen=True, eq=False)
class Walk:
    """Where the successors of expanded grams are in a block of sequences.

    symbols: of the block; starts: where a gram begins, rising; cells: the number of the gram times
    symbols plus the symbol that follows it; length: of the grams; ends (n,): places of the end
    signs.
    """

    symbols: Symbols
    starts: Places
    cells: Places
    length: int
    ends: Ints


def follow(walk: Lists | Walk, document: Successors | Lengths | LengthsByRange) -> Lists | Walk:
    """The walk at the grams that the document expands last."""
    if not isinstance(document, Successors):
        return walk
    if isinstance(walk, Lists):
        walk = _start(walk, document)
    for level in document.levels[walk.length :]:
        walk = _advance(walk, level, document.symbols)
    return walk


def cells(
    walk: Lists | Walk, document: Successors | Lengths | LengthsByRange
) -> tuple[partial[Ints], Ints]:
    """Records, on demand, and cells of each count of 1."""
    if not isinstance(document, Successors):
        assert isinstance(walk, Lists)
        lengths = np.diff(walk.starts)
        some = np.flatnonzero(lengths)
        below = np.minimum(lengths[some], document.cap) - 1
        if isinstance(document, LengthsByRange):  # 0, 1, 2 to 3, 4 to 7, ...: their bit lengths
            below = np.searchsorted(1 << np.arange(int(document.sizes[0])), below, side="right")
        return partial(np.asarray, some), below.astype(np.int64)
    assert isinstance(walk, Walk)
    starts, cells_of_walk = walk.starts, walk.cells
    if not document.levels:  # the end is not asked of the empty gram
        counted = cells_of_walk < document.items
        starts, cells_of_walk = starts[counted], cells_of_walk[counted]
    return partial(np.searchsorted, walk.ends, starts), cells_of_walk  # type: ignore[return-value]


def paths(document: Successors | Lengths | LengthsByRange) -> Paths | None:
    """Grams are identified by their items: a sequence is in one gram of a level for each place
    where it can begin, l_max at most. Lengths are asked of every sequence alike."""
    if not isinstance(document, Successors):
        return None
    layers = tuple(Layer.of(level.parents, level.items) for level in document.levels)
    grams = np.arange(document.sizes.size)
    return Paths(f"grams {document.items} {document.l_max}", layers, grams, document.l_max)


COUNTER: Final = Counter(follow, cells, paths)


def read(document: Mapping[str, Any]) -> CountSum:
    """The sum of a document. Raises ValueError, TypeError or KeyError for an invalid document."""
    return read_with(COUNTER, _asked, document)


def _asked(document: Mapping[str, Any]) -> Successors | Lengths | LengthsByRange:
    items = whole_number(document["items"], MOST_CELLS)
    if "cap" in document:
        cap = whole_number(document["cap"], MOST_LENGTH)
        if document.get("ranges", False) not in (True, False):
            raise ValueError("lengths are by range or one by one")
        return LengthsByRange(items, cap) if document.get("ranges") else Lengths(items, cap)
    l_max = whole_number(document["l_max"], MOST_LENGTH)
    levels = read_levels(document["levels"], items, MOST_CELLS // (items + 1))
    return Successors(items, l_max, levels)


def cut(lists: Lists, l_max: int | None, end: int) -> tuple[Symbols, Ints]:
    """The first l_max items (None: all) of each sequence, each followed by the end; and the places
    of the ends."""
    lengths = np.diff(lists.starts)
    kept_lengths = lengths if l_max is None else np.minimum(lengths, l_max)
    ends = np.cumsum(kept_lengths + 1) - 1
    total = int(ends[-1]) + 1 if ends.size else 0
    symbols: Symbols = np.empty(total, np.int16) if end <= _NARROW else np.empty(total, np.int32)
    inside = np.ones(total, bool)
    inside[ends] = False
    symbols[~inside] = end
    if int(kept_lengths.sum()) == lists.items.size:
        symbols[inside] = lists.items
    else:
        shift = np.cumsum(lengths) - lengths - (ends - kept_lengths)
        symbols[inside] = lists.items[
            (np.arange(total) + np.repeat(shift, kept_lengths + 1))[inside]
        ]
    return symbols, ends


def _start(lists: Lists, document: Successors) -> Walk:
    """All symbols, as successors of the empty gram."""
    symbols, ends = cut(lists, document.l_max, document.items)
    every = np.arange(symbols.size, dtype=np.int32)
    return Walk(symbols, every, symbols.astype(np.int32), 0, ends)


def _advance(walk: Walk, level: Level, symbols: int) -> Walk:
    """One level further: the successors of the grams that the level expands."""
    parents = int(walk.cells.max()) // symbols + 1 if walk.cells.size else 0
    table = np.full(max(parents, 1) * symbols, -1, np.int32)
    within = level.parents < parents  # others have no occurrence
    rows = np.flatnonzero(within).astype(np.int32)
    table[level.parents[within] * np.int64(symbols) + level.items[within]] = rows
    next_cells = table[walk.cells]
    kept = np.flatnonzero(next_cells >= 0)
    starts = walk.starts[kept]
    length = walk.length + 1
    following = walk.symbols[starts + np.int32(length)]
    return Walk(
        walk.symbols, starts, next_cells[kept] * np.int32(symbols) + following, length, walk.ends
    )
