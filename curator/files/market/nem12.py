"""NEM12 files: interval metering data of the Australian market, as readings.

    100 header   200 NMI, suffix, unit, minutes   300 a day's values   400 qualities   500, 900 end

Source: AEMO, Meter Data File Format Specification NEM12 & NEM13 (records 100 to 900, quality
flags, units of measure), and AEMO, National Metering Identifier procedure (suffixes). Its rules:

- A day is 24 hours of eastern standard time (UTC+10), without daylight saving: its values are those
  of 5, 15 or 30 minutes from 00:00 on, 288, 96 or 48 of them.
- Suffix E is what the customer takes from the network, B what it feeds in. Each suffix of an NMI is
  a device of its own. Other streams (reactive, demand) are reported by line and not taken.
- Quality of a day: A actual, E estimate, F final substitute, S substitute; N null: no value; V: the
  400 records that follow give the qualities of all its intervals, without a gap.
- The file begins with 100 and ends with 900; without these it is cut off and nothing is stored.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from typing import Annotated, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from common.principals import Principal
from common.runtime.clock import epoch_microseconds
from curator.errors import BadImport, BadItem, ForeignCurator, UnknownCurator
from curator.files import upload as files
from curator.files.encoding import as_utf8
from curator.files.market.green_button import FeedMap
from curator.files.storing import Booking, FileImport, ReadingStore, Waiting
from curator.files.tables import columns as csv_columns
from curator.files.tables.header import misplaced
from curator.files.upload import Progress
from curator.settings import CuratorSettings
from tacit.records.text_files import Lot, MalformedRow, Records, split
from tacit.units import Kind

Ints = NDArray[np.int64]
NEM_TIME: Final = timezone(timedelta(hours=10))
UNITS_OF_MEASURE: Final = {"WH": "Wh", "KWH": "kWh", "MWH": "MWh"}
REGISTERS: Final = {"E": "energy_import", "B": "energy_export"}
MINUTES: Final = frozenset((5, 15, 30))
TAKEN: Final = "A,E,F,S"
NULL: Final = "N"
VARYING: Final = "V"
_QUALITY: Final = re.compile(r"[AEFNSV](\d\d)?")
_NMI: Final = re.compile(r"[A-Z0-9]{10,11}")
_SUFFIX: Final = re.compile(r"[A-Z][A-Z0-9]")
_DATE: Final = re.compile(r"\d{8}")


class NemMap(FeedMap):
    """Which curator each NMI belongs to (`usage_points`: NMI to curator), and which qualities
    are accepted."""

    accept: Annotated[str, Field(max_length=200)] = TAKEN


@dataclass(frozen=True)
class Stream:
    """A 200 record: the readings of one suffix of an NMI."""

    line: int
    nmi: str
    device: str
    register: str
    unit: str
    minutes: int

    @property
    def count(self) -> int:
        """Intervals of a day."""
        return 1440 // self.minutes


@dataclass
class NemDay:
    """A 300 record: its line, the start of its day (microseconds since 1970), the cells of its
    values, and the quality of each interval, None if no record states it."""

    line: int
    begin: int
    cells: list[bytes]
    qualities: list[str | None]
    varies: bool


@dataclass
class NemFile:
    """All days by stream, and what cannot be read: (line, column, reason)."""

    streams: list[tuple[Stream, list[NemDay]]] = field(default_factory=list)
    faults: list[tuple[int, int | None, str]] = field(default_factory=list)
    lines: int = 0


class NemReader:
    """Reads records one after the other. Raises BadImport for a damaged file or another format."""

    def __init__(self) -> None:
        self.found = NemFile()
        self._begun = self._ended = self._inside = False
        self._day: NemDay | None = None

    def record(self, line: int, cells: Sequence[bytes]) -> None:
        """The next record."""
        self.found.lines = line
        texts = [cell.decode("utf-8", "replace").strip() for cell in (cells[0], *cells[1:12])]
        kind = texts[0]
        if not self._begun:
            if kind != "100" or texts[1:2] != ["NEM12"]:
                raise misplaced("a NEM12 file begins with 100,NEM12", line)
            self._begun = True
            return
        if self._ended:
            raise misplaced("the file continues after its 900 record", line)
        if kind == "200":
            self._close_day()
            self._stream(line, texts)
        elif kind == "300":
            self._close_day()
            self._interval_day(line, cells)
        elif kind == "400":
            self._event(line, texts)
        elif kind == "900":
            self._close_day()
            self._ended = True
        elif kind != "500":
            detail = "is no record of NEM12: 200, 300, 400, 500 or 900 is expected"
            raise misplaced(f"the row {detail}", line, 1)

    def end(self) -> NemFile:
        """The file, after its last record."""
        if not self._ended:
            raise BadImport("the file is cut off: it has no 900 record")
        return self.found

    def _fault(self, line: int, column: int | None, reason: str) -> None:
        self.found.faults.append((line, column, reason))

    def _stream(self, line: int, texts: Sequence[str]) -> None:
        """A faulty 200 record takes its days with it: each is reported."""
        self._inside = True
        cells = [*texts, *[""] * 10]
        nmi, suffix, unit, minutes = cells[1], cells[4], cells[7].upper(), cells[8]
        faults = [
            (not _NMI.fullmatch(nmi), 2, "the NMI is not of 10 or 11 letters and digits"),
            (not _SUFFIX.fullmatch(suffix), 5, "the suffix is not of two characters, such as E1"),
            (suffix[:1] not in REGISTERS, 5, "the suffix is neither E (import) nor B (export)"),
            (unit not in UNITS_OF_MEASURE, 8, "the unit is not Wh, kWh or MWh"),
            (minutes not in map(str, MINUTES), 9, "the interval is not of 5, 15 or 30 minutes"),
        ]
        for wrong, column, reason in faults:
            if wrong:
                self._fault(line, column, f"{reason}: its days are not taken")
                self._current = None
                return
        self._current = Stream(
            line,
            nmi,
            f"{nmi}:{suffix}",
            REGISTERS[suffix[0]],
            UNITS_OF_MEASURE[unit],
            int(minutes),
        )
        self.found.streams.append((self._current, []))

    def _interval_day(self, line: int, cells: Sequence[bytes]) -> None:
        if not self._inside:
            raise misplaced("a 300 record before any 200 record", line, 1)
        stream = self._current
        if stream is None:
            self._fault(line, None, "the day is of a 200 record that is not taken")
            return
        begin = _day(cells[1] if len(cells) > 1 else b"")
        if begin is None:
            self._fault(line, 2, "the date is not of the form YYYYMMDD")
            return
        after = 2 + stream.count
        quality = cells[after].decode("utf-8", "replace").strip() if after < len(cells) else ""
        if not _QUALITY.fullmatch(quality) or len(cells) > after + 5:
            detail = f"{stream.count} values and then the quality flag (A, E, F, N, S or V)"
            self._fault(line, after + 1, f"a day of {stream.minutes} minutes has {detail}")
            return
        varies = quality[0] == VARYING
        qualities: list[str | None] = [None if varies else quality[0]] * stream.count
        self._day = NemDay(line, begin, list(cells[2:after]), qualities, varies)

    def _event(self, line: int, texts: Sequence[str]) -> None:
        """The qualities of some intervals of the day before it."""
        day = self._day
        if day is None or not day.varies:
            return  # of a day that is not taken, or whose quality is one
        cells = [*texts, *[""] * 4]
        first, last = (int(each) if each.isdecimal() else 0 for each in cells[1:3])
        quality = cells[3]
        if not 1 <= first <= last <= len(day.cells):
            self._fault(line, 2, f"the intervals are not from 1 to {len(day.cells)}")
        elif not _QUALITY.fullmatch(quality) or quality[0] == VARYING:
            self._fault(line, 4, "the quality flag is not A, E, F, N or S")
        elif any(each is not None for each in day.qualities[first - 1 : last]):
            self._fault(line, 2, "an interval has two qualities")
            day.qualities[first - 1 : last] = [VARYING] * (last - first + 1)  # which is not taken
        else:
            day.qualities[first - 1 : last] = [quality[0]] * (last - first + 1)

    def _close_day(self) -> None:
        if self._day is not None:
            self.found.streams[-1][1].append(self._day)
        self._day = None


def _day(cell: bytes) -> int | None:
    """Where a day of eastern standard time begins."""
    text = cell.decode("utf-8", "replace").strip()
    try:
        day = datetime.strptime(text, "%Y%m%d") if _DATE.fullmatch(text) else None  # noqa: DTZ007
    except ValueError:
        day = None
    if day is None or not 1 < day.year < 9999:
        return None
    return epoch_microseconds(day.replace(tzinfo=NEM_TIME).astimezone(UTC))


class NemImport(FileImport):
    """The import of one NEM12 file."""

    def __init__(
        self,
        intake: ReadingStore,
        waiting: Waiting,
        settings: CuratorSettings,
        mapping: NemMap,
        caller: Principal,
        progress: Progress,
    ) -> None:
        self._intake, self._waiting = intake, waiting
        self._settings, self._map = settings, mapping
        self._caller, self.progress = caller, progress
        self._accepted = {quality.strip() for quality in mapping.accept.split(",")} - {
            NULL,
            VARYING,
        }
        self._rejected: Counter[int] = Counter()

    async def run(self, chunks: AsyncIterator[bytes]) -> None:
        """Read a body to its end. Raises BadImport if it is no whole NEM12 file."""
        file_read = await self._read(chunks)
        self.progress.lines = file_read.lines
        for line, column, reason in file_read.faults:
            self.progress.error(line, column, reason)
        for stream, days in file_read.streams:
            self._take(stream, days)
        await self._intake.count_rejected(self._rejected, self.progress.rejected)

    async def _read(self, chunks: AsyncIterator[bytes]) -> NemFile:
        settings = self._settings
        most = min(settings.import_max_feed_bytes, settings.import_max_plain_bytes)
        plain = files.plain_chunks(chunks, most, settings.import_max_ratio)
        records, reader = Records(most=files.MAX_LINE), NemReader()
        try:
            async for chunk in as_utf8(plain, None):
                await asyncio.to_thread(_feed, reader, records.feed(chunk))
            await asyncio.to_thread(_feed, reader, records.end())
        except MalformedRow as error:
            raise misplaced(error.reason, error.row) from None
        return reader.end()

    def _owner(self, nmi: str) -> int:
        listed = self._map.usage_points.get(nmi)
        wanted = listed or self._map.curator
        if wanted is None and self._map.usage_points:
            raise UnknownCurator("usage_points does not name the NMI: name it there, or a curator")
        if wanted is None and self._intake.hosts(nmi):
            wanted = nmi
        return self._intake.curator_of(wanted, self._caller)[0]

    def _take(self, stream: Stream, days: Sequence[NemDay]) -> None:
        try:
            owner = self._owner(stream.nmi)
        except (UnknownCurator, ForeignCurator, BadItem) as error:
            self.progress.error(stream.line, 2, error.detail, max(1, len(days)))
            self.progress.unknown[stream.nmi] += 1
            return
        (device,) = self._waiting.devices([(owner, stream.device)])
        booking = Booking(stream.register, stream.unit, Kind.DELTA)
        step = stream.minutes * 60 * 10**6
        for day in days:
            read = [at for at, quality in enumerate(day.qualities) if quality in self._accepted]
            for at, quality in enumerate(day.qualities):
                if quality not in self._accepted:
                    self._reject(day, at, owner, _why(quality))
            column = csv_columns.quantities([day.cells[at] for at in read], stream.unit)
            moments = day.begin + step * np.array(read, np.int64)
            good = self._intake.times.hold(moments)
            outside = f"the time lies before {self._intake.times.first_day} or in the future"
            for place in np.flatnonzero(~good).tolist():
                self._reject(day, read[place], owner, outside)
            for place, message in column.faults:
                if good[place]:
                    self._reject(day, read[place], owner, message)
                good[place] = False
            self._waiting.add(booking, moments[good], device, column.values[good])

    def _reject(self, day: NemDay, at: int, owner: int, reason: str) -> None:
        self.progress.error(day.line, at + 3, reason)
        self._rejected[owner] += 1


def _feed(reader: NemReader, lot: Lot) -> None:
    fault = min(lot.faults, default=None)
    for line, record in zip(lot.lines, lot.records, strict=True):
        if fault is not None and fault[0] < line:
            break
        if record.strip():
            reader.record(line, split(record))
    if fault is not None:
        raise MalformedRow(*fault)


def _why(quality: str | None) -> str:
    if quality is None:
        return "no 400 record gives the quality of the interval"
    if quality == VARYING:
        return "the interval has two qualities"
    if quality == NULL:
        return "the quality is N: there is no value"
    return "the quality is not one that accept names"
