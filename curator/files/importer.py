"""Takes a file in: recognises it, checks a large one before anything is stored, and imports it.

The file waits in a temporary file without a name, so that it can be read twice: an import that
would store before it has read to the end reads the whole file once before. So nothing is stored of
a damaged file.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import Final

import numpy as np

from common.principals import Principal
from common.runtime.process import give_back
from curator.errors import BadImport
from curator.files import recognise as looks
from curator.files.csv_import import Import
from curator.files.dsmr import DsmrReader
from curator.files.encoding import Decoder
from curator.files.green_button import FeedImport
from curator.files.home_assistant import HomeAssistantReader
from curator.files.iec62056 import IecReader
from curator.files.influx import InfluxReader
from curator.files.metered import MeterImport, MeterMap, MeterReader
from curator.files.mscons import MsconsReader
from curator.files.nem12 import NemImport
from curator.files.nem13 import Nem13Reader
from curator.files.options import ImportOptions
from curator.files.recognise import Recognised, recognise
from curator.files.senml import SenmlReader
from curator.files.storing import Columns, FileImport, ReadingStore
from curator.files.upload import Imports, Progress, plain_chunks
from curator.intake.intake import Status
from curator.intake.reading import Times
from curator.settings import CuratorSettings

IN_MEMORY: Final = 4 << 20
"""Bytes of a file that wait in memory."""
READ: Final = 1 << 20
READERS: Final[dict[str, Callable[[MeterMap], MeterReader]]] = {
    "dsmr": DsmrReader,
    "iec62056": IecReader,
    "nem13": Nem13Reader,
    "mscons": MsconsReader,
    "senml": SenmlReader,
    "influx": InfluxReader,
    "home-assistant": HomeAssistantReader,
}


class Nowhere:
    """The store of the first pass over a large file: it knows curators, and stores nothing."""

    def __init__(self, store: ReadingStore) -> None:
        self._store = store

    @property
    def times(self) -> Times:
        """As in the store."""
        return self._store.times

    async def look(self) -> None:
        """Nothing is loaded again."""

    def hosts(self, name: str) -> bool:
        """As in the store."""
        return self._store.hosts(name)

    def curator_of(self, named: str | None, caller: Principal) -> tuple[int, str]:
        """As in the store."""
        return self._store.curator_of(named, caller)

    def curators_of(self, names: Sequence[str], caller: Principal) -> dict[str, int]:
        """As in the store."""
        return self._store.curators_of(names, caller)

    async def make_devices(self, wanted: Sequence[tuple[int, str]]) -> dict[tuple[int, str], int]:
        """No device is made."""
        return dict.fromkeys(wanted, 0)

    async def store_columns(self, columns: Columns, register: str, unit: str) -> Counter[Status]:  # noqa: ARG002
        """Nothing is stored."""
        return Counter()

    async def store_totals(
        self,
        columns: Columns,  # noqa: ARG002
        register: str,  # noqa: ARG002
        unit: str,  # noqa: ARG002
        rollover: int | None,  # noqa: ARG002
    ) -> Counter[Status]:
        """Nothing is stored."""
        return Counter()

    async def count_rejected(self, counts: Counter[int], rows: int) -> None:
        """Nothing is counted."""


class Checked(Nowhere):
    """The store of an import. Before it stores anything of a file that is not read to its end,
    `check` reads the whole file, and raises BadImport where it is damaged. Until then devices have
    numbers of this import."""

    def __init__(self, store: ReadingStore, check: Callable[[], Awaitable[None]]) -> None:
        super().__init__(store)
        self._check: Callable[[], Awaitable[None]] | None = check
        self._numbers: dict[tuple[int, str], int] = {}
        self._keys = np.zeros(0, np.int64)

    async def _ready(self, columns: Columns) -> Columns:
        """Readings with the keys of their devices, which are made, sorted by time and device."""
        if self._check is not None:
            check, self._check = self._check, None
            await check()
        new = list(self._numbers)[self._keys.size :]
        if new:
            made = await self._store.make_devices(new)
            keys = np.array([made[device] for device in new], np.int64)
            self._keys = np.concatenate([self._keys, keys])
        times, devices = columns[0], self._keys[columns[1]]
        if (np.diff(self._keys) > 0).all():  # as all new ones have: the order stays
            return times, devices, columns[2], columns[3]
        order = np.lexsort((devices, times))
        return times[order], devices[order], columns[2][order], columns[3][order]

    async def make_devices(self, wanted: Sequence[tuple[int, str]]) -> dict[tuple[int, str], int]:
        """A number for each; it is made with its first reading."""
        numbers = self._numbers
        return {device: numbers.setdefault(device, len(numbers)) for device in wanted}

    async def store_columns(self, columns: Columns, register: str, unit: str) -> Counter[Status]:
        """As in the store, after the check."""
        return await self._store.store_columns(await self._ready(columns), register, unit)

    async def store_totals(
        self, columns: Columns, register: str, unit: str, rollover: int | None
    ) -> Counter[Status]:
        """As in the store, after the check."""
        ready = await self._ready(columns)
        return await self._store.store_totals(ready, register, unit, rollover)

    async def count_rejected(self, counts: Counter[int], rows: int) -> None:
        """As in the store."""
        await self._store.count_rejected(counts, rows)


class Spool:
    """A file that can be read several times. Without a name, so gone with the process."""

    def __init__(self, settings: CuratorSettings) -> None:
        directory = str(settings.data_dir) if settings.data_dir.is_dir() else None
        self._file = SpooledTemporaryFile(IN_MEMORY, dir=directory)  # noqa: SIM115 - until `close`

    async def fill(self, chunks: AsyncIterator[bytes]) -> None:
        """Take the bytes as they arrive."""
        async for chunk in chunks:
            await asyncio.to_thread(self._file.write, chunk)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The bytes, from the beginning."""
        at = 0
        while data := await asyncio.to_thread(self._read, at):
            at += len(data)
            yield data

    def _read(self, at: int) -> bytes:
        self._file.seek(at)
        return self._file.read(READ)

    def close(self) -> None:
        """Give the space back."""
        self._file.close()


@dataclass(frozen=True)
class Importer:
    """Imports files into a store; `imports` reports their progress."""

    intake: ReadingStore
    settings: CuratorSettings
    imports: Imports

    async def take(
        self, chunks: AsyncIterator[bytes], options: ImportOptions, caller: Principal, *, xml: bool
    ) -> Progress:
        """Read a file to its end. `xml`: its media type is Green Button's; options may override it.

        Raises Invalid or BadImport for a map that means nothing, and BadImport, which then shows
        the progress, for a file that is none of this map or damaged, of which nothing is stored.
        """
        progress = self.imports.begin(options.import_id)
        spool = Spool(self.settings)
        await self.intake.look()
        try:
            await spool.fill(chunks)
            found = await self._recognised(spool, options, xml=xml)
            progress.taken_for = found.words
            options = options.filled({**found.parameters, "form": found.form})

            async def check() -> None:
                if not work.whole:
                    scratch = Progress(progress.id, 0)
                    first = self._work(options, Nowhere(self.intake), caller, scratch)
                    await first.check(spool.chunks())

            work = self._work(options, Checked(self.intake, check), caller, progress)
            await work.run(spool.chunks())
        except BadImport as error:
            progress.state = "failed"
            extra = {**error.extra, "import": progress.answer().model_dump(exclude_unset=True)}
            raise BadImport(error.detail, pointer=error.pointer or "", extra=extra) from None
        except BaseException:
            progress.state = "failed"
            raise
        finally:
            spool.close()
            await asyncio.to_thread(give_back)
        return progress

    async def _recognised(self, spool: Spool, options: ImportOptions, *, xml: bool) -> Recognised:
        settings, head = self.settings, b""
        plain = plain_chunks(
            spool.chunks(), settings.import_max_plain_bytes, settings.import_max_ratio
        )
        async for piece in plain:
            head += piece
            if len(head) >= looks.HEAD_BYTES:
                break
        named = options.encoding if options.form in (None, "csv") else None
        try:
            decoder = Decoder(named)
        except ValueError:
            options.column_map()  # which refuses it
            raise
        text = decoder.feed(head[: looks.HEAD_BYTES], last=len(head) < looks.HEAD_BYTES)
        given = options.given
        if xml and options.form is None:
            given["form"] = "green-button"
        return recognise(text, given)

    def _work(
        self, options: ImportOptions, store: ReadingStore, caller: Principal, progress: Progress
    ) -> FileImport:
        settings = self.settings
        if options.form == "green-button":
            return FeedImport(store, settings, options.feed_map(), caller, progress)
        if options.form == "nem12":
            return NemImport(store, settings, options.nem_map(), caller, progress)
        if options.form in READERS:
            mapping = options.meter_map()
            reader = READERS[options.form](mapping)
            return MeterImport(store, settings, mapping, caller, progress, reader)
        return Import(store, settings, options.column_map(), caller, progress)
