"""Edges inside leaves: some true ones are kept, the rest lie anywhere.

Source: Chen's thesis, section 7.4.2, ArrangeEdge. Spec: graph-der, section 3. All leaves of a block
are arranged together. A cell is the number row * vertices + column of its labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context
from algorithms.graph_der.geometry import Ints, Labels
from algorithms.graph_der.hypergeometric import draw
from tacit.randomness import NoiseSource

BLOCK_EDGES: Final = 1 << 20
"""Most true and requested edges that are arranged together; larger graphs are split into blocks."""
_CROWDED: Final = 5
"""Cells are listed, not tried, where at least one in this many free ones is needed."""


@dataclass(frozen=True, eq=False)
class Leaves:
    """(n,) each, and bounds (n, 4) in labels. cells: those that may hold an edge; asked: ones to be
    placed; log_odds: budget over sensitivity."""

    bounds: Ints
    cells: Ints
    asked: Ints
    log_odds: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Block:
    """Some leaves and their true cells, leaf by leaf; private. starts (n + 1,)."""

    number: int
    leaves: Leaves
    keys: Ints
    starts: Ints


@dataclass(frozen=True)
class Space:
    """The matrix: vertices on each side; triangle: only cells above the diagonal, else all but the
    diagonal."""

    vertices: int
    triangle: bool


@dataclass(frozen=True, eq=False)
class Arranged:
    """Cells with an edge; kept: how many are true, private. Only a sorted list may get out: blocks
    list the true ones first."""

    keys: Ints
    kept: int


def arrange(
    leaves: Leaves,
    rows: Labels,
    columns: Labels,
    leaf: Labels,
    space: Space,
    context: Context,
) -> Arranged:
    """An arrangement of all leaves, sorted. rows, columns, leaf (m,): true cells, and where they
    lie.

    Raises Cancelled.
    """
    order = np.argsort(leaf, kind="stable")
    context.progress(0.65, "arranging")
    keys = rows[order].astype(np.int64) * space.vertices + columns[order]
    starts = np.concatenate(([0], np.cumsum(np.bincount(leaf, minlength=len(leaves.asked)))))
    blocks = list(_blocks(leaves, keys, starts))
    function = partial(arranged, space=space, context=context, blocks=len(blocks))
    parts = context.map_blocks(function, blocks)
    found = np.concatenate([part.keys for part in parts])
    found.sort()
    return Arranged(found, sum(part.kept for part in parts))


def _blocks(leaves: Leaves, keys: Ints, starts: Ints) -> Iterator[Block]:
    work = np.cumsum(leaves.asked + np.diff(starts)) // BLOCK_EDGES
    bounds = np.flatnonzero(np.diff(work, prepend=-1)).tolist()
    for number, (first, last) in enumerate(pairwise([*bounds, work.size])):
        own = slice(first, last)
        part = Leaves(
            leaves.bounds[own], leaves.cells[own], leaves.asked[own], leaves.log_odds[own]
        )
        begin, end = starts[first], starts[last]
        yield Block(number, part, keys[begin:end], starts[first : last + 1] - begin)


def arranged(block: Block, space: Space, context: Context, blocks: int) -> Arranged:
    """One block. Raises Cancelled."""
    beat = partial(context.progress, 0.65 + 0.2 * block.number / blocks, "arranging")
    beat()
    leaves, ones = block.leaves, np.diff(block.starts)
    source = context.noise("kept", block.number)
    number = draw(leaves.cells, ones, leaves.asked, leaves.log_odds, source, beat)
    beat()
    kept = block.keys[_some(ones, number, context.noise("which", block.number))]
    beat()
    true = np.sort(block.keys)
    zeros = _Zeros(leaves, space, true, context.noise("zeros", block.number))
    needed = leaves.asked - number
    crowded = needed * _CROWDED > leaves.cells - ones
    listed = zeros.listed(needed, np.flatnonzero(crowded & (needed > 0)))
    tried = zeros.tried(np.where(crowded, 0, needed), beat)
    return Arranged(np.concatenate((kept, listed, tried)), int(number.sum()))


def _some(ones: Ints, number: Ints, source: NoiseSource) -> NDArray[np.bool_]:
    """Which true cells are kept: a given number of each leaf, all choices equally likely."""
    leaf = np.repeat(np.arange(ones.size), ones)
    chosen: NDArray[np.bool_] = (number == ones)[leaf]
    open_ = np.flatnonzero(((number > 0) & (number < ones))[leaf])
    own = leaf[open_]
    order = np.lexsort((source.words(open_.size), own))
    rank = np.arange(open_.size) - np.searchsorted(own, own)
    chosen[open_[order]] = rank < number[own]
    return chosen


class _Zeros:
    """Cells without a true edge, drawn uniformly and without repetition. true: sorted cells."""

    def __init__(self, leaves: Leaves, space: Space, true: Ints, source: NoiseSource) -> None:
        self._space, self._true, self._source = space, true, source
        self._top, self._bottom, self._left, self._right = leaves.bounds.T
        if space.triangle:  # rows and columns without a cell are omitted: at least half are cells
            self._bottom = np.minimum(self._bottom, self._right - 1)
            self._left = np.maximum(self._left, self._top + 1)
        self._width = self._right - self._left
        self._area = np.maximum(1, self._width * (self._bottom - self._top))

    def tried(self, needed: Ints, beat: partial[None]) -> Ints:
        """By rejection: cells are drawn until each leaf has its number."""
        wanted = needed.copy()
        found = np.zeros(0, np.int64)
        # words from here on would favour the first cells of an area
        limit = (1 << 64) // self._area.astype(object) * self._area.astype(object) - 1
        limits = limit.astype(np.uint64)
        areas = self._area.astype(np.uint64)
        while wanted.any():
            beat()
            leaf = np.repeat(np.arange(wanted.size, dtype=np.int32), wanted)
            words = self._source.words(leaf.size)
            good = words <= limits[leaf]
            place = (words % areas[leaf]).astype(np.int64)
            keys, good = self._keys(leaf, place, good)
            keys, leaf = keys[good], leaf[good]
            order = np.argsort(keys)
            keys, leaf = keys[order], leaf[order]
            beat()
            good = ~_within(keys, self._true) & ~_within(keys, found)
            good[1:] &= keys[1:] != keys[:-1]
            wanted = wanted - np.bincount(leaf[good], minlength=wanted.size)
            found = np.concatenate((found, keys[good]))
            if wanted.any():
                found.sort()
        return found

    def listed(self, needed: Ints, leaves: Ints) -> Ints:
        """All free cells of these leaves in a random order, and the first of them."""
        area = self._area[leaves]
        leaf = np.repeat(leaves, area)
        place = np.arange(leaf.size) - np.repeat(np.cumsum(area) - area, area)
        keys, good = self._keys(leaf, place, np.ones(leaf.size, np.bool_))
        good &= ~_within(keys, self._true)
        keys, leaf = keys[good], leaf[good]
        order = np.lexsort((self._source.words(leaf.size), leaf))
        rank = np.arange(leaf.size) - np.searchsorted(leaf, leaf)
        return keys[order][rank < needed[leaf]]

    def _keys(
        self, leaf: NDArray[np.integer], place: Ints, good: NDArray[np.bool_]
    ) -> tuple[Ints, NDArray[np.bool_]]:
        """Cells at places of their leaves' areas, and which of the good ones are cells at all."""
        row, column = np.divmod(place, self._width[leaf])
        row += self._top[leaf]
        column += self._left[leaf]
        good = good & ((row < column) if self._space.triangle else (row != column))
        row *= self._space.vertices
        row += column
        return row, good


def _within(keys: Ints, held: Ints) -> NDArray[np.bool_]:
    """Which keys are among sorted ones."""
    if not held.size:
        return np.zeros(keys.size, np.bool_)
    place = np.searchsorted(held, keys)
    place[place == held.size] = 0
    found: NDArray[np.bool_] = held[place] == keys
    return found
