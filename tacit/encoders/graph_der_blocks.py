"""Cells of a graph's matrix that method `blocks` counts, and the sums that curators answer.

Vertices are labels 0 to n - 1, public; a record is an edge, a row of two labels. What is no pair of
different labels adds nothing. An edge is one coarse cell, one of its parts and an end of two
vertices. The list of parts is public: a function of the coarse counts that were released.

Spec: graph-der, sections 10.1 and 10.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.encoders.sums import SumBlock
from tacit.query.terms import MAX_DIMENSION
from tacit.wire import format_exact, parse_exact

Ints = NDArray[np.int64]
Labels = NDArray[np.int32]
Floats = NDArray[np.float64]
Kind = Literal["size", "coarse", "fine", "degrees"]

MOST_PARTS: Final = 40
"""On each side of a coarse cell."""
MOST_VERTICES: Final = 10_000_000
_AT_ONCE: Final = 1 << 16
"""Edges whose part is looked up together, so that the work arrays stay in the cache."""
_MOST_RANGES: Final = 361
"""With more there are more coarse cells than a sum has coordinates."""


@dataclass(frozen=True, eq=False)
class Coarse:
    """The cells of B equal ranges of labels, B (B + 1) / 2 of them: rows (cells,) and columns
    (cells,) as numbers of ranges, row <= column; borders (B + 1,)."""

    borders: Ints

    @classmethod
    def of(cls, vertices: int, ranges: int) -> Coarse:
        """`vertices` cut into this many ranges of about equal length."""
        return cls(np.arange(ranges + 1) * vertices // ranges)

    @property
    def ranges(self) -> int:
        """B."""
        return self.borders.size - 1

    @cached_property
    def cells(self) -> tuple[Ints, Ints]:
        """Rows and columns of all cells, row by row."""
        rows, columns = np.triu_indices(self.ranges)
        return rows.astype(np.int64), columns.astype(np.int64)

    def whole(self) -> Fine:
        """Each cell as one part."""
        return Fine.of(self, np.ones(self.cells[0].size, np.int64))

    def place(self, low: Labels, high: Labels) -> Labels:
        """(m,) the cell of each pair of labels."""
        return self.cell(self.range_of[low], self.range_of[high])

    @cached_property
    def range_of(self) -> Labels:
        """(n,) the range of each label."""
        return np.repeat(np.arange(self.ranges, dtype=np.int32), np.diff(self.borders))

    def cell(self, row: Labels, column: Labels) -> Labels:
        """(m,) the number of each cell."""
        return row * self.ranges - row * (row - 1) // 2 + column - row


@dataclass(frozen=True, eq=False)
class Fine:
    """Parts of coarse cells: sides (cells,) is s of each of them.

    coarse (parts,): the cell of each part; bounds (parts, 4): labels of its rows and columns, from
    and to (exclusive); room (parts,): pairs low < high in it. Parts without room are omitted.
    """

    grid: Coarse
    sides: Ints
    coarse: Ints
    bounds: Ints
    room: Ints
    numbers: Labels
    """(all parts,) the place among `coarse`, -1 where omitted."""
    starts: Ints

    @classmethod
    def of(cls, grid: Coarse, sides: Ints) -> Fine:
        """All parts of these sides."""
        rows, columns = grid.cells
        squares = sides * sides
        starts = np.concatenate(([0], np.cumsum(squares)))
        coarse = np.repeat(np.arange(sides.size), squares)
        within = np.arange(int(starts[-1])) - starts[coarse]
        side = sides[coarse]
        first, second = np.divmod(within, side)
        bounds = np.empty((coarse.size, 4), np.int64)
        for column, (numbers, part) in enumerate(((rows, first), (columns, second))):
            begin = grid.borders[numbers[coarse]]
            width = grid.borders[numbers[coarse] + 1] - begin
            bounds[:, 2 * column] = begin + part * width // side
            bounds[:, 2 * column + 1] = begin + (part + 1) * width // side
        high, wide = bounds[:, 1] - bounds[:, 0], bounds[:, 3] - bounds[:, 2]
        diagonal = (rows == columns)[coarse]
        room = high * wide
        room = np.where(diagonal & (first == second), high * (high - 1) // 2, room)
        room = np.where(diagonal & (first > second), 0, room)
        there = room > 0
        places = np.where(there, np.cumsum(there) - 1, -1).astype(np.int32)
        return cls(grid, sides, coarse[there], bounds[there], room[there], places, starts[:-1])

    def place(self, low: Labels, high: Labels) -> Labels:
        """(m,) the part of each pair of labels."""
        places = np.empty(low.size, np.int32)
        widths = np.diff(self.grid.borders)
        for start in range(0, low.size, _AT_ONCE):
            span = slice(start, start + _AT_ONCE)
            ends = low[span], high[span]
            ranges = self.grid.range_of[ends[0]], self.grid.range_of[ends[1]]
            cell = self.grid.cell(*ranges)
            side = self.sides[cell]
            row, column = (
                ((labels - self.grid.borders[numbers] + 1) * side - 1) // widths[numbers]
                for labels, numbers in zip(ends, ranges, strict=True)
            )
            places[span] = self.numbers[self.starts[cell] + row * side + column]
        return places


@dataclass(frozen=True, eq=False)
class BlockSum:
    """A query over edges: how many there are, how many lie in each cell of a coarse grid, in each
    part of its cells and, with `degrees`, at each vertex, or at each vertex alone. epsilons: of
    each block."""

    vertices: int
    kind: Kind
    epsilons: tuple[Fraction, ...]
    grid: Coarse | None = None
    fine: Fine | None = None
    degrees: bool = False

    def __post_init__(self) -> None:
        if not 2 <= self.vertices <= MOST_VERTICES:
            raise ValueError("a graph has two vertices at least")
        if len(self.epsilons) != 1 + self.degrees or min(self.epsilons) <= 0:
            raise ValueError("every block has an epsilon above 0")
        if (self.grid is not None, self.fine is not None) != (
            self.kind == "coarse",
            self.kind == "fine",
        ):
            raise ValueError("a grid goes with its kind")
        if self.degrees and self.kind != "fine":
            raise ValueError("degrees are asked with the parts")
        if sum(block.dimension for block in self.blocks) > MAX_DIMENSION:
            raise ValueError(f"a sum has at most {MAX_DIMENSION} coordinates")

    @property
    def columns(self) -> int:
        """Both ends of an edge."""
        return 2

    @property
    def epsilon(self) -> Fraction:
        """Of the query."""
        return sum(self.epsilons, Fraction(0))

    @cached_property
    def blocks(self) -> tuple[SumBlock, ...]:
        """An edge is in one cell, and has two ends."""
        shares = [part_epsilon / self.epsilon for part_epsilon in self.epsilons]
        if self.kind == "degrees":
            return (SumBlock("degrees", self.vertices, 2, shares[0]),)
        if self.fine is None:
            cells = 1 if self.grid is None else self.grid.cells[0].size
            return (SumBlock("edges", cells, 1, shares[0]),)
        parts = SumBlock("edges", self.fine.room.size, 1, shares[0])
        if not self.degrees:
            return (parts,)
        return parts, SumBlock("degrees", self.vertices, 2, shares[1])

    def vectors(self, rows: Floats) -> Ints:
        """(n, length): what each edge (n, 2) adds; zeros for what is no edge."""
        ends = np.sort(rows, axis=1)
        with np.errstate(invalid="ignore"):
            edge = (ends == np.floor(ends)).all(axis=1)
            edge &= (ends[:, 0] >= 0) & (ends[:, 0] < ends[:, 1]) & (ends[:, 1] < self.vertices)
        low, high = np.where(edge[:, None], ends, (0, 1)).astype(np.int32).T
        indicators = np.zeros((len(rows), sum(block.dimension for block in self.blocks)), np.int64)
        rows_in_order = np.arange(len(rows))
        if self.kind != "degrees":
            indicators[rows_in_order, self._places(low, high)] = 1
        if self.blocks[-1].name == "degrees":
            for labels in (low, high):
                indicators[rows_in_order, indicators.shape[1] - self.vertices + labels] = 1
        indicators[~edge] = 0
        return indicators

    def _places(self, low: Labels, high: Labels) -> Labels:
        if self.fine is not None:
            return self.fine.place(low, high)
        if self.grid is not None:
            return self.grid.place(low, high)
        return np.zeros(low.size, np.int32)

    def restored(self, opened: Ints) -> Ints:
        """(length,) as it is."""
        return opened

    def document(self) -> dict[str, Any]:
        """As JSON without floating-point numbers."""
        content: dict[str, Any] = {
            "kind": self.kind,
            "vertices": self.vertices,
            "epsilons": [format_exact(epsilon) for epsilon in self.epsilons],
        }
        if self.grid is not None:
            content["ranges"] = self.grid.ranges
        if self.fine is not None:
            content |= {
                "ranges": self.fine.grid.ranges,
                "sides": self.fine.sides.tolist(),
                "degrees": self.degrees,
            }
        return content


def read(document: Mapping[str, Any]) -> BlockSum:
    """The sum of a document. Raises ValueError, TypeError or KeyError for anything else."""
    fields = dict(document)
    kind, vertices = fields.pop("kind"), _whole(fields.pop("vertices"))
    epsilons = tuple(parse_exact(epsilon) for epsilon in fields.pop("epsilons"))
    if not 2 <= vertices <= MOST_VERTICES:
        raise ValueError("a graph has two vertices at least")
    grid: Coarse | None = None
    fine: Fine | None = None
    degrees = False
    if kind not in ("size", "degrees"):
        ranges = _whole(fields.pop("ranges"))
        if not 1 <= ranges <= min(_MOST_RANGES, vertices):
            raise ValueError("a range of labels holds one at least")
        grid = Coarse.of(vertices, ranges)
    if kind == "fine":
        assert grid is not None
        sides = np.array([_whole(side) for side in fields.pop("sides")], np.int64)
        fine, grid = _parts(grid, sides), None
        degrees = fields.pop("degrees")
    if fields or not isinstance(degrees, bool):
        raise ValueError("a document has no other fields")
    return BlockSum(vertices, kind, epsilons, grid, fine, degrees)


def _parts(grid: Coarse, sides: Ints) -> Fine:
    rows, columns = grid.cells
    widths = np.diff(grid.borders)
    if sides.shape != rows.shape:
        raise ValueError("every coarse cell has a side")
    most = np.minimum(np.minimum(widths[rows], widths[columns]), MOST_PARTS)
    if (sides < 1).any() or (sides > most).any():
        raise ValueError(f"a cell is cut into 1 to {MOST_PARTS} parts on each side")
    if int((sides * sides).sum()) > MAX_DIMENSION:
        raise ValueError("more parts than a sum has coordinates")
    return Fine.of(grid, sides)


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("a whole number")
    return value
