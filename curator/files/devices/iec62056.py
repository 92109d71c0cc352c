r"""Lists of OBIS codes as a meter's optical port gives them (IEC 62056-21, modes A to C).

    /ISk5ME382-1003                                identification
    <STX>0.0.0(00123456)                           the meter's number
    0.9.1(120015)  0.9.2(260131)                   its time and date, a line each
    1.8.0(012345.678*kWh)                          a counter
    !                                              the end
    <ETX><BCC>                                     exclusive or of everything after STX, with ETX

Or a load profile, whose first time and step are in the line P.01:

    P.01(0260131001500)(00)(15)(1)(1.29.0)(kWh)
    (0.250)
    (0.375)

Source: IEC 62056-21:2002, sections 5.8 and 6; VDEW Lastenheft "Elektronische
Lastgangzaehler" 2.1.2 for times (ZSTyymmddhhmm[ss], S: 0 standard time, 1 summer time, 2 UTC) and
for P.01. Its rules here:

- A list has a time by 0.9.1 with 0.9.2, or by 1.0.0 or 0.9.4; else `read_at` of the map gives one;
  else it is refused. A time without a season is local time of `timezone`, without which it is
  refused.
- Whether times of a profile are where intervals begin or end, `stamp` says; else it is refused.
- Codes of a profile may lack their last group: 1.5 is 1.5.0.
- A wrong BCC, and a list that does not end with !, refuse the file.
- Values of earlier periods (1.8.0*01) and maxima are passed over.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import reduce
from operator import xor
from typing import Final

from common.runtime.clock import epoch_microseconds, zone_named
from curator.errors import BadImport, BadItem
from curator.files.metered import LineReader, MeterMap, Series
from curator.files.tables.header import misplaced
from curator.files.units_and_local_time import LocalTimes
from tacit import units
from tacit.units import Kind

STX, ETX = 2, 3
_ROW: Final = re.compile(
    r"(?:(\d{1,2})-(\d{1,2}):)?([\dA-Z]{1,3}(?:\.[\dA-Z]{1,3}){1,2})(?:[*&](\d{1,3}))?((?:\([^()]*\))+)"
)
_CELLS: Final = re.compile(r"\(([^()]*)\)")
_VALUE: Final = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)\*([A-Za-z0-9]{1,5})")
_STAMP: Final = re.compile(r"([012])?(\d{10}(?:\d\d)?)([SW])?")
_NUMBERS: Final = ("0.0.0", "C.1.0", "96.1.0", "96.1.1", "0.0.1", "C.1.1")
"""Codes under which a meter has its number."""
_PROFILE: Final = {
    "1.29.0": "energy_import",
    "2.29.0": "energy_export",
    "1.5.0": "energy_import",
    "2.5.0": "energy_export",
}
"""Energy of an interval; or its mean power."""


class IecReader(LineReader):
    """Reads lists, one after the other."""

    def __init__(self, mapping: MeterMap) -> None:
        super().__init__()
        self._map = mapping
        self._local = (
            None
            if mapping.timezone is None
            else LocalTimes(
                zone_named(mapping.timezone), mapping.ambiguous, ends=mapping.stamp == "end"
            )
        )
        self._series: dict[tuple[str, ...], Series] = {}
        self._bytes: bytearray | None = None
        self._ended: int | None = None
        self._lists = 0
        self._begin(1)

    def _begin(self, line: int) -> None:
        self._first = line
        self._values: list[tuple[int, str, str]] = []
        self._texts: dict[str, str] = {}
        self._profile: _Profile | None = None
        self._rows: list[tuple[int, int, list[str], _Profile]] = []
        self._open = False

    def line(self, number: int, text: bytes) -> None:
        """The next line."""
        if text[:1] == bytes([ETX]):
            self._block_check(number, text)
            return
        if self._bytes is not None:
            self._bytes += text + b"\r\n"
        if text[:1] == b"\x02":
            text = text[1:]
            self._bytes = bytearray(text + b"\r\n")
        row = text.decode("utf-8", "replace").strip()
        if not row:
            return
        if row.startswith("/"):
            if self._open:
                raise misplaced("another list begins, and this one has no ! at its end", number)
            self._begin(number)
            self._open = True
        elif row.startswith("!"):
            if row != "!":
                detail = "behind ! is a sum: is it a DSMR telegram? Give form dsmr"
                raise misplaced(detail, number, pointer="/form")
            self._close(number)
        elif row.startswith("("):
            self._interval(number, row)
        else:
            self._object(number, row)

    def end(self) -> None:
        """The file is at its end. Raises BadImport for a list that is cut off."""
        super().end()
        if self._open:
            raise misplaced("the list is cut off: it has no ! at its end", self.found.lines)
        if not self._lists:
            raise misplaced("there is no list of OBIS codes that ends with !", 1)
        if self._bytes is not None:
            raise misplaced(
                "the block check behind the end (ETX, BCC) is missing", self.found.lines
            )

    def _block_check(self, number: int, text: bytes) -> None:
        block, self._bytes = self._bytes, None
        if block is None:
            raise misplaced("the block check ends what did not begin (STX)", number)
        written = text[1:2] or b"\r\n"  # a BCC that is a line break
        if reduce(xor, block, ETX) not in written:
            raise misplaced("the block check (BCC) is not that of the list", number)

    def _object(self, number: int, row: str) -> None:
        self._open = True
        match = _ROW.fullmatch(row)
        if match is None:
            raise misplaced("the row is not of the form code(value*unit)", number)
        medium, channel, code, period, values = match.groups()
        cells = _CELLS.findall(values)
        if code == "P.01":
            self._profile = self._head(number, cells)
            return
        self._profile = None
        if period is not None and period != "255":
            return
        name = code if medium is None else f"{medium}-{channel}:{code}"
        if len(cells) == 1:
            self._texts.setdefault(code, cells[0])
            self._values.append((number, name, cells[0]))

    def _close(self, number: int) -> None:
        texts = self._texts
        meter = next((texts[code] for code in _NUMBERS if texts.get(code)), "")
        values = [
            (line, name, text)
            for line, name, text in self._values
            if (name in units.OBIS or f"1-0:{name}" in units.OBIS) and "*" in text
        ]
        self._lists += 1
        if values:
            try:
                time = self._time(texts)
            except BadItem as error:
                for line, name, _ in values:
                    self.found.fault(line, name, error.detail)
            else:
                for line, name, text in values:
                    self._value(meter, (line, name, text), time)
        for line, time, cells, profile in self._rows:
            self._interval_values(meter, (line, time), cells, profile)
        self._begin(number + 1)

    def _value(self, meter: str, place: tuple[int, str, str], time: int) -> None:
        line, name, text = place
        register = units.OBIS.get(name) or units.OBIS[f"1-0:{name}"]
        entry = units.REGISTERS[register]
        value = _VALUE.fullmatch(text)
        unit = None if value is None else units.UNITS.get(value[2])
        if value is None or unit is None or unit.base != entry.base:
            detail = f"the value is not of the form (number*{entry.base}) or of its multiples"
            self.found.fault(line, name, detail)
            return
        kind = Kind.TOTAL_INCREASING if Kind.TOTAL_INCREASING in entry.kinds else Kind.INSTANT
        series = self._of(meter, register, unit.symbol, kind, name)
        self.found.add(series, line, time, value[1].encode())

    def _of(self, *key: str) -> Series:
        series = self._series.get(key)
        if series is None:
            meter, register, unit, kind, element = key
            made = Series(meter, meter, register, unit, Kind(kind), element)
            series = self._series[key] = made
        return series

    def _time(self, texts: dict[str, str]) -> int:
        for code in ("1.0.0", "0.9.4"):
            if code in texts:
                return self._moment(texts[code])
        if "0.9.1" in texts and "0.9.2" in texts:
            season, clock = _season(texts["0.9.1"], 6)
            _, day = _season(texts["0.9.2"], 6)
            return self._moment(season + day + clock)
        if self._map.read_at is not None:
            return self._named_time(self._map.read_at)
        raise BadItem("the list has no time (0.9.1 and 0.9.2, or 1.0.0): give read_at")

    def _named_time(self, text: str) -> int:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            moment = None
        if moment is None or (moment.tzinfo is None and self._local is None):
            detail = "is not an RFC 3339 time with an offset, or with a timezone"
            raise BadImport(detail, pointer="/read_at")
        if moment.tzinfo is not None:
            return epoch_microseconds(moment)
        assert self._local is not None
        return self._local.resolve(moment)

    def _moment(self, text: str) -> int:
        match = _STAMP.fullmatch(text.strip())
        digits = "" if match is None else match[2]
        try:
            form = "%y%m%d%H%M%S" if len(digits) == 12 else "%y%m%d%H%M"
            wall = datetime.strptime(digits, form)  # noqa: DTZ007
        except ValueError:
            raise BadItem("the time is not of the form yymmddhhmm[ss]") from None
        assert match is not None
        season = match[1] or {"W": "0", "S": "1", None: ""}[match[3]]
        if season == "2":
            return epoch_microseconds(wall.replace(tzinfo=UTC))
        if self._local is None or self._map.timezone is None:
            raise BadItem("the time has no offset, and no timezone is given")
        zone = zone_named(self._map.timezone)
        if season:
            for fold in (0, 1):
                local = wall.replace(tzinfo=zone, fold=fold)
                exists = local.astimezone(UTC).astimezone(zone).replace(tzinfo=None) == wall
                if exists and bool(local.dst()) == (season == "1"):
                    return epoch_microseconds(local)
            if season == "0":  # a meter that stays in standard time all the year
                local = wall.replace(tzinfo=zone)
                offset = (local.utcoffset() or timedelta()) - (local.dst() or timedelta())
                return epoch_microseconds(wall.replace(tzinfo=UTC)) - offset // _MICROSECOND
        try:
            return self._local.resolve(wall)
        except BadItem as error:
            raise BadItem(f"the time {error.detail}") from None

    # --- load profiles ---------------------------------------------------------------------------

    def _head(self, number: int, cells: list[str]) -> _Profile:
        """A line P.01: time, status, minutes, number of columns, code and unit of each."""
        stamp = self._map.stamp
        if stamp is None:
            detail = "is needed for P.01: do its times name an interval's start or end?"
            raise misplaced(detail, number, pointer="/stamp")
        step, count = cells[2:4] if len(cells) > 3 else ["", ""]
        pairs = list(zip(cells[4::2], cells[5::2], strict=False))
        valid = step.isdecimal() and 1 <= int(step) <= 1440 and count.isdecimal()
        if not valid or int(count) != len(pairs):
            detail = "P.01 is not of the form (time)(status)(minutes)(columns)(code)(unit)..."
            raise misplaced(detail, number)
        codes = [code.rpartition(":")[2] for code, _ in pairs]
        codes = [f"{code}.0" if code.count(".") == 1 else code for code in codes]
        heads = [f"{code} {unit}" for code, (_, unit) in zip(codes, pairs, strict=True)]
        try:
            time = self._moment(cells[0])
        except BadItem as error:
            self.found.fault(number, "P.01", f"{error.detail}: its rows are not taken")
            return _Profile(None, 0, heads)
        minutes = int(step) * 60 * 10**6
        return _Profile(time - (minutes if stamp == "end" else 0), minutes, heads)

    def _interval(self, number: int, row: str) -> None:
        profile = self._profile
        cells = _CELLS.findall(row)
        if profile is None or "".join(f"({cell})" for cell in cells) != row:
            raise misplaced("the row is not of the form code(value*unit)", number)
        if profile.time is None:
            self.found.fault(number, "P.01", "the row is of a P.01 that is not taken")
            return
        if len(cells) != len(profile.heads):
            detail = f"the row has {len(cells)} values, and P.01 names {len(profile.heads)}"
            raise misplaced(detail, number)
        self._rows.append((number, profile.time, cells, profile))
        profile.time += profile.step

    def _interval_values(
        self, meter: str, place: tuple[int, int], cells: list[str], profile: _Profile
    ) -> None:
        line, time = place
        for head, cell in zip(profile.heads, cells, strict=True):
            code, _, unit = head.partition(" ")
            register = _PROFILE.get(code)
            if register is None:
                continue
            power = code.split(".")[1] == "5"
            unit_read = units.UNITS.get(unit)
            text = cell.strip()
            if unit_read is None or unit_read.base != ("W" if power else "Wh"):
                self.found.fault(line, code, "the unit is not one of the code")
            elif not re.fullmatch(r"\d{1,12}(\.\d{1,9})?", text):
                self.found.fault(line, code, "the value is not a decimal number")
            elif power:  # W times minutes
                minutes = Decimal(profile.step // (60 * 10**6))
                factor = Decimal(unit_read.factor.numerator)
                energy = format(Decimal(text) * minutes * factor, "f")
                series = self._of(meter, register, "Wmin", Kind.DELTA, code)
                self.found.add(series, line, time, energy.encode())
            else:
                series = self._of(meter, register, unit_read.symbol, Kind.DELTA, code)
                self.found.add(series, line, time, text.encode())


_MICROSECOND: Final = timedelta(microseconds=1)


class _Profile:
    """A load profile at its next row; without a time its rows are not taken."""

    def __init__(self, time: int | None, step: int, heads: list[str]) -> None:
        self.time, self.step, self.heads = time, step, heads


def _season(text: str, length: int) -> tuple[str, str]:
    """The season of a time or date with one, and its digits without colons and dashes."""
    digits = re.sub(r"[:-]", "", text.strip())
    return (digits[0], digits[1:]) if len(digits) == length + 1 else ("", digits)
