"""One reading as it is sent: parsed exactly, or refused with the field and the rule.

A number is read as a decimal from its text and kept as a whole number of nano-units of the base
unit (rounded half to even beyond nine places); no binary fraction is involved. Messages name the
rule and never repeat a value.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from common.bodies import JSON
from common.runtime.clock import epoch_microseconds, from_epoch_microseconds
from curator.errors import BadItem, NotReadings, TooManyItems
from tacit import units
from tacit.units import NANO, UNITS, Kind, Mismatch

Ints = NDArray[np.int64]
MAX_STORED: Final = 2**61
"""Largest magnitude of a stored reading, in nano-units: sums of two stay inside 63 bits."""
MAX_TOTAL: Final = 2**62
"""Largest total of a counter: one of 32 bits fits that counts Wh or single pulses."""
FIELDS: Final = frozenset(
    {
        "curator",
        "device",
        "register",
        "time",
        "value",
        "values",
        "unit",
        "kind",
        "rollover",
        "correction",
    }
)
_IDENTIFIER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}")
_DECIMAL: Final = re.compile(
    r"[+-]?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})([eE][+-]?\d{1,2})?", re.ASCII
)
_PLAIN: Final = re.compile(r"-?\d{1,12}(\.\d{1,9})?", re.ASCII)
_RFC3339: Final = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_EXACT: Final = Context(prec=120, rounding=ROUND_HALF_EVEN)
_WHOLE: Final = Decimal(1)


@dataclass(frozen=True)
class Times:
    """Which times a reading can have, `earliest` to `latest`, in microseconds since 1970."""

    earliest: int
    latest: int

    def hold(self, moments: Ints) -> NDArray[np.bool_]:
        """Which of many moments a reading may have."""
        inside: NDArray[np.bool_] = (moments >= self.earliest) & (moments <= self.latest)
        return inside

    def check(self, moment: int, field: str = "time") -> int:
        """The moment. Raises BadItem where no reading can have it."""
        if moment > self.latest:
            refuse(field, "lies in the future")
        if moment < self.earliest:
            refuse(field, f"lies before {self.first_day}")
        return moment

    @property
    def first_day(self) -> str:
        """The day of `earliest`, for people."""
        return from_epoch_microseconds(self.earliest).date().isoformat()


@dataclass(frozen=True)
class Item:
    """A well-formed reading. `quantity` and `rollover` in nano-units, time in us."""

    curator: str | None
    device: str | None
    register: str
    unit: str
    time: int
    quantity: int
    vector: tuple[int, ...] | None
    kind: Kind
    rollover: int | None
    correction: bool


def refuse(field: str, message: str) -> NoReturn:
    """Raise BadItem for one field."""
    raise BadItem(message, pointer=f"/{field}" if field else "")


class Doubled:
    """Marks a repeated field of a JSON object: the item is refused, not the body."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any] | Doubled:
    fields = dict(pairs)
    return fields if len(fields) == len(pairs) else Doubled()


def _number(text: str) -> Decimal:
    """An exact number; NaN, infinities and endless numbers become NaN, which no field accepts."""
    return Decimal(text) if len(text) <= 100 and text[-1] not in "Ny" else Decimal("NaN")


_EXACTLY: Final[dict[str, Any]] = {
    "parse_float": _number,
    "parse_int": _number,
    "parse_constant": _number,
    "object_pairs_hook": _unique,
}


def decoder() -> json.JSONDecoder:
    """A decoder that reads as `load_json` does."""
    return json.JSONDecoder(**_EXACTLY)


def load_json(text: bytes | str) -> Any:
    """JSON whose numbers are exact decimals. Raises ValueError for anything else."""
    try:
        return json.loads(text, **_EXACTLY)
    except RecursionError:
        raise ValueError("too deep") from None


def items_of(body: bytes, form: str, most: int) -> list[Any]:
    """The raw items of a body: JSON (an object or an array), or else a JSON object per line; a
    line that is not JSON becomes a BadItem. Raises NotReadings or TooManyItems."""
    if form == JSON:
        try:
            value = load_json(body)
        except ValueError:
            raise NotReadings from None
        items = value if isinstance(value, list) else [value]
    else:
        items = [_line(line) for line in body.split(b"\n") if line.strip()]
    if not items:
        raise NotReadings("there is no reading in the body")
    if len(items) > most:
        raise TooManyItems(extra={"max_items": most})
    return items


def _line(line: bytes) -> Any:
    try:
        return load_json(line)
    except ValueError:
        return BadItem("the line is not JSON")


def parse_item(raw: Any, times: Times, max_values: int) -> Item:
    """The reading of a JSON object. Raises BadItem with the first offending field; its `errors`
    have all."""
    try:
        return _parse(raw, times, max_values)
    except BadItem as error:
        faults = _faults(raw, times, max_values, error)
        if len(faults) == 1:
            raise
        errors = [{"pointer": each.pointer, "detail": each.detail} for each in faults]
        raise BadItem(error.detail, pointer=error.pointer, extra={"errors": errors}) from None


def _faults(raw: Any, times: Times, max_values: int, first: BadItem) -> list[BadItem]:
    """All faults of an item, one per field: each wrong value is replaced by a right one to find
    the next."""
    faults, fault = [first], first
    while isinstance(raw, dict) and fault.pointer and len(faults) <= len(FIELDS):
        raw = _without(raw, fault.pointer.split("/")[1], times)
        try:
            _parse(raw, times, max_values)
            break
        except BadItem as error:
            fault = error
            faults.append(error)
    return faults


def _without(raw: dict[str, Any], field: str, times: Times) -> dict[str, Any]:
    """The item with a bad field corrected, without making another field bad."""
    gone = {"kind": ("rollover",), "value": ("values",), "values": ("value",)}.get(field, ())
    rest = {name: value for name, value in raw.items() if name not in (field[:64], *gone)}
    if len(rest) == len(raw):  # a name of more than 64 characters
        rest = {name: value for name, value in rest.items() if name in FIELDS}
    register = rest.get("register", units.DEFAULT)
    entry = units.register_of(units.OBIS.get(register, register)) if field == "unit" else None
    right: dict[str, Any] = {
        "unit": "mV" if entry is None else units.smallest(entry.base),
        "register": "any",
        "time": Decimal(times.earliest // 1000 + 1),
        "value": Decimal(0),
        "values": Decimal(0),
    }
    name = "value" if field == "values" else field
    return {**rest, name: right[field]} if field in right else rest


def _unit(named: Any) -> units.Unit:
    if not isinstance(named, str):
        refuse("unit", f"is needed: one of {', '.join(UNITS)}")
    try:
        return units.unit_named(named)
    except ValueError as error:
        refuse("unit", str(error))


def _parse(raw: Any, times: Times, max_values: int) -> Item:
    if isinstance(raw, Doubled):
        refuse("", "a field is given twice")
    if not isinstance(raw, dict):
        refuse("", "a reading is a JSON object")
    unknown = raw.keys() - FIELDS
    if unknown:
        refuse(str(min(unknown))[:64], "there is no such field")
    unit = _unit(raw.get("unit"))
    register = register_name(raw.get("register", units.DEFAULT))
    kind = _kind(raw.get("kind", units.kind_of(register).value))
    suits(units.mismatch(register, unit.symbol) or units.kind_mismatch(register, kind))
    time = parse_time(raw.get("time"), times)
    quantity, vector = _content(raw, unit.symbol, kind, max_values)
    if kind is Kind.TOTAL_INCREASING and quantity < 0:
        refuse("value", "a counter is not below zero")
    rollover = None
    if raw.get("rollover") is not None:
        rollover = to_nano(raw["rollover"], unit.symbol, "rollover", MAX_TOTAL)
        if kind is not Kind.TOTAL_INCREASING or rollover <= 0:
            refuse("rollover", "is the size of a counter: above 0, with kind total_increasing")
    correction = raw.get("correction", False)
    if not isinstance(correction, bool):
        refuse("correction", "is true or false")
    return Item(
        identifier(raw.get("curator"), "curator"),
        identifier(raw.get("device"), "device"),
        register,
        unit.symbol,
        time,
        quantity,
        vector,
        kind,
        rollover,
        correction,
    )


def identifier(value: Any, field: str) -> str | None:
    """An identifier, or nothing where none is given."""
    if value is None:
        return None
    if not isinstance(value, str) or not _IDENTIFIER.fullmatch(value):
        refuse(field, "is not an identifier (letters, digits and . _ : @ -, at most 128)")
    return str(value)


def register_name(value: Any) -> str:
    """The name of a register; an OBIS code becomes the register name that it denotes."""
    if not isinstance(value, str):
        refuse("register", "is the name of a register, or an OBIS code")
    try:
        return units.named(value)
    except ValueError as error:
        refuse("register", str(error))


def suits(problem: Mismatch | None) -> None:
    """Raise BadItem for what does not suit its register."""
    if problem is not None:
        refuse(problem.field, problem.detail)


def _kind(value: Any) -> Kind:
    try:
        return Kind(value)
    except ValueError:
        refuse("kind", f"is one of {', '.join(Kind)}")


def _content(
    raw: dict[str, Any], unit: str, kind: Kind, max_values: int
) -> tuple[int, tuple[int, ...] | None]:
    value, values = raw.get("value"), raw.get("values")
    if (value is None) == (values is None):
        refuse("value", "give either value or values")
    if values is None:
        most = MAX_TOTAL if kind is Kind.TOTAL_INCREASING else MAX_STORED
        return to_nano(value, unit, "value", most), None
    if kind is Kind.TOTAL_INCREASING:
        refuse("values", "a counter is one number")
    if not isinstance(values, list) or not 1 <= len(values) <= max_values:
        refuse("values", f"is a list of 1 to {max_values} numbers")
    try:
        return 0, tuple([to_nano(v, unit, "values") for v in values])
    except BadItem:  # the place is worked out only for the one that is refused
        return 0, tuple(to_nano(v, unit, f"values/{i}") for i, v in enumerate(values))


@lru_cache(maxsize=64)
def _scale(unit: str) -> Decimal | Fraction:
    """Nano-units of one: a Decimal, which is faster, where it is whole."""
    scale = UNITS[unit].factor * NANO
    return Decimal(scale.numerator) if scale.denominator == 1 else scale


def to_nano(value: Any, unit: str, field: str, most: int = MAX_STORED) -> int:
    """A JSON number or decimal text as a whole number of nano-units of the unit's base."""
    if isinstance(value, str):
        # Most texts, of which a vector has up to a million: digits alone, five times as fast.
        factor = UNITS[unit].factor
        if _PLAIN.fullmatch(value) and factor.denominator == 1:
            digits, _, part = value.partition(".")
            nano = int(digits + part.ljust(9, "0")) * factor.numerator
            return nano if abs(nano) <= most else refuse(field, "is too large to be stored")
        if not _DECIMAL.fullmatch(value):
            refuse(field, "is not a decimal number")
        value = Decimal(value)
    if isinstance(value, int) and not isinstance(value, bool):
        value = Decimal(value)
    if not isinstance(value, Decimal) or not value.is_finite():
        refuse(field, "is not a decimal number")
    if value.adjusted() > 30:
        refuse(field, "is too large to be stored")
    if value.adjusted() < -60:
        return 0
    scale = _scale(unit)
    try:
        if isinstance(scale, Fraction):
            nano = round(Fraction(value) * scale)  # half to even
        else:
            nano = int(_EXACT.multiply(value, scale).quantize(_WHOLE, context=_EXACT))
    except InvalidOperation:
        refuse(field, "has too many digits")
    if abs(nano) > most:
        refuse(field, "is too large to be stored")
    return nano


def parse_time(value: Any, times: Times, field: str = "time") -> int:
    """Microseconds since 1970 of an RFC 3339 text or of epoch milliseconds."""
    if isinstance(value, str) and _RFC3339.fullmatch(value):
        try:
            moment = epoch_microseconds(datetime.fromisoformat(value.replace("z", "Z")))
        except (ValueError, OverflowError):
            refuse(field, "is no time that exists")
    elif isinstance(value, Decimal) and value == value.to_integral_value() and abs(value) < 10**15:
        moment = int(value) * 1000
        if moment < times.earliest <= moment * 1000 <= times.latest:
            refuse(field, "looks like epoch seconds: a number is epoch milliseconds")
    else:
        refuse(field, "is an RFC 3339 time with an offset, or epoch milliseconds")
    return times.check(moment, field)
