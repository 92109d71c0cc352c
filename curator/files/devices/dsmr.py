r"""Telegrams of the Dutch, Belgian and Luxembourg smart meters (DSMR P1, versions 4 and 5).

    /KFM5KAIFA-METER                         identification: a telegram begins
    (empty line)
    1-3:0.2.8(50)                            version
    0-0:1.0.0(210203142233W)                 local time of the telegram: S summer, W winter time
    1-0:1.8.1(000123.456*kWh)                a counter; 1-0:1.8.2, 2.8.1, 2.8.2: the other tariffs
    1-0:1.7.0(00.316*kW)                     a state
    0-1:24.1.0(003)                          M-Bus channel 1: 3 gas, 4 heat, 7 water
    0-1:24.2.1(210203140000W)(00012.345*m3)  its reading, at its own time
    !EF2F                                    the end, and a CRC16

Source: Netbeheer Nederland, Dutch Smart Meter Requirements, P1 Companion Standard, versions 4.2.2
and 5.0.2. The CRC16 is that of x16+x15+x2+1, bits in reversed order, from 0, over everything from
the slash to the exclamation mark; 4 hexadecimal digits, the most significant first. Its rules here:

- A telegram with a wrong sum or none, or that is cut off, is reported and none of it is taken. In a
  stream the others are.
- S is UTC+2 and W is UTC+1, unless the map names another zone.
- A telegram has the totals of its tariffs and not their sum: the sum of all that begin with 1-0:1.8
  (2.8) is also booked as `energy_import` (`energy_export`), which queries ask for.
- The last reading of an M-Bus meter is repeated in every telegram: what is unchanged is taken once.
- The meter's number is 0-0:96.1.1, else 96.1.0 or 42.0.0 (as in Luxembourg, Austria and Hungary).
- Lines with other codes (texts, failures, switches) are passed over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from common.runtime.clock import epoch_microseconds, zone_named
from curator.errors import BadItem
from curator.files import upload as files
from curator.files.metered import Found, MeterMap, Series
from curator.files.tables.header import misplaced
from curator.files.units_and_local_time import UNMARKED
from tacit import units
from tacit.units import Kind

OFFSETS: Final = {b"S": timezone(timedelta(hours=2)), b"W": timezone(timedelta(hours=1))}
MEDIA: Final = {b"003": "gas", b"004": "heat", b"007": "water", b"012": "heat"}
"""Device types of EN 13757-3 and their registers."""
_OBJECT: Final = re.compile(rb"^(\d-\d:\d{1,3}\.\d{1,3}\.\d{1,3})((?:\([^()\r\n]*\))+)\r?$", re.M)
_TIME: Final = re.compile(rb"\((\d{12})([SW])\)")
_VALUE: Final = re.compile(rb"\((\d{1,12}(?:\.\d{1,6})?)\*([A-Za-z0-9]{1,5})\)")
_BUS: Final = re.compile(rb"\((\d{12})([SW])\)\((\d{1,12}(?:\.\d{1,6})?)\*([A-Za-z0-9]{1,5})\)")
_ID: Final = re.compile(rb"\(([0-9A-Za-z]{2,96})\)")
_METER: Final = (b"0-0:96.1.1", b"0-0:96.1.0", b"0-0:42.0.0")
"""Codes under which a meter has its number."""
_TOTALS: Final = {
    b"1.8": ("energy_import", b"1-0:1.8.0"),
    b"2.8": ("energy_export", b"1-0:2.8.0"),
}
_END: Final = re.compile(rb"^!([0-9A-Fa-f]{4})?[ \t]*\r?\n", re.M)
_START: Final = re.compile(rb"^/|/(?=[A-Za-z]{3}5)", re.M)
"""Where the one before is cut off, not at the beginning of a line."""
_MOST: Final = 64 * 1024
"""Bytes of a telegram."""
_TOGETHER: Final = 1 << 22
"""Bytes of the telegrams whose sums are computed together, each as long as the longest."""


def _table() -> NDArray[np.uint16]:
    table = np.arange(256, dtype=np.uint16)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ 0xA001, table >> 1).astype(np.uint16)
    return table


_CRC: Final = _table()


def checksums(texts: list[bytes]) -> list[int]:
    """The CRC16 of many texts: one byte of all of them at a time."""
    order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
    sums, begin = [0] * len(texts), 0
    while begin < len(order):
        end = begin + 1
        while end < len(order) and (end + 1 - begin) * len(texts[order[end]]) <= _TOGETHER:
            end += 1
        some = order[begin:end]
        for place, value in zip(some, _together([texts[at] for at in some]), strict=True):
            sums[place] = value
        begin = end
    return sums


def _together(texts: list[bytes]) -> list[int]:
    """Of texts in the order of their lengths."""
    sums = np.zeros(len(texts), np.uint16)
    lengths = np.array([len(text) for text in texts])
    width = int(lengths[-1])
    padded = b"".join(text.ljust(width, b"\0") for text in texts)
    columns = np.frombuffer(padded, np.uint8).reshape(len(texts), width).T.copy()
    for at, first in enumerate(np.searchsorted(lengths, np.arange(width), side="right").tolist()):
        some = sums[first:]
        sums[first:] = _CRC[(some ^ columns[at, first:]) & 0xFF] ^ (some >> 8)
    return list(sums.tolist())


def _as_sent(text: bytes) -> bytes:
    """The text with the line breaks of the standard, which a program that stored it may have
    changed."""
    return text if b"\r" in text else text.replace(b"\n", b"\r\n")


@dataclass(frozen=True)
class Telegram:
    """Its first line, its text from the slash to the exclamation mark, and the checksum after
    it."""

    line: int
    text: bytes
    written: bytes | None


class DsmrReader:
    """Reads a file or stream of telegrams."""

    def __init__(self, mapping: MeterMap) -> None:
        self.found = Found()
        self._zone = None if mapping.timezone is None else zone_named(mapping.timezone)
        self._rest, self._line = b"", 1
        self._series: dict[tuple[str, ...], Series] = {}
        self._times: dict[tuple[bytes, bytes], int] = {}
        self._last: dict[tuple[str, bytes], tuple[int, bytes]] = {}
        self._any = False

    def feed(self, data: bytes) -> None:
        """The next piece."""
        self._cut(self._rest + data)

    def end(self) -> None:
        """What is left is a telegram only if it ends."""
        self._cut(self._rest if self._rest.endswith(b"\n") else self._rest + b"\n", last=True)
        if not self._any:
            raise misplaced("there is no telegram: it begins with / and ends with !", 1)

    def _cut(self, text: bytes, *, last: bool = False) -> None:
        telegrams, at = [], 0
        while end := _END.search(text, at):
            start = _START.search(text, at, end.start())
            while start is not None and (another := _START.search(text, start.end(), end.start())):
                line = self._line + text.count(b"\n", at, start.start())
                self.found.fault(line, None, "the telegram is cut off: another one begins in it")
                start = another
            if start is None:
                line = self._line + text.count(b"\n", at, end.start())
                self.found.fault(line, None, "this ends a telegram that did not begin")
            else:
                line = self._line + text.count(b"\n", at, start.start())
                body = text[start.start() : end.start() + 1]
                if len(body) > _MOST:
                    raise misplaced("the telegram does not end", line)
                telegrams.append(Telegram(line, body, end[1]))
            self._line += text.count(b"\n", at, end.end())
            at = end.end()
        self._rest = text[at:]
        self.found.lines = self._line - 1 + self._rest.count(b"\n")
        if len(self._rest) > max(_MOST, files.MAX_LINE if not self._any else 0):
            raise misplaced("the telegram does not end", self._line)
        if last and (start := _START.search(self._rest)):
            line = self._line + self._rest.count(b"\n", 0, start.start())
            self.found.fault(line, None, "the telegram is cut off: it has no end")
        self._read(telegrams)

    def _read(self, telegrams: list[Telegram]) -> None:
        self._any |= bool(telegrams)
        computed = checksums([_as_sent(telegram.text) for telegram in telegrams])
        for telegram, checksum in zip(telegrams, computed, strict=True):
            end = telegram.line + telegram.text.count(b"\n")
            if telegram.written is None:
                detail = "the telegram has no CRC16 behind its !: only DSMR 4 and 5 are read"
                self.found.fault(end, "!", detail)
            elif int(telegram.written, 16) != checksum:
                detail = "the CRC16 is not that of the telegram: nothing of it is taken"
                self.found.fault(end, "!", detail)
            else:
                self._objects(telegram)

    def _objects(self, telegram: Telegram) -> None:
        objects = dict(_OBJECT.findall(telegram.text))
        stamp = _TIME.fullmatch(objects.get(b"0-0:1.0.0", b""))
        if stamp is None:
            detail = "the telegram has no time (0-0:1.0.0) of the form YYMMDDhhmmssX"
            self.found.fault(telegram.line, "0-0:1.0.0", detail)
            return
        line = telegram.line
        try:
            time = self._moment(stamp[1], stamp[2])
        except BadItem as error:
            self.found.fault(line, "0-0:1.0.0", f"the time {error.detail}")
            return
        named = (_identifier(objects.get(code, b"")) for code in _METER)
        meter = next(filter(None, named), "")
        sums: dict[bytes, list[Decimal | None]] = {}
        for code, text in objects.items():
            if code.startswith(b"1-0:"):
                self._electricity(code, text, (meter, line, time), sums)
            elif code[:2] == b"0-" and code[3:] in (b":24.2.1", b":24.2.3"):
                self._bus(code[2:3], text, objects, (meter, line))
        for total, (register, code) in _TOTALS.items():
            tariffs = sums.get(total, [])
            if tariffs and None not in tariffs and code not in objects:
                series = self._of(meter, meter, register, "kWh", Kind.TOTAL_INCREASING, register)
                whole = sum(tariff for tariff in tariffs if tariff is not None)
                self.found.add(series, line, time, str(whole).encode())

    def _electricity(
        self,
        code: bytes,
        text: bytes,
        place: tuple[str, int, int],
        sums: dict[bytes, list[Decimal | None]],
    ) -> None:
        name = code.decode()
        register = units.OBIS.get(name)
        if register is None:
            return
        meter, line, time = place
        value = _VALUE.fullmatch(text)
        unit = None if value is None else units.UNITS.get(value[2].decode())
        entry = units.REGISTERS[register]
        tariff = None if code[8:] == b"0" else sums.setdefault(code[4:7], [])
        if value is None or unit is None or unit.base != entry.base:
            detail = f"the value is not of the form (number*{entry.base}) or of its multiples"
            self.found.fault(line, name, detail)
            if tariff is not None:
                tariff.append(None)
            return
        kind = Kind.TOTAL_INCREASING if Kind.TOTAL_INCREASING in entry.kinds else Kind.INSTANT
        series = self._of(meter, meter, register, unit.symbol, kind, name)
        self.found.add(series, line, time, value[1])
        if tariff is not None:
            tariff.append(Decimal(value[1].decode()) if unit.symbol == "kWh" else None)

    def _bus(
        self, channel: bytes, text: bytes, objects: dict[bytes, bytes], place: tuple[str, int]
    ) -> None:
        """The reading of another meter, at its own time."""
        meter, line = place
        code = f"0-{channel.decode()}:24.2.1"
        register = MEDIA.get(objects.get(b"0-%s:24.1.0" % channel, b"")[1:-1])
        if register is None:
            if text != b"()":
                kinds = "gas (003), heat (004, 012) or water (007)"
                self.found.fault(line, code, f"the meter's type (24.1.0) is not of {kinds}")
            return
        value = _BUS.fullmatch(text)
        unit = None if value is None else units.UNITS.get(value[4].decode())
        if value is None or unit is None or unit.base != units.REGISTERS[register].base:
            detail = "the reading is not of the form (YYMMDDhhmmssX)(number*unit)"
            self.found.fault(line, code, detail)
            return
        try:
            time = self._moment(value[1], value[2])
        except BadItem as error:
            self.found.fault(line, code, f"the time {error.detail}")
            return
        if self._last.get((meter, channel)) == (time, value[3]):
            return
        self._last[meter, channel] = (time, value[3])
        identifier = objects.get(b"0-%s:96.1.0" % channel, b"") or objects.get(
            b"0-%s:96.1.1" % channel, b""
        )
        device = _identifier(identifier) or f"{meter or 'mbus'}.{channel.decode()}"
        kind = Kind.TOTAL_INCREASING
        self.found.add(
            self._of(meter, device, register, unit.symbol, kind, code), line, time, value[3]
        )

    def _of(self, *key: str) -> Series:
        series = self._series.get(key)
        if series is None:
            point, device, register, unit, kind, element = key
            made = Series(point, device, register, unit, Kind(kind), element)
            series = self._series[key] = made
        return series

    def _moment(self, digits: bytes, season: bytes) -> int:
        moment = self._times.get((digits, season))
        if moment is None:
            moment = _moment(digits, season, self._zone)
            if len(self._times) > 100_000:
                self._times.clear()
            self._times[digits, season] = moment
        return moment


def _moment(digits: bytes, season: bytes, zone: ZoneInfo | None) -> int:
    try:
        wall = datetime.strptime(digits.decode(), "%y%m%d%H%M%S")  # noqa: DTZ007
    except ValueError:
        raise BadItem("is no time that exists") from None
    if zone is None:
        return epoch_microseconds(wall.replace(tzinfo=OFFSETS[season]))
    for fold in (0, 1):
        local = wall.replace(tzinfo=zone, fold=fold)
        exists = local.astimezone(UTC).astimezone(zone).replace(tzinfo=None) == wall
        if exists and bool(local.dst()) == (season == b"S"):
            return epoch_microseconds(local)
    raise BadItem(UNMARKED)


def _identifier(text: bytes) -> str:
    """An equipment identifier: either its characters or their hexadecimal digits."""
    match = _ID.fullmatch(text)
    if match is None:
        return ""
    written = match[1].decode()
    try:
        plain = bytes.fromhex(written)
    except ValueError:
        return written
    return plain.decode() if plain.isalnum() and plain.isascii() else written
