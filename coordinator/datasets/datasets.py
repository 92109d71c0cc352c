"""Datasets from their arrival to their deletion: received, validated, kept with a ledger, opened.

A content is sealed while it arrives, read back and validated, and becomes a dataset in one
transaction with its ledger; before that, or if any step fails, no dataset exists.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from algorithms.datasets.declaration import DatasetDeclaration, DatasetReference, DatasetRequest
from algorithms.datasets.kinds import Kind, WrongKind, kind_of, read
from algorithms.datasets.tables import Universe
from common.runtime.clock import Clock, uuid7
from common.store.database import exclusive
from common.store.transactions import Database, Transaction
from coordinator.datasets import ledger
from coordinator.datasets.upload import Checked, Vault
from coordinator.errors import DatasetInUse, DatasetRefused, LedgerConflict, UnknownDataset
from coordinator.settings import CoordinatorSettings
from coordinator.storage_keys import StorageKeys
from coordinator.store import datasets as store
from coordinator.store.datasets import DatasetRow, LedgerRow
from tacit.compression import Limits
from tacit.records.text_files import TooManyRows

LOCK: Final = "datasets"
ABANDONED_S: Final = 3600.0
"""A content that belongs to no dataset is removed when it was not written to for this long."""
TAXONOMY: Final = "taxonomy"
"""The parameter that takes the groups of a list of items, not the items."""


class Datasets:
    """What one process needs to hold datasets."""

    def __init__(
        self,
        database: Database,
        keys: StorageKeys,
        directory: Path,
        clock: Clock,
        settings: CoordinatorSettings,
    ) -> None:
        limits = Limits(settings.dataset_max_bytes, settings.dataset_max_ratio)
        self.database, self.clock, self.settings = database, clock, settings
        self.vault = Vault(directory, keys, limits)
        self.keys = keys
        self._one_at_a_time = asyncio.Semaphore(1)

    def new_id(self) -> str:
        """The id of a dataset to be; its content is sealed under it."""
        return str(uuid7(self.clock))

    async def find(self, transaction: Transaction, dataset_id: str) -> DatasetRow:
        """A dataset that is kept. Raises UnknownDataset."""
        row = await store.find(transaction, dataset_id)
        if row is None or row.deleted is not None:
            raise UnknownDataset(extra={"dataset": dataset_id})
        return row

    async def ever(self, transaction: Transaction, dataset_id: str) -> DatasetRow:
        """A dataset that is or was kept. Raises UnknownDataset."""
        row = await store.find(transaction, dataset_id)
        if row is None:
            raise UnknownDataset(extra={"dataset": dataset_id})
        return row

    def open_content(self, row: DatasetRow) -> BinaryIO:
        """The plain content, as `algorithms.datasets.kinds.read` takes it; blocks while read."""
        return self.vault.open(row.id, row.parts)

    async def declaration(self, transaction: Transaction, row: DatasetRow) -> DatasetDeclaration:
        """A dataset's declaration with its universe, if that is another dataset."""
        return await self.resolved(transaction, row.declaration)

    async def resolved(
        self, transaction: Transaction, declaration: DatasetDeclaration
    ) -> DatasetDeclaration:
        """The same declaration with the items themselves. Raises UnknownDataset, WrongKind."""
        if not isinstance(declaration.universe, DatasetReference):
            return declaration
        items = await self._list(transaction, declaration.universe, "/universe/dataset")
        return declaration.model_copy(update={"universe": items})

    async def lists(
        self, transaction: Transaction, params: Mapping[str, Any]
    ) -> dict[str, tuple[str, ...]]:
        """The public lists that parameters (as JSON) refer to as datasets, by parameter: the
        items, or for a taxonomy the group of each. Raises UnknownDataset, WrongKind."""
        lists_of: dict[str, tuple[str, ...]] = {}
        for name, value in params.items():
            if isinstance(value, dict) and set(value) == {"dataset"}:
                named = DatasetReference.model_validate(value)
                lists_of[name] = await self._list(
                    transaction, named, f"/params/{name}/dataset", groups=name == TAXONOMY
                )
        return lists_of

    async def _list(
        self,
        transaction: Transaction,
        named: DatasetReference,
        pointer: str,
        *,
        groups: bool = False,
    ) -> tuple[str, ...]:
        row = await self.find(transaction, named.dataset)
        if row.kind != "universe":
            raise WrongKind("a dataset of kind universe is expected", pointer=pointer)
        universe = await asyncio.to_thread(self._universe, row)
        if not groups:
            return universe.items
        if universe.groups is None:
            raise WrongKind("its items are in no groups", pointer=pointer)
        return universe.groups

    async def check(self, dataset_id: str, request: DatasetRequest, sent: set[str]) -> Checked:
        """Validate a received content, one at a time, in a thread. Raises what the readers
        raise, WrongKind, DatasetRefused."""
        self.check_request(request)
        async with self.database.reading() as transaction:
            declaration = await self.resolved(transaction, request.declaration())
        async with self._one_at_a_time:
            checked = await asyncio.to_thread(self.vault.check, dataset_id, declaration, sent)
        most = self.settings.dataset_max_rows
        if checked.outline.get("rows", 0) > most:
            raise TooManyRows(f"at most {most} rows", extra={"max_rows": most})
        return checked

    def check_request(self, request: DatasetRequest) -> Kind:
        """The checks that need no content. Raises WrongKind, DatasetRefused."""
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
        transaction: Transaction,
        dataset_id: str,
        request: DatasetRequest,
        checked: Checked,
    ) -> DatasetRow:
        """Store a checked content: its row, its ledger and the ledger's event, in the caller's
        transaction. Raises UnknownDataset for the revision, LedgerConflict."""
        kind, now = kind_of(request), self.clock.now()
        unit = request.privacy_unit or kind.default_privacy_unit
        await exclusive(transaction, LOCK)
        await self.keys.admit(transaction, checked.generation)
        continued = await self._continued(transaction, request)
        ledger_id = None
        if kind.budgeted:
            assert unit is not None
            ledger_id = (await self._ledger(transaction, checked, unit, continued)).id
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
        await store.add(transaction, row)
        if ledger_id is not None:
            await ledger.declare(
                transaction, row.id, request.budget, request.purpose, request.revision_of, now
            )
        return row

    async def delete(self, dataset_id: str) -> None:
        """Delete a dataset and its content; the ledger stays, and recognises the content if it
        is uploaded again. Raises UnknownDataset, DatasetInUse."""
        now = self.clock.now()
        async with self.database.begin() as transaction:
            await exclusive(transaction, LOCK)
            row = await self.find(transaction, dataset_id)
            if row.ledger_id is not None:
                jobs = await ledger.open_jobs(transaction, dataset_id)
                if jobs:
                    raise DatasetInUse(extra={"jobs": jobs[:10]})
                await ledger.deleted(transaction, dataset_id, now)
            await store.mark_deleted(transaction, dataset_id, now)
        await asyncio.to_thread(self.vault.remove, dataset_id)

    async def renew_key(self) -> None:
        """Read which storage key is current, before a content arrives. Raises
        StorageKeyUnavailable."""
        async with self.database.reading() as transaction:
            await self.keys.refresh(transaction)

    async def reseal(self, row: DatasetRow) -> bool:
        """Encrypt a content again with the current key; False if that was already so.

        Its keyed hash is renewed first, as a file's header shows that everything is done. Raises
        StorageKeyWrong.
        """
        try:
            if await asyncio.to_thread(self.vault.generation, row.id, row.parts) == (
                self.keys.generation
            ):
                return False
            _, digest = await asyncio.to_thread(self.vault.measure, row.id, row.parts)
            await self._know_anew(row, digest)
            await asyncio.to_thread(self.vault.reseal, row.id, row.parts)
        except FileNotFoundError:
            pass  # deleted meanwhile
        async with self.database.reading() as transaction:
            current = await store.find(transaction, row.id)
        if current is None or current.deleted is not None:
            await asyncio.to_thread(self.vault.remove, row.id)
        return True

    async def _know_anew(self, row: DatasetRow, digest: bytes) -> None:
        async with self.database.begin() as transaction:
            await exclusive(transaction, LOCK)
            for content in (digest, digest + (row.privacy_unit or "").encode()):
                now, *older = await self.keys.content_hashes(transaction, content)
                for before in older:
                    await store.rename_content(transaction, before, now)

    async def tidy(self) -> None:
        """Remove contents that never became a dataset, or whose deletion was interrupted."""
        async with self.database.reading() as transaction:
            live = await store.live_ids(transaction)
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
            universe: Universe = read(row.declaration, stream)
        return universe

    async def _continued(
        self, transaction: Transaction, request: DatasetRequest
    ) -> DatasetRow | None:
        """The dataset that this one revises; a deleted one may be named too."""
        if request.revision_of is None:
            return None
        row = await store.find(transaction, request.revision_of)
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
        transaction: Transaction,
        checked: Checked,
        unit: str,
        continued: DatasetRow | None,
    ) -> LedgerRow:
        """The ledger of a content: the one that it has, else the one that it continues, else a
        new one. Raises LedgerConflict."""
        hashed, existing = await self._known_ledger(transaction, checked, unit)
        ledger = existing or await self._ledger_for(transaction, unit, continued)
        if existing is None:
            await store.add_content(transaction, hashed, ledger.id)
        elif continued is not None and continued.ledger_id != existing.id:
            raise LedgerConflict(
                "the same content has another ledger than the dataset it should revise",
                pointer="/revision_of",
            )
        if ledger.privacy_unit != unit:
            raise LedgerConflict(
                f"the same content was handed in before, and its ledger counts the unit "
                f"{ledger.privacy_unit}: one that counts {unit} beside it would be spent twice. "
                f"Upload as a kind, or with a privacy_unit, that counts {ledger.privacy_unit}",
                pointer="/privacy_unit",
                extra={"privacy_unit": ledger.privacy_unit},
            )
        return ledger

    async def _known_ledger(
        self, transaction: Transaction, checked: Checked, unit: str
    ) -> tuple[bytes, LedgerRow | None]:
        """The keyed hash of a content, and the ledger that it has already."""
        hashed, existing = await self._found(transaction, checked.digest)
        if existing is not None and existing.privacy_unit != unit and not checked.outline["rows"]:
            # A content without rows holds no one's data: each unit counts its own.
            hashed, existing = await self._found(transaction, checked.digest + unit.encode())
        return hashed, existing

    async def _found(
        self, transaction: Transaction, digest: bytes
    ) -> tuple[bytes, LedgerRow | None]:
        """The current keyed hash, and the ledger that is known under that of any generation."""
        hashes = await self.keys.content_hashes(transaction, digest)
        for hashed in hashes:
            existing = await store.ledger_by_content(transaction, hashed)
            if existing is not None:
                return hashes[0], existing
        return hashes[0], None

    async def _ledger_for(
        self, transaction: Transaction, unit: str, continued: DatasetRow | None
    ) -> LedgerRow:
        """The ledger of a content that arrives for the first time."""
        if continued is not None and continued.ledger_id is not None:
            return await store.ledger(transaction, continued.ledger_id)
        return await store.add_ledger(transaction, self.new_id(), unit)


def _units(kind: Kind) -> tuple[str, ...]:
    default = () if kind.default_privacy_unit is None else (kind.default_privacy_unit,)
    return tuple(dict.fromkeys((*default, *kind.units)))
