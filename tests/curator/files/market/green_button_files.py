"""Writes Green Button files: the parts of a feed that say what was read, by the schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from xml.sax.saxutils import escape

CUSTOMER = "RetailCustomer/7"
HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<feed xmlns="http://www.w3.org/2005/Atom">\n'
    "<id>urn:uuid:00000000-0000-4000-8000-000000000000</id><title>Usage</title>\n"
)
LOCAL_TIME = (
    '<LocalTimeParameters xmlns="http://naesb.org/espi"><dstEndRule>B40E2000</dstEndRule>'
    "<dstOffset>3600</dstOffset><dstStartRule>360E2000</dstStartRule>"
    "<tzOffset>3600</tzOffset></LocalTimeParameters>"
)


@dataclass(frozen=True)
class Meter:
    """A meter reading of a usage point: its type, and its values from a moment on."""

    point: str
    values: Sequence[object]
    start: datetime
    step_s: int = 900
    uom: str = "72"
    behaviour: str = "4"
    flow: str = "1"
    power: str = "0"
    commodity: str = "1"
    per_block: int = 96
    extra: str = ""


@dataclass
class FeedFile:
    """A feed of meters. `types_last` puts the reading types behind the blocks."""

    meters: Sequence[Meter]
    titles: dict[str, str] = field(default_factory=dict)
    services: dict[str, str] = field(default_factory=dict)
    types_last: bool = False

    def text(self) -> str:
        """The file."""
        points = list(dict.fromkeys(meter.point for meter in self.meters))
        parts = [self._point(point) for point in points]
        parts.append(_entry("LocalTimeParameters/1", "LocalTimeParameters", (), LOCAL_TIME))
        types = [_type(number, meter) for number, meter in enumerate(self.meters)]
        blocks = [each for n, meter in enumerate(self.meters) for each in _blocks(n, meter)]
        for number, meter in enumerate(self.meters):
            own = f"{_point(meter.point)}/MeterReading/{number}"
            related = (f"{own}/IntervalBlock", f"ReadingType/{number}")
            parts.append(
                _entry(own, f"{_point(meter.point)}/MeterReading", related, _espi("MeterReading"))
            )
        parts += [*blocks, *types] if self.types_last else [*types, *blocks]
        return HEAD + "\n".join(parts) + "\n</feed>\n"

    def _point(self, point: str) -> str:
        kind = self.services.get(point, "0")
        inner = f"<ServiceCategory><kind>{kind}</kind></ServiceCategory>"
        related = (f"{_point(point)}/MeterReading", "LocalTimeParameters/1")
        return _entry(
            _point(point),
            f"{CUSTOMER}/UsagePoint",
            related,
            _espi("UsagePoint", inner),
            title=self.titles.get(point, ""),
            name=f"urn:uuid:{point}",
        )


def _point(point: str) -> str:
    return f"{CUSTOMER}/UsagePoint/{point}"


def _espi(name: str, inner: str = "") -> str:
    return f'<{name} xmlns="http://naesb.org/espi">{inner}</{name}>'


def _entry(
    own: str,
    up: str,
    related: Sequence[str],
    content: str,
    title: str = "",
    name: str = "urn:uuid:1",
) -> str:
    links = f'<link rel="self" href="{own}"/><link rel="up" href="{up}"/>'
    links += "".join(f'<link rel="related" href="{href}"/>' for href in related)
    return (
        f"<entry><id>{name}</id>{links}<title>{escape(title)}</title>"
        f"<content>{content}</content></entry>"
    )


def _type(number: int, meter: Meter) -> str:
    fields = {
        "accumulationBehaviour": meter.behaviour,
        "commodity": meter.commodity,
        "currency": "756",
        "dataQualifier": "12",
        "flowDirection": meter.flow,
        "intervalLength": str(meter.step_s),
        "kind": "12",
        "phase": "769",
        "powerOfTenMultiplier": meter.power,
        "uom": meter.uom,
    }
    inner = "".join(f"<{name}>{text}</{name}>" for name, text in fields.items() if text)
    return _entry(f"ReadingType/{number}", "ReadingType", (), _espi("ReadingType", inner))


def _blocks(number: int, meter: Meter) -> list[str]:
    begin = int(meter.start.timestamp())
    own = f"{_point(meter.point)}/MeterReading/{number}"
    found = []
    for first in range(0, len(meter.values), meter.per_block):
        lot = meter.values[first : first + meter.per_block]
        inner = (
            f"<interval><duration>{len(lot) * meter.step_s}</duration>"
            f"<start>{begin + first * meter.step_s}</start></interval>"
        )
        for index, value in enumerate(lot, first):
            at = begin + index * meter.step_s
            inner += (
                "\n<IntervalReading><cost>974</cost><ReadingQuality><quality>8</quality>"
                f"</ReadingQuality><timePeriod><duration>{meter.step_s}</duration>"
                f"<start>{at}</start></timePeriod><value>{value}</value></IntervalReading>"
            )
        content = _espi("IntervalBlock", inner + meter.extra)
        block = f"{own}/IntervalBlock/{first}"
        found.append(_entry(block, f"{own}/IntervalBlock", (), content))
    return found
