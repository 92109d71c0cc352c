"""A Green Button feed into the store: usage points to curators, series to readings.

The file is read to its end before anything is stored, so a file that is damaged or cut off stores
nothing. A block or reading that cannot be taken is reported with line and element, and spoils no
other.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from common.principals import Principal
from curator.errors import BadItem, ForeignCurator, UnknownCurator
from curator.files import upload as files
from curator.files.green_button import Entry, Feed, FeedReader, Series, series
from curator.files.upload import Progress, take_counters
from curator.intake.intake import Intake, Status
from curator.intake.reading import MAX_STORED, Times, to_nano
from curator.settings import CuratorSettings
from tacit.query.terms import Identifier
from tacit.units import Kind
from tacit.wire import WireModel

Ints = NDArray[np.int64]
FLUSH: Final = 400_000
MICROSECONDS: Final = 10**6
_IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}")


class FeedMap(WireModel):
    """Whose the usage points of a feed are. Keys are an entry's id (with or without `urn:uuid:`),
    its title, or the last part of its self link."""

    curator: Identifier | None = None
    usage_points: dict[str, Identifier] = Field(default_factory=dict, max_length=100_000)


class FeedImport:
    """One feed on its way in."""

    def __init__(
        self,
        intake: Intake,
        settings: CuratorSettings,
        mapping: FeedMap,
        caller: Principal,
        progress: Progress,
    ) -> None:
        self._intake, self._settings, self._map = intake, settings, mapping
        self._caller, self.progress = caller, progress
        self._rejected: Counter[int] = Counter()

    async def run(self, chunks: AsyncIterator[bytes]) -> None:
        """Read a body to its end and store it. Raises BadImport if it is no such feed."""
        feed = await self._read(chunks)
        self.progress.lines = feed.lines
        found, faults = await asyncio.to_thread(series, feed)
        for fault, count in faults:
            self.progress.error(
                fault.line, None, f"{fault.element} {fault.detail}", count, element=fault.element
            )
        for each in found:
            await self._store(each)
        await self._intake.count_rejected(
            self._rejected, self.progress.rejected - self.progress.rejected_at_intake
        )
        self.progress.state = "done"

    async def _read(self, chunks: AsyncIterator[bytes]) -> Feed:
        reader, settings = FeedReader(), self._settings
        plain = files.plain_chunks(
            chunks,
            min(settings.import_max_feed_bytes, settings.import_max_plain_bytes),
            settings.import_max_ratio,
        )
        async for chunk in plain:
            await asyncio.to_thread(reader.feed, chunk)
        return await asyncio.to_thread(reader.close)

    async def _store(self, part: Series) -> None:
        lines = part.readings.lines
        try:
            owner, name = self._owner(part.usage_point)
        except (UnknownCurator, ForeignCurator, BadItem) as error:
            point = _short(part.usage_point)
            if point in self.progress.unknown:
                self.progress.rejected += len(lines)
            else:
                self.progress.error(lines[0], None, error.detail, len(lines), element="UsagePoint")
            self.progress.unknown[point] += 1
            return
        device = _device(part.usage_point, name)
        times, values, good = self._columns(part)
        self._rejected[owner] += int((~good).sum())
        if part.kind is Kind.TOTAL_INCREASING:
            await self._counters(part, (name, device), times, good)
        else:
            made = await self._intake.make_devices([(owner, device)])
            await self._rows(part, (owner, made[owner, device]), times[good], values[good])

    def _owner(self, point: Entry | None) -> tuple[int, str]:
        """By the table, by the parameter, by its own name, or the only one hosted. Where there is a
        table, one that it may have meant to name is never that of the only one hosted."""
        names = _names(point)
        listed = next(
            (self._map.usage_points[n] for n in names if n in self._map.usage_points), None
        )
        wanted = listed or self._map.curator
        if wanted is None:
            hosted = self._intake.hosted
            own = (name for name in names if _IDENTIFIER.fullmatch(name))
            wanted = next((name for name in own if hosted.curator(name) is not None), None)
        if wanted is None and self._map.usage_points:
            raise UnknownCurator(
                "usage_points names no such usage point: name one there, or a curator for all"
            )
        return self._intake.curator_of(wanted, self._caller)

    def _columns(self, part: Series) -> tuple[Ints, Ints, NDArray[np.bool_]]:
        starts = np.array(part.readings.starts, np.int64)
        times = self._intake.times
        # `starts` are 62-bit seconds: compared as such, so that nothing wraps.
        whole = Times(-(-times.earliest // MICROSECONDS), times.latest // MICROSECONDS)
        inside = whole.hold(starts)
        values, fits = _nano(part)
        outside = f"lies before {times.first_day} or in the future"
        self._report(part, ~inside, "timePeriod/start", outside)
        self._report(part, inside & ~fits, "value", "is too large to be stored")
        return np.where(inside, starts, 0) * MICROSECONDS, values, inside & fits

    def _report(self, part: Series, bad: NDArray[np.bool_], element: str, detail: str) -> None:
        path = f"IntervalReading/{element}"
        for index in np.flatnonzero(bad).tolist():
            line = part.readings.lines[index]
            self.progress.error(line, None, f"{path} {detail}", element=path)

    async def _rows(self, part: Series, place: tuple[int, int], times: Ints, values: Ints) -> None:
        order = np.argsort(times, kind="stable")
        for begin in range(0, order.size, FLUSH):
            lot = order[begin : begin + FLUSH]
            count = int(lot.size)
            device, owner = (np.full(count, key, np.int64) for key in (place[1], place[0]))
            columns = (times[lot], device, owner, values[lot])
            found = await self._intake.store_columns(columns, part.register, part.unit)
            self.progress.duplicates += found[Status.DUPLICATE]
            self.progress.conflicts += found[Status.CONFLICT]
            self.progress.accepted += found[Status.ACCEPTED]

    async def _counters(
        self, part: Series, place: tuple[str, str], times: Ints, good: NDArray[np.bool_]
    ) -> None:
        lines, values = part.readings.lines, part.readings.values
        rows = [
            (lines[i], _raw(part, place, int(times[i]), values[i]))
            for i in np.flatnonzero(good).tolist()
        ]

        def report(line: int, detail: str) -> None:
            path = "IntervalReading/value"
            self.progress.error(line, None, f"{path} {detail}", element=path)

        await take_counters(self._intake, self._caller, self.progress, rows, report)


def _raw(part: Series, place: tuple[str, str], time: int, written: int) -> dict[str, Any]:
    return {
        "curator": place[0],
        "device": place[1],
        "register": part.register,
        "unit": part.unit,
        "kind": part.kind.value,
        "time": Decimal(time // 1000),
        "value": part.value(written),
    }


def _nano(part: Series) -> tuple[Ints, NDArray[np.bool_]]:
    """Nano-units, and which of the values can be stored."""
    written = np.array(part.readings.values, np.int64)
    scale = part.scale
    if scale is not None:
        fits = np.abs(written) <= MAX_STORED // scale
        return np.where(fits, written, 0) * scale if scale <= MAX_STORED else written, fits
    values = np.zeros(written.size, np.int64)
    fits = np.ones(written.size, np.bool_)
    for index, value in enumerate(part.readings.values):
        try:
            values[index] = to_nano(part.value(value), part.unit, "value")
        except BadItem:
            fits[index] = False
    return values, fits


def _names(point: Entry | None) -> list[str]:
    """The names that a usage point may have in a table."""
    if point is None:
        return []
    last = point.self.rpartition("/")[2]
    found = (point.id, point.id.removeprefix("urn:uuid:"), point.title, last)
    return [name for name in found if name]


def _short(point: Entry | None) -> str:
    names = _names(point)
    return (names[0] if names else "no usage point")[:128]


def _device(point: Entry | None, curator: str) -> str:
    """The usage point's id, else the end of its link, else the curator's own name."""
    found = [name for name in _names(point)[1:] if _IDENTIFIER.fullmatch(name)]
    return found[0] if found else curator
