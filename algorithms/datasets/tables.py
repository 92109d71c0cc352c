"""Tables: columns of texts, tables of any columns, numeric tables, and series of users.

Frozen arrays with public column names. Spec: jobs, section "Datasets".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from tacit.records.text_files import MalformedRow, TooManyRows, text_lines


@dataclass(frozen=True, eq=False)
class Texts:
    """`values[codes[i]]` is the text of row i; values differ, in the order of their first rows.

    Raises ValueError for values that repeat.
    """

    values: tuple[str, ...]
    codes: NDArray[np.int32]

    def __post_init__(self) -> None:
        if len(set(self.values)) != len(self.values):
            raise ValueError("values differ")

    @classmethod
    def of(cls, cells: Iterable[object]) -> Texts:
        """From the texts of some cells."""
        places: dict[str, int] = {}
        codes = [places.setdefault(str(cell), len(places)) for cell in cells]
        return cls(tuple(places), np.array(codes, np.int32))

    def repeated(self, times: int) -> Texts:
        """Each row this many times."""
        return Texts(self.values, np.repeat(self.codes, times))

    def sorted(self) -> Texts:
        """With the values in a fixed order, whatever that of the rows: short ones first, so that
        plain whole numbers ascend."""
        order = sorted(range(len(self.values)), key=lambda at: self._key(self.values[at]))
        rank = np.empty(len(order), np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        return Texts(tuple(self.values[at] for at in order), rank[self.codes])

    @staticmethod
    def _key(text: str) -> tuple[int, str]:
        return len(text), text

    def tolist(self) -> list[str]:
        """The text of each row."""
        return [self.values[code] for code in self.codes.tolist()]


# Kind `table`: any columns, of cells as they are written.


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


# Numeric tables and series of users: rows of finite numbers with public column names.

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class NumericTable:
    """Kind `numeric-table`: values (n, d), finite; zero rows are legal.

    `labels` (n,): a reference for evaluation only, never an input of a mechanism; `curators` (n,):
    the id of the owner of each row. Raises ValueError for shapes that do not fit.
    """

    columns: tuple[str, ...]
    values: Floats
    labels: Texts | None = None
    curators: Texts | None = None

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or self.values.shape[1] != len(self.columns):
            raise ValueError("one column of values for each name")
        if len(set(self.columns)) != len(self.columns):
            raise ValueError("column names differ")
        if not np.isfinite(self.values).all():
            raise ValueError("values are finite")
        for role in (self.labels, self.curators):
            if role is not None and role.codes.shape != (self.rows,):
                raise ValueError("a role has one entry for each row")

    @property
    def rows(self) -> int:
        """How many rows; private."""
        return int(self.values.shape[0])


@dataclass(frozen=True)
class UserSeries:
    """Kind `user-series`: one row of k values for each (user, round), rounds 1..T.

    users (n,): ids; rounds (n,), values (n, k), labels (n,) or none. Raises ValueError for shapes
    that do not fit and for a (user, round) that occurs twice.
    """

    columns: tuple[str, ...]
    users: Texts
    rounds: Ints
    values: Floats
    labels: Texts | None = None

    def __post_init__(self) -> None:
        count = self.users.codes.size
        if self.values.shape != (count, len(self.columns)) or self.rounds.shape != (count,):
            raise ValueError("one user, one round and one row of values each")
        if not np.isfinite(self.values).all():
            raise ValueError("values are finite")
        if count and self.rounds.min() < 1:
            raise ValueError("rounds are counted from 1")
        pairs = np.stack((self.users.codes, self.rounds), axis=1)
        if np.unique(pairs, axis=0).shape[0] != count:
            raise ValueError("a user has one row in a round")
        if self.labels is not None and self.labels.codes.shape != (count,):
            raise ValueError("a label for each row")


MAX_ITEMS: Final = 10**7


@dataclass(frozen=True)
class Universe:
    """`groups`: one entry for each item, "" for none; None where no item has a group.

    Raises ValueError for an item that occurs twice.
    """

    items: tuple[str, ...]
    groups: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if len(set(self.items)) != len(self.items):
            raise ValueError("items differ")
        if self.groups is not None and len(self.groups) != len(self.items):
            raise ValueError("a group for each item")


def read_universe(stream: BinaryIO, max_items: int = MAX_ITEMS) -> Universe:
    """An id a line, optionally a tab and its group. Raises MalformedRow, TooManyRows."""
    earlier_items: set[str] = set()
    items: list[str] = []
    groups: list[str] = []
    for row, line in text_lines(stream):
        item, *rest = line.split("\t")
        if not item.strip() or len(rest) > 1:
            raise MalformedRow(row, "an id, or an id, a tab and a group are expected")
        if item in earlier_items:
            raise MalformedRow(row, "the id occurs twice", 1)
        if len(items) == max_items:
            raise TooManyRows(f"at most {max_items} items", extra={"max_rows": max_items})
        earlier_items.add(item)
        items.append(item)
        groups.append(rest[0] if rest else "")
    return Universe(tuple(items), tuple(groups) if any(groups) else None)
