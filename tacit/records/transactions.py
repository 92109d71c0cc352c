"""Sets of items: each record is what one person bought, visited or touched.

Spec: jobs, section "Datasets" (kind `transactions`); set-valued, section 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Places = NDArray[np.int32]

MAX_RECORDS: Final = 10**8
MAX_ITEMS: Final = 10**7
"""Most distinct items."""


@dataclass(frozen=True, eq=False)
class Transactions:
    """Kind `transactions`: records as they were read. Zero records and empty records are legal.

    items: distinct ids; values (entries,): places in `items`, record after record; offsets
    (records + 1,): where each record begins. An item may occur several times in a record;
    algorithms that treat records as sets merge duplicates. Raises ValueError for arrays that do not
    fit.
    """

    items: tuple[str, ...]
    values: Places
    offsets: Ints

    def __post_init__(self) -> None:
        if len(set(self.items)) != len(self.items):
            raise ValueError("items differ")
        if self.offsets.ndim != 1 or not self.offsets.size or self.offsets[0] != 0:
            raise ValueError("offsets begin with 0")
        if self.offsets[-1] != self.values.size or (np.diff(self.offsets) < 0).any():
            raise ValueError("offsets rise to the number of values")
        if self.values.size and not (
            self.values.min() >= 0 and self.values.max() < len(self.items)
        ):
            raise ValueError("a value is a place in the list of items")

    @property
    def records(self) -> int:
        """How many records, empty ones too; private."""
        return self.offsets.size - 1

    @classmethod
    def of(cls, records: Iterable[Sequence[str]], items: Sequence[str]) -> Transactions:
        """A small set of records over a list of items. Raises KeyError for an unknown item."""
        places = {item: place for place, item in enumerate(items)}
        listed = [[places[item] for item in record] for record in records]
        lengths = np.array([len(record) for record in listed], np.int64)
        values = np.array([place for record in listed for place in record], np.int32)
        return cls(tuple(items), values, np.concatenate(([0], np.cumsum(lengths))))
