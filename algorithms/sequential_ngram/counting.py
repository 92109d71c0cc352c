"""Counts of grams, level by level, without listing any gram.

Spec: sequential-ngram, section 7. Cut sequences are concatenated in one array of symbols, each
followed by the end sign. For every place where an expanded gram starts, the number of this gram is
kept; one table lookup and one histogram give the whole count matrix of the next level. No expanded
gram contains the end sign, hence none runs into the next sequence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.datasets.sequences import Sequences

Ints = NDArray[np.int64]
Places = NDArray[np.int32]
Symbols = NDArray[np.int16] | NDArray[np.int32]

BLOCK_SYMBOLS: Final = 1 << 20
"""Symbols of a block of sequences, at most (unless one sequence has more)."""
_NARROW: Final = np.iinfo(np.int16).max


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive sequences: their items one after the other, lengths (n,); end: the end sign, one
    above the greatest item of the universe. Private."""

    items: Places
    lengths: Ints
    end: int

    @classmethod
    def of(cls, dataset: Sequences, first: int = 0, last: int | None = None) -> Block:
        """Sequences of a dataset, all by default."""
        starts = dataset.starts[first : dataset.count + 1 if last is None else last + 1]
        items = dataset.items[starts[0] : starts[-1]]
        return cls(items, np.diff(starts), len(dataset.universe))


@dataclass(frozen=True, eq=False)
class Walk:
    """Where the children of the last expansion start in a block.

    symbols: of the block; starts: rising; cells: row of the expanded gram times symbols plus the
    symbol that follows it, of each start. Private.
    """

    symbols: Symbols
    starts: Places
    cells: Places


def blocks_of(dataset: Sequences, l_max: int) -> list[Block]:
    """A dataset in blocks, at least one; their sizes are a function of l_max."""
    each = max(BLOCK_SYMBOLS // (l_max + 1), 1)
    return [
        Block.of(dataset, first, min(first + each, dataset.count))
        for first in range(0, max(dataset.count, 1), each)
    ]


def cut(block: Block, l_max: int | None) -> Symbols:
    """The first l_max items (None: all) of each sequence, each followed by the end."""
    kept = block.lengths if l_max is None else np.minimum(block.lengths, l_max)
    ends = np.cumsum(kept + 1) - 1
    total = int(ends[-1]) + 1 if ends.size else 0
    symbols: Symbols = (
        np.empty(total, np.int16) if block.end <= _NARROW else np.empty(total, np.int32)
    )
    inside = np.ones(total, bool)
    inside[ends] = False
    symbols[~inside] = block.end
    if int(kept.sum()) == block.items.size:
        symbols[inside] = block.items
    else:
        shift = np.cumsum(block.lengths) - block.lengths - (ends - kept)
        symbols[inside] = block.items[(np.arange(total) + np.repeat(shift, kept + 1))[inside]]
    return symbols


def single_counts(block: Block, l_max: int) -> tuple[Walk, Ints]:
    """The walk over single symbols of a block that is cut, and the counts (symbols,) of them."""
    symbols = cut(block, l_max)
    walk = Walk(symbols, np.arange(symbols.size, dtype=np.int32), symbols.astype(np.int32))
    return walk, np.bincount(symbols, minlength=block.end + 1)


def advance(walk: Walk, table: Places, length: int, rows: int, symbols: int) -> tuple[Walk, Ints]:
    """One level further: the walk over the successors of an expansion, and their counts
    (rows * symbols,).

    table: for each cell of the old walk the row of the expanded gram that it is, -1 for none; its
    grams have `length` symbols.
    """
    found = table[walk.cells]
    kept = np.flatnonzero(found >= 0)
    starts = walk.starts[kept]
    cells = found[kept] * np.int32(symbols) + walk.symbols[starts + np.int32(length)]
    return Walk(walk.symbols, starts, cells), np.bincount(cells, minlength=rows * symbols)
