"""Green Button files (NAESB REQ.21, ESPI): an Atom feed as usage points, reading types, readings.

     UsagePoint <- MeterReading -> ReadingType       (links rel="up" and rel="related")

ESPI's codes become our registers, units and kinds. Source: ESPI schema, types UomType,
AccumulationBehaviourType, FlowDirectionType, CommodityType. The import reads a file to its end
before it stores anything, so a damaged file stores nothing. A block or reading that cannot be read
is reported with line and element; the others are stored.
"""

from __future__ import annotations

import asyncio
import re
from array import array
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from typing import Final
from xml.parsers.expat import ExpatError, ParserCreate, XMLParserType

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from common.principals import Principal
from curator.errors import BadImport, BadItem, ForeignCurator, UnknownCurator
from curator.files import upload as files
from curator.files.storing import LOT, Booking, FileImport, ReadingStore, Waiting
from curator.files.upload import Progress
from curator.intake.reading import MAX_STORED, Times, to_nano
from curator.settings import CuratorSettings
from tacit.query.terms import Identifier
from tacit.units import NANO, UNITS, Kind, kind_mismatch
from tacit.wire import WireModel

ATOM: Final = "http://www.w3.org/2005/Atom"
ESPI: Final = "http://naesb.org/espi"
_ENTRY: Final = f"{ATOM} entry"
_ROOTS: Final = (_ENTRY, f"{ATOM} feed")
_START, _VALUE, _PERIOD = (f"{ESPI} {name}" for name in ("start", "value", "timePeriod"))
NO_FEED: Final = "the file is not an Atom feed"
MAX_DEPTH: Final = 24
MAX_TEXT: Final = 4096
MAX_ENTRIES: Final = 200_000
MAX_READINGS: Final = 20_000_000
MAX_WHOLE: Final = 2**61
RESOURCES: Final = frozenset({"UsagePoint", "MeterReading", "ReadingType", "IntervalBlock"})
_OF_A_TYPE: Final = "accumulationBehaviour commodity flowDirection powerOfTenMultiplier uom"
_READ: Final = {
    ("ServiceCategory", "kind"),
    *(("ReadingType", name) for name in _OF_A_TYPE.split()),
}


@dataclass(frozen=True)
class Fault:
    """An error in a file: where, and why."""

    line: int
    element: str
    detail: str


@dataclass
class Readings:
    """Readings of one entry: lines, starts in seconds since 1970, values as they are written."""

    lines: array[int] = field(default_factory=lambda: array("q"))
    starts: array[int] = field(default_factory=lambda: array("q"))
    values: array[int] = field(default_factory=lambda: array("q"))

    def some(self, begin: int, count: int) -> Readings:
        """Those from one on."""
        part = slice(begin, begin + count)
        return Readings(self.lines[part], self.starts[part], self.values[part])


@dataclass
class Entry:
    """One entry of the feed, with the links that tie it to others."""

    line: int
    resource: str | None = None
    id: str = ""
    title: str = ""
    self: str = ""
    up: str = ""
    related: list[str] = field(default_factory=list)
    fields: dict[str, str] = field(default_factory=dict)
    readings: Readings = field(default_factory=Readings)


@dataclass
class Feed:
    """All entries of a file that concern readings, and its faults."""

    entries: list[Entry] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    lines: int = 0


class FeedReader:
    """Parses a file in pieces. `feed` and `close` raise BadImport for any other file."""

    def __init__(self) -> None:
        self._parser = ParserCreate(namespace_separator=" ")
        self._parser.buffer_text = True
        self._parser.StartDoctypeDeclHandler = _no_doctype
        self._handler = _Handler(self._parser)
        self._any = False

    def feed(self, data: bytes) -> None:
        """The next piece."""
        self._any |= bool(data.strip())
        self._parse(data, last=False)

    def close(self) -> Feed:
        """The feed, after the last piece."""
        if not self._any:
            raise BadImport(NO_FEED)
        self._parse(b"", last=True)
        return self._handler.found

    def _parse(self, data: bytes, *, last: bool) -> None:
        try:
            self._parser.Parse(data, last)
        except ExpatError as error:
            raise BadImport(f"line {error.lineno}: the XML is damaged or cut off") from None


def _no_doctype(*_: object) -> None:
    """Without a document type there is no entity either."""
    raise BadImport("the XML declares a document type or an entity")


@lru_cache(maxsize=1000)
def _local(name: str) -> str:
    """The name of an element of Atom or ESPI without its namespace; else empty."""
    space, _, local = name.rpartition(" ")
    return local if space in (ATOM, ESPI) else ""


class _Handler:
    """The parser's callbacks. Text is requested only where it is needed; readings have their
    own."""

    def __init__(self, parser: XMLParserType) -> None:
        self.found = Feed()
        self._parser = parser
        self._outside()
        self._path: list[str] = []
        self._text: str | None = None
        self._count = self._depth = 0
        self._entry: Entry | None = None
        self._start, self._value, self._line = "", "", 0

    def _outside(self) -> None:
        parser = self._parser
        parser.StartElementHandler, parser.EndElementHandler = self._begins, self._ends

    def _at(self) -> int:
        return self._parser.CurrentLineNumber

    def _begins(self, name: str, attributes: dict[str, str]) -> None:
        path = self._path
        if not path and name not in _ROOTS:
            raise BadImport(NO_FEED)
        local = _local(name)
        path.append(local)
        self._shallow()
        self._text = self._parser.CharacterDataHandler = None
        entry = self._entry
        if name == _ENTRY:
            self._begin()
        elif entry is None or not local:
            return
        elif name[: len(ATOM)] == ATOM:
            if local == "link":
                self._link(attributes)
            elif local in ("id", "title"):
                self._want_text()
        elif local == "IntervalReading":
            self._depth = len(path)
            self._start, self._value, self._line = "", "", self._at()
            parser = self._parser
            parser.StartElementHandler, parser.EndElementHandler = self._inner, self._ends_inner
        elif local in RESOURCES and path[-2] == "content":
            if entry.resource not in (None, local):
                raise BadImport(f"line {self._at()}: an entry with two resources")
            entry.resource = local
        elif (path[-2], local) in _READ:
            self._want_text()

    def _inner(self, name: str, _: dict[str, str]) -> None:
        """An element inside a reading."""
        path = self._path
        parent = path[-1]
        path.append(name)
        if name == _START:
            if parent == _PERIOD:
                self._want_text()
        elif name == _VALUE:
            if len(path) == self._depth + 1:
                self._want_text()
        elif name == _ENTRY:
            self._begin()  # which refuses it
        self._shallow()

    def _ends_inner(self, name: str) -> None:
        path = self._path
        path.pop()
        if self._text is not None:
            if name == _START:
                self._start = self._text
            elif name == _VALUE:
                self._value = self._text
            self._text = self._parser.CharacterDataHandler = None
        if len(path) < self._depth:
            self._outside()
            self._reading()

    def _shallow(self) -> None:
        if len(self._path) > MAX_DEPTH:
            raise BadImport(f"line {self._at()}: the XML is nested too deeply")

    def _want_text(self) -> None:
        self._text = ""
        self._parser.CharacterDataHandler = self._characters

    def _characters(self, content: str) -> None:
        assert self._text is not None
        self._text += content
        if len(self._text) > MAX_TEXT:
            raise BadImport(f"line {self._at()}: a text is too long")

    def _ends(self, name: str) -> None:
        path = self._path
        local = path.pop()
        if self._text is not None:
            text = self._text.strip()
            self._text = self._parser.CharacterDataHandler = None
            entry = self._entry
            assert entry is not None
            if path[-1] == "entry":
                setattr(entry, local, text)
            else:
                entry.fields[local] = text
        elif name == _ENTRY:
            self._entry = None
        if not path:
            self.found.lines = self._at()

    def _begin(self) -> None:
        if self._entry is not None:
            raise BadImport(f"line {self._at()}: an entry inside an entry")
        self._entry = Entry(self._at())
        self.found.entries.append(self._entry)
        if len(self.found.entries) > MAX_ENTRIES:
            raise BadImport("the feed has too many entries")

    def _link(self, attributes: dict[str, str]) -> None:
        assert self._entry is not None
        rel = attributes.get("rel", "")
        href = attributes.get("href", "").rstrip("/")
        if len(href) > MAX_TEXT:
            raise BadImport(f"line {self._at()}: a text is too long")
        if rel == "related":
            self._entry.related.append(href)
        elif rel in ("self", "up"):
            setattr(self._entry, rel, href)

    def _reading(self) -> None:
        assert self._entry is not None
        entry = self._entry
        self._count += 1
        if self._count > MAX_READINGS:
            raise BadImport("the feed has too many readings")
        start, value = _whole(self._start), _whole(self._value)
        if start is None:
            detail = "is missing" if not self._start else "is not a number of seconds"
            self.found.faults.append(Fault(self._line, "IntervalReading/timePeriod/start", detail))
        elif value is None:
            detail = "is missing" if not self._value else "is not a whole number"
            self.found.faults.append(Fault(self._line, "IntervalReading/value", detail))
        else:
            entry.readings.lines.append(self._line)
            entry.readings.starts.append(start)
            entry.readings.values.append(value)


def _whole(text: str) -> int | None:
    text = text.strip()
    if len(text) > 19 or not (text.isascii() and text.removeprefix("-").isdecimal()):
        return None
    value = int(text)
    return value if -MAX_WHOLE < value < MAX_WHOLE else None


# The codes of ESPI's ReadingType as registers, units and kinds. Source: ESPI schema, types UomType,
# AccumulationBehaviourType, FlowDirectionType, CommodityType. A type that cannot be summed is an
# error of its block, with its element; no other block is affected.

UNIT: Final = {"72": "Wh", "169": "therm", "38": "W", "42": "m3", "119": "ft3", "134": "l"}
_UNITS: Final = ", ".join(f"{code} ({unit})" for code, unit in UNIT.items())
KIND: Final = {
    "1": Kind.TOTAL_INCREASING,  # bulk quantity: the meter's register
    "4": Kind.DELTA,
    "6": Kind.INSTANT,  # indicating
    "9": Kind.TOTAL_INCREASING,  # summation
    "12": Kind.INSTANT,
}
DIRECTION: Final = {"1": "import", "4": "net", "19": "export", "20": "total"}
COMMODITY: Final = {"7": "gas", "9": "water"}
SERVICE: Final = {"1": "gas", "2": "water"}
GAS_ENERGY: Final = "energy:gas"
"""Gas that is billed by its energy, apart from electricity."""
MAX_POWER: Final = 12


@dataclass(frozen=True)
class Series:
    """Readings of one usage point. One unit of the values is `scale` nano-units of `base`."""

    usage_point: Entry | None
    register: str
    unit: str
    kind: Kind
    power: int
    readings: Readings

    @property
    def scale(self) -> int | None:
        """Nano-units of one, where that is a whole number."""
        scale = UNITS[self.unit].factor * NANO
        scale *= 10**self.power if self.power >= 0 else 1
        scale /= 10**-self.power if self.power < 0 else 1
        return int(scale) if scale.denominator == 1 else None

    def value(self, written: int) -> Decimal:
        """A value in `unit`, exact."""
        return Decimal(written).scaleb(self.power)


class _Unsuited(Exception):
    """An unsupported reading type: element and reason."""


def series(feed: Feed) -> tuple[list[Series], list[tuple[Fault, int]]]:
    """The readings of a feed by usage point; faults, and how many readings each costs."""
    faults = [(fault, 1) for fault in feed.faults]
    by_self = {entry.self: entry for entry in feed.entries if entry.self}
    types = [entry for entry in feed.entries if entry.resource == "ReadingType"]
    usages = []
    for block in _blocks(feed):
        try:
            meter = _meter(block, by_self, feed)
            kind = _type_of(block, meter, by_self, types)
            point = _above(meter, "MeterReading", by_self) if meter is not None else None
            usages.append(_series(block, point, kind))
        except _Unsuited as error:
            element, detail = error.args
            faults.append((Fault(block.line, element, detail), len(block.readings.starts)))
    return usages, faults


def _blocks(feed: Feed) -> Iterator[Entry]:
    for entry in feed.entries:
        if entry.resource == "IntervalBlock" and entry.readings.starts:
            yield entry


def _above(entry: Entry, collection: str, by_self: Mapping[str, Entry]) -> Entry | None:
    """What an entry belongs to: its link `up` without the name of the collection."""
    return by_self.get(entry.up.removesuffix(f"/{collection}"))


def _meter(block: Entry, by_self: Mapping[str, Entry], feed: Feed) -> Entry | None:
    above = _above(block, "IntervalBlock", by_self)
    if above is not None and above.resource == "MeterReading":
        return above
    meters = [entry for entry in feed.entries if entry.resource == "MeterReading"]
    named = [entry for entry in meters if block.up in entry.related or block.self in entry.related]
    if len(named) == 1:
        return named[0]
    if not meters:
        return None
    raise _Unsuited("IntervalBlock", "no MeterReading is linked to it")


def _type_of(
    block: Entry, meter: Entry | None, by_self: Mapping[str, Entry], types: list[Entry]
) -> Entry:
    for holder in (meter, block):
        for href in holder.related if holder is not None else ():
            reading_type = by_self.get(href)
            if reading_type is not None and reading_type.resource == "ReadingType":
                return reading_type
    if len(types) == 1:
        return types[0]
    raise _Unsuited("MeterReading", "no ReadingType is linked to it")


def _series(block: Entry, point: Entry | None, kind: Entry) -> Series:
    fields = kind.fields
    unit = UNIT.get(fields.get("uom", ""))
    if unit is None:
        raise _Unsuited(
            "ReadingType/uom",
            f"is none of {_UNITS}",
        )
    behaviour = fields.get("accumulationBehaviour", "0")
    what = KIND.get(behaviour)
    if what is None and behaviour == "0" and unit == "W":
        what = Kind.INSTANT
    if what is None:
        raise _Unsuited(
            "ReadingType/accumulationBehaviour",
            "is not 1 (bulk), 4 (delta), 6 (indicating), 9 (summation) or 12 (instantaneous)",
        )
    power = fields.get("powerOfTenMultiplier") or "0"
    if not (power.isascii() and power.removeprefix("-").isdecimal()) or abs(int(power)) > MAX_POWER:
        raise _Unsuited("ReadingType/powerOfTenMultiplier", "is not a whole number from -12 to 12")
    register = _register(fields, point, unit)
    unsuited = kind_mismatch(register, what)
    if unsuited is not None:
        raise _Unsuited("ReadingType/accumulationBehaviour", unsuited.detail)
    return Series(point, register, unit, what, int(power), block.readings)


def _register(fields: Mapping[str, str], point: Entry | None, unit: str) -> str:
    """The register's name as other formats have it: energy_import, power_export, gas ..."""
    service = point.fields.get("kind", "") if point is not None else ""
    medium = COMMODITY.get(fields.get("commodity", "")) or SERVICE.get(service)
    if UNITS[unit].base == "m3":
        if medium is None:
            raise _Unsuited("ReadingType/commodity", "is not 7 (gas) or 9 (water)")
        return medium
    if unit == "therm" and medium != "gas":
        raise _Unsuited("ReadingType/commodity", "is not 7 (gas), and the unit is a therm")
    if UNITS[unit].base == "Wh" and medium == "gas":
        return GAS_ENERGY
    direction = DIRECTION.get(fields.get("flowDirection") or "1")
    if direction is None:
        raise _Unsuited(
            "ReadingType/flowDirection", "is not 1 (forward), 4 (net), 19 (reverse) or 20 (total)"
        )
    return f"{'energy' if unit == 'Wh' else 'power'}_{direction}"


# --- the import ----------------------------------------------------------------------------------
Ints = NDArray[np.int64]
MICROSECONDS: Final = 10**6
_IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}")


class FeedMap(WireModel):
    """Which curator each usage point of a feed belongs to. Keys: an entry's id (with or without
    `urn:uuid:`), its title, or the last part of its self link."""

    curator: Identifier | None = None
    usage_points: dict[str, Identifier] = Field(default_factory=dict, max_length=100_000)


class FeedImport(FileImport):
    """The import of one feed."""

    def __init__(
        self,
        intake: ReadingStore,
        waiting: Waiting,
        settings: CuratorSettings,
        mapping: FeedMap,
        caller: Principal,
        progress: Progress,
    ) -> None:
        self._intake, self._waiting = intake, waiting
        self._settings, self._map = settings, mapping
        self._caller, self.progress = caller, progress
        self._rejected: Counter[int] = Counter()

    async def run(self, chunks: AsyncIterator[bytes]) -> None:
        """Read a body to its end. Raises BadImport if it is no such feed."""
        feed = await self._read(chunks)
        self.progress.lines = feed.lines
        usages, faults = await asyncio.to_thread(series, feed)
        for fault, count in faults:
            self.progress.error(
                fault.line, None, f"{fault.element} {fault.detail}", count, element=fault.element
            )
        for usage in usages:
            for begin in range(0, len(usage.readings.starts), LOT):
                self._take(replace(usage, readings=usage.readings.some(begin, LOT)))
        await self._intake.count_rejected(self._rejected, self.progress.rejected)

    async def _read(self, chunks: AsyncIterator[bytes]) -> Feed:
        reader, settings = FeedReader(), self._settings
        plain = files.plain_chunks(
            chunks,
            min(settings.import_max_feed_bytes, settings.import_max_plain_bytes),
            settings.import_max_ratio,
        )
        async for chunk in plain:
            await asyncio.to_thread(reader.feed, chunk)
        return await asyncio.to_thread(reader.close)

    def _take(self, part: Series) -> None:
        lines = part.readings.lines
        try:
            owner, name = self._owner(part.usage_point)
        except (UnknownCurator, ForeignCurator, BadItem) as error:
            point = _short(part.usage_point)
            if point in self.progress.unknown:
                self.progress.rejected += len(lines)
            else:
                self.progress.error(lines[0], None, error.detail, len(lines), element="UsagePoint")
            self.progress.unknown[point] += 1
            return
        device = _device(part.usage_point, name)
        times, values, good = self._columns(part)
        self._rejected[owner] += int((~good).sum())
        (number,) = self._waiting.devices([(owner, device)])
        booking = Booking(part.register, part.unit, part.kind)
        self._waiting.add(booking, times[good], number, values[good])

    def _owner(self, point: Entry | None) -> tuple[int, str]:
        """The curator by the table, by the parameter, by its own name, or the only one hosted.
        With a table, a usage point that one of its entries may mean is never assigned to the
        only one."""
        names = _names(point)
        listed = next(
            (self._map.usage_points[n] for n in names if n in self._map.usage_points), None
        )
        wanted = listed or self._map.curator
        if wanted is None:
            hosted_names = (name for name in names if _IDENTIFIER.fullmatch(name))
            wanted = next(filter(self._intake.hosts, hosted_names), None)
        if wanted is None and self._map.usage_points:
            raise UnknownCurator(
                "usage_points names no such usage point: name one there, or a curator for all"
            )
        return self._intake.curator_of(wanted, self._caller)

    def _columns(self, part: Series) -> tuple[Ints, Ints, NDArray[np.bool_]]:
        starts = np.array(part.readings.starts, np.int64)
        times = self._intake.times
        # `starts` are 62-bit seconds: compared as such, so that nothing wraps.
        whole_seconds = Times(-(-times.earliest // MICROSECONDS), times.latest // MICROSECONDS)
        inside = whole_seconds.hold(starts)
        values, fits = _nano(part)
        outside = f"lies before {times.first_day} or in the future"
        self._report(part, ~inside, "timePeriod/start", outside)
        self._report(part, inside & ~fits, "value", "is too large to be stored")
        if part.kind is Kind.TOTAL_INCREASING:
            below = inside & fits & (values < 0)
            self._report(part, below, "value", "of a counter is below zero")
            fits &= ~below
        return np.where(inside, starts, 0) * MICROSECONDS, values, inside & fits

    def _report(self, part: Series, bad: NDArray[np.bool_], element: str, detail: str) -> None:
        path = f"IntervalReading/{element}"
        for index in np.flatnonzero(bad).tolist():
            line = part.readings.lines[index]
            self.progress.error(line, None, f"{path} {detail}", element=path)


def _nano(part: Series) -> tuple[Ints, NDArray[np.bool_]]:
    """Nano-units, and which of the values can be stored."""
    written = np.array(part.readings.values, np.int64)
    scale = part.scale
    if scale is not None:
        fits = np.abs(written) <= MAX_STORED // scale
        return np.where(fits, written, 0) * scale if scale <= MAX_STORED else written, fits
    values = np.zeros(written.size, np.int64)
    fits = np.ones(written.size, np.bool_)
    for index, value in enumerate(part.readings.values):
        try:
            values[index] = to_nano(part.value(value), part.unit, "value")
        except BadItem:
            fits[index] = False
    return values, fits


def _names(point: Entry | None) -> list[str]:
    """The names that a usage point may have in a table."""
    if point is None:
        return []
    last = point.self.rpartition("/")[2]
    text = (point.id, point.id.removeprefix("urn:uuid:"), point.title, last)
    return [name for name in text if name]


def _short(point: Entry | None) -> str:
    return next(iter(_names(point)), "no usage point")[:128]


def _device(point: Entry | None, curator: str) -> str:
    """The usage point's id, else the end of its link, else the curator's own name."""
    return next(filter(_IDENTIFIER.fullmatch, _names(point)[1:]), curator)
