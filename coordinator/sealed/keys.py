"""The storage keys of a process, by generation: the newest seals, and each opens its own.

Spec: keys, section 5.4. A value is "TS1", its generation in 4 bytes, nonce and ciphertext. A
rotation makes the next generation; until it has ended,
the key of the one before still opens what was not sealed anew.
"""

from __future__ import annotations

import hmac
from typing import Final

from common.store.database import exclusive
from common.store.transactions import Database, Transaction
from coordinator.errors import StorageKeyUnavailable, StorageKeyWrong
from coordinator.sealed.key import KeySource, StorageKey
from coordinator.settings import CoordinatorSettings
from coordinator.store import storage_key as store
from coordinator.store.storage_key import Rotation, StorageKeyRow

CONTENT: Final = "dataset content"
"""The purpose of hashes that recognise a dataset's content."""
LOCK: Final = "storage key"
GENERATION_BYTES: Final = 4
PROOF: Final = "storage_key_proof"
_MAGIC: Final = b"TS1"
_PREFIX_BYTES: Final = len(_MAGIC) + GENERATION_BYTES
_FIRST: Final = 1


class StorageKeys:
    """The keys that this process holds. `generation`: of the one that seals, as last read."""

    def __init__(self, source: KeySource) -> None:
        self.source = source
        self.generation = _FIRST
        self._placed: dict[int, StorageKey] = {}

    def place(self, generation: int, key: StorageKey) -> None:
        """Let a key serve a generation."""
        self._placed[generation] = key

    def of(self, generation: int) -> StorageKey:
        """A generation's key. Raises StorageKeyUnavailable.

        A rotation may begin at another process: the one key here that serves no generation yet is
        then that of a generation not seen before. What it did not seal does not open with it.
        """
        if generation not in self._placed:
            spare = [key for key in self.source.found() if key not in self._placed.values()]
            if len(spare) != 1:
                raise StorageKeyUnavailable(extra={"generation": generation})
            return spare[0]
        return self._placed[generation]

    # --- values ---

    def seal(self, purpose: str, plain: bytes) -> bytes:
        """A value sealed under the generation that seals now."""
        return seal_value(self.generation, self.of(self.generation), purpose, plain)

    def open(self, purpose: str, sealed: bytes) -> bytes:
        """What was sealed for this purpose. Raises StorageKeyWrong, StorageKeyUnavailable."""
        return self.of(value_generation(sealed)).open(purpose, sealed[_PREFIX_BYTES:])

    def is_current(self, sealed: bytes) -> bool:
        """Whether the first bytes of a value are those of the generation that seals now."""
        return sealed.startswith(_prefix(self.generation))

    def forget_before(self, generation: int) -> None:
        """Drop older keys here, and destroy what the data directory has of them."""
        for older in range(_FIRST, generation):
            self._placed.pop(older, None)
        if not self.source.given:
            self.source.promote(generation)

    # --- contents that are recognised ---

    async def content_hashes(self, transaction: Transaction, digest: bytes) -> list[bytes]:
        """What a content is kept under, of each generation, the newest first."""
        await self.hold(transaction)
        current = self.of(self.generation)
        older = await store.content_keys(transaction)
        keys = [current.content_key(CONTENT)]
        keys += [self.open(CONTENT, older[generation]) for generation in sorted(older)[::-1]]
        return [hmac.digest(key, digest, "sha256") for key in keys]

    # --- the state ---

    async def refresh(self, transaction: Transaction) -> StorageKeyRow:
        """Learn which generation seals. Raises StorageKeyUnavailable: this process was started
        without the new key."""
        return await self._learn(transaction, await store.state(transaction))

    async def hold(self, transaction: Transaction) -> StorageKeyRow:
        """The same, and it stays so until the transaction ends."""
        return await self._learn(transaction, await store.held_state(transaction))

    async def _learn(self, transaction: Transaction, row: StorageKeyRow) -> StorageKeyRow:
        if row.generation not in self._placed:
            proof = (await store.proofs(transaction))[row.generation]
            key = _opening(self.source.found(), proof)
            if key is None:
                raise StorageKeyUnavailable(extra={"generation": row.generation})
            self.place(row.generation, key)
        # A reading transaction may see the store of before: the generation never goes back here.
        self.generation = max(self.generation, row.generation)
        return row

    async def admit(self, transaction: Transaction, generation: int) -> None:
        """Raise StorageKeyUnavailable if what this generation sealed would not be sealed anew."""
        row = await self.hold(transaction)
        if generation < row.generation and row.state is not Rotation.SEALING:
            raise StorageKeyUnavailable(
                "the storage key was rotated meanwhile: send it again",
                extra={"generation": generation},
            )


def seal_value(generation: int, key: StorageKey, purpose: str, plain: bytes) -> bytes:
    """A value under the key of a generation."""
    return _prefix(generation) + key.seal(purpose, plain)


def _prefix(generation: int) -> bytes:
    return _MAGIC + generation.to_bytes(GENERATION_BYTES, "big")


def seed_purpose(job_id: str) -> str:
    """What a job's sealed seed is bound to."""
    return f"job seed {job_id}"


def value_generation(sealed: bytes) -> int:
    """The generation that a sealed value names. Raises StorageKeyWrong for what is none."""
    if not sealed.startswith(_MAGIC):
        raise StorageKeyWrong
    return int.from_bytes(sealed[len(_MAGIC) : _PREFIX_BYTES], "big")


async def open_storage_keys(database: Database, settings: CoordinatorSettings) -> StorageKeys:
    """The keys that the settings give, else those of the data directory; one is made at the first
    start. Each is checked against the proof of its generation.

    Raises StorageKeyWrong: better at the start than when the first dataset cannot be read.
    """
    keys = StorageKeys(KeySource.of(settings))
    keys.source.make_first()
    async with database.begin() as transaction:
        await exclusive(transaction, LOCK)
        row, proofs = await store.state(transaction), await store.proofs(transaction)
        held = keys.source.found()
        if not proofs and held:
            proofs = {row.generation: held[0].seal(PROOF, b"")}
            await store.add_proof(transaction, row.generation, proofs[row.generation])
    for generation, proof in proofs.items():
        key = _opening(held, proof)
        if key is not None:
            keys.place(generation, key)
        elif generation == row.generation or row.state is Rotation.SEALING:
            raise StorageKeyWrong(f"the storage key of generation {generation} is not here")
    keys.generation = row.generation
    return keys


def _opening(keys: tuple[StorageKey, ...], proof: bytes) -> StorageKey | None:
    for key in keys:
        try:
            key.open(PROOF, proof)
        except StorageKeyWrong:
            continue
        return key
    return None
