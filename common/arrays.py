"""Growing arrays, and many short byte strings by number in little memory.

Items cut into batches whose sizes stay within a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

Item = TypeVar("Item", bound=np.generic)

_LEAST: Final = 64


def grown(values: NDArray[Item], size: int) -> NDArray[Item]:
    """The same values with capacity for `size`, new ones zero.

    At least doubles, so that many small steps copy little; the system allocates memory only when
    it is written.
    """
    if size <= values.size:
        return values
    longer = np.zeros(max(size, 2 * values.size, _LEAST), values.dtype)
    longer[: values.size] = values
    return longer


# Many different short byte strings by number, in little memory.

_RECENT: Final = 4096
"""How many strings are found by a dictionary at least; the others by a sorted column of hashes."""


class Interned:
    """Distinct byte strings, numbered from 0 in the order in which they were added.

    A string takes its own bytes and twenty more: no object is kept for each.
    """

    def __init__(self) -> None:
        self._size = 0
        self._data = bytearray()
        self._ends = np.zeros(0, np.int64)
        self._hashes = np.zeros(0, np.int64)
        self._numbers = np.zeros(0, np.int32)
        self._recent: dict[bytes, int] = {}

    @classmethod
    def of(cls, data: bytes | memoryview, ends: NDArray[np.int64]) -> Interned:
        """Restore what `parts` returned. Raises ValueError for anything else."""
        if (np.diff(ends, prepend=0) < 0).any() or (ends[-1] if ends.size else 0) != len(data):
            raise ValueError("strings that do not fill their bytes")
        made = cls()
        made._size, made._data, made._ends = ends.size, bytearray(data), ends.copy()
        made._sort(0)
        return made

    def parts(self) -> tuple[memoryview, NDArray[np.int64]]:
        """All strings one after the other, and (n,) where each ends: views, to be dropped before
        the next string is added."""
        return memoryview(self._data).toreadonly(), self._ends[: self._size]

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, number: int) -> bytes:
        start = int(self._ends[number - 1]) if number else 0
        return bytes(self._data[start : int(self._ends[number])])

    def find(self, text: bytes) -> int | None:
        """The number of a string; None if it never came."""
        known = self._recent.get(text)
        if known is not None:
            return known
        word = hash(text)
        place = int(np.searchsorted(self._hashes, word))
        while place < self._hashes.size and self._hashes[place] == word:
            number = int(self._numbers[place])
            if self[number] == text:
                return number
            place += 1
        return None

    def add(self, text: bytes) -> int:
        """The number of a string, which is a new one if it never came."""
        known = self.find(text)
        if known is not None:
            return known
        number = self._size
        self._data += text
        self._ends = grown(self._ends, number + 1)
        self._ends[number] = len(self._data)
        self._size += 1
        self._recent[text] = number
        if len(self._recent) > max(_RECENT, number // 8):  # seldom enough for linear time
            self._sort(number + 1 - len(self._recent))
        return number

    def _sort(self, first: int) -> None:
        """Insert the hashes of the strings from this number on into the sorted column."""
        fresh = np.array([hash(self[number]) for number in range(first, self._size)], np.int64)
        hashes = np.concatenate([self._hashes, fresh])
        numbers = np.concatenate([self._numbers, np.arange(first, self._size, dtype=np.int32)])
        order = np.argsort(hashes, kind="stable")
        self._hashes, self._numbers = hashes[order], numbers[order]
        self._recent = {}


Batched = TypeVar("Batched")


def batches(
    items: Iterable[Batched],
    size_of: Callable[[Batched], int],
    most: float,
    most_items: float = inf,
) -> Iterator[list[Batched]]:
    """The items in their order, in batches of at most `most` in size and `most_items` in number;
    a single item that is larger is a batch of its own."""
    batch: list[Batched] = []
    size = 0
    for item in items:
        more = size_of(item)
        if batch and (size + more > most or len(batch) >= most_items):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += more
    if batch:
        yield batch
