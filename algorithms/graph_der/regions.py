"""Regions of the adjacency matrix: grid, numbers of cells, counts by a summed-area table.

Also the arguments and results of the plain and the compiled kernel of splitting points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Labels = NDArray[np.int32]
Table = NDArray[np.int32]
Beat = Callable[[], None]
_BEAT_ROWS: Final = 512


def below(rows: Any, columns: Any) -> Any:
    """How many cells above the diagonal have i < rows and j < columns."""
    fewer = np.minimum(rows, columns)
    return fewer * (columns - 1) - fewer * (fewer - 1) // 2


@dataclass(frozen=True)
class Grid:
    """Lines 0, step, 2 step, .., vertices; a region's corners are places in the list of lines."""

    vertices: int
    step: int
    triangle: bool

    @property
    def lines(self) -> Ints:
        """(blocks + 1,) labels."""
        return np.append(np.arange(0, self.vertices, self.step, dtype=np.int64), self.vertices)

    @property
    def blocks(self) -> int:
        """The number of blocks on each side."""
        return -(-self.vertices // self.step)

    @property
    def size(self) -> int:
        """Cells of the matrix that heights and smallest regions are reckoned from."""
        if self.triangle:
            return self.vertices * (self.vertices - 1) // 2
        return self.vertices**2

    def edges(self, regions: Ints) -> Ints:
        """Regions (n, 4) with labels in place of lines: rows from, to, columns from, to."""
        result: Ints = self.lines[regions]
        return result

    def cells(self, regions: Ints) -> Ints:
        """(n,) cells of each region (n, 4)."""
        top, bottom, left, right = self.edges(regions).T
        if not self.triangle:
            rectangle: Ints = (bottom - top) * (right - left)
            return rectangle
        cells: Ints = below(bottom, right) - below(top, right)
        cells += below(top, left) - below(bottom, left)
        return cells

    def diagonal(self, regions: Ints) -> Ints:
        """(n,) cells of each region on the diagonal; none in the triangle."""
        if self.triangle:
            return np.zeros(len(regions), np.int64)
        top, bottom, left, right = self.edges(regions).T
        shared: Ints = np.minimum(bottom, right) - np.maximum(top, left)
        return np.maximum(0, shared)

    def table(self, rows: Labels, columns: Labels, beat: Beat = lambda: None) -> Table:
        """Summed-area table (blocks + 1, blocks + 1) of ones at these cells; private.

        Entry (p, q) is how many lie in rows before line p and columns before line q.
        """
        blocks = self.blocks
        keys = rows.astype(np.int64) // self.step
        keys *= blocks
        keys += columns // self.step
        beat()
        if keys.size * 4 > blocks**2:
            every = np.bincount(keys, minlength=blocks**2)
            cells = np.flatnonzero(every)
            number = every[cells]
        else:
            cells, number = np.unique(keys, return_counts=True)
        table = np.zeros((blocks + 1, blocks + 1), np.int32)
        for first in range(0, blocks, _BEAT_ROWS):
            beat()
            last = min(first + _BEAT_ROWS, blocks)
            own = slice(*np.searchsorted(cells, (first * blocks, last * blocks)))
            table[1 + cells[own] // blocks, 1 + cells[own] % blocks] = number[own]
            for row in range(first + 1, last + 1):
                np.cumsum(table[row], dtype=np.int32, out=table[row])
                table[row] += table[row - 1]
        return table

    def whole(self) -> Ints:
        """The root region (1, 4)."""
        return np.array([[0, self.blocks, 0, self.blocks]], np.int64)


def counts(table: Table, regions: Ints) -> Ints:
    """(n,) ones in each region; private."""
    top, bottom, left, right = regions.T
    result: Ints = table[bottom, right].astype(np.int64) - table[top, right]
    result -= table[bottom, left]
    result += table[top, left]
    return result


def children(regions: Ints, points: Ints) -> Ints:
    """The four subregions (n, 4, 4) of regions (n, 4) at points (n, 2), lines of row and column."""
    top, bottom, left, right = regions.T
    row, column = points.T
    parts = (
        (top, row, left, column),
        (top, row, column, right),
        (row, bottom, left, column),
        (row, bottom, column, right),
    )
    return np.stack([np.stack(part, axis=1) for part in parts], axis=1)


def leaf_map(grid: Grid, leaves: Ints) -> NDArray[np.int32]:
    """(blocks, blocks) number of the leaf that a block lies in; -1 outside all."""
    held = np.full((grid.blocks, grid.blocks), -1, np.int32)
    for number, (top, bottom, left, right) in enumerate(leaves.tolist()):
        held[top:bottom, left:right] = number
    return held


# What the plain and the compiled kernel of splitting points take and give. Spec: graph-der,
# sections 3.1 and 3.3.

Floats: TypeAlias = NDArray[np.float64]


class Matrix(NamedTuple):
    """What scores are made of: summed-area table, private; lines of its grid."""

    table: Table
    lines: Ints
    triangle: bool

    @classmethod
    def of(cls, table: Table, grid: Grid) -> Matrix:
        """A table over a grid."""
        return cls(table, grid.lines, grid.triangle)


class Pieces(NamedTuple):
    """Some rows of some regions: region, first row line, number of rows, place of its output."""

    region: Ints
    row: Ints
    rows: Ints
    place: Ints


class Sums(NamedTuple):
    """Of all rows of all regions; those of region r from starts[r] to starts[r + 1].

    highest: score (-inf where nothing is admissible); mass: sum of e^(rate (score - highest)).
    """

    starts: Ints
    highest: Floats
    mass: Floats


class Kernel(Protocol):
    """Both forms of the two passes. rate (n,): what a score is multiplied by in the exponent."""

    def row_masses(
        self,
        matrix: Matrix,
        regions: Ints,
        rate: Floats,
        least: float,
        pieces: Pieces,
        sums: Sums,
    ) -> None:
        """Fill the sums of these rows."""
        ...

    def points(
        self,
        matrix: Matrix,
        regions: Ints,
        rate: Floats,
        least: float,
        sums: Sums,
        uniform: Floats,
    ) -> Ints:
        """(n, 2) row and column of each region, by two uniform numbers (2, n); -1: none."""
        ...
