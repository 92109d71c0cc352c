"""Records of items as frozen arrays: sets of items (what one person bought or visited), and
sequences.

Spec: jobs, section "Datasets" (kind `transactions`); set-valued, section 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.encoders.counts import Lists
from tacit.records.intervals import PlaceIndex
from tacit.records.text_files import UnknownItem

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


# Sequences of items, such as the path of a visitor or the trips of a card (spec: jobs, section
# "Datasets"; sequential-prefix-tree and sequential-ngram, section 2).

MAX_TOTAL_ITEMS: Final = 10**9
"""Most items of all sequences together."""
MAX_UNIVERSE: Final = 10**6
"""Most distinct items."""


@dataclass(frozen=True, eq=False)
class Sequences:
    """Kind `sequences`. No sequences at all, empty ones and repeated items are legal.

    universe: distinct ids; items (total,): places in `universe`, all sequences one after the other;
    starts (n + 1,): where each begins, starts[0] == 0 and starts[n] == total. Raises ValueError for
    arrays that do not fit.
    """

    universe: tuple[str, ...]
    items: NDArray[np.int32]
    starts: NDArray[np.int64]

    def __post_init__(self) -> None:
        if len(set(self.universe)) != len(self.universe):
            raise ValueError("items of the universe differ")
        if self.starts.ndim != 1 or not self.starts.size or self.starts[0] != 0:
            raise ValueError("starts begin with 0")
        if self.starts[-1] != self.items.size or (np.diff(self.starts) < 0).any():
            raise ValueError("starts rise to the number of items")
        if self.items.size and not (
            self.items.min() >= 0 and self.items.max() < len(self.universe)
        ):
            raise ValueError("an item is a place in the universe")

    @property
    def count(self) -> int:
        """How many sequences, empty ones too; private."""
        return self.starts.size - 1

    @property
    def lists(self) -> Lists:
        """The same without the names of the items; private."""
        return Lists(self.items, self.starts)

    @classmethod
    def of(cls, universe: Sequence[str], lists: Iterable[Sequence[str]]) -> Sequences:
        """A small set of sequences over a universe. Raises KeyError for an unknown item."""
        places = {item: place for place, item in enumerate(universe)}
        listed = [[places[item] for item in record] for record in lists]
        lengths = np.array([len(record) for record in listed], np.int64)
        items = np.array([place for record in listed for place in record], np.int32)
        return cls(tuple(universe), items, np.concatenate(([0], np.cumsum(lengths))))

    def over(self, universe: Sequence[str]) -> Sequences:
        """The same sequences with indices in another universe; readings are mapped to intervals.

        Raises UnknownItem for an item that occurs and is not in that universe; its row is the
        number of the sequence and its column the number of the item in it, from 1.
        """
        if tuple(universe) == self.universe:
            return self
        table = PlaceIndex(universe).of(self.universe)
        items = table[self.items] if self.items.size else self.items
        if items.size and items.min() < 0:
            first = int((items < 0).argmax())
            row = int(np.searchsorted(self.starts, first, side="right"))
            column = 1 + first - int(self.starts[row - 1])
            timed = "@" in self.universe[int(self.items[first])]
            reason = "an item is not in the universe"
            raise UnknownItem(
                row, f"{reason}, or a reading in no interval of it" if timed else reason, column
            )
        return Sequences(tuple(universe), items, self.starts)
