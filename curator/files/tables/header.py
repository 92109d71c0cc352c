"""The header of a CSV file: where a column map finds its columns, or why it does not fit.

A file that has a day a row is refused under every other layout: its readings would be stored at
wrong times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from curator.errors import BadImport
from curator.files.tables.columns import ColumnMap
from curator.files.tables.day_rows import DAY_S, DayColumns, NoDays, day_columns, names_a_time
from tacit.records.text_files import MalformedRow, distinct, first_line, split

LONGEST_S: Final = 1 << 40
"""Beyond every time that a reading may have, and in microseconds below 2^62."""
MANY_TIMES: Final = 12
"""This many columns whose names are times of day look like the intervals of a day."""
LIKE_DAYS: Final = "this looks like a day per row: give layout day, with the timezone"


@dataclass(frozen=True)
class Header:
    """The names of the columns, and the indexes of the map's columns by meaning (`at`).

    `first`, `last`: of layouts wide and day, the columns of values, half open. `days`: of layout
    day. `meters`: of layout pivot, their columns. `daily`: whether the columns of layout wide
    are a day's intervals.
    """

    line: int
    names: tuple[str, ...]
    at: dict[str, int]
    first: int = 0
    last: int = 0
    days: DayColumns | None = None
    meters: tuple[int, ...] = ()
    daily: bool = False

    @property
    def fewest_cells(self) -> int:
        """How many cells of a row are read at least."""
        by_clock = self.days is not None and self.days.walls is not None
        return 1 + max(*self.at.values(), *self.meters, self.last - 1 if by_clock else 0, 0)


def read_header(mapping: ColumnMap, line: int, record: bytes) -> Header:
    """The header in this line. Raises BadImport if the map does not fit it."""
    names = _names(mapping, line, record)
    many_times = sum(":" in name and names_a_time(name) for name in names) >= MANY_TIMES
    if mapping.layout == "wide":
        first, last = _values(mapping, names, line)
        assert mapping.step_s is not None
        is_a_day_long = abs((last - first) * mapping.step_s - DAY_S) <= 3600
        return Header(line, names, {}, first, last, daily=many_times or is_a_day_long)
    days = _days_in(names)
    at = _places(mapping, names, line, like_days=many_times or days is not None)
    if mapping.layout == "day":
        days = _day_columns(mapping, names, at, line)
        return Header(line, names, at, days.first, days.first + days.count, days)
    if mapping.layout == "pivot":
        if many_times:
            raise misplaced(LIKE_DAYS, line, pointer="/layout")
        return Header(line, names, at, meters=_meters(mapping, names, at, line))
    counted = days is not None and days.first <= at["value"] < days.first + days.count
    if counted or (many_times and names_a_time(mapping.value_column)):
        raise misplaced(LIKE_DAYS, line, pointer="/layout")
    return Header(line, names, at)


def _names(mapping: ColumnMap, line: int, record: bytes) -> tuple[str, ...]:
    try:
        names = [cell.decode().strip() for cell in split(record, mapping.delimiter.encode())]
    except UnicodeDecodeError:
        names = ["\0"]
    if any("\0" in name for name in names):
        raise misplaced("the header is not text in UTF-8: give its encoding", line)
    try:
        # Of a day a row, columns of the hour that comes twice may have one name.
        times = mapping.layout == "day"
        distinct(["" if times and names_a_time(name) else name for name in names], line)
    except MalformedRow as error:
        column = error.column if isinstance(error.column, int) else None
        raise misplaced(error.reason, line, column) from None
    return tuple(names)


def _places(
    mapping: ColumnMap, names: Sequence[str], line: int, *, like_days: bool
) -> dict[str, int]:
    """The indexes of the map's columns, by their meaning."""
    named = {
        "time": mapping.time_column,
        "value": mapping.value_column,
        "curator": mapping.curator_column,
        "device": mapping.device_column,
        "date": mapping.date_column,
        "offset": mapping.offset_column,
        "quality": mapping.quality_column,
    }
    if mapping.layout == "day":
        named |= {"time": None, "value": None, "date": mapping.date_column or "date"}
    elif mapping.layout == "pivot":
        named |= {"value": None, "curator": None, "device": None}
    for meaning, name in named.items():
        if name is not None and name not in names:
            detail = f"the header has no column {name!r}; it has {len(names)}"
            if like_days and mapping.layout != "day":
                detail += f". {LIKE_DAYS}"
            raise misplaced(detail, line, pointer=f"/{meaning}_column")
    return {meaning: names.index(name) for meaning, name in named.items() if name is not None}


def _days_in(names: Sequence[str]) -> DayColumns | None:
    """The columns of a day's intervals, if the header looks as if it had any."""
    for stamp in ("start", "end"):
        try:
            return day_columns(names, stamp=stamp)
        except NoDays:
            continue
    return None


def _day_columns(
    mapping: ColumnMap, names: Sequence[str], at: dict[str, int], line: int
) -> DayColumns:
    between = _given_columns(mapping, names, line)
    try:
        days = day_columns(names, columns=between, step_s=mapping.step_s, stamp=mapping.stamp)
    except NoDays as error:
        raise misplaced(str(error), line, pointer=error.pointer) from None
    if any(days.first <= index < days.first + days.count for index in at.values()):
        detail = "a column of the day's intervals has another meaning too"
        raise misplaced(detail, line, pointer="/columns")
    return days


def _meters(
    mapping: ColumnMap, names: Sequence[str], at: dict[str, int], line: int
) -> tuple[int, ...]:
    first, last = _given_columns(mapping, names, line) or (0, len(names) - 1)
    other_columns = set(at.values())
    meters = tuple(
        index for index in range(first, last + 1) if index not in other_columns and names[index]
    )
    if not meters:
        detail = "the header has no columns of meters: is the delimiter right?"
        raise misplaced(detail, line, pointer="/delimiter")
    return meters


def _values(mapping: ColumnMap, names: Sequence[str], line: int) -> tuple[int, int]:
    """The columns of layout wide that have values, half open."""
    if mapping.columns is None and first_line(names) != "names":
        detail = "these are numbers: is the header missing? If they are names, give `columns`"
        raise misplaced(detail, line, pointer="/columns")
    between = _given_columns(mapping, names, line)
    begin, end = (1, len(names)) if between is None else (between[0], between[1] + 1)
    if begin >= end:
        detail = "the header has no columns of values: is the delimiter right?"
        raise misplaced(detail, line, pointer="/delimiter")
    assert mapping.step_s is not None
    if (end - begin) * mapping.step_s > LONGEST_S:
        raise misplaced("the columns reach beyond every time", line, pointer="/step_s")
    return begin, end


def _given_columns(mapping: ColumnMap, names: Sequence[str], line: int) -> tuple[int, int] | None:
    try:
        return mapping.range_in(names)
    except ValueError as error:
        raise misplaced(str(error), line, pointer="/columns") from None


def misplaced(detail: str, line: int, column: int | None = None, *, pointer: str = "") -> BadImport:
    """An error of a whole file, with its place."""
    place = f"line {line}" + ("" if column is None else f", column {column}")
    extra = {"line": line, "column": column}
    return BadImport(f"{place}: {detail}", pointer=pointer, extra=extra)
