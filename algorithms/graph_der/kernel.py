"""What the plain and the compiled kernel of splitting points take and give.

Spec: graph-der, sections 3.1 and 3.3.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from algorithms.graph_der.geometry import Grid, Ints, Table

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
