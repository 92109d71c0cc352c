"""Columns of a CSV file: what they mean, and their text as exact integers and moments.

`ColumnMap` has the parameters of an import. A plain decimal of few digits is read through a double
and scaled; everything else is read exactly.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from common.runtime.clock import epoch_microseconds, zone_named
from curator.errors import BadItem
from curator.files.encoding import encoding_named
from curator.files.units_and_local_time import Declared, LocalTimes, Twice
from curator.intake.reading import MAX_STORED, MAX_TOTAL, Times, parse_time, to_nano
from tacit.query.terms import Identifier
from tacit.units import NANO, UNITS, Kind
from tacit.wire import require

MAX_STEP_S: Final = 31 * 86_400


class ColumnMap(Declared):
    """What the columns of a file mean. Names are those of its header.

    Stamps with an offset and epoch milliseconds are complete; others are local times of
    `timezone`. `stamp`: which end of its interval a stamp names. A reading is recorded at the
    start of its interval, so with `end` the step is subtracted, in elapsed time.
    """

    layout: Literal["long", "wide", "day", "pivot"] = "long"
    encoding: str | None = None
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    decimal: Literal[".", ","] = "."
    thousands: Literal[",", ".", "'", "’", " "] | None = None
    header_line: Annotated[int, Field(ge=1, le=1000)] = 1
    footer_lines: Annotated[int, Field(ge=0, le=1000)] = 0
    curator: Identifier | None = None
    curator_column: str | None = None
    device_column: str | None = None
    date_column: str | None = None
    time_column: str = "time"
    value_column: str = "value"
    quality_column: str | None = None
    accept: Annotated[str, Field(max_length=200)] | None = None
    """Qualities of readings that are taken, with commas between."""
    time_format: Annotated[str, Field(min_length=2, max_length=64)] | None = None
    timezone: str | None = None
    ambiguous: Twice = Twice.REFUSE
    offset_column: str | None = None
    stamp: Literal["start", "end"] = "start"
    start: str | None = None
    step_s: Annotated[int, Field(ge=1, le=MAX_STEP_S)] | None = None
    columns: Annotated[str, Field(pattern=r"^.+:.+$")] | None = None

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, name: str | None) -> str | None:
        try:
            return name if name is None else encoding_named(name)
        except ValueError as error:
            return require(False, name, str(error))

    @field_validator("time_format")
    @classmethod
    def _a_format(cls, form: str | None) -> str | None:
        try:
            datetime.strptime("", form or "%Y")  # noqa: DTZ007 - only the format counts
        except ValueError as error:
            require("bad directive" not in str(error), form, "is not of the form of strptime")
        except re.error:
            return require(False, form, "names a part of the time twice")
        return form

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, name: str | None) -> str | None:
        try:
            return name if name is None else zone_named(name).key
        except ValueError as error:
            return require(False, name, str(error))

    @model_validator(mode="after")
    def _consistent(self) -> ColumnMap:
        wide, counter = self.layout == "wide", self.kind is Kind.TOTAL_INCREASING
        timed = self.start is not None and self.step_s is not None
        require(not wide or timed, self, "layout wide needs start and step_s")
        require(self.layout == "long" or not counter, self, "counters come in layout long")
        day = self.layout == "day"
        require(not day or self.timezone is not None, self, "layout day needs the timezone")
        require(counter or self.rollover is None, self, "rollover is of counters")
        ends = self.stamp == "end"
        require(not ends or day or self.step_s is not None, self, "stamp end needs step_s")
        require(not (ends and counter), self, "a counter is read at a moment: stamp start")
        require(self.decimal != self.delimiter, self, "decimal and delimiter are the same")
        require(self.decimal != self.thousands, self, "decimal and thousands are the same")
        together = (self.quality_column is None) == (self.accept is None)
        require(together, self, "quality_column and accept need each other")
        rows = self.quality_column is None or self.layout in ("long", "day")
        require(rows, self, "quality_column is of layouts long and day")
        require(self.delimiter not in '"\r\n', self, "delimiter is no quote and no line break")
        local = self.ambiguous is not Twice.REFUSE or self.offset_column is not None
        require(not local or self.timezone is not None, self, "ambiguous hours need the timezone")
        if wide:
            _ = self.start_us
        _ = self.rollover_nano
        return self

    def range_in(self, header: Sequence[str]) -> tuple[int, int] | None:
        """First and last index of `columns`, whose names may have colons. Raises ValueError."""
        if self.columns is None:
            return None
        parts = self.columns.split(":")
        names = [(":".join(parts[:at]), ":".join(parts[at:])) for at in range(1, len(parts))]
        pairs = [pair for pair in names if pair[0] in header and pair[1] in header]
        if len(pairs) != 1:
            raise ValueError("the header has no such columns")
        first, last = pairs[0]
        return header.index(first), len(header) - 1 - header[::-1].index(last)

    @property
    def rollover_nano(self) -> int | None:
        """Size of the counter in nano-units."""
        if self.rollover is None:
            return None
        try:
            size = to_nano(self.rollover, self.unit, "rollover", MAX_TOTAL)
        except BadItem as error:
            return require(False, 0, f"rollover {error.detail}")
        return require(size > 0, size, "rollover is the size of a counter, above 0")

    @property
    def start_us(self) -> int:
        """Layout wide: microseconds since 1970 at which its first column begins."""
        assert self.start is not None
        assert self.step_s is not None
        try:
            moment = datetime.fromisoformat(self.start)
        except ValueError:
            moment = datetime.min  # noqa: DTZ901 - represents no time, refused below
        local = moment.tzinfo is None
        resolvable = moment != datetime.min and (not local or self.timezone is not None)  # noqa: DTZ901
        require(
            resolvable, self, "start is an RFC 3339 time, with an offset or a timezone beside it"
        )
        if not local:
            begin = epoch_microseconds(moment)
        else:
            try:
                begin = self.local_times().resolve(moment)
            except BadItem as error:
                return require(False, 0, f"start {error.detail}")
        return begin - (self.step_s * 10**6 if self.stamp == "end" else 0)

    def local_times(self) -> LocalTimes:
        """A resolver of local times, for one file."""
        assert self.timezone is not None
        return LocalTimes(zone_named(self.timezone), self.ambiguous, ends=self.stamp == "end")


def numbers_of(cells: Sequence[bytes], mapping: ColumnMap) -> Sequence[bytes]:
    """Cells with the map's marks as plain decimals; a cell that is no number with these marks
    becomes none."""
    if mapping.thousands is not None:
        cells = [_ungrouped(cell, mapping.thousands, mapping.decimal) for cell in cells]
    if mapping.decimal == ",":
        cells = [cell.translate(_COMMA) for cell in cells]
    return cells


_COMMA: Final = bytes.maketrans(b",.", b".!")
"""A decimal comma becomes a point; what was a point is no longer a number."""
_BLANKS: Final = ("\u00a0".encode(), "\u202f".encode())
"""Blanks that do not break a line, as programs write between thousands."""


def _ungrouped(cell: bytes, thousands: str, decimal: str) -> bytes:
    mark, cell = thousands.encode(), cell.strip()
    if thousands == " ":
        for blank in _BLANKS:
            cell = cell.replace(blank, mark)
    if mark not in cell:
        return cell
    grouped = _grouped(thousands, decimal).fullmatch(cell)
    return cell.replace(mark, b"") if grouped else b"?"


@lru_cache
def _grouped(thousands: str, decimal: str) -> re.Pattern[bytes]:
    mark, point = (re.escape(sign.encode()) for sign in (thousands, decimal))
    return re.compile(rb"[+-]?\d{1,3}(?:" + mark + rb"\d{3})+(?:" + point + rb"\d*)?")


# Columns of text into exact integers, many at once. A plain decimal of few digits is read through a
# double and scaled: with magnitude below 2^50 and no more decimals than the scale has, the product
# is off by less than a quarter, so rounding gives the exact integer. Everything else is parsed
# exactly, cell by cell.

Ints = NDArray[np.int64]
_PLAIN: Final = b"0123456789.-"
_CLOCK: Final = b"0123456789-:TZ"
_SAFE: Final = float(1 << 50)


@dataclass(frozen=True)
class Column:
    """Integers, and what is wrong with the cells that have none: (position, message)."""

    values: Ints
    faults: tuple[tuple[int, str], ...]


def quantities(cells: Sequence[bytes], unit: str, *, totals: bool = False) -> Column:
    """Nano-units of the base unit. `totals`: of a counter, which is never negative."""
    fast = _fast_quantities(cells, unit)
    if fast is not None and not (totals and (fast < 0).any()):
        return Column(fast, ())
    values = np.zeros(len(cells), np.int64)
    faults = []
    most = MAX_TOTAL if totals else MAX_STORED
    for index, cell in enumerate(cells):
        try:
            value = to_nano(cell.decode("utf-8", "replace").strip(), unit, "value", most)
            if totals and value < 0:
                raise BadItem("of a counter is below zero")
            values[index] = value
        except BadItem as error:
            faults.append((index, f"the value {error.detail}"))
    return Column(values, tuple(faults))


def _fast_quantities(cells: Sequence[bytes], unit: str) -> Ints | None:
    scale = UNITS[unit].factor * NANO
    if scale.denominator != 1 or not cells:
        return None
    decimals = len(str(scale)) - 1
    if max(map(len, cells)) > min(15, decimals + 1) or b"".join(cells).translate(None, _PLAIN):
        return None
    try:
        scaled = np.array(list(map(float, cells))) * float(scale)
    except ValueError:
        return None
    if not (np.abs(scaled) < _SAFE).all():
        return None
    return np.rint(scaled).astype(np.int64)


def times(cells: Sequence[bytes], allowed: Times) -> Column:
    """Microseconds since 1970 of ISO 8601 texts with an offset, or epoch milliseconds."""
    fast = _fast_times(cells)
    if fast is not None and allowed.hold(fast).all():
        return Column(fast, ())
    values = np.zeros(len(cells), np.int64)
    faults = []
    for index, cell in enumerate(cells):
        text = cell.decode("utf-8", "replace").strip()
        try:
            number = text.isascii() and text.isdecimal() and len(text) <= 15
            parsed = None if number else _parsed(text, None)
            if parsed is not None and parsed.tzinfo is not None:  # without seconds, too
                values[index] = allowed.check(epoch_microseconds(parsed))
            else:
                values[index] = parse_time(Decimal(text) if number else text, allowed)
        except BadItem as error:
            faults.append((index, f"the time {error.detail}"))
    return Column(values, tuple(faults))


def _fast_times(cells: Sequence[bytes]) -> Ints | None:
    joined = b"".join(cells)
    if len(joined) != 20 * len(cells) or joined.translate(None, _CLOCK):
        return None
    if joined[10::20] != b"T" * len(cells) or joined[19::20] != b"Z" * len(cells):
        return None
    try:
        texts = np.frombuffer(joined, "S20").astype("U19")
        return texts.astype("datetime64[us]").astype(np.int64)
    except ValueError:
        return None


@dataclass(frozen=True)
class StampCells:
    """The cells of some rows; `dates` and `marks` if the map names such columns."""

    times: Sequence[bytes]
    dates: Sequence[bytes] | None
    marks: Sequence[bytes] | None
    devices: Sequence[Hashable]


class Stamps:
    """Reads the stamps of one file, lot by lot, in the order of its rows."""

    def __init__(self, mapping: ColumnMap) -> None:
        self._map = mapping
        self._local = None if mapping.timezone is None else mapping.local_times()
        ends = mapping.stamp == "end" and mapping.step_s is not None
        self._ends = ends
        self._back = (mapping.step_s or 0) * 10**6 if ends else 0

    def moments(self, cells: StampCells, allowed: Times) -> Column:
        """Microseconds since 1970, and what is wrong with the cells that have no valid time."""
        plain = self._local is None and self._map.time_format is None and cells.dates is None
        if plain and not (self._ends and any(b"24:00" in cell for cell in cells.times)):
            return self._begins(times(cells.times, allowed), allowed)
        values = np.zeros(len(cells.times), np.int64)
        faults = []
        for index, cell in enumerate(cells.times):
            text = _text(cell)
            if cells.dates is not None:
                text = f"{_text(cells.dates[index])} {text}"
            mark = None if cells.marks is None else _text(cells.marks[index])
            try:
                values[index] = allowed.check(
                    self._moment(text, cells.devices[index], mark, allowed)
                )
            except BadItem as error:
                faults.append((index, f"the time {error.detail}"))
        return self._begins(Column(values, tuple(faults)), allowed)

    def _moment(self, text: str, device: Hashable, mark: str | None, allowed: Times) -> int:
        number = text.isascii() and text.isdecimal() and len(text) <= 15
        if number and self._map.time_format is None:
            return parse_time(Decimal(text), allowed)
        parsed = _parsed(text, self._map.time_format)
        if parsed is None and (midnight := _end_of_day(text, self._map.time_format)) is not None:
            if not self._ends:
                raise BadItem('is 24:00, the end of a day: only where stamp = "end"')
            parsed = midnight
        if parsed is None:
            if self._map.time_format is not None:
                raise BadItem("is not of the form in time_format")
            return parse_time(text, allowed)
        if parsed.tzinfo is not None:
            return epoch_microseconds(parsed)
        if self._local is None:
            raise BadItem("has no offset, and no timezone is given")
        return self._local.resolve(parsed, device, mark)

    def _begins(self, starts: Column, allowed: Times) -> Column:
        if not self._back:
            return starts
        begins = starts.values - self._back
        faults = dict(starts.faults)
        early = np.flatnonzero(begins < allowed.earliest).tolist()
        before = f"the time lies before {allowed.first_day}"
        faults |= {index: before for index in early if index not in faults}
        return Column(begins, tuple(sorted(faults.items())))


def _text(cell: bytes) -> str:
    return cell.decode("utf-8", "replace").strip()


_HOUR_24: Final = re.compile(r"(?<!\d)24(?=:?00(?!\d))", re.ASCII)


def _end_of_day(text: str, form: str | None) -> datetime | None:
    """The next day's midnight, where a text has 24:00 for its time."""
    parsed = _parsed(_HOUR_24.sub("00", text), form) if _HOUR_24.search(text) else None
    if parsed is None or parsed.time() != time() or parsed.date() == date.max:
        return None
    return parsed + timedelta(days=1)


@lru_cache(maxsize=100_000)
def _parsed(text: str, form: str | None) -> datetime | None:
    try:
        if form is None:
            return datetime.fromisoformat(text)
        return datetime.strptime(text, form)  # noqa: DTZ007 - the map's zone comes after
    except ValueError:
        return None
