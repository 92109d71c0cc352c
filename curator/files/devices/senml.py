"""Files of SenML (RFC 8428), JSON or CBOR: `curator.intake.senml` resolves their records.

A file is read record by record, so its size does not matter. A relative time is refused: when the
list was sent is not known.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, Final

import cbor2

from curator.errors import BadImport, BadItem, NotReadings
from curator.files import upload as files
from curator.files.devices.json_records import JsonRecords
from curator.files.metered import Found, MeterMap, Series
from curator.files.tables.header import misplaced
from curator.intake.senml import Measurement, Resolver, booked_as
from tacit import units

_ENDLESS: Final = 31
"""Of an array of CBOR whose length is not written: it ends with a break."""
_BREAK: Final = b"\xff"


class SenmlReader:
    """Reads one list."""

    def __init__(self, mapping: MeterMap) -> None:
        self.found = Found()
        self._map = mapping
        self._resolver = Resolver()
        self._json, self._cbor = JsonRecords(), _CborRecords()
        self._number = 0
        self._binary: bool | None = None
        self._series: dict[tuple[str | None, ...], Series] = {}

    def feed(self, data: bytes) -> None:
        """The next piece."""
        if data:
            self._take(data, last=False)

    def end(self) -> None:
        """The list is at its end. Raises BadImport for one that is cut off."""
        self._take(b"", last=True)

    def _take(self, data: bytes, *, last: bool) -> None:
        if self._binary is None:
            self._binary = 0x80 <= (data or b" ")[0] <= 0x9F
        if self._binary:
            self.found.lines = 1
            for raw in self._cbor.feed(data, last=last):
                self._record(raw, 1)
            return
        records = self._json
        for _, raw in records.feed(data, last=last):
            self._record(raw, records.line)
        self.found.lines = records.line

    def _record(self, raw: Any, line: int) -> None:
        self._number += 1
        try:
            found = self._resolver.record(raw)
            if found is None:
                return
            if found.relative:
                raise BadItem("is relative, and when the list was sent is not known", pointer="/t")
            key = (found.device, found.register, found.unit)
            series = self._series.get(key)
            if series is None:
                series = self._series[key] = self._made(found)
            self.found.add(series, line, found.time, format(found.value, "f").encode())
        except BadItem as error:
            element = f"record {self._number}"
            self.found.fault(line, element, f"{error.pointer} {error.detail}".strip())
        except NotReadings as error:
            raise misplaced(f"record {self._number}: {error.detail}", line) from None

    def _made(self, measurement: Measurement) -> Series:
        register, kind = booked_as(measurement, self._map.register_name, self._map.kind)
        try:
            unit = units.unit_named(measurement.unit).symbol
        except ValueError as error:
            raise BadItem(str(error), pointer="/u") from None
        unsuited = units.mismatch(register, unit)
        if unsuited is not None:
            raise BadItem(unsuited.detail, pointer="/u")
        return Series(measurement.device, measurement.device, register, unit, kind, "v")


class _CborRecords:
    """Reads an array, element by element. Raises BadImport for a damaged array or anything else."""

    def __init__(self) -> None:
        self._rest = b""
        self._left: int | None = None
        """How many records follow; of an endless array -1."""
        self._number = 0

    def feed(self, data: bytes, *, last: bool) -> Iterator[Any]:
        """The records that are complete; `last`: the file ends with this piece."""
        self._rest += data
        stream = io.BytesIO(self._rest)
        begun = 0
        try:
            if self._left is None:
                self._left = _length(stream)
                begun = stream.tell()
            records = cbor2.CBORDecoder(stream)
            while self._left:
                if self._left < 0 and self._rest[begun : begun + 1] == _BREAK:
                    self._left, begun = 0, begun + 1
                    break
                raw = records.decode()
                begun = stream.tell()
                self._left -= self._left > 0
                self._number += 1
                yield raw
        except cbor2.CBORDecodeEOF:
            if last or len(self._rest) - begun > files.MAX_LINE:
                raise self._damaged() from None
        except (cbor2.CBORDecodeError, ValueError, OverflowError, RecursionError):
            raise self._damaged() from None
        self._rest = self._rest[begun:]
        if (last and self._left != 0) or (self._left == 0 and self._rest):
            raise self._damaged()

    def _damaged(self) -> BadImport:
        return BadImport(f"record {self._number + 1}: the CBOR is damaged or cut off")


def _length(stream: io.BytesIO) -> int:
    """Of an array, by its first bytes; -1 where it is not written."""
    first = stream.read(1)
    if not first:
        raise cbor2.CBORDecodeEOF
    size = first[0] & 0x1F
    if size == _ENDLESS:
        return -1
    if size < 24:
        return size
    width = 1 << (size - 24)
    written = stream.read(width)
    if len(written) < width:
        raise cbor2.CBORDecodeEOF
    return int.from_bytes(written, "big")
