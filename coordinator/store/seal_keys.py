"""The seal keys that rounds name, by hash."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import bindparam, delete, insert, select, update

from common.store.transactions import Transaction
from coordinator.store.tables import seal_keys

CHUNK: Final = 500


@dataclass(frozen=True)
class SealKeyRow:
    """`content`: the key's bytes once they were asked for."""

    aggregator: str
    content: bytes | None


# Asked in every round: made once, and so compiled once.
_KEEP = (
    update(seal_keys)
    .where(seal_keys.c.hash == bindparam("of_hash"), seal_keys.c.kept_until < bindparam("until"))
    .values(kept_until=bindparam("until"))
)
_FORGET = delete(seal_keys).where(seal_keys.c.kept_until < bindparam("before"))
_SEAL_KEY = select(seal_keys.c.aggregator, seal_keys.c.content).where(
    seal_keys.c.hash == bindparam("of_hash")
)


async def expect_seal_keys(
    transaction: Transaction, keys: Iterable[tuple[bytes, str]], until: datetime
) -> None:
    """Hashes of seal keys and their aggregators, which curators may ask for until then. The caller
    holds the ledger's lock, so nobody else adds the same."""
    for key_hash, aggregator in keys:
        done = await transaction.execute(_KEEP, {"of_hash": key_hash, "until": until})
        if done.rowcount or await seal_key(transaction, key_hash) is not None:
            continue
        await transaction.execute(
            insert(seal_keys).values(hash=key_hash, aggregator=aggregator, kept_until=until)
        )


async def forget_seal_keys(transaction: Transaction, before: datetime) -> None:
    """Those of rounds that are over."""
    await transaction.execute(_FORGET, {"before": before})


async def seal_key(transaction: Transaction, key_hash: bytes) -> SealKeyRow | None:
    """A seal key that a round names."""
    row = (await transaction.execute(_SEAL_KEY, {"of_hash": key_hash})).first()
    return None if row is None else SealKeyRow(row.aggregator, row.content)


async def keep_seal_key(transaction: Transaction, key_hash: bytes, content: bytes) -> None:
    """Keep a key that was compared with its hash."""
    await transaction.execute(
        update(seal_keys).where(seal_keys.c.hash == key_hash).values(content=content)
    )
