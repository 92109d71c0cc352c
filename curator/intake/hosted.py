"""The names of the hosted curators and their devices, in memory in addition to the store.

A device with the same name as its curator, as most have, stores no name here: four bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from common.arrays import grown
from common.store.transactions import Transaction
from curator.intake.name_index import ABSENT, Names
from curator.store import parties as party_store
from curator.store import readings as store

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
        """Read what the store has beyond what was read before."""
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
        found = self._curators.find(name)
        return None if found == ABSENT else found

    def curators(self, names: Sequence[str]) -> dict[str, int]:
        """The keys of those names that are hosted curators': for many, faster than one by one."""
        found = self._curators.find_all(names).tolist()
        return {name: key for name, key in zip(names, found, strict=True) if key != ABSENT}

    @property
    def only(self) -> str | None:
        """The name of the curator, where one alone is hosted."""
        return self._first if self._read[0] == 1 else None

    async def devices(
        self, transaction: Transaction, wanted: Sequence[Device]
    ) -> dict[Device, int]:
        """Keys of devices, made where they are new; `remember` them after the commit."""
        pairs = list(dict.fromkeys(wanted))
        keys = self._find(pairs)
        missing = [pairs[index] for index in np.flatnonzero(keys == ABSENT).tolist()]
        made = await store.add_devices(transaction, missing) if missing else {}
        return dict(zip(pairs, keys.tolist(), strict=True)) | made

    def remember(self, made: dict[Device, int]) -> None:
        """Keep device keys that are durable."""
        found = self._find(list(made)).tolist()
        new = [pair for pair, key in zip(made, found, strict=True) if key == ABSENT]
        own = self._are_own(new).tolist()
        names = [None if same else name for (_, name), same in zip(new, own, strict=True)]
        self._keep([owner for owner, _ in new], names, [made[pair] for pair in new])

    def _keep(self, owners: list[int], names: list[str | None], keys: list[int]) -> None:
        """Devices with their keys; no name is that of the curator."""
        own = np.array([name is None for name in names], np.bool_)
        self._own[np.array(owners, np.int64)[own]] = np.array(keys, np.int64)[own] + 1
        others = np.flatnonzero(~own).tolist()
        named = [_named(owners[index], names[index] or "") for index in others]
        self._devices.add(named, [keys[index] for index in others])

    def _find(self, pairs: Sequence[Device]) -> NDArray[np.int64]:
        keys = np.full(len(pairs), ABSENT, np.int64)
        own = self._are_own(pairs)
        keys[own] = self._own[_owners(pairs)[own]] - 1
        others = np.flatnonzero(~own).tolist()
        keys[others] = self._devices.find_all([_named(*pairs[index]) for index in others])
        return keys

    def _are_own(self, pairs: Sequence[Device]) -> NDArray[np.bool_]:
        """Which devices are named as their curators."""
        found = self._curators.find_all([name for _, name in pairs])
        own: NDArray[np.bool_] = found == _owners(pairs)
        return own


def _owners(pairs: Sequence[Device]) -> NDArray[np.int64]:
    return np.array([owner for owner, _ in pairs], np.int64)


def _named(owner: int, name: str) -> str:
    return f"{owner}/{name}"
