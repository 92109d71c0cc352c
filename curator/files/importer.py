"""Takes a file in: recognises it, reads it to its end, and then stores what it holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import Final

from common.principals import Principal
from common.runtime.process import give_back
from curator.errors import BadImport
from curator.files import recognise as looks
from curator.files.devices.dsmr import DsmrReader
from curator.files.devices.home_assistant import HomeAssistantReader
from curator.files.devices.iec62056 import IecReader
from curator.files.devices.influx import InfluxReader
from curator.files.devices.senml import SenmlReader
from curator.files.encoding import Decoder
from curator.files.market.green_button import FeedImport
from curator.files.market.mscons import MsconsReader
from curator.files.market.nem12 import NemImport
from curator.files.market.nem13 import Nem13Reader
from curator.files.metered import MeterImport, MeterMap, MeterReader
from curator.files.options import ImportOptions
from curator.files.recognise import Recognised, recognise
from curator.files.storing import IN_MEMORY, FileImport, ReadingStore, Waiting
from curator.files.tables.csv_import import Import
from curator.files.upload import Imports, Progress, plain_chunks
from curator.settings import CuratorSettings

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


class Spool:
    """A file that can be read several times. It has no name, so it disappears with the process."""

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
        """Read a file to its end.

        `xml`: its media type is Green Button's; options may override it. Raises Invalid or
        BadImport for an invalid map; and BadImport, which then shows the progress, for a file
        that does not fit the map or is damaged, of which nothing is stored.
        """
        progress = self.imports.begin(options.import_id)
        spool = Spool(self.settings)
        waiting = Waiting(self.intake, self.settings.data_dir)
        await self.intake.look()
        try:
            await spool.fill(chunks)
            recognised = await self._recognised(spool, options, xml=xml)
            progress.taken_for = recognised.words
            options = options.filled({**recognised.parameters, "form": recognised.form})
            work = self._work(options, waiting, caller, progress)
            await work.run(spool.chunks())
            await waiting.store(progress)
            progress.state = "done"
        except BadImport as error:
            progress.state = "failed"
            extra = {**error.extra, "import": progress.answer().model_dump(exclude_unset=True)}
            raise BadImport(error.detail, pointer=error.pointer or "", extra=extra) from None
        except BaseException:
            progress.state = "failed"
            raise
        finally:
            spool.close()
            waiting.close()
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
        parameters = options.given
        if xml and options.form is None:
            parameters["form"] = "green-button"
        return recognise(text, parameters)

    def _work(
        self, options: ImportOptions, waiting: Waiting, caller: Principal, progress: Progress
    ) -> FileImport:
        settings, store = self.settings, self.intake
        if options.form == "green-button":
            return FeedImport(store, waiting, settings, options.feed_map(), caller, progress)
        if options.form == "nem12":
            return NemImport(store, waiting, settings, options.nem_map(), caller, progress)
        if options.form in READERS:
            mapping = options.meter_map()
            reader = READERS[options.form](mapping)
            return MeterImport(store, waiting, settings, mapping, caller, progress, reader)
        return Import(store, waiting, settings, options.column_map(), caller, progress)
