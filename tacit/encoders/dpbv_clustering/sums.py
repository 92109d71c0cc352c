"""The noisy grid of dpbv-clustering as a sum over records: one cell for each record.

Spec: dpbv-clustering, sections 3.9 (a) and 3.10. The counts of all cells are one block; a record
adds 1 in one cell, one that is replaced moves two of them. The adaptive form asks the sums of
k-means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tacit.encoders.dpbv_clustering.cells import MOST_CELLS, Cells
from tacit.encoders.dpbv_clustering.encoder import Box, Floats, Ints
from tacit.encoders.kmeans.sums import KmeansSum
from tacit.encoders.kmeans.sums import read as read_kmeans
from tacit.encoders.sums import SumBlock
from tacit.wire import format_exact, parse_exact


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
