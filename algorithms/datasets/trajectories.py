"""Kind `trajectories`: paths of (location, time) points with sensitive attributes, and readers.

Files are NDJSON, or two CSV parts.
"""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from tacit.records import text_files
from tacit.records.text_files import (
    MalformedRow,
    TooManyRows,
    json_float,
    number,
    number_problem,
    text_lines,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Codes = NDArray[np.int32]

MAX_RECORDS: Final = 5 * 10**6
ABSENT: Final = -1


@dataclass(frozen=True, eq=False)
class Attribute:
    """A sensitive attribute: `codes` (n,) are places in `values`; ABSENT where a record has none.

    Raises ValueError for values that repeat and codes that are out of range.
    """

    name: str
    values: tuple[str, ...]
    codes: Codes

    def __post_init__(self) -> None:
        if len(set(self.values)) != len(self.values):
            raise ValueError("values of an attribute differ")
        if self.codes.size and not (
            self.codes.min() >= ABSENT and self.codes.max() < len(self.values)
        ):
            raise ValueError("a code is a place in the values, or absent")


@dataclass(frozen=True, eq=False)
class Trajectories:
    """Kind `trajectories`: n records, their points one after the other.

    offsets (n + 1,): the points of record i are offsets[i]..offsets[i + 1]. times (points,):
    finite, strictly increasing in a record; whole numbers stay exact up to 2^53. A point's location
    is either a name, locations[places[j]], or a position coordinates[j] = (x, y) for points that
    have no name yet (then `places` and `locations` are empty). Empty paths and no records at all
    are legal. Raises ValueError for arrays that do not fit.
    """

    offsets: Ints
    times: Floats
    places: Codes
    locations: tuple[str, ...]
    attributes: tuple[Attribute, ...] = ()
    coordinates: Floats | None = None

    def __post_init__(self) -> None:
        points = self.times.size
        if self.offsets.size < 1 or self.offsets[0] != 0 or self.offsets[-1] != points:
            raise ValueError("offsets run from 0 to the number of points")
        if (np.diff(self.offsets) < 0).any():
            raise ValueError("offsets never fall")
        if self.coordinates is not None:
            if self.places.size or self.locations:
                raise ValueError("a point has a name or a position")
            if self.coordinates.shape != (points, 2) or not np.isfinite(self.coordinates).all():
                raise ValueError("a position is two finite numbers")
        elif self.places.shape != (points,):
            raise ValueError("one location for each point")
        elif points and not 0 <= self.places.min() <= self.places.max() < len(self.locations):
            raise ValueError("a place is an index of the locations")
        if len(set(self.locations)) != len(self.locations):
            raise ValueError("locations differ")
        if not np.isfinite(self.times).all():
            raise ValueError("times are finite")
        if late_points(self.offsets, self.times).size:
            raise ValueError("times increase strictly in a record")
        if len({attribute.name for attribute in self.attributes}) != len(self.attributes):
            raise ValueError("attributes differ")
        if any(attribute.codes.shape != (self.records,) for attribute in self.attributes):
            raise ValueError("an attribute has one code for each record")

    @property
    def records(self) -> int:
        """How many records; private."""
        return int(self.offsets.size - 1)


def late_points(offsets: Ints, times: Floats) -> Ints:
    """The points whose time is not above that of the point before them in their record."""
    late = np.zeros(times.size, bool)
    late[1:] = times[1:] <= times[:-1]
    starts = offsets[:-1]
    late[starts[starts < times.size]] = False
    return np.flatnonzero(late)


# Spec: jobs, section "Datasets". Only one line is in memory at a time, in addition to the result.

LARGEST_TIME: Final = 2.0**53
"""Above it whole numbers are no longer exact, and two times could become one."""

PARTS: Final = ("sensitive", "points")
"""The CSV parts in the order in which they are read; the first may be missing."""

_NAMED: Final = ("record", "location", "time")
_PLACED: Final = ("record", "x", "y", "time")


class TimesNotIncreasing(MalformedRow):
    """A point is not later than the one before it."""

    name = "times_not_increasing"
    title = "Times do not increase in a record"


# ---------------------------------------------------------------------------------------- building


class _Names:
    """Texts and their numbers, in the order of their first appearance."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __getitem__(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))

    def texts(self) -> tuple[str, ...]:
        return tuple(self.numbers)


class _Attributes:
    """Sensitive attributes in order of arrival, record by record."""

    def __init__(self) -> None:
        self.values: dict[str, _Names] = {}
        self.codes: dict[str, array[int]] = {}

    def add(self, record: int, name: str, text: str) -> None:
        """Set an attribute of a record; records come in order."""
        if name not in self.values:
            self.values[name], self.codes[name] = _Names(), array("i")
        codes = self.codes[name]
        codes.extend([ABSENT] * (record - len(codes)))
        codes.append(self.values[name][text])

    def finished(self, records: int) -> tuple[Attribute, ...]:
        """All of them, for this many records."""
        for codes in self.codes.values():
            codes.extend([ABSENT] * (records - len(codes)))
        return tuple(
            Attribute(name, names.texts(), np.array(self.codes[name], np.int32))
            for name, names in self.values.items()
        )


def _number(value: Any, row: int, column: str | int) -> float:
    """A JSON number that a coordinate may be."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise MalformedRow(row, "not a number", column)
    if (wrong := number_problem(value)) is not None:
        raise MalformedRow(row, wrong, column)
    return float(value)


def _time(value: Any, row: int, column: str | int) -> float:
    # an integer is compared before it becomes a float: it may have any number of digits
    if (
        not isinstance(value, bool)
        and isinstance(value, int | float)
        and not (-LARGEST_TIME <= value <= LARGEST_TIME)
    ):
        raise MalformedRow(row, "a time is between -2^53 and 2^53", column)
    return _number(value, row, column)


# ------------------------------------------------------------------------------------------ NDJSON


def read_ndjson(stream: BinaryIO) -> Trajectories:
    """`{"path": [[location, time], ...], "sensitive": {attribute: value, ...}}`, a record a line.

    A location is a text (or a whole number, taken as its text), or a position [x, y]; all points of
    a file are of one sort. A value of an attribute is a text, or a number or truth value, which is
    taken as it is written.
    Raises MalformedRow, TimesNotIncreasing, TooManyRows.
    """
    offsets, times, places = array("q", [0]), array("d"), array("i")
    positions = array("d")
    names, attributes = _Names(), _Attributes()
    placed: bool | None = None
    records = 0
    for row, line in text_lines(stream):
        if records == MAX_RECORDS:
            raise TooManyRows(f"at most {MAX_RECORDS} records")
        path, sensitive = _parsed(line, row)
        before = -math.inf
        for point in path:
            if not isinstance(point, list) or len(point) != 2:
                raise MalformedRow(row, "a point is [location, time]", "path")
            location, time = point[0], _time(point[1], row, "path")
            if time <= before:
                raise TimesNotIncreasing(row, "times increase strictly", "path")
            before = time
            if placed is None:
                placed = isinstance(location, list)
            if placed is not isinstance(location, list):
                raise MalformedRow(row, "names and positions in one file", "path")
            if placed:
                if len(location) != 2:
                    raise MalformedRow(row, "a position is [x, y]", "path")
                positions.extend([_number(coordinate, row, "path") for coordinate in location])
            else:
                places.append(names[_location(location, row)])
            times.append(time)
        for name, value in sensitive.items():
            attributes.add(records, name, _value(value, row, name))
        offsets.append(len(times))
        records += 1
    return Trajectories(
        np.array(offsets, np.int64),
        np.array(times, np.float64),
        np.array(places, np.int32),
        names.texts(),
        attributes.finished(records),
        np.array(positions, np.float64).reshape(-1, 2) if placed else None,
    )


def _parsed(line: str, row: int) -> tuple[list[Any], dict[str, Any]]:
    try:
        document = json.loads(line, parse_constant=_refuse_constant, parse_float=_Written)
    except (ValueError, RecursionError):
        raise MalformedRow(row, "not a JSON object with finite numbers") from None
    if not isinstance(document, dict) or not set(document) <= {"path", "sensitive"}:
        raise MalformedRow(row, "a record has the fields path and sensitive, and no others")
    path, sensitive = document.get("path"), document.get("sensitive", {})
    if not isinstance(path, list):
        raise MalformedRow(row, "a list of points is expected", "path")
    if not isinstance(sensitive, dict):
        raise MalformedRow(row, "an object of attributes is expected", "sensitive")
    return path, sensitive


class _Written(float):
    """A number of JSON that is not whole, and its text."""

    text: str

    def __new__(cls, text: str) -> Self:
        result = super().__new__(cls, json_float(text))
        result.text = text
        return result


def _refuse_constant(_name: str) -> NoReturn:
    raise ValueError


def _location(value: Any, row: int) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise MalformedRow(row, "a location is a text, a whole number or a position", "path")


def _value(value: Any, row: int, column: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, _Written):
        return value.text
    if isinstance(value, bool | int):
        return json.dumps(value)
    raise MalformedRow(row, "a text, a number or a truth value is expected", column)


# --------------------------------------------------------------------------------------------- CSV


def read_csv(parts: Mapping[str, BinaryIO]) -> Trajectories:
    """Two CSV parts with headers: `points` (record, location, time) or (record, x, y, time), and
    `sensitive` (record, attributes...), one row a record. `sensitive` may be missing; it is read
    first.

    The records are those of `sensitive`, in its order (without it: of `points`, as they appear).
    Points of a record need not be adjacent, but must be in the order of time; an empty cell is an
    absent attribute. Raises MalformedRow, TimesNotIncreasing, TooManyRows.
    """
    records, attributes = _Names(), _Attributes()
    sensitive = parts.get("sensitive")
    if sensitive is not None:
        _read_sensitive(sensitive, records, attributes)
    owners, times, lines = array("i"), array("d"), array("i")
    names, places, positions = _Names(), array("i"), array("d")
    rows = _csv_rows(parts["points"])
    header = next(rows, (1, []))[1]
    if sorted(header) not in (sorted(_NAMED), sorted(_PLACED)):
        raise MalformedRow(1, "the columns are record, location, time (or record, x, y, time)")
    placed = "x" in header
    at = {name: place for place, name in enumerate(header)}
    for row, cells in rows:
        record = cells[at["record"]]
        if sensitive is not None and record not in records.numbers:
            raise MalformedRow(row, "a record that the sensitive part does not have", "record")
        owners.append(records[record])
        if len(records.numbers) > MAX_RECORDS:
            raise TooManyRows(f"at most {MAX_RECORDS} records")
        if placed:
            positions.extend([_csv_number(cells[at[name]], row, name) for name in "xy"])
        else:
            places.append(names[cells[at["location"]]])
        times.append(_time(_csv_number(cells[at["time"]], row, "time"), row, "time"))
        lines.append(row)
    return _grouped(
        np.array(owners, np.int64),
        np.array(times, np.float64),
        np.array(lines, np.int64),
        np.array(places, np.int32),
        np.array(positions, np.float64).reshape(-1, 2) if placed else None,
        names.texts(),
        attributes.finished(len(records.numbers)),
        len(records.numbers),
    )


def _grouped(
    owners: Ints,
    times: np.ndarray[Any, np.dtype[np.float64]],
    lines: Ints,
    places: Codes,
    positions: np.ndarray[Any, np.dtype[np.float64]] | None,
    locations: tuple[str, ...],
    attributes: tuple[Attribute, ...],
    records: int,
) -> Trajectories:
    """Points together by record, in their order."""
    order = np.argsort(owners, kind="stable")
    offsets = np.concatenate(([0], np.cumsum(np.bincount(owners, minlength=records))))
    late = late_points(offsets.astype(np.int64), times[order])
    if late.size:
        row = int(lines[order][late].min())
        raise TimesNotIncreasing(row, "times increase strictly in a record", "time")
    return Trajectories(
        offsets.astype(np.int64),
        times[order],
        places if positions is not None else places[order],
        locations,
        attributes,
        None if positions is None else positions[order],
    )


def _read_sensitive(stream: BinaryIO, records: _Names, attributes: _Attributes) -> None:
    rows = _csv_rows(stream)
    header = next(rows, (1, []))[1]
    if not header or header[0] != "record" or len(set(header)) != len(header):
        raise MalformedRow(1, "the columns are record and the names of different attributes")
    for name in header[1:]:
        attributes.values[name], attributes.codes[name] = _Names(), array("i")
    for row, cells in rows:
        number = len(records.numbers)
        if number == MAX_RECORDS:
            raise TooManyRows(f"at most {MAX_RECORDS} records")
        if records[cells[0]] != number:
            raise MalformedRow(row, "a record has one row", "record")
        for name, text in zip(header[1:], cells[1:], strict=True):
            if text:
                attributes.add(number, name, text)


def _csv_rows(stream: BinaryIO) -> Iterator[tuple[int, list[str]]]:
    """Rows as wide as the first, whose names differ, with the line on which each begins."""
    width: int | None = None
    blank: int | None = None
    for line, cells in text_files.rows(stream):
        if blank is not None:
            raise MalformedRow(blank, f"{width} fields are expected")
        if cells == [""] and width is not None:
            blank = line  # at the end of the file it is none
            continue
        if width is None:
            width = len(text_files.distinct(cells, line))
        if len(cells) != width:
            raise MalformedRow(line, f"{width} fields are expected")
        yield line, cells


def _csv_number(text: str, row: int, column: str) -> float:
    try:
        return number(text)
    except ValueError as error:
        raise MalformedRow(row, str(error), column) from None
