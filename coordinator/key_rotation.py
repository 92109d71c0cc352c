"""Rotation of the storage key: passes that seal everything again, and the operator's routes.

Spec: keys, section 5.4. What is sealed names its generation, so the data is the cursor: after a
kill a pass begins again, until nothing needs the previous key.
"""

from __future__ import annotations

import asyncio

from common.runtime.logs import describe, get_logger
from common.runtime.tasks import Repeating
from common.store.leader import Leader
from common.store.transactions import Database
from coordinator import storage_keys
from coordinator.datasets.datasets import Datasets
from coordinator.jobs.results import Results
from coordinator.storage_keys import FILE_NAME, StorageKeys, seed_purpose
from coordinator.store import datasets as dataset_store
from coordinator.store import jobs as job_store
from coordinator.store import registry as store
from coordinator.store.datasets import DatasetRow
from coordinator.store.registry import Rotation
from tacit.answers.registry import StorageKeyState

LOOK_S = 5.0
_PAGE = 500
_log = get_logger("tacit.resealing")


class Resealing(Repeating):
    """Advances a rotation, in the process that leads: it encrypts again what an older key
    encrypted, then ends the rotation."""

    def __init__(
        self, database: Database, keys: StorageKeys, datasets: Datasets, results: Results
    ) -> None:
        self._leader = Leader(database, "resealing", _nothing, _nothing)
        super().__init__("resealing", _log, LOOK_S)
        self._database, self._keys = database, keys
        self._datasets, self._results = datasets, results

    async def start_leading(self) -> None:
        """Start, and pass once this process leads."""
        await self._leader.start()
        self.start()

    async def stop(self) -> None:
        """Stop; the next start, in any process, continues with what is still under an older key."""
        await super().stop()
        await self._leader.stop()

    async def look(self) -> None:
        """Make one pass, as the state of the rotation demands; nothing if none is in progress."""
        if not self._leader.leads:
            return
        async with self._database.reading() as transaction:
            row = await self._keys.refresh(transaction)
        if row.state is Rotation.IDLE:
            return
        await self._pass()
        if await self.left():
            return
        if row.state is Rotation.SEALING:
            await storage_keys.clean_rotation(self._database, row.generation)
            self.wake()  # one more pass over what was accepted until then
        else:
            await storage_keys.finish_rotation(self._database, self._keys, row.generation)
            _log.info("storage_key_rotated", generation=row.generation)

    async def left(self) -> int:
        """How many contents, evaluations, seeds and attempts still need an older key."""
        older = 0
        for row in await self._live():
            older += not await asyncio.to_thread(self._is_current, row)
        for job_id in await asyncio.to_thread(self._results.sealed):
            older += not await asyncio.to_thread(self._results.is_current, job_id)
        async with self._database.reading() as transaction:
            seeds = await job_store.seeds(transaction)
            attempts = await job_store.live_attempts(transaction)
        older += sum(not self._keys.is_current(sealed) for sealed in seeds.values())
        return older + sum(item.generation < self._keys.generation for item in attempts)

    async def _pass(self) -> None:
        for row in await self._live():
            if self._pauses.ending:
                return
            try:
                await self._datasets.reseal(row)
            except Exception as error:  # the others continue; this one counts as left
                _log.error("not_sealed_anew", dataset=row.id, **describe(error))
        for job_id in await asyncio.to_thread(self._results.sealed):
            try:
                await asyncio.to_thread(self._results.reseal, job_id)
            except Exception as error:
                _log.error("not_sealed_anew", job=job_id, **describe(error))
        await self._reseal_seeds()

    async def _reseal_seeds(self) -> None:
        async with self._database.reading() as transaction:
            seeds = await job_store.seeds(transaction)
        for job_id, sealed in seeds.items():
            if not self._keys.is_current(sealed):
                purpose = seed_purpose(job_id)
                anew = self._keys.seal(purpose, self._keys.open(purpose, sealed))
                async with self._database.begin() as transaction:
                    await job_store.reseal_seed(transaction, job_id, sealed, anew)

    async def _live(self) -> list[DatasetRow]:
        live_rows: list[DatasetRow] = []
        while True:
            after = live_rows[-1].id if live_rows else None
            async with self._database.reading() as transaction:
                page = await dataset_store.page(transaction, after, _PAGE)
            live_rows += page
            if len(page) < _PAGE:
                return live_rows

    def _is_current(self, row: DatasetRow) -> bool:
        try:
            found = self._datasets.vault.generation(row.id, row.parts)
        except FileNotFoundError:  # deleted meanwhile
            return True
        return found == self._keys.generation


async def _nothing() -> None:
    """The loop itself checks which process leads."""


async def status(database: Database, resealing: Resealing, keys: StorageKeys) -> StorageKeyState:
    """How far a rotation has come, for its operator."""
    async with database.reading() as transaction:
        row = await store.state(transaction)
    place = "settings" if keys.source.given else FILE_NAME
    remaining = 0 if row.state is Rotation.IDLE else await resealing.left()
    return StorageKeyState(
        generation=row.generation,
        state=row.state.value,
        left=remaining,
        kept_in=place,
    )
