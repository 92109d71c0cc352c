"""An adjacency matrix row by row: the neighbours of each vertex, in blocks of rows.

Spec: graph-random-matrix, section 7, lever 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int32]

Offsets = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Rows:
    """Consecutive rows of an adjacency matrix.

    number: which block it is; first: its first row; starts (rows + 1,): where each row's neighbours
    begin in neighbours (entries,), rising from 0.
    """

    number: int
    first: int
    starts: Offsets
    neighbours: Places

    @property
    def count(self) -> int:
        """How many rows."""
        return self.starts.size - 1


@dataclass(frozen=True, eq=False)
class Adjacency:
    """A symmetric matrix of zeros and ones; neighbours of a row rise."""

    starts: Offsets
    neighbours: Places

    @property
    def count(self) -> int:
        """How many vertices."""
        return self.starts.size - 1

    @property
    def entries(self) -> int:
        """Twice the number of edges; private."""
        return self.neighbours.size

    def blocks(self, rows: int) -> Iterator[Rows]:
        """All rows, this many at a time."""
        for number, first in enumerate(range(0, self.count, rows)):
            last = min(first + rows, self.count)
            begin, end = int(self.starts[first]), int(self.starts[last])
            starts = self.starts[first : last + 1] - begin
            yield Rows(number, first, starts, self.neighbours[begin:end])
