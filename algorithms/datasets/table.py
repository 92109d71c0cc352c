"""Kind `table`: any columns, of cells as they are written."""

from __future__ import annotations

from dataclasses import dataclass

from algorithms.datasets.texts import Texts


@dataclass(frozen=True)
class Table:
    """`cells[i]` is the column `columns[i]`; zero rows are legal.

    A cell is text: `7`, `07` and `7.0` are three values, as `A` and `a` are two. Raises ValueError
    for columns that do not fit together.
    """

    columns: tuple[str, ...]
    cells: tuple[Texts, ...]

    def __post_init__(self) -> None:
        if len(self.cells) != len(self.columns):
            raise ValueError("one column of cells for each name")
        if len(set(self.columns)) != len(self.columns):
            raise ValueError("column names differ")
        if len({column.codes.shape for column in self.cells}) > 1:
            raise ValueError("columns are equally long")

    @property
    def rows(self) -> int:
        """How many rows; private."""
        return int(self.cells[0].codes.size) if self.cells else 0

    def column(self, name: str) -> Texts:
        """A column by its name. Raises KeyError."""
        if name not in self.columns:
            raise KeyError(name)
        return self.cells[self.columns.index(name)]
