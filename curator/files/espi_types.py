"""The codes of ESPI's ReadingType as our registers, units and kinds; and whose each block is.

Source: ESPI schema, types UomType, AccumulationBehaviourType, FlowDirectionType, CommodityType.
A type that cannot be summed is a fault of the block, with its element; no other block is affected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from curator.files.green_button import Entry, Fault, Feed, Readings
from tacit.registers import Kind, kind_mismatch
from tacit.units import NANO, UNITS

UNIT: Final = {"72": "Wh", "38": "W", "42": "m3", "134": "l"}
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
    """A reading type that we cannot take: element and reason."""


def series(feed: Feed) -> tuple[list[Series], list[tuple[Fault, int]]]:
    """The readings of a feed by usage point; and faults with the readings that each costs."""
    faults = [(fault, 1) for fault in feed.faults]
    by_self = {entry.self: entry for entry in feed.entries if entry.self}
    types = [entry for entry in feed.entries if entry.resource == "ReadingType"]
    found = []
    for block in _blocks(feed):
        try:
            meter = _meter(block, by_self, feed)
            kind = _type_of(block, meter, by_self, types)
            point = _above(meter, "MeterReading", by_self) if meter is not None else None
            found.append(_series(block, point, kind))
        except _Unsuited as error:
            element, detail = error.args
            faults.append((Fault(block.line, element, detail), len(block.readings.starts)))
    return found, faults


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
            found = by_self.get(href)
            if found is not None and found.resource == "ReadingType":
                return found
    if len(types) == 1:
        return types[0]
    raise _Unsuited("MeterReading", "no ReadingType is linked to it")


def _series(block: Entry, point: Entry | None, kind: Entry) -> Series:
    fields = kind.fields
    unit = UNIT.get(fields.get("uom", ""))
    if unit is None:
        raise _Unsuited("ReadingType/uom", "is not 72 (Wh), 38 (W), 42 (m3) or 134 (l)")
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
    """energy_import, power_export, gas ...: the names that readings have elsewhere."""
    service = point.fields.get("kind", "") if point is not None else ""
    if unit in ("m3", "l"):
        medium = COMMODITY.get(fields.get("commodity", "")) or SERVICE.get(service)
        if medium is None:
            raise _Unsuited("ReadingType/commodity", "is not 7 (gas) or 9 (water)")
        return medium
    direction = DIRECTION.get(fields.get("flowDirection") or "1")
    if direction is None:
        raise _Unsuited(
            "ReadingType/flowDirection", "is not 1 (forward), 4 (net), 19 (reverse) or 20 (total)"
        )
    return f"{'energy' if unit == 'Wh' else 'power'}_{direction}"
