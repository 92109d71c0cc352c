"""Files of SenML (RFC 8428), JSON or CBOR: `curator.intake.senml` resolves their records.

A file is read record by record, so its size does not matter; a CBOR file is held until its end.
A relative time is refused: when the list was sent is not known.
"""

from __future__ import annotations

import codecs
import io
import json
from typing import Any, Final

import cbor2

from curator.errors import BadImport, BadItem, NotReadings
from curator.files import upload as files
from curator.files.csv_header import misplaced
from curator.files.metered import Found, MeterMap, Series
from curator.intake.reading import decoder
from curator.intake.senml import Resolver, booked_as
from tacit import units

MOST_CBOR: Final = 64 << 20


class SenmlReader:
    """Reads one list."""

    def __init__(self, mapping: MeterMap) -> None:
        self.found = Found()
        self._map = mapping
        self._resolver = Resolver()
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        self._json: json.JSONDecoder = decoder()
        self._text, self._line, self._number = "", 1, 0
        self._state = "begin"
        self._cbor: bytearray | None = None
        self._series: dict[tuple[str, ...], Series] = {}
        self._any = False

    def feed(self, data: bytes) -> None:
        """The next piece."""
        if not self._any and data:
            self._any = True
            if 0x80 <= data[0] <= 0x9F:
                self._cbor = bytearray()
        if self._cbor is not None:
            self._cbor += data
            if len(self._cbor) > MOST_CBOR:
                raise BadImport(f"a CBOR file has at most {MOST_CBOR} bytes")
            return
        try:
            self._text += self._utf8.decode(data)
        except UnicodeDecodeError:
            raise misplaced("not text in UTF-8", self._line) from None
        self._records(last=False)

    def end(self) -> None:
        """The list is at its end. Raises BadImport for one that is cut off."""
        if self._cbor is not None:
            self._cbor_records(bytes(self._cbor))
            return
        self._records(last=True)
        if self._state != "end":
            raise misplaced("the JSON is damaged or cut off", self._line)

    def _records(self, *, last: bool) -> None:
        text, at = self._text, 0
        while True:
            after = at
            while after < len(text) and text[after] in " \t\r\n":
                after += 1
            self._line += text.count("\n", at, after)
            at = after
            if at == len(text):
                break
            if self._state == "end" or (self._state == "begin" and text[at] != "["):
                raise misplaced("SenML is one array of records", self._line)
            if self._state == "begin":
                self._state, at = "first", at + 1
            elif self._state == "after" and text[at] == ",":
                self._state, at = "record", at + 1
            elif self._state in ("after", "first") and text[at] == "]":
                self._state, at = "end", at + 1
            elif self._state == "after":
                raise misplaced("the JSON is damaged", self._line)
            else:
                try:
                    raw, stop = self._json.raw_decode(text, at)
                except (ValueError, RecursionError):
                    if last or len(text) - at > files.MAX_LINE:
                        raise misplaced("the JSON is damaged or cut off", self._line) from None
                    break
                self._record(raw)
                self._line += text.count("\n", at, stop)
                self._state, at = "after", stop
        self._text = text[at:]
        self.found.lines = self._line

    def _cbor_records(self, body: bytes) -> None:
        stream = io.BytesIO(body)
        first = stream.read(1)[0] & 0x1F
        try:
            if first == 31:  # of a length that is not written
                for raw in cbor2.loads(body):
                    self._record(raw)
            else:
                length = first
                if first >= 24:
                    length = int.from_bytes(stream.read(1 << (first - 24)), "big")
                records = cbor2.CBORDecoder(stream)
                while self._number < length:
                    self._record(records.decode())
        except (cbor2.CBORDecodeError, ValueError, OverflowError, RecursionError):
            detail = f"record {self._number + 1}: the CBOR is damaged or cut off"
            raise BadImport(detail) from None
        self.found.lines = 1

    def _record(self, raw: Any) -> None:
        self._number += 1
        element = f"record {self._number}"
        try:
            found = self._resolver.record(raw)
            if found is None:
                return
            if found.relative:
                raise BadItem("is relative, and when the list was sent is not known", pointer="/t")
            register, kind = booked_as(found, self._map.register_name, self._map.kind)
            key = (found.device, register, found.unit)
            series = self._series.get(key)
            if series is None:
                try:
                    unit = units.unit_named(found.unit).symbol
                except ValueError as error:
                    raise BadItem(str(error), pointer="/u") from None
                unsuited = units.mismatch(register, unit)
                if unsuited is not None:
                    raise BadItem(unsuited.detail, pointer="/u")
                made = Series(found.device, found.device, register, unit, kind, "v")
                series = self._series[key] = made
            self.found.add(series, self._line, found.time, format(found.value, "f").encode())
        except BadItem as error:
            self.found.fault(self._line, element, f"{error.pointer} {error.detail}".strip())
        except NotReadings as error:
            raise misplaced(f"{element}: {error.detail}", self._line) from None
