"""The rows of datasets: what is kept, the ledgers, and which content belongs to which ledger."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, delete, insert, select, update

from algorithms.datasets.declaration import DatasetDeclaration
from common.store.transactions import Transaction
from coordinator.models.budget_ledger import DatasetEvent, EventKind, dataset_genesis
from coordinator.store.tables import (
    dataset_contents,
    dataset_events,
    dataset_ledgers,
    datasets,
)


@dataclass(frozen=True)
class DatasetRow:
    """A dataset. `outline`: columns and row count, for operators; `parts`: name and plain bytes
    of each file. `ledger_id`: none for kinds without a budget. A deleted one has no name,
    outline or content."""

    id: str
    name: str
    declaration: DatasetDeclaration
    privacy_unit: str | None
    purpose: str
    revision_of: str | None
    ledger_id: str | None
    parts: Mapping[str, int]
    bytes: int
    outline: dict[str, Any]
    created: datetime
    deleted: datetime | None = None

    @property
    def kind(self) -> str:
        return self.declaration.kind


@dataclass(frozen=True)
class LedgerRow:
    """A ledger with the number and hash of its newest event."""

    id: str
    privacy_unit: str
    seq: int
    head: bytes


# --- datasets ------------------------------------------------------------------------------------


async def add(transaction: Transaction, row: DatasetRow) -> None:
    """Keep a new dataset."""
    values = {name: getattr(row, name) for name in DatasetRow.__dataclass_fields__}
    values |= {
        "declaration": row.declaration.model_dump_json(),
        "kind": row.kind,
        "parts": json.dumps(dict(row.parts)),
        "outline": json.dumps(row.outline),
    }
    await transaction.execute(insert(datasets).values(**values))


async def find(transaction: Transaction, dataset_id: str) -> DatasetRow | None:
    """A dataset by its id, deleted or not."""
    result = await transaction.execute(select(datasets).where(datasets.c.id == dataset_id))
    row = result.first()
    return None if row is None else _dataset(row)


async def page(
    transaction: Transaction, after: str | None, limit: int, kind: str | None = None
) -> list[DatasetRow]:
    """Datasets that are kept, oldest first."""
    chosen = select(datasets).where(datasets.c.deleted.is_(None)).order_by(datasets.c.id)
    if kind is not None:
        chosen = chosen.where(datasets.c.kind == kind)
    if after is not None:
        chosen = chosen.where(datasets.c.id > after)
    return [_dataset(row) for row in await transaction.execute(chosen.limit(limit))]


async def live_ids(transaction: Transaction) -> set[str]:
    """All datasets that are kept."""
    rows = await transaction.execute(select(datasets.c.id).where(datasets.c.deleted.is_(None)))
    return {row.id for row in rows}


async def mark_deleted(transaction: Transaction, dataset_id: str, now: datetime) -> None:
    """Mark a dataset as deleted and clear its description; its row and its ledger stay."""
    row = await find(transaction, dataset_id)
    if row is None:
        return
    declared = DatasetDeclaration(kind=row.declaration.kind, format=row.declaration.format)
    await transaction.execute(
        update(datasets)
        .where(datasets.c.id == dataset_id)
        .values(
            deleted=now,
            name="",
            outline="{}",
            bytes=0,
            declaration=declared.model_dump_json(),
        )
    )


def _dataset(row: Row[Any]) -> DatasetRow:
    values = dict(row._mapping)
    del values["kind"]
    values["declaration"] = DatasetDeclaration.model_validate_json(values["declaration"])
    values["parts"] = json.loads(values["parts"])
    values["outline"] = json.loads(values["outline"])
    return DatasetRow(**values)


# --- ledgers -------------------------------------------------------------------------------------


async def ledger_by_content(transaction: Transaction, keyed_hash: bytes) -> LedgerRow | None:
    """The ledger that a content once had."""
    result = await transaction.execute(
        select(dataset_ledgers)
        .join(dataset_contents, dataset_contents.c.ledger_id == dataset_ledgers.c.id)
        .where(dataset_contents.c.keyed_hash == keyed_hash.hex())
    )
    row = result.first()
    return None if row is None else LedgerRow(**row._mapping)


async def ledger(transaction: Transaction, ledger_id: str) -> LedgerRow:
    """A ledger that is known to be there."""
    result = await transaction.execute(
        select(dataset_ledgers).where(dataset_ledgers.c.id == ledger_id)
    )
    return LedgerRow(**result.one()._mapping)


async def ledger_of(
    transaction: Transaction, dataset_id: str, *, lock: bool = False
) -> LedgerRow | None:
    """A dataset's ledger, also of a deleted one; `lock` holds its row until the transaction ends
    (a transaction of SQLite that writes holds the whole store anyway)."""
    chosen = (
        select(dataset_ledgers)
        .join(datasets, datasets.c.ledger_id == dataset_ledgers.c.id)
        .where(datasets.c.id == dataset_id)
    )
    if lock:
        chosen = chosen.with_for_update(of=dataset_ledgers)
    row = (await transaction.execute(chosen)).first()
    return None if row is None else LedgerRow(**row._mapping)


async def add_ledger(transaction: Transaction, ledger_id: str, privacy_unit: str) -> LedgerRow:
    """A new ledger without events."""
    row = LedgerRow(ledger_id, privacy_unit, 0, dataset_genesis(ledger_id))
    await transaction.execute(insert(dataset_ledgers).values(**asdict(row)))
    return row


async def add_content(transaction: Transaction, keyed_hash: bytes, ledger_id: str) -> None:
    """Remember, also after its deletion, which ledger a content has."""
    await transaction.execute(
        insert(dataset_contents).values(keyed_hash=keyed_hash.hex(), ledger_id=ledger_id)
    )


async def rename_content(transaction: Transaction, before: bytes, now: bytes) -> None:
    """Store a content's keyed hash under a new key, if it is known under the earlier one."""
    existing = await ledger_by_content(transaction, before)
    if existing is None:
        return
    hash_column = dataset_contents.c.keyed_hash
    await transaction.execute(delete(dataset_contents).where(hash_column == before.hex()))
    if await ledger_by_content(transaction, now) is None:
        await add_content(transaction, now, existing.id)


async def events(transaction: Transaction, ledger_id: str) -> list[DatasetEvent]:
    """A whole ledger, oldest first."""
    rows = await transaction.execute(
        select(dataset_events)
        .where(dataset_events.c.ledger_id == ledger_id)
        .order_by(dataset_events.c.seq)
    )
    return [
        DatasetEvent(
            row.seq,
            row.time,
            EventKind(row.kind),
            row.dataset_id,
            row.job_id,
            json.loads(row.payload),
            row.previous,
            row.hash,
        )
        for row in rows
    ]


async def append(transaction: Transaction, ledger_id: str, event: DatasetEvent) -> None:
    """Write an event and the new head; the database refuses a number that is taken."""
    await transaction.execute(
        insert(dataset_events).values(
            ledger_id=ledger_id,
            seq=event.seq,
            time=event.time,
            kind=event.kind.value,
            dataset_id=event.dataset_id,
            job_id=event.job_id,
            payload=json.dumps(dict(event.payload)),
            previous=event.previous,
            hash=event.hash,
        )
    )
    await transaction.execute(
        update(dataset_ledgers)
        .where(dataset_ledgers.c.id == ledger_id)
        .values(seq=event.seq, head=event.hash)
    )
