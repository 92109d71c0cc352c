"""Files of readings: CSV in two layouts, plain, gzip or xz, with a column map.

    long   one reading per line; columns for curator, device, time, value
    wide   one meter per line; first column its id, the others consecutive intervals:
           column k (from 0) is booked at start + k * step_s, where its interval begins

A row or cell that cannot be read is reported with its line and column and spoils no other. Lines
are parsed by column and stored sorted by time, many in a transaction; what was reported as stored
is durable. Messages name places, never values.
"""

from __future__ import annotations

import asyncio
import csv
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from common.models.base import Instant, WireModel, require
from common.models.query import Identifier
from common.service.auth import Principal
from common.service.clock import epoch_microseconds
from common.units import UNITS
from curator import columns, files
from curator.errors import BadImport, BadItem, ForeignCurator, UnknownCurator
from curator.items import DEFAULT_REGISTER, Kind, register_name
from curator.readings import Intake, Status
from curator.settings import CuratorSettings

Ints = NDArray[np.int64]
FLUSH: Final = 400_000
"""Readings that are sorted and stored together."""
LINES: Final = 50_000
SMALL: Final = 1000
"""Cells that are not worth the way to another thread."""
HELD: Final = 4 * 1024 * 1024
"""Bytes of text that are parsed together."""
CsvError = csv.Error


class ColumnMap(WireModel):
    """What the columns of a file mean. Names are those of its first line."""

    layout: Literal["long", "wide"] = "long"
    unit: str
    register_name: str = Field(DEFAULT_REGISTER, alias="register")
    kind: Kind = Kind.DELTA
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    curator: Identifier | None = None
    curator_column: str | None = None
    device_column: str | None = None
    time_column: str = "time"
    value_column: str = "value"
    start: Instant | None = None
    step_s: Annotated[int, Field(ge=1, le=31 * 86_400)] | None = None
    columns: Annotated[str, Field(pattern=r"^[^:]+:[^:]+$")] | None = None

    @field_validator("unit")
    @classmethod
    def _known_unit(cls, unit: str) -> str:
        return require(unit in UNITS, unit, f"is one of {', '.join(sorted(UNITS))}")

    @field_validator("register_name")
    @classmethod
    def _known_register(cls, name: str) -> str:
        try:
            return register_name(name)
        except BadItem as error:
            return require(False, name, error.detail)

    @field_validator("kind")
    @classmethod
    def _no_counters(cls, kind: Kind) -> Kind:
        return require(
            kind is not Kind.TOTAL_INCREASING, kind, "counters are sent as readings, not as files"
        )

    @model_validator(mode="after")
    def _wide_needs_times(self) -> ColumnMap:
        wide = self.layout == "wide"
        require(not wide or self.start is not None, self, "layout wide needs start and step_s")
        require(not wide or self.step_s is not None, self, "layout wide needs start and step_s")
        return self


class Progress:
    """What an import has done so far; its sender may ask meanwhile."""

    def __init__(self, import_id: str, max_errors: int) -> None:
        self.id, self.state = import_id, "running"
        self.lines = self.accepted = self.duplicates = self.conflicts = self.rejected = 0
        self.errors: list[dict[str, Any]] = []
        self.unknown: Counter[str] = Counter()
        self._max_errors = max_errors

    def error(self, line: int, column: int | None, detail: str, count: int = 1) -> None:
        """Report a place; all are counted, the first ones listed."""
        self.rejected += count
        if len(self.errors) < self._max_errors:
            self.errors.append({"line": line, "column": column, "detail": detail})

    def document(self) -> dict[str, Any]:
        """As it is answered."""
        return {
            "id": self.id,
            "state": self.state,
            "lines": self.lines,
            "accepted": self.accepted,
            "duplicates": self.duplicates,
            "conflicts": self.conflicts,
            "rejected": self.rejected,
            "unknown_curators": [name for name, _ in self.unknown.most_common(100)],
            "unknown_curators_count": len(self.unknown),
            "errors": self.errors,
        }


class Import:
    """One file on its way in."""

    def __init__(
        self,
        intake: Intake,
        settings: CuratorSettings,
        mapping: ColumnMap,
        caller: Principal,
        progress: Progress,
    ) -> None:
        self._intake, self._settings, self._map = intake, settings, mapping
        self._caller, self.progress = caller, progress
        self._header: list[str] | None = None
        self._blocks: list[tuple[Ints, Ints, Ints, Ints]] = []
        self._held = 0
        self._rejected: Counter[int] = Counter()
        self._line = 0

    async def run(self, chunks: AsyncIterator[bytes]) -> None:
        """Read a body to its end. Raises BadImport if it is no file of this map."""
        settings = self._settings
        plain = files.plain_chunks(
            chunks, settings.import_max_plain_bytes, settings.import_max_ratio
        )
        waiting: list[bytes] = []
        held = 0
        try:
            async for lot in files.lines(plain):
                waiting += lot
                held += sum(map(len, lot))
                if self._header is None:
                    self._read_header(waiting.pop(0))
                if held >= HELD:
                    await self._take(waiting)
                    waiting, held = [], 0
            await self._take(waiting)
            if self._header is None:
                raise BadImport("the file is empty")
        finally:
            await self._flush()
            if self._rejected:
                await self._intake.count_rejected(self._rejected)
        self.progress.state = "done"

    def _read_header(self, line: bytes) -> None:
        self._line = 1
        self._header = [name.strip() for name in _split(line.lstrip(b"\xef\xbb\xbf"), self._map)]
        if self._map.layout == "wide":
            self._first, self._last = self._range(self._header)
        else:
            named = {
                "time": self._map.time_column,
                "value": self._map.value_column,
                "curator": self._map.curator_column,
                "device": self._map.device_column,
            }
            missing = [name for name in named.values() if name and name not in self._header]
            if missing:
                raise BadImport(f"the file has no column {missing[0]!r}")
            self._at = {k: self._header.index(v) for k, v in named.items() if v is not None}

    def _range(self, header: Sequence[str]) -> tuple[int, int]:
        if self._map.columns is None:
            return 1, len(header)
        first, last = self._map.columns.split(":")
        if first not in header or last not in header or header.index(first) > header.index(last):
            raise BadImport("the file has no such range of columns", pointer="/columns")
        return header.index(first), header.index(last) + 1

    async def _take(self, lines: Sequence[bytes]) -> None:
        start, self._line = self._line, self._line + len(lines)
        take = self._wide if self._map.layout == "wide" else self._long
        numbered = [(start + i, line.rstrip(b"\r")) for i, line in enumerate(lines, 1)]
        together = LINES
        if self._map.layout == "wide" and self._header is not None:
            together = max(1, FLUSH // (2 * (self._last - self._first)))
        for begin in range(0, len(numbered), together):
            part = numbered[begin : begin + together]
            await take([item for item in part if item[1].strip()])
            self.progress.lines = part[-1][0]
            if self._held >= FLUSH:
                await self._flush()

    # --- wide ------------------------------------------------------------------------------------

    async def _wide(self, lines: Sequence[tuple[int, bytes]]) -> None:
        rows = []
        for number, line in lines:
            cells = line.split(self._map.delimiter.encode())
            name = cells[0].decode("utf-8", "replace").strip().strip('"')
            owner = self._owner(name, number)
            if owner is None:
                continue
            if len(cells) < self._last:
                self.progress.error(number, len(cells) + 1, "the row is too short")
                self._rejected[owner] += 1
                continue
            rows.append((number, owner, name, cells[self._first : self._last]))
        made = await self._intake.make_devices([(owner, name) for _, owner, name, _ in rows])
        for number, owner, name, cells in rows:
            if len(cells) < SMALL:
                column = columns.quantities(cells, self._map.unit)
            else:
                column = await asyncio.to_thread(columns.quantities, cells, self._map.unit)
            self._keep(number, owner, made[owner, name], column)

    def _keep(self, number: int, owner: int, device: int, column: columns.Column) -> None:
        good = np.ones(column.values.size, np.bool_)
        for position, message in column.faults:
            good[position] = False
            self.progress.error(number, self._first + position + 1, message)
        moments = self._moments(column.values.size)
        late = moments > self._intake.latest
        if (late & good).any():
            at = int(np.flatnonzero(late & good)[0])
            count = int((late & good).sum())
            self.progress.error(number, self._first + at + 1, "the time lies in the future", count)
            good &= ~late
        self._rejected[owner] += int((~good).sum())
        kept = int(good.sum())
        self._add(
            moments[good],
            np.full(kept, device, np.int64),
            np.full(kept, owner, np.int64),
            column.values[good],
        )

    def _moments(self, count: int) -> Ints:
        assert self._map.start is not None
        assert self._map.step_s is not None
        step = self._map.step_s * 10**6
        return epoch_microseconds(self._map.start) + step * np.arange(count, dtype=np.int64)

    # --- long ------------------------------------------------------------------------------------

    async def _long(self, lines: Sequence[tuple[int, bytes]]) -> None:
        if not lines:
            return
        rows = self._cells(lines)
        owners: list[int] = []
        kept: list[tuple[int, list[bytes], tuple[int, str]]] = []
        cache: dict[tuple[bytes, bytes], tuple[int, str] | None] = {}
        for number, cells in rows:
            named = cells[self._at["curator"]] if "curator" in self._at else b""
            device = cells[self._at["device"]] if "device" in self._at else b""
            pair = (named, device)
            if pair not in cache:
                cache[pair] = self._who(named, device, number)
                if cache[pair] is None:
                    continue
            who = cache[pair]
            if who is None:
                self.progress.rejected += 1
                continue
            owners.append(who[0])
            kept.append((number, cells, who))
        if not kept:
            return
        made = await self._intake.make_devices([who for *_, who in kept])
        values = columns.quantities(
            [cells[self._at["value"]] for _, cells, _ in kept], self._map.unit
        )
        moments = columns.times(
            [cells[self._at["time"]] for _, cells, _ in kept], self._intake.latest
        )
        good = np.ones(len(kept), np.bool_)
        for column, name in ((values, "value"), (moments, "time")):
            for position, message in column.faults:
                if good[position]:
                    self.progress.error(kept[position][0], self._at[name] + 1, message)
                    self._rejected[owners[position]] += 1
                good[position] = False
        devices = np.fromiter((made[who] for *_, who in kept), np.int64, len(kept))
        self._add(
            moments.values[good],
            devices[good],
            np.array(owners, np.int64)[good],
            values.values[good],
        )

    def _cells(self, lines: Sequence[tuple[int, bytes]]) -> list[tuple[int, list[bytes]]]:
        most = max(self._at.values())
        delimiter = self._map.delimiter.encode()
        result = []
        for number, line in lines:
            if b'"' in line:
                cells = [cell.encode() for cell in _split(line, self._map)]
            else:
                cells = line.split(delimiter)
            if len(cells) <= most:
                self.progress.error(number, len(cells) + 1, "the row is too short")
            else:
                result.append((number, cells))
        return result

    def _who(self, named: bytes, device: bytes, number: int) -> tuple[int, str] | None:
        name = named.decode("utf-8", "replace").strip()
        meter = device.decode("utf-8", "replace").strip()
        owner = self._owner(name or self._map.curator or meter, number)
        return None if owner is None else (owner, (meter or name or "meter")[:128])

    def _owner(self, name: str, number: int) -> int | None:
        """The key of a curator; an unknown or foreign one is reported once per name."""
        wanted = self._map.curator if self._map.layout == "wide" and self._map.curator else name
        try:
            return self._intake.curator_of(wanted or None, self._caller)[0]
        except (UnknownCurator, ForeignCurator, BadItem) as error:
            if name[:128] not in self.progress.unknown:
                self.progress.error(number, 1, error.detail)
            else:
                self.progress.rejected += 1
            self.progress.unknown[name[:128]] += 1
            return None

    # --- storing ---------------------------------------------------------------------------------

    def _add(self, *block: Ints) -> None:
        if block[0].size:
            self._blocks.append((block[0], block[1], block[2], block[3]))
            self._held += block[0].size

    async def _flush(self) -> None:
        if not self._blocks:
            return
        times, devices, owners, values = (
            np.concatenate(parts) for parts in zip(*self._blocks, strict=True)
        )
        self._blocks, self._held = [], 0
        order = np.lexsort((devices, times))
        unit = UNITS[self._map.unit]
        taken = await self._intake.store_rows(
            (
                times[order].tolist(),
                devices[order].tolist(),
                owners[order].tolist(),
                values[order].tolist(),
            ),
            (self._map.register_name, unit.base),
        )
        found = Counter(status for _, status in taken)
        self.progress.duplicates += found[Status.DUPLICATE]
        self.progress.conflicts += found[Status.CONFLICT]
        self.progress.accepted += int(times.size) - len(taken)


def _split(line: bytes, mapping: ColumnMap) -> list[str]:
    text = line.decode("utf-8", "replace").rstrip("\r")
    return next(csv.reader([text], delimiter=mapping.delimiter), [])
