"""The base of every wire model, and the exact scalar types they share.

A wire model is frozen, refuses unknown fields and non-finite numbers, and has one canonical
form: the JSON text with sorted keys and no blanks, in which exact amounts are decimal strings
and binary values are base64url. Hashes and signatures are taken over that form.

`errors_of` states what a field that pydantic refuses has to be, never the value that came.
"""

from __future__ import annotations

import binascii
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Any, Final, TypeVar, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from tacit.errors import FieldError

_DIGITS = "[0-9]{1,200}"
_EXACT = re.compile(
    rf"[+-]?({_DIGITS}(\.{_DIGITS})?|\.{_DIGITS})([eE][+-]?[0-9]{{1,2}})?|[+-]?{_DIGITS}/{_DIGITS}"
)
_STANDARD = bytes.maketrans(b"-_", b"+/")
_FOR_ADDRESSES = bytes.maketrans(b"+/", b"-_")
_PLACES = 40
"""Decimal places that are written out; a longer expansion is shorter as a ratio."""


def parse_exact(value: object) -> Fraction:
    """A decimal string (or "a/b", or an integer) as an exact rational.

    Also refuses a number that `format_exact` would write with more digits than this function
    reads, so that every number that was read can be written and read again.
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
    """The exact text of a rational: a decimal if a short one exists, else "a/b"."""
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
    """Bytes of base64url text, with or without padding (bytes are returned unchanged)."""
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
    text = binascii.b2a_base64(value, newline=False)
    return text.translate(_FOR_ADDRESSES, b"=").decode("ascii")


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
    """RFC 3339 in UTC, with milliseconds or microseconds only if they are not 0."""
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
    """For validators: the value, or an error that pydantic attributes to the field."""
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
    """A wire model whose canonical form is needed many times.

    The form is cached outside of the model, by its value: a changed copy has a form of its own.
    """

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
_LIKE_A_FLOAT: Final = re.compile(
    r"(?:^|[\[:,])-?(?:[0-9]+\.[0-9]+(?:e[+-]?[0-9]+)?|[0-9]+e[+-]?[0-9]+|Infinity|NaN)(?:[]},]|$)"
)
"""A float in JSON, whole or in a list or an object; a text may look like one, too."""


def canonical_json(value: Any) -> bytes:
    """JSON with sorted keys and no blanks; floats are refused, so the text is unique."""
    text = _CANONICAL.encode(value)
    if _LIKE_A_FLOAT.search(text) is not None:  # a number, or a text with such characters
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


Item = Mapping[str, Any]
_IDENTIFIER_OF_36: Final = "^[0-9a-f-]{36}$"


def rule(item: Item, model: type[BaseModel] | None = None) -> str:
    """What the field of one item of `ValidationError.errors()` must be; for an unknown field of
    a `model` the nearest name is added."""
    if model is not None and item["type"] == "extra_forbidden":
        return unknown_field(item["loc"], model)
    words = _WORDS.get(str(item["type"]))
    sentence = None if words is None else words(item)
    message = str(item.get("msg", "")) if sentence is None else sentence
    return message.removeprefix("Value error, ").removeprefix("Assertion failed, ")


def first_of(error: ValidationError) -> str:
    """The first field that is refused, with what it has to be: one line."""
    item = error.errors(include_url=False)[0]
    place = "/".join(str(part) for part in item["loc"])
    return f"{place}: {rule(item)}" if place else rule(item)


def errors_of(error: ValidationError, model: type[BaseModel]) -> list[FieldError]:
    """Each field of a model's JSON that is refused: its path, and what it must be."""
    return [
        FieldError(
            "/" + "/".join(str(part) for part in item["loc"]),
            rule(item, model),
        )
        for item in error.errors(include_url=False)
    ]


def unknown_field(place: tuple[str | int, ...], model: type[BaseModel]) -> str:
    """The message about a field that a model's JSON does not have at this path, with the nearest
    name."""
    names_of_model = _names(model, place[:-1])
    near = get_close_matches(str(place[-1]), names_of_model, n=1)
    return "no such field" + (f": did you mean {near[0]}?" if near else "")


def _names(model: type[BaseModel], path: tuple[str | int, ...]) -> list[str]:
    """The names of the fields at a path of a model's JSON."""
    models: list[type[BaseModel]] = [model]
    for step in path:
        if isinstance(step, int):
            continue
        fields = [field for model in models for field in _fields(model).items()]
        inside = [_models(field.annotation) for name, field in fields if name == step]
        if inside:  # pydantic also names the branches of unions, which are no steps of the JSON
            models = [inner_model for models_inside in inside for inner_model in models_inside]
    return [name for model in models for name in _fields(model)]


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _models(annotation: Any) -> list[type[BaseModel]]:
    """The models that an annotation names, at any depth."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in get_args(annotation) for model in _models(inner)]


def _one_of(item: Item) -> str | None:
    expected = str(item["ctx"]["expected"])
    names = re.findall(r"'([^']*)'", expected)
    if not names:
        return None
    sent = item.get("input")
    near = get_close_matches(sent, names, n=1) if isinstance(sent, str) else []
    suggestion = f"; did you mean {near[0]}?" if near else ""
    if len(names) == 1:
        return f"must be {names[0]}"
    return f"must be one of {', '.join(names[:-1])} or {names[-1]}{suggestion}"


def _size(unit: str, bound: str, words: str) -> Callable[[Item], str]:
    def told(item: Item) -> str:
        count = item["ctx"][bound]
        return f"must have at {words} {count} {unit}{'' if count == 1 else 's'}"

    return told


def _bound(name: str, words: str) -> Callable[[Item], str]:
    return lambda item: f"must be {words} {item['ctx'][name]}"


def _always(text: str) -> Callable[[Item], str]:
    return lambda _: text


def _pattern(item: Item) -> str | None:
    if item["ctx"]["pattern"] == _IDENTIFIER_OF_36:
        return "must be an id as the service gave it: 36 hexadecimal digits and dashes"
    return None


_WHOLE: Final = _always("must be a whole number")
_WORDS: Final[Mapping[str, Callable[[Item], str | None]]] = MappingProxyType(
    {
        "missing": _always("is needed"),
        "literal_error": _one_of,
        "enum": _one_of,
        "greater_than_equal": _bound("ge", "at least"),
        "greater_than": _bound("gt", "above"),
        "less_than_equal": _bound("le", "at most"),
        "less_than": _bound("lt", "below"),
        "int_type": _WHOLE,
        "int_parsing": _WHOLE,
        "int_from_float": _WHOLE,
        "float_type": _always("must be a number"),
        "float_parsing": _always("must be a number"),
        "bool_type": _always("must be true or false"),
        "bool_parsing": _always("must be true or false"),
        "string_type": _always("must be a text"),
        "list_type": _always("must be a list"),
        "tuple_type": _always("must be a list"),
        "dict_type": _always("must be an object"),
        "model_type": _always("must be an object"),
        "model_attributes_type": _always("must be an object"),
        "string_pattern_mismatch": _pattern,
        "string_too_short": _size("character", "min_length", "least"),
        "string_too_long": _size("character", "max_length", "most"),
        "too_short": _size("item", "min_length", "least"),
        "too_long": _size("item", "max_length", "most"),
    }
)
WORDED: Final = frozenset(_WORDS) - {"string_pattern_mismatch"}
"""Kinds of errors that have words of their own here, made of the rule alone."""
