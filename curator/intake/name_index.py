"""Numbers by name, for millions of names, at 16 bytes each.

A dictionary of a million Python strings takes a quarter of a gigabyte. Here a name is 96 bits of a
keyed hash: two names that are stored or looked up collide by chance in one of 10^15 gateways of ten
million names, and nobody outside knows the key. The hash is Python's own SipHash, which is fast for
a string, of the name preceded by two secret words, so that it is keyed for any hash seed of the
process.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from common.arrays import grown
from tacit.errors import StartRefused

ABSENT: Final = -1
_FRESH: Final = 1 << 14
"""Additions that are kept as strings before they are sorted in."""
_WORD: Final = (1 << 64) - 1
_NUMBER: Final = (1 << 32) - 1
_LOW: Final = np.uint64(_NUMBER)

Words = NDArray[np.uint64]


class Names:
    """A map from names to numbers of 32 bits that only grows; a name keeps its number permanently.

    Memory depends on the largest number: numbers assigned without gaps waste none.
    """

    def __init__(self) -> None:
        """Raises StartRefused where Python's hash has not 64 keyed bits."""
        if sys.hash_info.width != 64 or not sys.hash_info.algorithm.startswith("siphash"):
            raise StartRefused("names need a 64-bit Python whose strings are hashed by SipHash")
        self._first, self._second = secrets.token_hex(16), secrets.token_hex(16)
        self._places = np.zeros(0, np.uint64)
        """32 bits of the first hash, then the number; in order."""
        self._proofs = np.zeros(0, np.uint64)
        """The second hash, by number."""
        self._pages: list[Words] = []
        self._fresh: dict[str, int] = {}

    def add(self, names: Sequence[str], numbers: Sequence[int]) -> None:
        """Names with their numbers; what is there already may be added again."""
        if len(names) < _FRESH:
            self._fresh.update(zip(names, numbers, strict=True))
        else:
            self._put(names, numbers)
        if len(self._fresh) > _FRESH:
            self.settle()

    def settle(self) -> None:
        """Merge the additions in order, which frees their buffer."""
        if self._fresh:
            self._put(list(self._fresh), list(self._fresh.values()))
            self._fresh = {}
        if self._pages:
            places = np.concatenate((self._places, *self._pages))
            self._pages = []
            places.sort()
            again = np.flatnonzero(places[1:] == places[:-1])
            self._places = np.delete(places, again) if again.size else places

    def find(self, name: str) -> int:
        """The number of a name, or ABSENT."""
        self._merge()
        head = hash(self._first + name) & (_WORD ^ _NUMBER)
        index = int(self._places.searchsorted(np.uint64(head)))
        while index < self._places.size:
            place = int(self._places[index])
            number = place & _NUMBER
            if place ^ number != head:
                break
            if int(self._proofs[number]) == hash(self._second + name) & _WORD:
                return number
            index += 1
        return self._fresh.get(name, ABSENT)

    def find_all(self, names: Sequence[str]) -> NDArray[np.int64]:
        """The number of each name, ABSENT where there is none."""
        self._merge()
        heads, proofs = self._heads(names), _hashes(self._second, names)
        found = np.full(len(names), ABSENT, np.int64)
        indices = np.empty(len(names), np.int64)
        order = np.argsort(heads)  # in order: neighbours are found in the processor's cache
        indices[order] = self._places.searchsorted(heads[order])
        left = np.arange(len(names))
        # Equal heads are neighbours, and mostly alone.
        while left.size:
            left = left[indices[left] < self._places.size]
            places = self._places[indices[left]]
            same = places & ~_LOW == heads[left]
            left, numbers = left[same], (places[same] & _LOW).astype(np.int64)
            proved = self._proofs[numbers] == proofs[left]
            found[left[proved]] = numbers[proved]
            left = left[~proved]
            indices[left] += 1
        if self._fresh:
            for index in np.flatnonzero(found == ABSENT).tolist():
                found[index] = self._fresh.get(names[index], ABSENT)
        return found

    def _merge(self) -> None:
        if self._pages:
            self.settle()

    def _put(self, names: Sequence[str], numbers: Sequence[int]) -> None:
        chosen = np.asarray(numbers, np.uint64)
        self._pages.append(self._heads(names) | chosen)
        self._proofs = grown(self._proofs, int(chosen.max()) + 1)
        self._proofs[chosen] = _hashes(self._second, names)

    def _heads(self, names: Sequence[str]) -> Words:
        return _hashes(self._first, names) & ~_LOW


def _hashes(secret: str, names: Sequence[str]) -> Words:
    return np.fromiter(map(hash, map(secret.__add__, names)), np.int64, len(names)).view(np.uint64)
