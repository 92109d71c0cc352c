"""Datasets from their arrival to their deletion: received, looked at, kept with a ledger, opened.

A content is sealed while it arrives, read back and validated, and becomes a dataset in one
transaction with its ledger; until then, and if anything is wrong, there is nothing of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from common.datasets.compression import Limits
from common.datasets.kinds import Kind, WrongKind, kind_of, read
from common.datasets.reading import TooManyRows
from common.datasets.universe import Universe
from common.models.dataset import DatasetDeclaration, DatasetReference, DatasetRequest
from common.service.clock import Clock, uuid7
from common.service.database import exclusive, reading
from coordinator.datasets import ledger
from coordinator.datasets.content import Checked, Vault
from coordinator.errors import DatasetInUse, DatasetRefused, LedgerConflict, UnknownDataset
from coordinator.settings import CoordinatorSettings
from coordinator.storage_key import StorageKey
from coordinator.store import datasets as store
from coordinator.store.datasets import DatasetRow, LedgerRow

CONTENT: Final = "dataset content"
LOCK: Final = "datasets"
ABANDONED_S: Final = 3600.0
TAXONOMY: Final = "taxonomy"
"""The parameter that takes the groups of a list of items, not the items."""
"""A content that belongs to no dataset and was not written to for so long is removed."""


class Datasets:
    """What one process needs to hold datasets."""

    def __init__(
        self,
        engine: AsyncEngine,
        key: StorageKey,
        directory: Path,
        clock: Clock,
        settings: CoordinatorSettings,
    ) -> None:
        limits = Limits(settings.dataset_max_bytes, settings.dataset_max_ratio)
        self.engine, self.clock, self.settings = engine, clock, settings
        self.vault = Vault(directory, key, limits)
        self._key = key
        self._one_at_a_time = asyncio.Semaphore(1)

    def new_id(self) -> str:
        """The id of a dataset to be; its content is sealed under it."""
        return str(uuid7(self.clock))

    async def find(self, connection: AsyncConnection, dataset_id: str) -> DatasetRow:
        """A dataset that is kept. Raises UnknownDataset."""
        row = await store.find(connection, dataset_id)
        if row is None or row.deleted is not None:
            raise UnknownDataset(extra={"dataset": dataset_id})
        return row

    async def ever(self, connection: AsyncConnection, dataset_id: str) -> DatasetRow:
        """A dataset that is or was kept. Raises UnknownDataset."""
        row = await store.find(connection, dataset_id)
        if row is None:
            raise UnknownDataset(extra={"dataset": dataset_id})
        return row

    def open_content(self, row: DatasetRow) -> BinaryIO:
        """The plain content, as `common.datasets.kinds.read` takes it. Blocks while it is read."""
        return self.vault.open(row.id, row.parts)

    async def declaration(self, connection: AsyncConnection, row: DatasetRow) -> DatasetDeclaration:
        """A dataset's declaration with its universe, where that is another dataset."""
        return await self.resolved(connection, row.declaration)

    async def resolved(
        self, connection: AsyncConnection, declaration: DatasetDeclaration
    ) -> DatasetDeclaration:
        """The same declaration with the items themselves. Raises UnknownDataset, WrongKind."""
        if not isinstance(declaration.universe, DatasetReference):
            return declaration
        items = await self._list(connection, declaration.universe, "/universe/dataset")
        return declaration.model_copy(update={"universe": items})

    async def lists(
        self, connection: AsyncConnection, params: Mapping[str, Any]
    ) -> dict[str, tuple[str, ...]]:
        """The public lists that parameters (as JSON) name as datasets, by parameter: the items,
        or for a taxonomy the group of each.

        Raises UnknownDataset, WrongKind.
        """
        found: dict[str, tuple[str, ...]] = {}
        for name, value in params.items():
            if isinstance(value, dict) and set(value) == {"dataset"}:
                named = DatasetReference.model_validate(value)
                found[name] = await self._list(
                    connection, named, f"/params/{name}/dataset", groups=name == TAXONOMY
                )
        return found

    async def _list(
        self,
        connection: AsyncConnection,
        named: DatasetReference,
        pointer: str,
        *,
        groups: bool = False,
    ) -> tuple[str, ...]:
        row = await self.find(connection, named.dataset)
        if row.kind != "universe":
            raise WrongKind("a dataset of kind universe is expected", pointer=pointer)
        found = await asyncio.to_thread(self._universe, row)
        if not groups:
            return found.items
        if found.groups is None:
            raise WrongKind("its items are in no groups", pointer=pointer)
        return found.groups

    async def check(self, dataset_id: str, request: DatasetRequest, sent: set[str]) -> Checked:
        """Look at a content that arrived; one at a time, in a thread.

        Raises what the readers raise, WrongKind, DatasetRefused.
        """
        self.check_request(request)
        async with reading(self.engine) as connection:
            declaration = await self.resolved(connection, request.declaration())
        async with self._one_at_a_time:
            checked = await asyncio.to_thread(self.vault.check, dataset_id, declaration, sent)
        most = self.settings.dataset_max_rows
        if checked.outline.get("rows", 0) > most:
            raise TooManyRows(f"at most {most} rows", extra={"max_rows": most})
        return checked

    def check_request(self, request: DatasetRequest) -> Kind:
        """What can be said before any content arrives. Raises WrongKind, DatasetRefused."""
        kind = kind_of(request)
        if request.privacy_unit is not None and request.privacy_unit not in _units(kind):
            raise DatasetRefused(
                f"the kind {kind.name} does not have this unit",
                pointer="/privacy_unit",
                extra={"units": list(_units(kind))},
            )
        if not kind.budgeted and request.budget is not None:
            raise DatasetRefused(f"the kind {kind.name} has no budget", pointer="/budget")
        return kind

    async def add(
        self,
        connection: AsyncConnection,
        dataset_id: str,
        request: DatasetRequest,
        checked: Checked,
    ) -> DatasetRow:
        """Keep a checked content: its row, its ledger and the ledger's event, in the caller's
        transaction. Raises UnknownDataset for the revision, LedgerConflict."""
        kind, now = kind_of(request), self.clock.now()
        unit = request.privacy_unit or kind.default_privacy_unit
        await exclusive(connection, LOCK)
        continued = await self._continued(connection, request)
        ledger_id = None
        if kind.budgeted:
            assert unit is not None
            ledger_id = (await self._ledger(connection, checked, unit, continued)).id
        row = DatasetRow(
            id=dataset_id,
            name=request.name,
            declaration=request.declaration(),
            privacy_unit=unit,
            purpose=request.purpose,
            revision_of=request.revision_of,
            ledger_id=ledger_id,
            parts=checked.parts,
            bytes=checked.bytes,
            outline=checked.outline,
            created=now,
        )
        await store.add(connection, row)
        if ledger_id is not None:
            await ledger.declare(
                connection, row.id, request.budget, request.purpose, request.revision_of, now
            )
        return row

    async def delete(self, dataset_id: str) -> None:
        """Forget a dataset and its content; the ledger stays, and knows the content again.

        Raises UnknownDataset, DatasetInUse.
        """
        now = self.clock.now()
        async with self.engine.begin() as connection:
            await exclusive(connection, LOCK)
            row = await self.find(connection, dataset_id)
            if row.ledger_id is not None:
                jobs = await ledger.open_jobs(connection, dataset_id)
                if jobs:
                    raise DatasetInUse(extra={"jobs": jobs[:10]})
                await ledger.deleted(connection, dataset_id, now)
            await store.mark_deleted(connection, dataset_id, now)
        await asyncio.to_thread(self.vault.remove, dataset_id)

    async def tidy(self) -> None:
        """Remove contents that never became a dataset, or whose deletion was cut short."""
        async with reading(self.engine) as connection:
            live = await store.live_ids(connection)
        await asyncio.to_thread(self._remove_others, lambda name: name in live)

    def _remove_others(self, keeps: Callable[[str], bool]) -> None:
        if not self.vault.directory.is_dir():
            return
        now = self.clock.now().timestamp()
        for path in self.vault.directory.iterdir():
            written = max((part.stat().st_mtime for part in (path, *path.glob("*"))), default=0.0)
            if not keeps(path.name) and now - written > ABANDONED_S:
                self.vault.remove(path.name)

    def _universe(self, row: DatasetRow) -> Universe:
        with self.open_content(row) as stream:
            found: Universe = read(row.declaration, stream)
        return found

    async def _continued(
        self, connection: AsyncConnection, request: DatasetRequest
    ) -> DatasetRow | None:
        """The dataset that this one revises; a deleted one may be named too."""
        if request.revision_of is None:
            return None
        row = await store.find(connection, request.revision_of)
        if row is None:
            raise UnknownDataset(pointer="/revision_of", extra={"dataset": request.revision_of})
        if row.ledger_id is None or row.kind != request.kind:
            raise DatasetRefused(
                "a revision is of the same kind, and has a ledger to continue",
                pointer="/revision_of",
            )
        return row

    async def _ledger(
        self,
        connection: AsyncConnection,
        checked: Checked,
        unit: str,
        continued: DatasetRow | None,
    ) -> LedgerRow:
        hashed = self._key.keyed_hash(CONTENT, checked.digest)
        known = await store.ledger_by_content(connection, hashed)
        if known is not None and known.privacy_unit != unit and not checked.outline["rows"]:
            # A content without rows is nobody's data: each unit counts its own.
            hashed = self._key.keyed_hash(CONTENT, checked.digest + unit.encode())
            known = await store.ledger_by_content(connection, hashed)
        if known is None:
            if continued is not None and continued.ledger_id is not None:
                found = await store.ledger(connection, continued.ledger_id)
            else:
                found = await store.add_ledger(connection, self.new_id(), unit)
            await store.add_content(connection, hashed, found.id)
        else:
            found = known
            if continued is not None and continued.ledger_id != known.id:
                raise LedgerConflict(
                    "the same content has another ledger than the dataset it should revise",
                    pointer="/revision_of",
                )
        if found.privacy_unit != unit:
            raise LedgerConflict(
                f"the same content was handed in before, and its ledger counts the unit "
                f"{found.privacy_unit}: one that counts {unit} beside it would be spent twice. "
                f"Hand it in as a kind, or with a privacy_unit, that counts {found.privacy_unit}",
                pointer="/privacy_unit",
                extra={"privacy_unit": found.privacy_unit},
            )
        return found


def _units(kind: Kind) -> tuple[str, ...]:
    default = () if kind.default_privacy_unit is None else (kind.default_privacy_unit,)
    return tuple(dict.fromkeys((*default, *kind.units)))
