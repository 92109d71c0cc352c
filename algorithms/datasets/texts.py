"""A column of texts as they are written: ids, labels, cells of a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


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
        """Of the texts of some cells."""
        places: dict[str, int] = {}
        codes = [places.setdefault(str(cell), len(places)) for cell in cells]
        return cls(tuple(places), np.array(codes, np.int32))

    def repeated(self, times: int) -> Texts:
        """Each row this many times."""
        return Texts(self.values, np.repeat(self.codes, times))

    def sorted(self) -> Texts:
        """With the values in a fixed order, whatever that of the rows: short ones first, so that
        plain whole numbers rise."""
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
