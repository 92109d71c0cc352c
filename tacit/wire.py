"""The base of every wire model, and the exact scalar types they share.

A wire model is frozen, refuses unknown fields and non-finite numbers, and has one canonical
form: the JSON text with sorted keys and no blanks, in which exact amounts are decimal strings
and binary values are base64url. Hashes and signatures are taken over that form.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, Final, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

_DIGITS = "[0-9]{1,200}"
_EXACT = re.compile(
    rf"[+-]?({_DIGITS}(\.{_DIGITS})?|\.{_DIGITS})([eE][+-]?[0-9]{{1,2}})?|[+-]?{_DIGITS}/{_DIGITS}"
)
_STANDARD = bytes.maketrans(b"-_", b"+/")
_PLACES = 40
"""Decimal places that are written out; a longer expansion is shorter as a ratio."""


def parse_exact(value: object) -> Fraction:
    """A decimal string (or "a/b", or an integer) as an exact rational.

    Refused is also what `format_exact` would write with more digits than are read here, so that
    whatever was read once can be written and read again.
    """
    if isinstance(value, Fraction):
        return value
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        raise PydanticCustomError("exact", 'must be a decimal string such as "0.5", or "1/3"')
    text = str(value).strip()
    if not _EXACT.fullmatch(text) or ("/" in text and not text.rpartition("/")[2].strip("0")):
        raise PydanticCustomError("exact", 'must be a decimal string such as "0.5", or "1/3"')
    exact = Fraction(text)
    if not _EXACT.fullmatch(format_exact(exact)):
        raise PydanticCustomError("exact", "has too many digits")
    return exact


def _parse_wire_exact(value: object, info: ValidationInfo) -> Fraction:
    # A JSON number is refused even where it is whole: most readers would pass it through a float.
    if info.mode == "json" and not isinstance(value, str | Fraction):  # a default is a Fraction
        raise PydanticCustomError("exact", 'must be a decimal string such as "0.5", or "1/3"')
    return parse_exact(value)


@lru_cache(maxsize=4096)  # the amounts of a query are written again and again
def format_exact(value: Fraction) -> str:
    """The exact text of a rational: a decimal where a short one exists, else "a/b"."""
    denominator = value.denominator
    twos = fives = 0
    while denominator % 2 == 0:
        denominator //= 2
        twos += 1
    while denominator % 5 == 0:
        denominator //= 5
        fives += 1
    places = max(twos, fives)
    if denominator != 1 or places > _PLACES:
        return f"{value.numerator}/{value.denominator}"
    digits = abs(value.numerator) * 10**places // value.denominator
    sign = "-" if value < 0 else ""
    if not places:
        return f"{sign}{digits}"
    text = str(digits).rjust(places + 1, "0")
    return f"{sign}{text[:-places]}.{text[-places:]}"


def parse_binary(value: object) -> bytes:
    """Bytes of base64url text, with or without padding (bytes stay as they are)."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        try:
            text = value.encode("ascii").translate(_STANDARD)
            return binascii.a2b_base64(text + b"=" * (-len(text) % 4), strict_mode=True)
        except (binascii.Error, ValueError):
            pass
    raise PydanticCustomError("binary", "must be base64url text (a byte string in CBOR)")


def encode_binary(value: bytes) -> str:
    """Base64url without padding, the JSON form of every binary value."""
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode("ascii")


FIRST_YEAR: Final = 100
LAST_YEAR: Final = 9899
"""An instant leaves a century to both ends of what a date can be: spans are added to it."""


def _parse_instant(value: object) -> datetime:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise PydanticCustomError("instant", "must be an RFC 3339 time") from None
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise PydanticCustomError("instant", "must be an RFC 3339 time with an offset")
    try:
        moment = value.astimezone(UTC)
    except OverflowError:
        moment = None
    if moment is None or not FIRST_YEAR <= moment.year <= LAST_YEAR:
        rule = f"lies outside the years {FIRST_YEAR} to {LAST_YEAR} in UTC"
        raise PydanticCustomError("instant", "{reason}", {"reason": rule})
    return moment


@lru_cache(maxsize=4096)  # a round's times are written again and again
def format_instant(value: datetime) -> str:
    """RFC 3339 in UTC, with milliseconds or microseconds only where there are some."""
    timespec = "microseconds" if value.microsecond % 1000 else "milliseconds"
    text = value.astimezone(UTC).isoformat(timespec=timespec)
    return text.replace("+00:00", "Z").replace(".000Z", "Z")


Exact = Annotated[
    Fraction,
    BeforeValidator(_parse_wire_exact),
    PlainSerializer(format_exact, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["0.5"], "description": 'decimal or "a/b"'}),
]
Binary = Annotated[
    bytes,
    BeforeValidator(parse_binary),
    PlainSerializer(encode_binary, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "contentEncoding": "base64url"}),
]
Instant = Annotated[
    datetime,
    BeforeValidator(_parse_instant),
    PlainSerializer(format_instant, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]


Checked = TypeVar("Checked")


def require(condition: bool, value: Checked, message: str) -> Checked:
    """For validators: the value, or an error that pydantic pins to the field."""
    if not condition:
        raise PydanticCustomError("bad_parameter", "{reason}", {"reason": message})
    return value


class WireModel(BaseModel):
    """Immutable, closed, and without implicit conversions."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        arbitrary_types_allowed=True,
        validate_by_alias=True,
        validate_by_name=True,
        serialize_by_alias=True,
        defer_build=True,
    )

    def canonical(self) -> bytes:
        """The bytes that hashes and signatures cover."""
        return canonical_json(self.model_dump(mode="json", exclude_none=True))

    def digest(self) -> bytes:
        """SHA-256 of the canonical form, 32 bytes."""
        return hashlib.sha256(self.canonical()).digest()


class KeptModel(WireModel):
    """A wire model whose canonical form is asked for again and again. It is kept outside of the
    model, by its value: a changed copy has a form of its own."""

    def canonical(self) -> bytes:
        """The bytes that hashes and signatures cover."""
        return _kept(self)[0]

    def digest(self) -> bytes:
        """SHA-256 of the canonical form, 32 bytes."""
        return _kept(self)[1]


@lru_cache(maxsize=2048)  # descriptors and queries of the rounds under way
def _kept(model: KeptModel) -> tuple[bytes, bytes]:
    """The canonical form and its hash."""
    form = WireModel.canonical(model)
    return form, hashlib.sha256(form).digest()


_CANONICAL: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def canonical_json(value: Any) -> bytes:
    """JSON with sorted keys and no blanks; floats are refused, so the text is unique."""
    text = _CANONICAL.encode(value)
    _refuse_floats(value)
    return text.encode()


def _refuse_floats(value: Any) -> None:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, float):
            raise TypeError("a canonical form holds no floating-point number")
        if isinstance(item, dict):
            pending.extend(item.values())
        elif isinstance(item, (list, tuple)):
            pending.extend(item)
