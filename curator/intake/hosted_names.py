"""The names of the hosted curators and their devices, in memory in addition to the store.

Numbers by name, for millions of names, at 16 bytes each: a name is 96 bits of a keyed hash. A
device with the same name as its curator, as most have, stores no name here.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from common.arrays import grown
from common.store.transactions import Transaction
from curator.store import parties as party_store
from curator.store import readings as store
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
        """Add names with their numbers; the same names may be added again."""
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
        keys = np.full(len(names), ABSENT, np.int64)
        indices = np.empty(len(names), np.int64)
        order = np.argsort(heads)  # in order: neighbours are found in the processor's cache
        indices[order] = self._places.searchsorted(heads[order])
        places_left = np.arange(len(names))
        # Equal heads are neighbours, and mostly alone.
        while places_left.size:
            places_left = places_left[indices[places_left] < self._places.size]
            places = self._places[indices[places_left]]
            same = places & ~_LOW == heads[places_left]
            places_left, numbers = places_left[same], (places[same] & _LOW).astype(np.int64)
            proved = self._proofs[numbers] == proofs[places_left]
            keys[places_left[proved]] = numbers[proved]
            places_left = places_left[~proved]
            indices[places_left] += 1
        if self._fresh:
            for index in np.flatnonzero(keys == ABSENT).tolist():
                keys[index] = self._fresh.get(names[index], ABSENT)
        return keys

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


Device = tuple[int, str]
"""Key of the curator and the device's name."""


class Hosted:
    """Keys by name; entries are added but never changed."""

    def __init__(self) -> None:
        self._curators, self._devices = Names(), Names()
        self._own = np.zeros(0, np.int32)
        """By curator: one more than the key of the device that has its name; 0 without one."""
        self._read = [0, 0]
        self._first: str | None = None

    async def load(self, transaction: Transaction) -> None:
        """Read what was added to the store since the last read."""
        async for keys, ids in party_store.curator_names(transaction, self._read[0]):
            self._first = self._first or ids[0]
            self._read[0] = max(self._read[0], max(keys) + 1)
            self._own = grown(self._own, self._read[0])
            self._curators.add(ids, keys)
        self._curators.settle()
        async for keys, owners, names in store.device_names(transaction, self._read[1]):
            self._read[1] = max(self._read[1], max(keys) + 1)
            self._keep(owners, names, keys)
        self._devices.settle()

    def curator(self, name: str) -> int | None:
        """The key of a hosted curator."""
        key = self._curators.find(name)
        return None if key == ABSENT else key

    def curators(self, names: Sequence[str]) -> dict[str, int]:
        """The keys of the names that are hosted curators: for many, faster than one by one."""
        keys = self._curators.find_all(names).tolist()
        return {name: key for name, key in zip(names, keys, strict=True) if key != ABSENT}

    @property
    def only(self) -> str | None:
        """The name of the curator, if only one is hosted."""
        return self._first if self._read[0] == 1 else None

    async def devices(
        self, transaction: Transaction, devices_wanted: Sequence[Device]
    ) -> dict[Device, int]:
        """Keys of devices, created for new ones; `remember` them after the commit."""
        pairs = list(dict.fromkeys(devices_wanted))
        keys = self._find(pairs)
        missing = [pairs[index] for index in np.flatnonzero(keys == ABSENT).tolist()]
        added = await store.add_devices(transaction, missing) if missing else {}
        return dict(zip(pairs, keys.tolist(), strict=True)) | added

    def remember(self, key_of: dict[Device, int]) -> None:
        """Remember device keys that are durable."""
        places = self._find(list(key_of)).tolist()
        new = [pair for pair, key in zip(key_of, places, strict=True) if key == ABSENT]
        is_own = self._are_own(new).tolist()
        names = [None if same else name for (_, name), same in zip(new, is_own, strict=True)]
        self._keep([owner for owner, _ in new], names, [key_of[pair] for pair in new])

    def _keep(self, owners: list[int], names: list[str | None], keys: list[int]) -> None:
        """Devices with their keys; no name is that of the curator."""
        is_own = np.array([name is None for name in names], np.bool_)
        self._own[np.array(owners, np.int64)[is_own]] = np.array(keys, np.int64)[is_own] + 1
        named_places = np.flatnonzero(~is_own).tolist()
        named = [_named(owners[index], names[index] or "") for index in named_places]
        self._devices.add(named, [keys[index] for index in named_places])

    def _find(self, pairs: Sequence[Device]) -> NDArray[np.int64]:
        keys = np.full(len(pairs), ABSENT, np.int64)
        is_own = self._are_own(pairs)
        keys[is_own] = self._own[_owners(pairs)[is_own]] - 1
        named_places = np.flatnonzero(~is_own).tolist()
        keys[named_places] = self._devices.find_all(
            [_named(*pairs[index]) for index in named_places]
        )
        return keys

    def _are_own(self, pairs: Sequence[Device]) -> NDArray[np.bool_]:
        """Which devices are named as their curators."""
        keys = self._curators.find_all([name for _, name in pairs])
        is_own: NDArray[np.bool_] = keys == _owners(pairs)
        return is_own


def _owners(pairs: Sequence[Device]) -> NDArray[np.int64]:
    return np.array([owner for owner, _ in pairs], np.int64)


def _named(owner: int, name: str) -> str:
    return f"{owner}/{name}"
