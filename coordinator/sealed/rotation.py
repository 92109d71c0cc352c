"""The transitions of a storage key's rotation, one transaction each.

Spec: keys, section 5.4. `idle -> sealing -> cleaning -> idle`. What is sealed anew in between, and
that nothing is left, is the caller's.
"""

from __future__ import annotations

from common.store.database import exclusive
from common.store.transactions import Database
from coordinator.errors import StorageKeyRotating, StorageKeyUnavailable
from coordinator.sealed.key import StorageKey
from coordinator.sealed.keys import CONTENT, LOCK, PROOF, StorageKeys, seal_value
from coordinator.store import storage_key as store
from coordinator.store.storage_key import Rotation, StorageKeyRow


async def begin(database: Database, keys: StorageKeys, key: StorageKey) -> StorageKeyRow:
    """Let a new key seal from now on; the same key again changes nothing.

    Raises StorageKeyRotating while another rotation runs, StorageKeyUnavailable where the settings
    give the keys and the new one is not among them.
    """
    async with database.begin() as transaction:
        await exclusive(transaction, LOCK)
        row = await keys.refresh(transaction)
        if key == keys.of(row.generation):
            return row
        if row.state is not Rotation.IDLE:
            raise StorageKeyRotating(extra={"generation": row.generation})
        begun = StorageKeyRow(row.generation + 1, Rotation.SEALING)
        if not keys.source.given:
            keys.source.keep(begun.generation, key)
        elif key not in keys.source.given:
            raise StorageKeyUnavailable(
                "start every replica with two lines in the storage key's file first: the new key, "
                "and the one of now",
                extra={"generation": begun.generation},
            )
        kept = {
            generation: keys.open(CONTENT, sealed)
            for generation, sealed in (await store.content_keys(transaction)).items()
        }
        kept[row.generation] = keys.of(row.generation).content_key(CONTENT)
        await store.add_proof(transaction, begun.generation, key.seal(PROOF, b""))
        for generation, content_key in kept.items():
            sealed = seal_value(begun.generation, key, CONTENT, content_key)
            await store.put_content_key(transaction, generation, sealed)
        await store.change(transaction, begun)
    keys.place(begun.generation, key)
    keys.generation = begun.generation
    return begun


async def clean(database: Database, generation: int) -> None:
    """Accept nothing of an older generation any more."""
    await _step(database, StorageKeyRow(generation, Rotation.SEALING), Rotation.CLEANING)


async def finish(database: Database, keys: StorageKeys, generation: int) -> None:
    """Forget the older key: nothing is left that it opens."""
    async with database.begin() as transaction:
        await exclusive(transaction, LOCK)
        if await store.state(transaction) != StorageKeyRow(generation, Rotation.CLEANING):
            return
        await store.remove_proofs_before(transaction, generation)
    keys.forget_before(generation)
    await _step(database, StorageKeyRow(generation, Rotation.CLEANING), Rotation.IDLE)


async def _step(database: Database, expected: StorageKeyRow, then: Rotation) -> None:
    async with database.begin() as transaction:
        await exclusive(transaction, LOCK)
        if await store.state(transaction) == expected:
            await store.change(transaction, StorageKeyRow(expected.generation, then))
