"""Kind `table`: any columns, of text or of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.float64] | NDArray[np.int64] | NDArray[np.object_]
"""(n,): whole numbers, finite numbers, or texts (`str` in an object array)."""


@dataclass(frozen=True)
class Table:
    """`values[i]` is the column `columns[i]`; zero rows are legal.

    Raises ValueError for shapes that do not fit.
    """

    columns: tuple[str, ...]
    values: tuple[Column, ...]

    def __post_init__(self) -> None:
        if len(self.values) != len(self.columns):
            raise ValueError("one column of values for each name")
        if len(set(self.columns)) != len(self.columns):
            raise ValueError("column names differ")
        if len({column.shape for column in self.values}) > 1:
            raise ValueError("columns are equally long")

    @property
    def rows(self) -> int:
        """How many rows; private."""
        return int(self.values[0].shape[0]) if self.values else 0

    def column(self, name: str) -> Column:
        """A column by its name. Raises KeyError."""
        if name not in self.columns:
            raise KeyError(name)
        return self.values[self.columns.index(name)]

    def is_text(self, name: str) -> bool:
        """Whether a column holds texts. Raises KeyError."""
        column: NDArray[Any] = self.column(name)
        return column.dtype.kind == "O"
