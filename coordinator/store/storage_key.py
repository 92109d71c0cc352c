"""The state of the storage key: which generation seals, and how far a rotation has come.

Proofs and kept content keys lie among the secrets, each sealed with a storage key.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Row, delete, insert, select, update

from common.store.transactions import Transaction
from coordinator.store.tables import secrets, storage_keys

_PROOF = "storage_key_proof"
_CONTENT_KEY = "content_key_"
_ONE = 1


class Rotation(StrEnum):
    """`sealing`: what an older key sealed is sealed again; `cleaning`: nothing older is accepted
    any more, and the older key goes."""

    IDLE = "idle"
    SEALING = "sealing"
    CLEANING = "cleaning"


@dataclass(frozen=True)
class StorageKeyRow:
    """`generation`: of the key that seals."""

    generation: int
    state: Rotation


_STATE = select(storage_keys)


async def state(transaction: Transaction) -> StorageKeyRow:
    """The state."""
    return _row((await transaction.execute(_STATE)).one())


async def held_state(transaction: Transaction) -> StorageKeyRow:
    """The state, which stays as it is until the transaction ends."""
    return _row((await transaction.execute(_STATE.with_for_update(read=True))).one())


def _row(row: Row[Any]) -> StorageKeyRow:
    return StorageKeyRow(row.generation, Rotation(row.state))


async def change(transaction: Transaction, row: StorageKeyRow) -> None:
    """The new state."""
    await transaction.execute(
        update(storage_keys).values(generation=row.generation, state=row.state.value)
    )


async def proofs(transaction: Transaction) -> dict[int, bytes]:
    """What each generation's key sealed when it began, by generation."""
    found = await transaction.execute(select(secrets).where(secrets.c.name.startswith(_PROOF)))
    return {int(row.name.removeprefix(_PROOF) or _ONE): row.value for row in found}


async def add_proof(transaction: Transaction, generation: int, value: bytes) -> None:
    """Keep one."""
    name = _PROOF if generation == _ONE else f"{_PROOF}{generation}"
    await transaction.execute(insert(secrets).values(name=name, value=value))


async def remove_proofs_before(transaction: Transaction, generation: int) -> None:
    """Forget those of older generations."""
    for older in await proofs(transaction):
        if older < generation:
            name = _PROOF if older == _ONE else f"{_PROOF}{older}"
            await transaction.execute(delete(secrets).where(secrets.c.name == name))


async def content_keys(transaction: Transaction) -> dict[int, bytes]:
    """The sealed content keys of older generations, by generation."""
    found = await transaction.execute(
        select(secrets).where(secrets.c.name.startswith(_CONTENT_KEY))
    )
    return {int(row.name.removeprefix(_CONTENT_KEY)): row.value for row in found}


async def put_content_key(transaction: Transaction, generation: int, value: bytes) -> None:
    """Keep one, in place of what was kept of that generation."""
    name = f"{_CONTENT_KEY}{generation}"
    await transaction.execute(delete(secrets).where(secrets.c.name == name))
    await transaction.execute(insert(secrets).values(name=name, value=value))
