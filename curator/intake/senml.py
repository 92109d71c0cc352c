"""SenML: sensor measurement lists as readings.

    [{"bn": "urn:dev:mac:0024befffe804ff1/", "bt": 1762192800, "bu": "kWh",
      "n": "energy_import", "v": 0.51}, {"n": "energy_import", "t": 900, "v": 0.49}]

Source: RFC 8428, sections 4 (data model), 5 (JSON), 6 (CBOR labels); units: its section 12.1 and
RFC 8798. A record inherits base name, time, unit and value from those before it. Its rules here:

- A name is the device, then `/` or `:`, then the register: a name or OBIS code of the catalogue, or
  a register of one's own that begins with its dimension. Else the whole name is the device.
- Times below 2^28 seconds are relative to now, so an amount cannot have one: sent again, it would
  be another amount. In a file now is not known.
- A number is a reading; `vs`, `vb` and `vd` are none. Sums (`s`) are passed over, as are labels
  that are not known, unless they end with _: these must be understood, so they refuse the list.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import ROUND_FLOOR, Decimal
from functools import lru_cache
from typing import Any, Final, NamedTuple

import cbor2

from curator.errors import BadItem, NotReadings, TooManyItems
from curator.intake.reading import Doubled, load_json
from tacit import units
from tacit.units import Kind
from tacit.wire import format_instant

SENML_JSON: Final = "application/senml+json"
SENML_CBOR: Final = "application/senml+cbor"
VERSION: Final = 10
RELATIVE: Final = 1 << 28
LABELS: Final[Mapping[int, str]] = {
    **{-1: "bver", -2: "bn", -3: "bt", -4: "bu", -5: "bv", -6: "bs", 0: "n", 1: "u", 2: "v"},
    **{3: "vs", 4: "vb", 5: "s", 6: "t", 7: "ut", 8: "vd"},
}
_KNOWN: Final = frozenset(LABELS.values())
_PLAIN: Final = frozenset({"n", "u", "t", "v"})
_BASE: Final = frozenset({"bver", "bn", "bt", "bu", "bv", "bs"})
_UNITS: Final = {"/": "1", "count": "1"}
"""Of the units of SenML those that the catalogue has under another name."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9:./_-]{0,255}")
_LARGEST: Final = Decimal(10) ** 12
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Measurement(NamedTuple):
    """A resolved record. `time` in microseconds, since 1970 or, if `relative`, from now."""

    device: str
    register: str | None
    unit: str
    time: int
    relative: bool
    value: Decimal


class Resolver:
    """Resolves records in their order."""

    def __init__(self) -> None:
        self._name = ""
        self._unit: str | None = None
        self._time = self._value = Decimal(0)

    def record(self, raw: Any) -> Measurement | None:
        """The measurement of a record; None if it has base fields only. Raises BadItem for a
        record that is no reading, and NotReadings if later ones cannot be understood either."""
        if isinstance(raw, Doubled) or not isinstance(raw, dict):
            raise NotReadings("a record of SenML is an object, and has a label once")
        record = raw
        if not raw.keys() <= _PLAIN:  # which nearly all records have
            if not raw.keys() <= _KNOWN:
                record = _labelled(raw)
            if not _BASE.isdisjoint(record):
                self._base(record)
        value = record.get("v")
        if value is None:
            for label, form in (("vs", "a text"), ("vb", "a truth value"), ("vd", "data")):
                if label in record:
                    raise BadItem(f"is {form}, and a reading is a number", pointer=f"/{label}")
            if record.keys() <= _BASE and "bv" not in record:
                return None
            if "s" in record:
                raise BadItem("a sum over time is not read: send v", pointer="/s")
            raise BadItem("there is no value", pointer="/v")
        name = self._name + _text(record.get("n", ""), "n")
        place = _divided(name)
        if place is None:
            raise BadItem(
                "bn and n give no name of SenML (letters, digits, - : . / _)", pointer="/n"
            )
        unit = record.get("u", self._unit)
        if unit is None:
            raise BadItem("is needed, or a base unit", pointer="/u")
        unit = _text(unit, "u")
        time = self._time + _number(record.get("t", Decimal(0)), "t")
        if abs(time) >= _LARGEST:
            raise BadItem("is no time that exists", pointer="/t")
        return Measurement(
            *place,
            _UNITS.get(unit, unit),
            _microseconds(time),
            time < RELATIVE,
            self._value + _number(value, "v"),
        )

    def _base(self, record: Mapping[Any, Any]) -> None:
        try:
            if (version := record.get("bver")) is not None and not (
                0 < _number(version, "bver") <= VERSION
            ):
                raise NotReadings(f"this version of SenML is not known: {VERSION} is")
            if "bn" in record:
                self._name = _text(record["bn"], "bn")
            if "bu" in record:
                self._unit = _text(record["bu"], "bu")
            if "bt" in record:
                self._time = _number(record["bt"], "bt")
            if "bv" in record:
                self._value = _number(record["bv"], "bv")
        except BadItem as error:
            raise NotReadings(f"{error.pointer} {error.detail}") from None


def _labelled(raw: Mapping[Any, Any]) -> dict[Any, Any]:
    """A record by the names of its labels, where CBOR has numbers."""
    record = {LABELS.get(key, key) if type(key) is int else key: raw[key] for key in raw}
    if any(isinstance(label, str) and label.endswith("_") for label in record):
        raise NotReadings("a label that ends with _ is not understood")
    return record


def _microseconds(time: Decimal) -> int:
    seconds = int(time)
    if seconds == time:
        return seconds * 10**6
    return int((time * 10**6).to_integral_value(ROUND_FLOOR))


def _text(value: Any, label: str) -> str:
    if not isinstance(value, str) or len(value) > 256:
        raise BadItem("is not a text of at most 256 characters", pointer=f"/{label}")
    return value


def _number(value: Any, label: str) -> Decimal:
    if isinstance(value, Decimal):
        pass
    elif isinstance(value, float):
        value = Decimal(repr(value))
    elif isinstance(value, int) and not isinstance(value, bool):
        value = Decimal(value)
    if not isinstance(value, Decimal) or not value.is_finite() or abs(value.adjusted()) > 60:
        raise BadItem("is not a decimal number", pointer=f"/{label}")
    return value


@lru_cache(maxsize=100_000)
def _divided(name: str) -> tuple[str, str | None] | None:
    """The same, or None for what is no name of SenML."""
    return divided(name) if _NAME.fullmatch(name) else None


def divided(name: str) -> tuple[str, str | None]:
    """Device and register of a name; no register where it ends in none."""
    for at, sign in enumerate(name):
        rest = name[at + 1 :]
        if sign in "/:" and (rest in units.OBIS or units.register_of(rest) is not None):
            return name[:at], units.OBIS.get(rest, rest)
    return (name, None) if units.register_of(name) is None else ("", name)


def records_of(body: bytes, form: str, most: int) -> list[Any]:
    """The records of a list. Raises NotReadings or TooManyItems."""
    try:
        records = load_json(body) if form == SENML_JSON else _one_cbor(body)
    except (ValueError, cbor2.CBORDecodeError, RecursionError):
        raise NotReadings from None
    if not isinstance(records, list) or not records:
        raise NotReadings("SenML is an array of records")
    if len(records) > most:
        raise TooManyItems(extra={"max_items": most})
    return records


def _one_cbor(body: bytes) -> Any:
    stream = io.BytesIO(body)
    document = cbor2.load(stream)
    if stream.tell() != len(body):
        raise ValueError("more follows")
    return document


def items_of_senml(
    body: bytes,
    form: str,
    most: int,
    now: int,
    *,
    register: str | None = None,
    kind: Kind | None = None,
    device: str | None = None,
) -> list[Any]:
    """Raw items of a list, as the intake takes them; a record that is no reading becomes a BadItem.

    `now` in microseconds since 1970. `register`: for names without one. `kind`: for registers
    that accept it. `device`: if the topic names it. Raises NotReadings or TooManyItems.
    """
    resolver, items = Resolver(), list[Any]()
    for raw in records_of(body, form, most):
        try:
            found = resolver.record(raw)
            if found is not None:
                items.append(_item(found, now, register, kind, device))
        except BadItem as error:
            items.append(error)
    if not items:
        raise NotReadings("there is no reading in the list")
    return items


def _item(
    measurement: Measurement, now: int, register: str | None, kind: Kind | None, device: str | None
) -> dict[str, Any]:
    name, booked = booked_as(measurement, register, kind)
    if measurement.relative and booked is Kind.DELTA:
        raise BadItem(
            "an amount needs its own time: if it is sent again, it would be counted twice",
            pointer="/t",
        )
    moment = measurement.time + (now if measurement.relative else 0)
    try:
        time = format_instant(_EPOCH + timedelta(microseconds=moment))
    except OverflowError:
        raise BadItem("is no time that exists", pointer="/t") from None
    if device is not None and measurement.device not in ("", device):
        raise BadItem("is another device than the topic's", pointer="/n")
    item = {
        "register": name,
        "unit": measurement.unit,
        "kind": booked.value,
        "time": time,
        "value": measurement.value,
    }
    meter = device or measurement.device
    return {"device": meter, **item} if meter else item


def booked_as(
    measurement: Measurement, register: str | None, kind: Kind | None
) -> tuple[str, Kind]:
    """Register and kind of a measurement. Raises BadItem if neither its name nor the caller
    states a register."""
    name = measurement.register or register
    if name is None:
        detail = "ends in no register: device/energy_import, for example"
        raise BadItem(detail, pointer="/n")
    entry = units.register_of(name)
    suits = kind is not None and (entry is None or kind in entry.kinds)
    return name, kind if suits and kind is not None else units.kind_of(name)
