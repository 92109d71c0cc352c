"""Green Button files (NAESB REQ.21, ESPI): an Atom feed as usage points, reading types, readings.

    UsagePoint <- MeterReading -> ReadingType       (links rel="up" and rel="related")
                       ^
                  IntervalBlock { IntervalReading { timePeriod { start }, value } ... }

Read as a stream, never as a tree. A document type, an entity, a deep nest or an endless text is
refused before it costs anything. Times are seconds since 1970 in UTC by the standard; what
LocalTimeParameters say is for showing them, so it is not needed here.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final
from xml.sax import SAXException
from xml.sax.handler import ContentHandler, feature_namespaces

from defusedxml.common import DefusedXmlException
from defusedxml.expatreader import DefusedExpatParser

from curator.errors import BadImport

ATOM: Final = "http://www.w3.org/2005/Atom"
ESPI: Final = "http://naesb.org/espi"
MAX_DEPTH: Final = 24
MAX_TEXT: Final = 4096
MAX_ENTRIES: Final = 200_000
MAX_READINGS: Final = 20_000_000
MAX_WHOLE: Final = 2**61
RESOURCES: Final = frozenset({"UsagePoint", "MeterReading", "ReadingType", "IntervalBlock"})
_READ: Final = {
    ("ReadingType", "accumulationBehaviour"),
    ("ReadingType", "commodity"),
    ("ReadingType", "flowDirection"),
    ("ReadingType", "powerOfTenMultiplier"),
    ("ReadingType", "uom"),
    ("ServiceCategory", "kind"),
}


@dataclass(frozen=True)
class Fault:
    """Something that cannot be read: where, and why."""

    line: int
    element: str
    detail: str


@dataclass
class Readings:
    """Readings of one entry: lines, starts in seconds since 1970, values as they are written."""

    lines: array[int] = field(default_factory=lambda: array("q"))
    starts: array[int] = field(default_factory=lambda: array("q"))
    values: array[int] = field(default_factory=lambda: array("q"))


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
    """Takes a file in pieces. `feed` and `close` raise BadImport for what is no such file."""

    def __init__(self) -> None:
        self._parser: Any = DefusedExpatParser(forbid_dtd=True)
        self._handler = _Handler(self._parser.getLineNumber)
        self._parser.setFeature(feature_namespaces, True)
        self._parser.setContentHandler(self._handler)

    def feed(self, data: bytes) -> None:
        """The next piece."""
        self._guarded(self._parser.feed, data)

    def close(self) -> Feed:
        """The feed, after the last piece."""
        self._guarded(self._parser.close)
        if not self._handler.atom:
            raise BadImport("the file is not an Atom feed")
        return self._handler.found

    def _guarded(self, step: Any, *arguments: Any) -> None:
        try:
            step(*arguments)
        except DefusedXmlException:
            raise BadImport("the XML declares a document type or an entity") from None
        except SAXException:
            line = self._parser.getLineNumber()
            raise BadImport(f"line {line}: the XML is damaged or cut off") from None


class _Handler(ContentHandler):
    def __init__(self, at: Callable[[], int]) -> None:
        super().__init__()
        self._at = at
        self.found, self.atom = Feed(), False
        self._path: list[str] = []
        self._text: list[str] | None = None
        self._length = self._count = 0
        self._entry: Entry | None = None
        self._start, self._value, self._line = "", "", 0

    def startElementNS(  # noqa: N802
        self, name: tuple[str | None, str], _: str | None, attributes: Any
    ) -> None:
        space, local = name
        if not self._path:
            self.atom = space == ATOM and local in ("feed", "entry")
            if not self.atom:
                raise BadImport("the file is not an Atom feed")
        self._path.append(local if space in (ATOM, ESPI) else "")
        if len(self._path) > MAX_DEPTH:
            raise BadImport(f"line {self._at()}: the XML is nested too deeply")
        self._text = None
        if space == ATOM and local == "entry":
            self._begin()
        elif self._entry is not None and space == ATOM:
            if local == "link":
                self._link(attributes)
            self._text = [] if local in ("id", "title") else None
        elif self._entry is not None and space == ESPI:
            self._espi(self._entry, local)

    def characters(self, content: str) -> None:
        if self._text is None:
            return
        self._length += len(content)
        if self._length > MAX_TEXT:
            raise BadImport(f"line {self._at()}: a text is too long")
        self._text.append(content)

    def endElementNS(self, name: tuple[str | None, str], _: str | None) -> None:  # noqa: N802
        local = self._path.pop()
        if not self._path:
            self.found.lines = self._at()
        text = "" if self._text is None else "".join(self._text).strip()
        taken, self._text = self._text is not None, None
        entry = self._entry
        if entry is None:
            return
        parent = self._path[-1] if self._path else ""
        if local == "entry" and name[0] == ATOM:
            self._entry = None
        elif local == "IntervalReading":
            self._reading(entry)
        elif not taken:
            return
        elif parent == "entry":
            setattr(entry, local, text)
        elif local == "start":
            self._start = text
        elif local == "value":
            self._value = text
        else:
            entry.fields[local] = text

    def _begin(self) -> None:
        if self._entry is not None:
            raise BadImport(f"line {self._at()}: an entry inside an entry")
        self._entry = Entry(self._at())
        self.found.entries.append(self._entry)
        if len(self.found.entries) > MAX_ENTRIES:
            raise BadImport("the feed has too many entries")

    def _link(self, attributes: Any) -> None:
        assert self._entry is not None
        rel = attributes.get((None, "rel"), "")
        href = attributes.get((None, "href"), "").rstrip("/")
        if len(href) > MAX_TEXT:
            raise BadImport(f"line {self._at()}: a text is too long")
        if rel == "related":
            self._entry.related.append(href)
        elif rel in ("self", "up"):
            setattr(self._entry, rel, href)

    def _espi(self, entry: Entry, local: str) -> None:
        parent = self._path[-2]
        if local in RESOURCES and parent == "content":
            if entry.resource not in (None, local):
                raise BadImport(f"line {self._at()}: an entry with two resources")
            entry.resource = local
        elif local == "IntervalReading":
            self._start, self._value, self._line = "", "", self._at()
        wanted = (parent, local) in _READ
        inside = "IntervalReading" in self._path
        wanted |= inside and (parent, local) in (
            ("timePeriod", "start"),
            ("IntervalReading", "value"),
        )
        if wanted:
            self._text, self._length = [], 0

    def _reading(self, entry: Entry) -> None:
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
    if not (text.isascii() and text.removeprefix("-").isdecimal()) or len(text) > 19:
        return None
    value = int(text)
    return value if abs(value) < MAX_WHOLE else None
