"""Files of readings: CSV in four layouts, plain, gzip or xz, with a column map.

    long   one reading per line; columns for curator, device, time, value
    wide   one meter per line; first column its id, the others consecutive intervals:
           column k (from 0) is booked at start + k * step_s, where its interval begins
    day    one day of a meter per line; columns for curator, device and date, the others its
           intervals (`day_rows`)
    pivot  one time per line; the other columns are meters

A row is a record of RFC 4180, which may go over several lines. A row or cell that cannot be read is
reported with its line and column and spoils no other. Rows are parsed by column and stored sorted
by time, many in a transaction; what was reported as stored is durable. Counters go through the
intake of single readings, which takes their differences.
Messages name places, never values.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from common.principals import Principal
from common.runtime.clock import zone_named
from curator.errors import BadImport, BadItem, ForeignCurator, UnknownCurator
from curator.files import upload as files
from curator.files.encoding import as_utf8
from curator.files.storing import TOGETHER, Booking, FileImport, ReadingStore, Waiting
from curator.files.tables import columns as csv_columns
from curator.files.tables.columns import ColumnMap, StampCells, Stamps
from curator.files.tables.day_rows import (
    DayBegins,
    begins,
    date_of,
    is_date,
)
from curator.files.tables.header import LIKE_DAYS, Header, misplaced, read_header
from curator.files.units_and_local_time import TWICE, Twice
from curator.files.upload import Progress
from curator.settings import CuratorSettings
from tacit.records.text_files import (
    UNCLOSED,
    Lot,
    MalformedRow,
    Records,
    split,
)
from tacit.units import Kind

Ints = NDArray[np.int64]
Numbered = tuple[int, bytes]
"""The line at which a record begins, and the record."""
Kept = tuple[int, list[bytes], tuple[int, str]]
"""Line, cells, and (curator key, device) of a row."""
LINES: Final = 50_000
SMALL: Final = 1000
"""Cells that are not worth the way to another thread."""
MOST_NAME: Final = 128
NO_NAME: Final = "is not a name in UTF-8 of at most 128 printable characters"
HELD: Final = 1024 * 1024
"""Bytes of text that are parsed together."""


class Import(FileImport):
    """The import of one file."""

    def __init__(
        self,
        intake: ReadingStore,
        waiting: Waiting,
        settings: CuratorSettings,
        mapping: ColumnMap,
        caller: Principal,
        progress: Progress,
    ) -> None:
        self._intake, self._waiting = intake, waiting
        self._settings, self._map = settings, mapping
        self._booking = Booking(
            mapping.register_name, mapping.unit, mapping.kind, mapping.rollover_nano
        )
        self._caller, self.progress = caller, progress
        self._stamps = Stamps(mapping)
        self._header: Header | None = None
        self._columns: list[tuple[int, int, int]] | None = None
        self._rejected: Counter[int] = Counter()

    async def run(self, chunks: AsyncIterator[bytes]) -> None:
        """Read a body to its end. Raises BadImport if it is no file of this map."""
        settings = self._settings
        plain = files.plain_chunks(
            chunks, settings.import_max_plain_bytes, settings.import_max_ratio
        )
        text = as_utf8(plain, self._map.encoding)
        records = Records(self._map.delimiter, files.MAX_LINE, self._map.header_line)
        waiting: list[Numbered] = []
        waiting_bytes, received = 0, self._map.header_line > 1
        try:
            async for chunk in files.after_lines(text, self._map.header_line - 1):
                lot = records.feed(chunk)
                waiting_bytes += len(chunk)
                received = True
                self._collect(lot, waiting)
                if waiting_bytes >= HELD:
                    rows = self._before_footer(waiting)
                    await self._take(waiting[:rows])
                    waiting, waiting_bytes = waiting[rows:], 0
            lot = records.end()
            self._collect(lot, waiting)
            await self._take(waiting[: self._before_footer(waiting)])
            if waiting:
                self.progress.lines = waiting[-1][0]
            if self._header is None:
                raise _no_header(self._map.header_line, empty=not received)
            for line, reason in lot.faults:
                if reason == UNCLOSED:  # where the next row begins is not known
                    raise misplaced(reason, line)
        except MalformedRow as error:
            raise misplaced(error.reason, error.row) from None
        finally:
            await self._intake.count_rejected(self._rejected, self.progress.rejected)

    @property
    def _read(self) -> Header:
        """The header, which is read before any row."""
        assert self._header is not None
        return self._header

    def _before_footer(self, waiting: Sequence[Numbered]) -> int:
        """How many rows come before the last ones, which are the footer if the file ends here.
        Empty lines do not count."""
        left, at = self._map.footer_lines, len(waiting)
        while left and at:
            at -= 1
            left -= bool(waiting[at][1].strip())
        return at

    def _collect(self, lot: Lot, waiting: list[Numbered]) -> None:
        """Rows of a lot behind those that wait; the first record is the header."""
        lines = list(zip(lot.lines, lot.records, strict=True))
        if self._header is None and (lines or lot.faults):
            if not lines or any(line <= lines[0][0] for line, _ in lot.faults):
                raise misplaced(lot.faults[0][1], lot.faults[0][0])
            self._header = read_header(self._map, *lines.pop(0))
        waiting += lines
        for line, reason in lot.faults:
            self.progress.error(line, None, reason)

    async def _take(self, numbered: Sequence[Numbered]) -> None:
        if not numbered:
            return
        layouts = {"wide": self._wide, "day": self._day, "pivot": self._pivot, "long": self._long}
        take = layouts[self._map.layout]
        together = LINES
        if self._map.layout in ("wide", "day"):
            together = max(1, TOGETHER // (2 * (self._read.last - self._read.first)))
        elif self._map.layout == "pivot":
            together = max(1, TOGETHER // (2 * len(self._read.meters)))
        for begin in range(0, len(numbered), together):
            part = numbered[begin : begin + together]
            await take([item for item in part if item[1].strip()])
            self.progress.lines = part[-1][0]

    # --- wide ------------------------------------------------------------------------------------

    async def _wide(self, lines: Sequence[Numbered]) -> None:
        rows = []
        delimiter = self._map.delimiter.encode()
        header = self._read
        for number, line in lines:
            cells = split(line, delimiter)
            self._not_a_day(number, cells)
            name = _name(cells[0].strip())
            if name is None:
                self.progress.error(number, 1, NO_NAME)
                continue
            owner = self._owner(name, number)
            if owner is None:
                continue
            misfit = _misfit(len(header.names), cells, header.last)
            if misfit is not None:
                self.progress.error(number, *misfit)
                self._rejected[owner] += 1
                continue
            rows.append((number, owner, name, cells[header.first : header.last]))
        numbers = self._waiting.devices([(owner, name) for _, owner, name, _ in rows])
        for device, (number, owner, _, cells) in zip(numbers, rows, strict=True):
            if len(cells) < SMALL:
                column = self._quantities(cells)
            else:
                column = await asyncio.to_thread(self._quantities, cells)
            places = range(self._read.first, self._read.first + len(cells))
            self._keep((number, owner, device), places, column, self._moments(len(cells)))

    def _not_a_day(self, number: int, cells: Sequence[bytes]) -> None:
        """Raises BadImport for a row that looks as if it were a day."""
        header = self._read
        for at, cell in enumerate(cells[:6]):
            if (at == 0 or header.daily or header.first <= at < header.last) and is_date(
                cell.decode("utf-8", "replace"), header.names[at] if at < len(header.names) else ""
            ):
                raise misplaced(LIKE_DAYS, number, at + 1, pointer="/layout")

    def _keep(
        self,
        row: tuple[int, int, int],
        places: Sequence[int],
        column: csv_columns.Column,
        moments: Ints,
    ) -> None:
        """Add values of one row (its line, owner and device) at these indexes."""
        number, owner, device = row
        good = np.ones(column.values.size, np.bool_)
        for position, message in column.faults:
            good[position] = False
            self.progress.error(number, places[position] + 1, message)
        times = self._intake.times
        outside = good & ~times.hold(moments)
        if outside.any():
            at = int(np.flatnonzero(outside)[0])
            detail = f"the time lies before {times.first_day} or in the future"
            self.progress.error(number, places[at] + 1, detail, int(outside.sum()))
            good &= ~outside
        self._rejected[owner] += int((~good).sum())
        self._waiting.add(self._booking, moments[good], device, column.values[good])

    def _moments(self, count: int) -> Ints:
        assert self._map.step_s is not None
        step = self._map.step_s * 10**6
        return self._map.start_us + step * np.arange(count, dtype=np.int64)

    # --- day -------------------------------------------------------------------------------------

    async def _day(self, lines: Sequence[Numbered]) -> None:
        kept_rows, owners = self._kept(lines)
        numbers = self._waiting.devices([meter for *_, meter in kept_rows])
        for (number, cells, _), owner, device in zip(kept_rows, owners, numbers, strict=True):
            try:
                begins = self._begins_of(cells)
            except BadItem as error:
                self.progress.error(number, self._read.at["date"] + 1, f"the date {error.detail}")
                self._rejected[owner] += 1
                continue
            values = cells[self._read.first : self._read.last]
            filled = [index for index, cell in enumerate(values) if cell.strip()]
            count = 1 + max(filled, default=-1)
            if begins.expected not in (None, count):
                detail = f"the row has {count} values, and its day has {begins.expected}"
                place = self._read.first + min(count, begins.expected or 0) + 1
                self.progress.error(number, place, detail)
                self._rejected[owner] += 1
                continue
            surplus = next((index for index in filled if index in begins.absent), None)
            if surplus is not None:
                place = self._read.first + surplus + 1
                self.progress.error(number, place, begins.absent[surplus])
                self._rejected[owner] += 1
                continue
            unclear = [index for index in filled if index in begins.twice]
            for index in unclear:
                self.progress.error(number, self._read.first + index + 1, f"the time {TWICE}")
            self._rejected[owner] += len(unclear)
            left_out = begins.absent.keys() | begins.twice
            read = [index for index in range(count) if index not in left_out]
            self._keep(
                (number, owner, device),
                [self._read.first + index for index in read],
                self._quantities([values[index] for index in read]),
                np.array([begins.times[index] for index in read], np.int64),
            )

    def _begins_of(self, cells: Sequence[bytes]) -> DayBegins:
        assert self._map.timezone is not None
        text = cells[self._read.at["date"]].decode("utf-8", "replace").strip()
        day = date_of(text, self._map.time_format)
        return begins(self._read.days, day, zone_named(self._map.timezone), self._map.ambiguous)

    # --- pivot -----------------------------------------------------------------------------------

    async def _pivot(self, lines: Sequence[Numbered]) -> None:
        rows = self._cells(lines)
        if self._columns is None:
            self._columns = self._made_meters()
        self.progress.rejected += len(rows) * (len(self._read.meters) - len(self._columns))
        stamps = [
            [cells[self._read.at[name]] for _, cells in rows] if name in self._read.at else None
            for name in ("time", "date", "offset")
        ]
        moments = self._stamps.moments(
            StampCells(stamps[0] or [], stamps[1], stamps[2], [None] * len(rows)),
            self._intake.times,
        )
        good = np.ones(len(rows), np.bool_)
        for position, message in moments.faults:
            good[position] = False
            number = rows[position][0]
            self.progress.error(number, self._read.at["time"] + 1, message, len(self._columns))
        for at, owner, device in self._columns:
            column = self._quantities([cells[at] for _, cells in rows])
            is_kept = good.copy()
            for position, message in column.faults:
                if good[position]:
                    self.progress.error(rows[position][0], at + 1, message)
                is_kept[position] = False
            self._rejected[owner] += int((~is_kept).sum())
            self._waiting.add(
                self._booking, moments.values[is_kept], device, column.values[is_kept]
            )

    def _made_meters(self) -> list[tuple[int, int, int]]:
        """Index, owner and device of each column whose curator is hosted here."""
        found = []
        for at in self._read.meters:
            name = self._read.names[at]
            owner = self._owner(self._map.curator or name, self._read.line, at + 1)
            if owner is not None:
                found.append((at, owner, name))
        numbers = self._waiting.devices([(owner, name) for _, owner, name in found])
        return [(at, owner, number) for number, (at, owner, _) in zip(numbers, found, strict=True)]

    # --- long ------------------------------------------------------------------------------------

    def _kept(self, lines: Sequence[Numbered]) -> tuple[list[Kept], list[int]]:
        """The rows whose curator may be sent for, and its keys."""
        rows = self._cells(lines)
        owners: list[int] = []
        kept_rows: list[Kept] = []
        pairs = [self._pair(cells) for _, cells in rows]
        names = {pair: (_name(pair[0].strip()), _name(pair[1].strip())) for pair in set(pairs)}
        keys = self._intake.curators_of(
            [self._whose(*name) for name in names.values()], self._caller
        )
        named = self._map.accept
        accepted = (
            None if named is None else {quality.strip().encode() for quality in named.split(",")}
        )
        cache: dict[tuple[bytes, bytes], tuple[int, str] | None] = {}
        for pair, (number, cells) in zip(pairs, rows, strict=True):
            if pair not in cache:
                cache[pair] = self._who(*names[pair], number, keys)
                if cache[pair] is None:
                    continue
            meter = cache[pair]
            if meter is None:
                self.progress.rejected += 1
                continue
            if accepted is not None and cells[self._read.at["quality"]].strip() not in accepted:
                detail = "the quality is not one that accept names"
                self.progress.error(number, self._read.at["quality"] + 1, detail)
                self._rejected[meter[0]] += 1
                continue
            owners.append(meter[0])
            kept_rows.append((number, cells, meter))
        return kept_rows, owners

    async def _long(self, lines: Sequence[Numbered]) -> None:
        if await self._even(lines):
            return
        kept_rows, owners = self._kept(lines)
        if not kept_rows:
            return
        values = self._quantities(self._column("value", kept_rows) or [])
        moments = self._stamps.moments(self._stamp_cells(kept_rows), self._intake.times)
        good = self._good(kept_rows, owners, (values, "value"), (moments, "time"))
        devices = np.array(self._waiting.devices([meter for *_, meter in kept_rows]), np.int64)
        self._waiting.add(self._booking, moments.values[good], devices[good], values.values[good])

    async def _even(self, lines: Sequence[Numbered]) -> bool:
        """Read rows as `_long` does, but by columns, if no cell is wrong or quoted and all
        curators, numbers and times are known. Otherwise read nothing."""
        header, delimiter = self._read, self._map.delimiter.encode()
        width, count = len(header.names), len(lines)
        if self._map.accept is not None or len(delimiter) != 1 or not count:
            return False
        if self._map.ambiguous is Twice.ORDER:  # which stamps came before decides
            return False
        joined = delimiter.join([line for _, line in lines])
        if b'"' in joined or any(line.count(delimiter) != width - 1 for _, line in lines):
            return False
        cells = joined.split(delimiter)
        column = {name: cells[at::width] for name, at in header.at.items()}
        blank = [b""] * count
        named, device = column.get("curator", blank), column.get("device", blank)
        pairs = list(zip(named, device, strict=True))
        names = {pair: (_name(pair[0].strip()), _name(pair[1].strip())) for pair in set(pairs)}
        if any(None in pair for pair in names.values()):
            return False
        whose = {pair: self._whose(*name) for pair, name in names.items()}
        keys = self._intake.curators_of(list(whose.values()), self._caller)
        if not all(name in keys for name in whose.values()):
            return False
        meter_of = {
            pair: (keys[whose[pair]], meter or name or "meter")
            for pair, (name, meter) in names.items()
        }
        values = self._quantities(column["value"])
        stamps = StampCells(
            column["time"],
            column.get("date"),
            column.get("offset"),
            [meter_of[pair] for pair in pairs],
        )
        moments = self._stamps.moments(stamps, self._intake.times)
        if values.faults or moments.faults:
            return False
        numbers = dict(zip(meter_of, self._waiting.devices(list(meter_of.values())), strict=True))
        devices = np.array([numbers[pair] for pair in pairs], np.int64)
        self._waiting.add(self._booking, moments.values, devices, values.values)
        return True

    def _quantities(self, cells: Sequence[bytes]) -> csv_columns.Column:
        numbers = csv_columns.numbers_of(cells, self._map)
        totals = self._map.kind is Kind.TOTAL_INCREASING
        return csv_columns.quantities(numbers, self._map.unit, totals=totals)

    def _column(self, name: str, rows_kept: Sequence[Kept]) -> list[bytes] | None:
        if name not in self._read.at:
            return None
        at = self._read.at[name]
        return [cells[at] for _, cells, _ in rows_kept]

    def _stamp_cells(self, rows_kept: Sequence[Kept]) -> StampCells:
        return StampCells(
            self._column("time", rows_kept) or [],
            self._column("date", rows_kept),
            self._column("offset", rows_kept),
            [meter for *_, meter in rows_kept],
        )

    def _good(
        self,
        rows_kept: Sequence[Kept],
        owners: Sequence[int],
        *found: tuple[csv_columns.Column, str],
    ) -> NDArray[np.bool_]:
        good = np.ones(len(rows_kept), np.bool_)
        faults = [(*fault, name) for column, name in found for fault in column.faults]
        for position, message, name in sorted(faults, key=lambda fault: fault[0]):
            if good[position]:
                self.progress.error(rows_kept[position][0], self._read.at[name] + 1, message)
                self._rejected[owners[position]] += 1
            good[position] = False
        return good

    def _cells(self, lines: Sequence[Numbered]) -> list[tuple[int, list[bytes]]]:
        delimiter, columns = self._map.delimiter.encode(), len(self._read.names)
        fewest = self._read.fewest_cells
        result = []
        for number, line in lines:
            cells = split(line, delimiter)
            misfit = _misfit(columns, cells, fewest)
            if misfit is not None:
                self.progress.error(number, *misfit)
            else:
                result.append((number, cells))
        return result

    def _pair(self, cells: Sequence[bytes]) -> tuple[bytes, bytes]:
        """The curator's and device's names in a row of the long layout."""
        at = self._read.at
        named = cells[at["curator"]] if "curator" in at else b""
        return named, cells[at["device"]] if "device" in at else b""

    def _whose(self, name: str | None, meter: str | None) -> str:
        """The curator of a row by these names."""
        return name or self._map.curator or meter or ""

    def _who(
        self, name: str | None, meter: str | None, number: int, known: Mapping[str, int]
    ) -> tuple[int, str] | None:
        if name is None or meter is None:
            which = "curator" if name is None else "device"
            self.progress.error(number, self._read.at[which] + 1, NO_NAME)
            return None
        whose = self._whose(name, meter)
        owner = known[whose] if whose in known else self._owner(whose, number)
        return None if owner is None else (owner, meter or name or "meter")

    def _owner(self, name: str, number: int, column: int = 1) -> int | None:
        """The key of a curator; an unknown curator, or one of another owner, is reported once
        per name."""
        wanted = self._map.curator if self._map.layout == "wide" and self._map.curator else name
        try:
            return self._intake.curator_of(wanted or None, self._caller)[0]
        except (UnknownCurator, ForeignCurator, BadItem) as error:
            if name[:128] not in self.progress.unknown:
                self.progress.error(number, column, error.detail)
            else:
                self.progress.rejected += 1
            self.progress.unknown[name[:128]] += 1
            return None


def _no_header(line: int, *, empty: bool) -> BadImport:
    if empty:
        return misplaced("the file is empty", 1)
    return misplaced("the file ends before its header", line, pointer="/header_line")


def _name(cell: bytes) -> str | None:
    """The name of a curator or device; None if it is not a valid name."""
    try:
        text = cell.decode()
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() and len(text) <= MOST_NAME else None


def _misfit(columns: int, cells: Sequence[bytes], least: int) -> tuple[int, str] | None:
    """What is wrong with a row of fewer cells than are read, or of more than the header: an
    extra comma would move or cut a value."""
    if len(cells) < least:
        return len(cells) + 1, "the row is too short"
    extra = cells[columns:]
    if extra and any(cell.strip() for cell in extra):
        return columns + 1, "the row has more cells than the header"
    return None
