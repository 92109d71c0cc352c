"""Numbers by name, for millions of names, at 24 bytes each.

A dictionary of a million Python strings takes a quarter of a gigabyte. Here each name is its keyed
128-bit hash: two names that are stored or asked for agree by chance in one of 10^26 gateways of a
million curators, and nobody outside knows the key.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

ABSENT: Final = -1
_FRESH: Final = 1 << 14
"""Additions that are kept apart before they are sorted in."""


class Names:
    """A map from names to numbers from 0 on that only grows."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._heads = np.zeros(0, np.uint64)
        self._tails = np.zeros(0, np.uint64)
        self._numbers = np.zeros(0, np.int64)
        self._fresh: dict[bytes, int] = {}

    def __len__(self) -> int:
        return self._numbers.size + len(self._fresh)

    def add(self, names: Sequence[str], numbers: Sequence[int]) -> None:
        """Names with their numbers; one that is there keeps the number that it has."""
        digests = list(map(self._digest, names))
        for index in np.flatnonzero(self._find(digests) == ABSENT).tolist():
            self._fresh.setdefault(digests[index], numbers[index])
        if len(self._fresh) > max(_FRESH, self._numbers.size // 4):
            self.settle()

    def settle(self) -> None:
        """Sort the additions in, which makes room."""
        if not self._fresh:
            return
        words = np.frombuffer(b"".join(self._fresh), "<u8").reshape(-1, 2)
        heads = np.concatenate((self._heads, words[:, 0]))
        tails = np.concatenate((self._tails, words[:, 1]))
        count = len(self._fresh)
        added = np.fromiter(self._fresh.values(), np.int64, count)
        numbers = np.concatenate((self._numbers, added))
        order = np.lexsort((tails, heads))
        self._heads, self._tails, self._numbers = heads[order], tails[order], numbers[order]
        self._fresh = {}

    def find(self, name: str) -> int:
        """The number of a name, or ABSENT."""
        digest = self._digest(name)
        head, tail = (int.from_bytes(digest[at : at + 8], "little") for at in (0, 8))
        place = int(self._heads.searchsorted(np.uint64(head)))
        while place < self._heads.size and int(self._heads[place]) == head:
            if int(self._tails[place]) == tail:
                return int(self._numbers[place])
            place += 1
        return self._fresh.get(digest, ABSENT)

    def find_all(self, names: Sequence[str]) -> NDArray[np.int64]:
        """The number of each name, ABSENT where there is none."""
        return self._find(list(map(self._digest, names)))

    def _find(self, digests: list[bytes]) -> NDArray[np.int64]:
        words = np.frombuffer(b"".join(digests), "<u8").reshape(-1, 2)
        found = np.full(len(digests), ABSENT, np.int64)
        place = np.searchsorted(self._heads, words[:, 0])
        open_ = np.arange(len(digests))
        # Equal heads are neighbours; more than one of them is all but impossible.
        while open_.size:
            inside = place[open_] < self._heads.size
            open_ = open_[inside]
            open_ = open_[self._heads[place[open_]] == words[open_, 0]]
            same = self._tails[place[open_]] == words[open_, 1]
            found[open_[same]] = self._numbers[place[open_[same]]]
            open_ = open_[~same]
            place[open_] += 1
        if self._fresh:
            for index in np.flatnonzero(found == ABSENT).tolist():
                found[index] = self._fresh.get(digests[index], ABSENT)
        return found

    def _digest(self, name: str) -> bytes:
        return hashlib.blake2b(name.encode(), digest_size=16, key=self._key).digest()
