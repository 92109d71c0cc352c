"""What a file looks like by its first bytes: its format, and the parameters that it shows itself.

Of CSV only what the file shows is filled in, and only where the map leaves it open: the delimiter,
the line of the header, columns of the usual names, a day a row. Marks of numbers, the order of day
and month, zones and units are never inferred.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from curator.files.options import Form
from curator.files.tables.day_rows import DATE_NAMES, NoDays, day_columns, is_date
from tacit.records.text_files import exact_number

HEAD_BYTES: Final = 1 << 18
_LINES: Final = 60
_USUAL: Final = {
    "time_column": ("time", "timestamp", "datetime"),
    "value_column": ("value",),
    "curator_column": ("curator",),
    "device_column": ("device",),
}
_METERS: Final = ("device", "meter", "meter_id", "nmi", "mpan")


@dataclass(frozen=True)
class Recognised:
    """The format, the parameters that can be read from the file, and an explanation in words."""

    form: Form
    parameters: Mapping[str, Any]
    words: str


def recognise(head: bytes, given: Mapping[str, Any]) -> Recognised:
    """The likely format of a file. `head`: its beginning in UTF-8; `given`: the map, which
    decides."""
    text = head.decode("utf-8", "replace").removeprefix("\ufeff")
    looks = _other(head, text)
    wanted = given.get("form")
    if wanted is not None and wanted != "csv":
        if looks is not None and looks.form == wanted:
            return looks
        but = "" if looks is None else f"; but it looks like {looks.words}"
        return Recognised(wanted, {}, f"{NAMES[wanted]}, as given{but}")
    if looks is not None and wanted is None:
        return looks
    lines = text.splitlines()
    if len(head) >= HEAD_BYTES:
        lines = lines[:-1]
    delimiter = _delimiter(lines, given)
    rows = [
        (number, [cell.strip() for cell in row])
        for number, row in enumerate(_cells(lines[:_LINES], delimiter), 1)
        if any(row)
    ]
    at = _header_at(rows, given)
    if at is None:
        return Recognised("csv", {}, "CSV: no line looks like a header")
    line, header = rows[at]
    first = rows[at + 1][1] if at + 1 < len(rows) else []
    parameters: dict[str, Any] = {}
    if delimiter != ",":
        parameters["delimiter"] = "tab" if delimiter == "\t" else delimiter
    if line > 1 and len(header) > 1:
        parameters["header_line"] = line
    named, words = _layout(header, first, given)
    parameters |= named
    where = "" if line == 1 else f", header in line {line}"
    shown = {",": "comma", ";": "semicolon", "\t": "tab"}.get(delimiter, repr(delimiter))
    return Recognised(
        "csv",
        {name: value for name, value in parameters.items() if name not in given},
        f"CSV, {words}; {shown}{where}",
    )


NAMES: Final[Mapping[Form, str]] = {
    "csv": "CSV",
    "green-button": "Green Button",
    "nem12": "NEM12",
    "nem13": "NEM13",
    "dsmr": "DSMR telegrams",
    "iec62056": "IEC 62056-21",
    "mscons": "MSCONS",
    "senml": "SenML",
    "influx": "InfluxDB line protocol",
    "home-assistant": "Home Assistant's statistics",
}
_TELEGRAM: Final = re.compile(r"^![0-9A-Fa-f]{4}\s*$", re.M)
_LIST: Final = re.compile(r"^\x02?(?:\d{1,2}-\d{1,2}:)?[\dCFP]{1,3}\.[\d.]++[^(\n]*+\(", re.M)
_LINE: Final = re.compile(
    r"(?:[^\S\n]*+(?:#.*+)?\n)*+(?:[^\s,=\\\"]|\\.)++"
    r"(?:,(?:[^\s,=\\]|\\.)++=(?:[^\s,=\\]|\\.)++)*+ (?:[^\s,=\\]|\\.)++="
    r"(?:-?[\d.]+(?:[eE][+-]?\d+)?[iu]?|[tTfF]\w*|\".*?\")(?:,|\s|$)"
)


def _other(head: bytes, text: str) -> Recognised | None:
    """A format that is not CSV, by how a file begins."""
    begin = text.lstrip()
    if begin.startswith("<"):
        return Recognised("green-button", {}, "Green Button: it begins as XML")
    for form in ("nem12", "nem13"):
        if text.startswith(f"100,{form.upper()},"):
            return Recognised(form, {}, f"{NAMES[form]}: it begins with 100,{form.upper()}")
    if begin.startswith(("UNA", "UNB+")):
        return Recognised("mscons", {}, f"MSCONS: it begins with {begin[:3]}, as EDIFACT does")
    if re.search(r"^/[A-Za-z]{3}", text, re.M) and _LIST.search(text):
        if _TELEGRAM.search(text) and "0-0:1.0.0" in text:
            return Recognised("dsmr", {}, "DSMR telegrams: from / to ! and a CRC16")
        return Recognised("iec62056", {}, "IEC 62056-21: OBIS codes after a line with /")
    if _LIST.match(begin):
        return Recognised("iec62056", {}, "IEC 62056-21: it begins with an OBIS code")
    if re.match(r'\[\s*\{\s*"(?:n|v|u|t|s|bn|bt|bu|bv|bs|bver|v[sbd])"\s*:', begin):
        return Recognised("senml", {}, "SenML: a JSON array of records")
    if _cbor_maps(head):
        return Recognised("senml", {}, "SenML: a CBOR array of maps")
    if begin.startswith("{") and re.search(r'"start"\s*:', text) and _STATISTICS.search(text):
        words = "Home Assistant's statistics: rows with start and change, sum or mean"
        return Recognised("home-assistant", {}, words)
    if _LINE.match(text):
        return Recognised("influx", {}, "InfluxDB line protocol: a name, and fields of =")
    return None


def _cbor_maps(head: bytes) -> bool:
    """Whether these bytes begin a CBOR array whose first item is a map."""
    if not head or not 0x80 <= head[0] <= 0x9F:
        return False
    length = head[0] & 0x1F
    first = head[1 + (1 << (length - 24) if 24 <= length <= 27 else 0) :][:1]
    return bool(first) and 0xA0 <= first[0] <= 0xBF


_STATISTICS: Final = re.compile(r'"(?:change|sum|mean|state)"\s*:')


def _cells(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """The cells of each line; a line with unclosed quotes is one cell."""
    rows = []
    for line in lines:
        try:
            rows.append(next(csv.reader([line], delimiter=delimiter, strict=True), []))
        except csv.Error:
            rows.append([line])
    return rows


def _delimiter(lines: Sequence[str], parameters: Mapping[str, Any]) -> str:
    """The given one; else that with which the most lines, and more than half, have the same
    number of cells. A decimal comma occurs neither in the header nor in whole numbers."""
    if "delimiter" in parameters:
        named = str(parameters["delimiter"])
        return "\t" if named in ("tab", "\\t") else named[:1] or ","
    best, most = ",", 0
    for delimiter in (",", ";", "\t", "|"):
        if delimiter == parameters.get("decimal"):
            continue
        counts = [len(row) for row in _cells(lines[:_LINES], delimiter) if any(row)]
        usual = max(set(counts), key=counts.count, default=1)
        alike = counts.count(usual)
        if usual > 1 and 2 * alike > len(counts) and alike > most:
            best, most = delimiter, alike
    return best


def _header_at(rows: Sequence[tuple[int, list[str]]], parameters: Mapping[str, Any]) -> int | None:
    """The given one; else the first line of names with as many cells as the line after it."""
    if "header_line" in parameters:
        numbers = [number for number, _ in rows]
        return (
            numbers.index(parameters["header_line"])
            if parameters["header_line"] in numbers
            else None
        )
    for index, (_, row) in enumerate(rows):
        if row[0].count('"') % 2:  # a cell that goes over lines: where the header is, is not seen
            return None
        follows = rows[index + 1][1] if index + 1 < len(rows) else row
        names = all(exact_number(cell) is None and not is_date(cell) for cell in row[:2])
        if len(row) == len(follows) and (len(row) > 1 or index + 1 == len(rows)) and names:
            return index
    return None


def _layout(
    header: Sequence[str], first: Sequence[str], given: Mapping[str, Any]
) -> tuple[dict[str, Any], str]:
    if "layout" in given:
        layout = str(given["layout"])
        return _columns(header, given) if layout == "long" else {}, f"layout {layout} as given"
    lower = [name.lower() for name in header]
    dated = [
        at
        for at, cell in enumerate(first[: len(header)])
        if is_date(cell, header[at]) and (lower[at] in DATE_NAMES or at < 6)
    ]
    for stamp in ("start", "end"):
        try:
            days = day_columns(header, stamp=stamp)
        except NoDays:
            continue
        if len(dated) != 1 or dated[0] >= days.first:
            break
        parameters: dict[str, Any] = {"layout": "day", "date_column": header[dated[0]]}
        meters = [at for at in range(days.first) if lower[at] in _METERS and at != dated[0]]
        if meters:
            parameters["device_column"] = header[meters[0]]
        if "curator" in lower and "curator" not in given:
            parameters["curator_column"] = header[lower.index("curator")]
        last = header[days.first + days.count - 1]
        why = (
            f"dates in {header[dated[0]]!r}, {days.count} intervals {header[days.first]} to {last}"
        )
        return parameters, f"a day a row ({why})"
    named = _columns(header, given)
    columns = {**given, **named}
    short = {name: columns.get(f"{name}_column", name) for name in ("time", "value")}
    if all(name in header for name in short.values()):
        return named, f"a reading a row (columns {short['time']!r} and {short['value']!r})"
    numbers = first[1 : len(header)]
    if short["time"] in header and numbers and all(map(exact_number, numbers)):
        return named, "a time and numbers a row: if each column is a meter, give layout pivot"
    return named, "a reading a row, unless the map says more"


def _columns(header: Sequence[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of the usual names, in any case, where the map names none."""
    parameters: dict[str, Any] = {}
    lower = [name.lower() for name in header]
    for parameter, names in _USUAL.items():
        of_whom = parameter in ("curator_column", "device_column")
        if of_whom and {"curator_column", "device_column"} & given.keys():
            continue
        if parameter == "curator_column" and "curator" in given:
            continue
        usual = [name for name in names if lower.count(name) == 1]
        if (len(usual) == 1 and header[lower.index(usual[0])] != names[0]) or (usual and of_whom):
            parameters[parameter] = header[lower.index(usual[0])]
    return parameters
