r"""InfluxDB line protocol: one point a line.

    measurement,tag=value,tag=value field=1.5,other=2i 1762200000000000000

Source: InfluxData, "Line protocol". A blank ends the measurement with its tags and ends the fields;
commas, blanks, = and \ are escaped by \ in names and tags; a field is a number, an integer with i
or u, a text in double quotes, or a truth value; a line with # is a comment. Its rules here:

- The map names the field that is read (`value_column`, by default `value`), and the tags of the
  device and curator. Points without that field, or of another `measurement`, are passed over.
- The unit of the times is `precision`, by default nanoseconds as in InfluxDB. A point without a
  time is reported and not taken: the database would give it the time at which it arrives.
- Texts and truth values are no readings.
"""

from __future__ import annotations

import re
from typing import Final

from curator.errors import BadImport
from curator.files.metered import LineReader, MeterMap, Series
from tacit import units
from tacit.units import Kind

DIVISORS: Final = {"ns": 1000, "us": 1}
FACTORS: Final = {"ms": 1000, "s": 10**6, "us": 1}
_POINT: Final = re.compile(
    rb'((?:[^ \\]|\\.)++) ++((?:[^ "\\]|\\.|"(?:[^"\\]|\\.)*+")++)(?: +(-?\d{1,19}))? *'
)
_COMMAS: Final = re.compile(rb"(?:[^,\\]|\\.)+")
_FIELDS: Final = re.compile(rb'(?:[^,"]|"(?:[^"\\]|\\.)*")+')
_ESCAPE: Final = re.compile(rb"\\([, =\\])")
_NUMBER: Final = re.compile(rb"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)|([+-]?\d{1,20})[iu]")


class InfluxReader(LineReader):
    """Reads points one after the other."""

    def __init__(self, mapping: MeterMap) -> None:
        super().__init__()
        self._map = mapping
        if mapping.unit is None:
            raise BadImport("is needed: what the field measures", pointer="/unit")
        self._unit = mapping.unit
        self._register = mapping.register_name or units.DEFAULT
        self._kind = mapping.kind or units.kind_of(self._register)
        unsuited = units.mismatch(self._register, self._unit) or units.kind_mismatch(
            self._register, self._kind
        )
        if unsuited is not None:
            raise BadImport(unsuited.detail, pointer=f"/{unsuited.field}")
        self._field = mapping.value_column.encode()
        self._wanted = None if mapping.measurement is None else mapping.measurement.encode()
        self._keys: dict[bytes, Series | str | None] = {}

    def line(self, number: int, text: bytes) -> None:
        """The next point."""
        if not text.strip() or text.startswith(b"#"):
            return
        point = _POINT.fullmatch(text)
        if point is None:
            detail = "the line is not of the form name,tag=value field=value time"
            self.found.fault(number, None, detail)
            return
        key, fields, time = point.groups()
        value = _field(fields, self._field)
        if value is None:
            return
        series = self._keys.get(key) if key in self._keys else self._of(key)
        if series is None:
            return
        if isinstance(series, str):
            self.found.fault(number, None, series)
            return
        number_text = _NUMBER.fullmatch(value)
        if number_text is None:
            detail = "the value is not a decimal number"
            self.found.fault(number, self._map.value_column, detail)
        elif time is None:
            self.found.fault(number, None, "the point has no time")
        else:
            precision = self._map.precision
            moment = int(time) // 1000 if precision == "ns" else int(time) * FACTORS[precision]
            if abs(moment) >= 1 << 62:
                self.found.fault(number, None, "the time is no time that exists")
                return
            self.found.add(series, number, moment, number_text[1] or number_text[2])

    def _of(self, key: bytes) -> Series | str | None:
        """The series of a name with its tags; the reason why there is none; or None if it is not
        wanted."""
        if len(self._keys) > 200_000:
            self._keys.clear()
        name, *tags = (part for part in _COMMAS.findall(key))
        if self._wanted is not None and _plain(name) != self._wanted:
            self._keys[key] = None
            return None
        found: dict[str, str] = {}
        for tag in tags:
            at = _unescaped(tag)
            if at > 0:
                found[_text(tag[:at])] = _text(tag[at + 1 :])
        device, curator = self._map.device_column, self._map.curator_column
        for column in (device, curator):
            if column is not None and not found.get(column):
                self._keys[key] = f"the point has no tag {column}"
                return self._keys[key]
        meter = "" if device is None else found[device]
        whose = meter if curator is None else found[curator]
        kind = Kind(self._kind)
        made = Series(whose, meter, self._register, self._unit, kind, self._map.value_column)
        self._keys[key] = made
        return made


def _field(fields: bytes, name: bytes) -> bytes | None:
    if b'"' not in fields and b"\\" not in fields:
        for pair in fields.split(b","):
            key, _, value = pair.partition(b"=")
            if key == name:
                return value
        return None
    for pair in _FIELDS.findall(fields):
        at = _unescaped(pair)
        if at > 0 and _plain(pair[:at]) == name:
            return bytes(pair[at + 1 :])
    return None


def _unescaped(text: bytes) -> int:
    at = text.find(b"=")
    while at > 0 and text[at - 1 : at] == b"\\":
        at = text.find(b"=", at + 1)
    return at


def _plain(text: bytes) -> bytes:
    return _ESCAPE.sub(rb"\1", text)


def _text(text: bytes) -> str:
    return _plain(text).decode("utf-8", "replace")
