"""Parts of the cells of a coarse grid that stand out: the second histogram of start `two-level`.

Spec: kmeans, section 5.7. The list of cells and how finely each is cut are public: a function of
the counts that the coarse histogram released.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, Literal

import numpy as np

from tacit.encoders.kmeans.encoder import Floats, Ints, NoiseBlock
from tacit.encoders.kmeans.nearest import Steps

MOST_COARSE: Final = 4_096
MOST_PARTS: Final = 16
"""On each side of a coarse cell."""


@dataclass(frozen=True, eq=False)
class FineCells:
    """How many records each part of the kept cells of a coarse grid holds.

    kept (c,): places of coarse cells, rising; sides (c,): each is cut into sides^d parts.
    Raises ValueError for a list that does not fit the grid or is longer than max_cells.
    """

    per_side: int
    dimension: int
    steps: int
    kept: Ints
    sides: Ints
    epsilon: Fraction
    max_cells: int

    kind: Literal["fine"] = "fine"

    def __post_init__(self) -> None:
        cells = self.per_side**self.dimension if self.per_side <= MOST_COARSE else 0
        if not 1 <= cells <= MOST_COARSE:
            raise ValueError(f"a coarse grid has between 1 and {MOST_COARSE} cells")
        if not (self.kept.size and self.kept.shape == self.sides.shape):
            raise ValueError("every kept cell has a side")
        if (np.diff(self.kept) <= 0).any() or self.kept[0] < 0 or self.kept[-1] >= cells:
            raise ValueError("kept cells are different ones of the grid")
        if self.sides.min() < 1 or self.sides.max() > MOST_PARTS:
            raise ValueError(f"a cell is cut into 1 to {MOST_PARTS} on each side")
        if self.sides.max() > 1 and self.length > self.max_cells:
            raise ValueError("more parts than are allowed")

    @cached_property
    def starts(self) -> Ints:
        """(c + 1,) where the parts of each kept cell begin."""
        return np.concatenate(([0], np.cumsum(self.sides**self.dimension)))

    @property
    def length(self) -> int:
        """All parts."""
        return int(self.starts[-1])

    @cached_property
    def blocks(self) -> tuple[NoiseBlock, ...]:
        """A record is in one part, or in none."""
        return (NoiseBlock("cells", self.length, 1, self.epsilon),)

    def sums(self, records: Steps) -> Ints:
        """Counts (length,) of records (n, d) on the grid, cell by cell; a cell's last coordinate
        runs fastest."""
        places = self.places(records)
        return np.bincount(places[places >= 0], minlength=self.length)

    def places(self, records: Steps) -> Ints:
        """(n,) the part of each record; -1 where its cell is not kept."""
        slots = np.full(self.per_side**self.dimension, -1, np.int64)
        slots[self.kept] = np.arange(self.kept.size)
        raised = records.astype(np.int64) + self.steps
        coarse = np.minimum(raised * self.per_side // (2 * self.steps), self.per_side - 1)
        flat = np.zeros(len(records), np.int64)
        for column in coarse.T:
            flat *= self.per_side
            flat += column
        slot = slots[flat]
        inside = np.flatnonzero(slot >= 0)
        slot = slot[inside]
        side = self.sides[slot]
        places = np.zeros(inside.size, np.int64)
        for column in range(self.dimension):
            lines = self.per_side * side
            part = np.minimum(raised[inside, column] * lines // (2 * self.steps), lines - 1)
            places *= side
            places += part - coarse[inside, column] * side
        found = np.full(len(records), -1, np.int64)
        found[inside] = self.starts[slot] + places
        return found

    def middles(self) -> tuple[Floats, Floats]:
        """Middles (length, d) and half sides (length,) of all parts, in half sides of the box."""
        owner = np.repeat(np.arange(self.kept.size), np.diff(self.starts))
        side = self.sides[owner]
        rest = np.arange(self.length) - self.starts[owner]
        coarse = np.stack(np.unravel_index(self.kept, (self.per_side,) * self.dimension), axis=1)
        found = np.empty((self.length, self.dimension))
        for column in reversed(range(self.dimension)):
            rest, part = np.divmod(rest, side)
            lines = self.per_side * side
            found[:, column] = (2 * (coarse[owner, column] * side + part) + 1) / lines - 1
        return found, 1 / (self.per_side * side)
