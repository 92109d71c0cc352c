"""What a curator computes where DPBV is not used: noisy grids, noisy points, and the grid as a sum
over records.

Noisy grids and noisy points: what a curator computes where DPBV is not used.

Spec: dpbv-clustering, section 3.9. Every record depends on itself and on public values alone.

- `Cells`: the cell of a public grid that a record lies in; counts of them are summed in rounds.
- `unary_reports`: optimised unary encoding of that cell (T. Wang, J. Blocki, N. Li and S. Jha,
  "Locally Differentially Private Protocols for Frequency Estimation", 2017): the own bit is 1 with
  probability 1/2, every other with q = 1 / (1 + e^epsilon). Two records differ in two bits, so
  that no report is more than (1 - q) / q times as likely under one than under the other.
- `noisy_points`: every coordinate, on a grid of 2^-16 of its range, plus discrete Laplace noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np

from tacit.encoders.dpbv_clustering.encoder import Bits, Box, Flip, Floats, Ints, random_words
from tacit.encoders.kmeans.sums import KmeansSum
from tacit.encoders.kmeans.sums import read as read_kmeans
from tacit.encoders.sums import SumBlock
from tacit.noise import SCALE_LIMIT, DiscreteLaplace
from tacit.randomness import NoiseSource
from tacit.wire import format_exact, parse_exact

MOST_CELLS: Final = 4096
POINT_STEPS: Final = 1 << 16
_FAIR: Final = np.uint32(1 << 31)


@dataclass(frozen=True)
class Cells:
    """A grid of `per_axis` cells along each of the box's d axes."""

    box: Box
    per_axis: int

    def __post_init__(self) -> None:
        if self.per_axis < 1:
            raise ValueError("an axis has at least one cell")

    @property
    def count(self) -> int:
        """Cells: per_axis^d."""
        return int(self.per_axis**self.box.dimension)

    def places(self, values: Floats) -> Ints:
        """The cell (n,) of records (n, d) in raw units, the last axis running fastest.

        What lies outside the box is in the nearest cell.
        """
        low, high = np.array(self.box.lower), np.array(self.box.upper)
        steps = (np.clip(values, low, high) - low) * self.per_axis / (high - low)
        places = np.zeros(len(values), np.int64)
        for column in np.minimum(steps.astype(np.int64), self.per_axis - 1).T:
            places *= self.per_axis
            places += column
        return places

    def sums(self, values: Floats) -> Ints:
        """Records in each cell, (count,)."""
        return np.bincount(self.places(values), minlength=self.count)

    def centres(self) -> Floats:
        """The middles of all cells, (count, d), in raw units."""
        low, high = np.array(self.box.lower), np.array(self.box.upper)
        shape = (self.per_axis,) * self.box.dimension
        indices = np.stack(np.unravel_index(np.arange(self.count), shape), axis=1)
        middles: Floats = low + (indices + 0.5) * (high - low) / self.per_axis
        return middles


def unary_reports(places: Ints, cells: int, flip: Flip, source: NoiseSource) -> Bits:
    """Reports (n, cells) of records in these cells; `flip` has q, rounded up."""
    words = random_words(source, len(places) * cells).reshape(len(places), cells)
    reports = words < np.uint32(flip.threshold)
    rows = np.arange(len(places))
    reports[rows, places] = words[rows, places] < _FAIR
    return reports


def point_scale(dimension: int, epsilon: Fraction) -> Fraction:
    """The scale of each coordinate's noise in steps: d 2^16 / epsilon.

    Raises ValueError where no sampler draws it.
    """
    scale = dimension * POINT_STEPS / epsilon
    if scale > SCALE_LIMIT:
        raise ValueError("too small a budget: its noise cannot be drawn")
    return scale


def noisy_points(values: Floats, box: Box, epsilon: Fraction, source: NoiseSource) -> Ints:
    """Records (n, d) in raw units as noisy steps (n, d); step y means L + y (U - L) / 2^16."""
    low, high = np.array(box.lower), np.array(box.upper)
    scaled = np.rint((np.clip(values, low, high) - low) * POINT_STEPS / (high - low))
    steps = np.clip(scaled, 0, POINT_STEPS).astype(np.int64)
    noise = DiscreteLaplace(point_scale(box.dimension, epsilon)).draw(source, steps.size)
    noisy: Ints = steps + noise.reshape(steps.shape)
    return noisy


# The noisy grid as a sum over records: one cell for each record (spec: dpbv-clustering, sections
# 3.9 (a) and 3.10). The counts of all cells are one block; a record adds 1 in one cell, one that is
# replaced moves two of them. The adaptive form asks the sums of k-means.


@dataclass(frozen=True, eq=False)
class CellSum:
    """Records in each cell of a public grid."""

    cells: Cells
    epsilon: Fraction

    @property
    def columns(self) -> int:
        """d."""
        return self.cells.box.dimension

    @property
    def blocks(self) -> tuple[SumBlock, ...]:
        """All cells."""
        return (SumBlock("cells", self.cells.count, 1, Fraction(1)),)

    def vectors(self, rows: Floats) -> Ints:
        """(n, cells): a one in the cell of each record."""
        found = np.zeros((len(rows), self.cells.count), np.int64)
        found[np.arange(len(rows)), self.cells.places(rows)] = 1
        return found

    def restored(self, opened: Ints) -> Ints:
        """As it is."""
        return opened

    def document(self) -> dict[str, Any]:
        """The box and the cells of an axis; what is not whole is a text."""
        return {
            "lower": [repr(value) for value in self.cells.box.lower],
            "upper": [repr(value) for value in self.cells.box.upper],
            "per_axis": self.cells.per_axis,
            "epsilon": format_exact(self.epsilon),
        }


def read(document: Mapping[str, Any]) -> CellSum | KmeansSum:
    """The sum of a document. Raises ValueError, TypeError or KeyError for anything else."""
    if "kind" in document:
        return read_kmeans(document)
    given = dict(document)
    lower, upper = (tuple(float(each) for each in given.pop(name)) for name in ("lower", "upper"))
    ordered = all(
        low < high and np.isfinite(high - low) for low, high in zip(lower, upper, strict=True)
    )
    per_axis, epsilon = given.pop("per_axis"), parse_exact(given.pop("epsilon"))
    if given or not ordered or not lower or not isinstance(per_axis, int) or epsilon <= 0:
        raise ValueError("a grid has a box, cells and an epsilon")
    if not 1 <= per_axis ** len(lower) <= MOST_CELLS:
        raise ValueError(f"a grid has at most {MOST_CELLS} cells")
    # Cells are counted in raw units: how lengths are scaled afterwards changes no count.
    return CellSum(Cells(Box(lower, upper, None, False), per_axis), epsilon)
