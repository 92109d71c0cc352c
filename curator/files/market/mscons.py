r"""MSCONS: load profiles of the German market's EDIFACT message for metered values.

    UNA:+.? '                                   the signs, if they are not these
    UNB+UNOC:3+...'  UNH+1+MSCONS:D:04B:UN:2.4c'  BGM+...'  UNS+D'  NAD+DP'
    LOC+172+DE00056266802AO6G56M11SN51G21M24S'  the market or metering location
    LIN+1'
    PIA+5+1-1?:1.29.0:SRW'                      OBIS code
    QTY+220:0.25:KWH'                           value: 220 true, 67 substitute, ...
    DTM+163:202601010000?+01:303'               begin of the interval, with its offset
    DTM+164:202601010015?+01:303'               its end
    UNT+17+1'  UNZ+1+...'                       counts of segments and messages

Sources: ISO 9735 (syntax, UNA, UNB, UNT, UNZ); BDEW, MSCONS message implementation guide 2.4 on
UN/EDIFACT D.04B. The profile read here: messages MSCONS:D:04B, of each LIN the intervals with
DTM+163 and DTM+164 with the code 303 (or 203 with the map's timezone). Its rules here:

- OBIS x.29.0 is energy of an interval: 1 is import, 2 export. Other codes (reactive energy, gas,
  meter readings) are reported once a LIN and not taken.
- QTY qualifiers 220 (true) and 67 (substitute) are taken, or those that `accept` names.
- Without a unit a value is in kWh, which the guide prescribes for these codes.
- Segments between are passed over, STS (reasons of substitutes) too.
- The counts of UNT and UNZ must be right, else the file is damaged or cut off and nothing is
  stored. UTILTS and other messages are refused.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from common.runtime.clock import epoch_microseconds, zone_named
from curator.errors import BadImport, BadItem
from curator.files import upload as files
from curator.files.metered import Found, MeterMap, Series
from curator.files.tables.header import misplaced
from curator.files.units_and_local_time import LocalTimes
from tacit.units import Kind

TAKEN: Final = "220,67"
REGISTERS: Final = {"1.29.0": "energy_import", "2.29.0": "energy_export"}
UNITS_OF_MEASURE: Final = {"": "kWh", "KWH": "kWh", "MWH": "MWh", "WHR": "Wh"}
_TIME_303: Final = re.compile(r"(\d{12})([+-]\d\d)(\d\d)?")
_CODE: Final = re.compile(r"\d-\d{1,2}:(\d{1,3}\.\d{1,3}\.\d{1,3})(?:\*255)?")


class MsconsReader:
    """Reads segments one after the other."""

    def __init__(self, mapping: MeterMap) -> None:
        self.found = Found()
        self._accepted = {quality.strip() for quality in (mapping.accept or TAKEN).split(",")}
        self._local = (
            None
            if mapping.timezone is None
            else LocalTimes(zone_named(mapping.timezone), mapping.ambiguous)
        )
        self._rest = b""
        self._begun = self._ended = False
        self._line = 1
        self._segments = self._messages = self._inside = 0
        self._series: dict[tuple[str, str, str], Series] = {}
        self._times: dict[bytes, int | None] = {}
        self._location = ""
        self._register: str | None = None
        self._quantity: tuple[int, str, str, str] | None = None
        self._start: tuple[int | None] | None = None

    def feed(self, data: bytes) -> None:
        """The next piece."""
        self._rest += data
        if not self._begun:
            if len(self._rest.lstrip()) < 9:
                self._bounded()
                return
            self._signs(self._rest.lstrip())
        at = self._plain_intervals(0)
        while match := self._segment.match(self._rest, at):
            text = match[0]
            self._line += text[: len(text) - len(text.lstrip())].count(b"\n")
            self._take(text[:-1].strip(b" \r\n"))
            at = self._plain_intervals(match.end())
        self._rest = self._rest[at:]
        self._bounded()
        self.found.lines = self._line

    def _plain_intervals(self, at: int) -> int:
        """Quantities with their intervals in the most frequent notation; returns where these
        end."""
        text = self._rest
        while found := self._plain.match(text, at):
            self._missing()
            self._segments += 3
            self._inside += 3
            blank, qualifier, value, unit, between, begin, more, end = found.groups()
            self._line += blank.count(b"\n")
            self._quantity = (
                self._line,
                qualifier.decode(),
                value.decode(),
                (unit or b"").decode(),
            )
            self._start = (self._plain_moment(begin),)
            self._interval(begins=False, moment=self._plain_moment(end))
            self._line += between.count(b"\n") + more.count(b"\n")
            at = found.end()
        return at

    def _plain_moment(self, text: bytes) -> int | None:
        if text not in self._times:
            if len(self._times) > 200_000:
                self._times.clear()
            plain = text.decode().replace(self._release, "")
            self._times[text] = self._parsed(plain, "303")
        return self._times[text]

    def _bounded(self) -> None:
        if len(self._rest) > files.MAX_LINE:
            raise misplaced("a segment does not end", self._line)

    def end(self) -> None:
        """The file is at its end. Raises BadImport for one that is cut off."""
        if not self._ended:
            raise BadImport("the file is cut off: it has no UNZ segment at its end")
        if self._rest.strip():
            raise misplaced("the file continues after its UNZ segment", self._line)

    def _signs(self, head: bytes) -> None:
        signs = head[3:9].decode("latin-1") if head.startswith(b"UNA") else ":+.? '"
        if not head.startswith((b"UNA", b"UNB")):
            raise misplaced("an EDIFACT file begins with UNA or UNB", 1)
        self._component, self._element, self._decimal, self._release, _, end = tuple(signs)
        if len({self._component, self._element, self._release, end}) != 4 or any(
            sign.isalnum() for sign in signs
        ):
            raise misplaced("UNA does not name different signs", 1)
        release, ending = re.escape(self._release.encode()), re.escape(end.encode())
        self._segment = re.compile(
            rb"(?:[^" + ending + release + rb"]|" + release + rb"[\s\S])*+" + ending
        )
        component, element = (re.escape(sign.encode()) for sign in (self._component, self._element))
        time = rb"(\d{12}" + release + rb"?[+-]\d\d)" + component + b"303" + ending
        self._plain = re.compile(
            rb"([\r\n ]*)QTY" + element + rb"(\w{1,3})" + component + rb"([\d.,-]{1,20})"
            rb"(?:"
            + component
            + rb"(\w{3}))?"
            + ending
            + rb"([\r\n ]*)DTM"
            + element
            + b"163"
            + component
            + time
            + rb"([\r\n ]*)DTM"
            + element
            + b"164"
            + component
            + time
        )
        self._begun = True
        if head.startswith(b"UNA"):
            self._line += self._rest[: len(self._rest) - len(head)].count(b"\n")
            self._rest = head[9:]

    def _split(self, text: str, sign: str) -> list[str]:
        if self._release not in text:
            return text.split(sign)
        parts, part, at = [], "", 0
        while at < len(text):
            if text[at] == self._release:
                part += text[at : at + 2]
                at += 2
            elif text[at] == sign:
                parts.append(part)
                part, at = "", at + 1
            else:
                part, at = part + text[at], at + 1
        return [*parts, part]

    def _components(self, element: str) -> list[str]:
        parts = self._split(element, self._component)
        if self._release not in element:
            return parts
        escaped = re.escape(self._release)
        return [re.sub(escaped + r"(.)", r"\1", part, flags=re.S) for part in parts]

    def _take(self, segment: bytes) -> None:
        self._segments += 1
        self._inside += 1
        if self._ended:
            raise self._damage("the file continues after its UNZ segment")
        tag = segment[:3]
        if tag == b"QTY":
            self._missing()
            element = segment[4:].decode("utf-8", "replace")
            parts = [*self._components(element), "", ""]
            self._quantity = (self._line, parts[0], parts[1], parts[2])
            self._start = None
        elif tag == b"DTM":
            if self._quantity is None:
                return
            parts = [*self._components(segment[4:].decode("utf-8", "replace")), "", ""]
            if parts[0] in ("163", "164"):
                self._interval(parts[0] == "163", self._parsed(parts[1], parts[2]))
        elif tag in _READ:
            self._missing()
            text = segment.decode("utf-8", "replace")
            self._other(text[:3], self._split(text, self._element)[1:])

    def _damage(self, detail: str) -> BadImport:
        return misplaced(f"segment {self._segments}: {detail}", self._line)

    def _other(self, tag: str, elements: list[str]) -> None:
        first = self._components(elements[0]) if elements else [""]
        if tag == "UNH":
            message = self._components(elements[1]) if len(elements) > 1 else []
            if message[:3] != ["MSCONS", "D", "04B"]:
                named = message[0] if message and message[0].isalnum() else "another message"
                raise self._damage(f"{named[:6]} is not read: MSCONS:D:04B is")
            self._messages, self._inside = self._messages + 1, 1
            self._location, self._register = "", None
        elif tag == "LOC":
            self._register = None
            if first[0] == "172":
                self._location = self._components(elements[1])[0] if len(elements) > 1 else ""
        elif tag == "LIN":
            self._register = None
        elif tag == "PIA":
            code = self._components(elements[1])[0] if len(elements) > 1 else ""
            match = _CODE.fullmatch(code)
            self._register = None if match is None else REGISTERS.get(match[1])
            if self._register is None:
                detail = "the code is not of energy of intervals (1.29.0, 2.29.0)"
                self.found.fault(self._line, self._place("PIA"), f"{detail}: its LIN is not taken")
        elif tag == "UNT":
            if first[0] != str(self._inside):
                raise self._damage(f"UNT counts other than {self._inside} segments of the message")
        elif tag == "UNZ":
            if first[0] != str(self._messages):
                raise self._damage(f"UNZ counts other than {self._messages} messages")
            self._ended = True

    def _place(self, tag: str) -> str:
        return f"segment {self._segments}, {tag}"

    def _missing(self) -> None:
        """A quantity that no interval follows."""
        if self._quantity is not None and self._register is not None:
            line = self._quantity[0]
            detail = "the quantity has no interval (DTM+163 and DTM+164)"
            self.found.fault(line, self._place("QTY"), detail)
        self._quantity = None

    def _interval(self, begins: bool, moment: int | None) -> None:
        """The begin or end of an interval, None where it is no time."""
        if begins:
            self._start = (moment,)
        elif self._start is not None and self._quantity is not None:
            line, qualifier, value, unit = self._quantity
            (begin,), end = self._start, moment
            self._start = self._quantity = None
            register = self._register
            if register is None:
                return
            symbol = UNITS_OF_MEASURE.get(unit.upper())
            if not self._location:
                detail = "the quantity is of no location (LOC+172)"
            elif qualifier not in self._accepted:
                detail = "the qualifier is not one that accept names"
            elif symbol is None:
                detail = "the unit is not KWH, MWH or WHR"
            elif begin is None or end is None:
                detail = "the interval is not of the form 303 (YYYYMMDDhhmm+hh)"
            elif not 0 < end - begin <= 86_400 * 10**6:
                detail = "the interval does not end within a day after its begin"
            else:
                key = (self._location, register, symbol)
                series = self._series.get(key)
                if series is None:
                    series = self._series[key] = Series(
                        self._location, self._location, register, symbol, Kind.DELTA, "QTY"
                    )
                number = value if self._decimal == "." else value.replace(self._decimal, ".")
                self.found.add(series, line, begin, number.encode())
                return
            self.found.fault(line, self._place("QTY"), detail)

    def _parsed(self, text: str, form: str) -> int | None:
        offset = timedelta()
        if form == "303" and (match := _TIME_303.fullmatch(text)):
            offset = timedelta(hours=int(match[2][1:]), minutes=int(match[3] or 0))
            offset = -offset if match[2][0] == "-" else offset
            text = match[1]
        elif form != "203" or self._local is None:
            return None
        try:
            wall = _wall(text)
            if form == "203" and self._local is not None:
                return self._local.resolve(wall)
        except (ValueError, BadItem):
            return None
        if not 1 < wall.year < 9999:
            return None
        return epoch_microseconds(wall.replace(tzinfo=UTC)) - offset // timedelta(microseconds=1)


def _wall(text: str) -> datetime:
    """The local time of YYYYMMDDhhmm. Raises ValueError."""
    if len(text) != 12 or not (text.isascii() and text.isdecimal()):
        raise ValueError
    year, (month, day, hour, minute) = (
        int(text[:4]),
        (int(text[at : at + 2]) for at in (4, 6, 8, 10)),
    )
    return datetime(year, month, day, hour, minute)  # noqa: DTZ001 - its offset comes after


_READ: Final = frozenset((b"UNH", b"LOC", b"LIN", b"PIA", b"UNT", b"UNZ"))
