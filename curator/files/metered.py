"""Files whose readings belong to meters that the file names: their import, whatever the format.

A reader takes the bytes of one format in pieces and finds readings by series: those of one meter,
register, unit and kind. Their curator is the one that `usage_points` gives for the meter; else
`curator`; else the curator of the meter's name; else the only one hosted. A reading that cannot be
taken is reported with its line and element and spoils no other.
"""

from __future__ import annotations

import asyncio
from array import array
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from common.principals import Principal
from common.runtime.clock import zone_named
from curator.errors import BadItem, ForeignCurator, UnknownCurator
from curator.files import upload as files
from curator.files.encoding import as_utf8
from curator.files.market.green_button import FeedMap
from curator.files.storing import Booking, FileImport, ReadingStore, Waiting
from curator.files.tables import columns as csv_columns
from curator.files.tables.header import misplaced
from curator.files.units_and_local_time import RegisterName, Twice, Unit
from curator.files.upload import Progress
from curator.settings import CuratorSettings
from tacit.units import Kind
from tacit.wire import require

Ints = NDArray[np.int64]
MAX_SERIES: Final = 1_000_000
FLUSH: Final = 150_000
"""Readings that are held as text."""
PIECE: Final = 1 << 20
"""Bytes that are parsed together."""


class MeterMap(FeedMap):
    """What a file does not say itself; each format has its own part of it."""

    accept: Annotated[str, Field(max_length=200)] | None = None
    timezone: str | None = None
    ambiguous: Twice = Twice.REFUSE
    stamp: Literal["start", "end"] | None = None
    read_at: Annotated[str, Field(max_length=64)] | None = None
    register_name: RegisterName | None = Field(None, alias="register")
    unit: Unit | None = None
    kind: Kind | None = None
    measurement: Annotated[str, Field(max_length=200)] | None = None
    value_column: Annotated[str, Field(max_length=200)] = "value"
    device_column: Annotated[str, Field(max_length=200)] | None = None
    curator_column: Annotated[str, Field(max_length=200)] | None = None
    precision: Literal["ns", "us", "ms", "s"] = "ns"

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, name: str | None) -> str | None:
        try:
            return name if name is None else zone_named(name).key
        except ValueError as error:
            return require(False, name, str(error))


@dataclass(frozen=True, eq=False)
class Series:
    """Readings of one register of a meter. `point` determines the curator; `device` is the
    curator's own name if it is empty; `element`: the format's name of the register. One object
    each."""

    point: str
    device: str
    register: str
    unit: str
    kind: Kind
    element: str


@dataclass(frozen=True, eq=False)
class Rows:
    """Readings in the order of the file: lines, microseconds since 1970, numbers as text."""

    lines: array[int] = field(default_factory=lambda: array("q"))
    times: array[int] = field(default_factory=lambda: array("q"))
    values: list[bytes] = field(default_factory=list)


class Found:
    """What a reader has found and the caller has not yet taken. `lines` of the file so far."""

    def __init__(self) -> None:
        self.series: dict[Series, Rows] = {}
        self.faults: list[tuple[int, str | None, str, int]] = []
        """Line, element, reason, and how many readings it costs."""
        self.count = self.lines = self.made = 0

    def add(self, series: Series, line: int, time: int, value: bytes) -> None:
        """One reading."""
        rows = self.series.get(series)
        if rows is None:
            rows = self.series[series] = Rows()
            self.made += 1
            if self.made > MAX_SERIES:
                raise misplaced("the file has too many meters", line)
        rows.lines.append(line)
        rows.times.append(time)
        rows.values.append(value)
        self.count += 1

    def fault(self, line: int, element: str | None, reason: str, count: int = 1) -> None:
        """What cannot be taken."""
        self.faults.append((line, element, reason, count))

    def take(self) -> tuple[dict[Series, Rows], list[tuple[int, str | None, str, int]]]:
        """Everything found so far, once."""
        series, faults = self.series, self.faults
        self.series, self.faults, self.count, self.made = {}, [], 0, 0
        return series, faults


class MeterReader(Protocol):
    """Reads one file. Raises BadImport for a damaged file or another format."""

    found: Found

    def feed(self, data: bytes) -> None:
        """Read the next piece of the file, in UTF-8 where the format is text."""

    def end(self) -> None:
        """Read what is left: the file is at its end."""


class LineReader:
    """A reader of lines. A format defines `line` and, where it must, `end`."""

    def __init__(self) -> None:
        self.found = Found()
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Read the next piece of the file."""
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > files.MAX_LINE:
            raise misplaced("the line is too long", self.found.lines + 1)
        number = self.found.lines
        for text in lines:
            number += 1
            self.line(number, text.rstrip(b"\r"))
        self.found.lines = number

    def line(self, number: int, text: bytes) -> None:
        """The next line, without its break."""
        raise NotImplementedError

    def end(self) -> None:
        """The last line may have no break."""
        if self._rest:
            rest, self._rest = self._rest, b""
            self.found.lines += 1
            self.line(self.found.lines, rest.rstrip(b"\r"))


class MeterImport(FileImport):
    """The import of one file."""

    def __init__(
        self,
        intake: ReadingStore,
        waiting: Waiting,
        settings: CuratorSettings,
        mapping: MeterMap,
        caller: Principal,
        progress: Progress,
        reader: MeterReader,
    ) -> None:
        self._intake, self._waiting = intake, waiting
        self._settings, self._map = settings, mapping
        self._caller, self.progress = caller, progress
        self._reader = reader
        self._owners: dict[str, tuple[int, str] | None] = {}
        self._rejected: Counter[int] = Counter()

    async def run(self, chunks: AsyncIterator[bytes]) -> None:
        """Read a body to its end. Raises BadImport if it is not a file of the format."""
        settings = self._settings
        plain = files.plain_chunks(
            chunks, settings.import_max_plain_bytes, settings.import_max_ratio
        )
        try:
            async for chunk in as_utf8(plain, None):
                for begin in range(0, len(chunk), PIECE):
                    await asyncio.to_thread(self._reader.feed, chunk[begin : begin + PIECE])
                    if self._reader.found.count >= FLUSH:
                        await self._take()
            await asyncio.to_thread(self._reader.end)
            await self._take()
        finally:
            self.progress.lines = self._reader.found.lines
            await self._intake.count_rejected(self._rejected, self.progress.rejected)

    async def _take(self) -> None:
        series_read, faults = self._reader.found.take()
        self.progress.lines = self._reader.found.lines
        for line, element, reason, count in faults:
            self.progress.error(line, None, reason, count, element=element)
        owned = []
        for series, rows in series_read.items():
            owner = self._owner(series, rows)
            if owner is not None:
                owned.append((series, rows, owner[0], series.device or owner[1]))
        numbers = self._waiting.devices([(key, device) for *_, key, device in owned])
        for number, (series, rows, key, _) in zip(numbers, owned, strict=True):
            times, values = await asyncio.to_thread(self._columns, series, rows, key)
            booking = Booking(series.register, series.unit, series.kind)
            self._waiting.add(booking, times, number, values)

    def _columns(self, series: Series, rows: Rows, owner: int) -> tuple[Ints, Ints]:
        """Times and quantities of what can be stored."""
        totals = series.kind is Kind.TOTAL_INCREASING
        column = csv_columns.quantities(rows.values, series.unit, totals=totals)
        moments = np.frombuffer(rows.times, np.int64)
        times = self._intake.times
        good = times.hold(moments)
        outside = f"the time lies before {times.first_day} or in the future"
        bad = [(place, outside) for place in np.flatnonzero(~good).tolist()]
        bad += [(place, reason) for place, reason in column.faults if good[place]]
        for place, reason in sorted(bad):
            self.progress.error(rows.lines[place], None, reason, element=series.element)
            good[place] = False
        self._rejected[owner] += len(bad)
        return moments[good], column.values[good]

    def _owner(self, series: Series, rows: Rows) -> tuple[int, str] | None:
        point = series.point
        if point not in self._owners:
            try:
                self._owners[point] = self._curator_of(point)
            except (UnknownCurator, ForeignCurator, BadItem) as error:
                self._owners[point] = None
                self.progress.error(rows.lines[0], None, error.detail, 0, element=series.element)
                self.progress.unknown[point[:128]] += 1
        owner = self._owners[point]
        if owner is None:
            self.progress.rejected += len(rows.values)
        return owner

    def _curator_of(self, point: str) -> tuple[int, str]:
        wanted = self._map.usage_points.get(point) or self._map.curator
        if wanted is None and self._map.usage_points:
            raise UnknownCurator(
                "usage_points does not name the meter: name it there, or a curator"
            )
        if wanted is None and point and self._intake.hosts(point):
            wanted = point
        return self._intake.curator_of(wanted, self._caller)
