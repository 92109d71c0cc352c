"""Bodies: JSON or CBOR into a pydantic model and back, what no store keeps, and what is wrong.

Both forms mean the same. A CBOR body becomes JSON values first (byte strings become base64url), so
a model is as strict with one as with the other; a model that carries bytes is configured with
`ser_json_bytes="base64"` and `val_json_bytes="base64"`. Refused: NaN and infinities, CBOR tags,
keys that are not text, doubled CBOR keys, depth over `MAX_DEPTH`, and what no store of ours keeps:
PostgreSQL keeps no NUL in a text, and both databases whole numbers of 64 bits with a sign.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from enum import EnumMeta
from fractions import Fraction
from functools import cache
from types import UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NoReturn,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
)

import cbor2
from pydantic import BaseModel, RootModel, ValidationError
from pydantic_core import from_json, to_json, to_jsonable_python

from tacit import errors
from tacit.errors import DomainError, FieldError, Invalid
from tacit.query.terms import IDENTIFIER, IDENTIFIER_RULE
from tacit.records.text_files import json_float
from tacit.wire import WORDED, rule, unknown_field

NUL: Final = "\0"
LARGEST: Final = 2**63 - 1
NO_NUL: Final = "must not contain the character U+0000"
_NO_SUCH_NUMBER: Final = "must be a number of 64 bits"
_ESCAPED: Final = b"\\u0000"
_DIGITS_AS_ONE: Final = bytes(ord("0") if chr(byte).isdecimal() else byte for byte in range(256))
_LONG: Final = b"0" * 19
"""Digits of the least number that does not fit."""


def may_be_unstorable(body: bytes) -> bool:
    """Whether a JSON text could contain such a value: two searches, far cheaper than parsing it."""
    return _ESCAPED in body or _LONG in body.translate(_DIGITS_AS_ONE)


def refuse_unstorable(value: object) -> None:
    """Raise Invalid with the pointers of such values in a parsed body."""
    errors: list[FieldError] = []
    pending: list[tuple[tuple[str | int, ...], object]] = [((), value)]
    while pending:
        place, here = pending.pop()
        inner: Iterable[tuple[str | int, object]] = ()
        if isinstance(here, str):
            _note_text(errors, place, here)
        elif isinstance(here, int) and not -LARGEST - 1 <= here <= LARGEST:
            errors.append(FieldError(pointer(place), _NO_SUCH_NUMBER))
        elif isinstance(here, dict):
            for key in here:
                _note_text(errors, place, key)
            inner = here.items()
        elif isinstance(here, list):
            inner = enumerate(here)
        pending.extend(((*place, key), item) for key, item in inner)
    refuse(errors)


def refuse_unstorable_fields(fields: Mapping[str, str]) -> None:
    """The same for the fields of a form."""
    refuse([FieldError(pointer([name]), NO_NUL) for name, text in fields.items() if NUL in text])


def _note_text(errors_found: list[FieldError], place: tuple[str | int, ...], text: object) -> None:
    if isinstance(text, str) and NUL in text:
        errors_found.append(FieldError(pointer(place), NO_NUL))


def refuse(errors_found: list[FieldError]) -> None:
    if errors_found:
        raise Invalid("a value of the request cannot be stored", errors=errors_found)


# Bodies in and out: JSON or CBOR into a pydantic model, and back in the requested form.
#
# Both forms mean the same. A CBOR body becomes JSON values first (byte strings become base64url),
# so a model is as strict with one as with the other; a model that carries bytes is configured with
# `ser_json_bytes="base64"` and `val_json_bytes="base64"`. Refused: NaN and infinities, CBOR tags,
# keys that are not text, doubled CBOR keys, depth over `MAX_DEPTH`.

JSON: Final = "application/json"
CBOR: Final = "application/cbor"
MAX_DEPTH: Final = 32
_EXTREME: Final = re.compile(rb"[0-9.][eE][-+]?[0-9]{3}|[0-9]{300}")
"""What every number has that a float would make 0 or infinite."""

_FLAT: Final = (str, bytes, int, float, bool, type(None), datetime, Fraction)
_BUILT_IN_TAGS: Final = (
    *range(6),
    *(25, 28, 29, 30, 35, 36, 37, 52, 54, 100, 256, 258, 260, 261, 1004, 43000, 55799),
)

M = TypeVar("M", bound=BaseModel)


def parse_json(body: bytes, model: type[M]) -> M:
    """`model` from JSON text in UTF-8."""
    if _EXTREME.search(body):
        _refuse_lost_numbers(body)
    if not _bounds_depth(model) or b"NaN" in body or b"Infinity" in body:
        _refuse_exotic_json(body)
    if may_be_unstorable(body):
        refuse_unstorable(_parsed(body))
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        _refuse_exotic_json(body)
        raise _refused(error, _parsed(body), model) from None


def parse_cbor(body: bytes, model: type[M]) -> M:
    """`model` from CBOR, through the JSON values that it represents."""
    value = decode_cbor(body)
    try:
        return model.model_validate_json(to_json(value, bytes_mode="base64"))
    except ValidationError as error:
        raise _refused(error, value, model) from None


def decode_cbor(body: bytes) -> Any:
    """The plain value of one CBOR item: maps with text keys, lists, text, bytes, numbers, null."""
    stream = io.BytesIO(body)
    try:
        value: Any = cbor2.CBORDecoder(
            stream,
            tag_hook=_refuse_tag,
            semantic_decoders=_NO_TAGS,
            max_depth=MAX_DEPTH,
            allow_duplicate_keys=False,
            strict_hashable_types=True,
        ).decode()
    except Exception:
        # cbor2 raises many kinds, some of them with a piece of the body in the message
        raise MalformedBody from None
    if stream.tell() != len(body):
        raise MalformedBody("Something follows the end of the body")
    _refuse_exotic_value(value)
    refuse_unstorable(value)
    return value


def _refused(error: ValidationError, body: object, model: type[BaseModel]) -> DomainError:
    """The domain error of a failed validation; an unknown field gets the nearest name."""
    problem = invalid_from(error, body)
    if not isinstance(problem, Invalid):
        return problem
    items = error.errors(include_url=False, include_input=False)
    named = [
        replace(field_error, message=unknown_field(item["loc"], model))
        if item["type"] == "extra_forbidden"
        else field_error
        for field_error, item in zip(problem.errors, items, strict=False)
    ]
    return Invalid(problem.detail, errors=named)


def encode(value: BaseModel | Mapping[str, Any] | list[Any], form: str = JSON) -> bytes:
    """`value` as JSON text or as deterministic CBOR without tags."""
    if form == JSON:
        if isinstance(value, BaseModel):
            return value.model_dump_json().encode()
        return to_json(value, bytes_mode="base64")
    plain = value.model_dump(mode="python") if isinstance(value, BaseModel) else value
    return cbor2.dumps(_untagged(plain), canonical=True)


def _kept(text: str) -> float:
    value = json_float(text)
    if math.isinf(value):
        raise ValueError
    return value


def _refuse_lost_numbers(body: bytes) -> None:
    """Refuse a number that a float would make 0 or infinite, which would silently change it.
    Only a body that could contain one is parsed a second time."""
    try:
        json.loads(body, parse_float=_kept)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        return  # the parser of the model says what is wrong
    except ValueError:
        raise MalformedBody("A number is too large or too small") from None


def _refuse_exotic_json(body: bytes) -> None:
    """Refuse NaN, infinities and too much depth. Only a body that could contain them is parsed a
    second time."""
    deep = body.count(b"{") + body.count(b"[") > MAX_DEPTH
    if not deep and b"NaN" not in body and b"Infinity" not in body:
        return
    try:
        value = from_json(body, allow_inf_nan=False)
    except ValueError:
        raise MalformedBody from None
    _refuse_exotic_value(value)


@cache
def _bounds_depth(model: type[BaseModel]) -> bool:
    """Whether a model limits the depth of what it accepts: it has no field for values of any
    form, and none of its own kind."""
    return _depth(model, ()) <= MAX_DEPTH


def _depth(annotation: Any, inside: tuple[Any, ...]) -> float:
    """The depth of the values of an annotation; infinity if unknown."""
    if annotation in inside:
        return math.inf
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        within = (*inside, annotation)
        below = [_depth(field.annotation, within) for field in annotation.model_fields.values()]
        closed = annotation.model_config.get("extra") == "forbid" or issubclass(
            annotation, RootModel
        )
        return 1 + max(below, default=0) if closed else math.inf
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Annotated, Union, UnionType):
        parts = arguments[:1] if origin is Annotated else arguments
        return max(_depth(part, inside) for part in parts)
    if origin in (tuple, list, dict):
        return 1 + max(
            _depth(argument, inside) for argument in arguments if argument is not Ellipsis
        )
    flat = origin is Literal or annotation in _FLAT
    return 0 if flat or isinstance(annotation, EnumMeta) else math.inf


def _parsed(body: bytes) -> object:
    try:
        return from_json(body)
    except ValueError:
        return None


def _refuse_exotic_value(value: object) -> None:
    pending = [(value, 1)]
    while pending:
        here, depth = pending.pop()
        if isinstance(here, dict):
            if not all(isinstance(key, str) for key in here):
                raise MalformedBody
            inner = list(here.values())
        elif isinstance(here, list):
            inner = here
        else:
            _refuse_exotic_scalar(here)
            continue
        if depth > MAX_DEPTH:
            raise MalformedBody(f"The body is nested more than {MAX_DEPTH} deep")
        pending.extend((item, depth + 1) for item in inner)


def _refuse_exotic_scalar(here: object) -> None:
    if isinstance(here, float):
        if not math.isfinite(here):
            raise MalformedBody("NaN and infinities are not accepted")
    elif here is not None and not isinstance(here, (str, bytes, int)):
        raise MalformedBody


def _refuse_tag(*_: object) -> NoReturn:
    raise ValueError("a tag")


_NO_TAGS: Final = dict.fromkeys(_BUILT_IN_TAGS, _refuse_tag)


def _untagged(value: Any) -> Any:
    """Bytes stay bytes; a value that CBOR would tag becomes its JSON form."""
    if isinstance(value, Mapping):
        return {str(to_jsonable_python(key)): _untagged(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_untagged(item) for item in value]
    if type(value) in (str, bytes, int, float, bool, type(None)):
        return value
    if isinstance(value, BaseModel):
        return _untagged(value.model_dump(mode="python"))
    return to_jsonable_python(value)


# --- what is wrong with a body ---

_PLACES: Final = frozenset({"body", "query", "path", "header", "cookie"})
_OUR_RULES: Final = frozenset({"bad_parameter", "exact", "binary", "instant"})
"""Kinds raised by our own wire models, whose messages state a rule and never a value."""
_TALKATIVE: Final = (
    "uuid_parsing",
    "union_tag_invalid",
    "timezone_offset",
    "json_invalid",
    "url_parsing",
    "url_syntax_violation",
)
UNKNOWN: Final = object()
_TOKEN = re.compile(r"[\w.+-]+")
_MAX_ERRORS: Final = 50
_MAX_SEGMENT: Final = 64


def invalid_from(error: ValidationError, body: object = UNKNOWN) -> DomainError:
    """The domain error of a failed validation: pointers and rules, without the values sent."""
    return invalid_of(error.errors(include_url=False), body, placed=False)


def invalid_of(raw: Sequence[Any], body: object, *, placed: bool) -> DomainError:
    """The same for the errors that a validation lists; `placed`: their locations begin with the
    part of the request."""
    if any(item["type"] == "json_invalid" and len(raw) == 1 for item in raw):
        return MalformedBody()
    found = tuple(_field_error(item, body, placed=placed) for item in raw[:_MAX_ERRORS])
    return errors.Invalid(
        f"{len(raw)} field{'' if len(raw) == 1 else 's'} of the request cannot be accepted",
        errors=found,
    )


def pointer(segments: Iterable[str | int]) -> str:
    """A JSON pointer (RFC 6901)."""
    return "".join(
        "/" + str(segment)[:_MAX_SEGMENT].replace("~", "~0").replace("/", "~1")
        for segment in segments
    )


class MalformedBody(errors.Malformed):
    """The body is not what its content type says."""

    name = "malformed_body"
    title = "The body cannot be parsed"


def _field_error(item: Mapping[str, Any], body: object, *, placed: bool) -> FieldError:
    segments = tuple(item.get("loc", ()))
    place = "body"
    if placed and segments and segments[0] in _PLACES:
        place, segments = str(segments[0]), segments[1:]
    if place == "body":
        segments = _existing(segments, body, missing=_names_what_is_not_there(item))
    return FieldError(pointer(segments), _rule(item), place)


def _names_what_is_not_there(item: Mapping[str, Any]) -> bool:
    """Whether the last segment is a field although the body has none of that name."""
    of_our_own = item.get("type") in _OUR_RULES and len(item.get("loc", ())) == 1
    return item.get("type") == "missing" or of_our_own


def _existing(
    segments: tuple[str | int, ...], body: object, *, missing: bool
) -> tuple[str | int, ...]:
    """The segments that lead through the body, without the union branches that pydantic adds."""
    if body is UNKNOWN:
        return segments
    kept: list[str | int] = []
    here = body
    for index, segment in enumerate(segments):
        in_list = isinstance(here, list) and isinstance(segment, int) and segment < len(here)
        if in_list or (isinstance(here, Mapping) and segment in here):
            here = cast(Any, here)[segment]
        elif not missing or index < len(segments) - 1:
            continue
        kept.append(segment)
    return tuple(kept)


def _rule(item: Mapping[str, Any]) -> str:
    """What the field should be, unless the message could repeat the received value."""
    kind = str(item.get("type", "invalid"))
    message = rule(item)
    if kind == "string_pattern_mismatch" and item["ctx"]["pattern"] == IDENTIFIER:
        return IDENTIFIER_RULE
    if kind in _TALKATIVE or kind.startswith(("date", "time")) or not message:
        return f"This is not acceptable here ({kind})"
    if kind not in _OUR_RULES and kind not in WORDED and _mentions(message, item.get("input")):
        return f"This is not acceptable here ({kind})"
    return message


def _mentions(message: str, sent: object) -> bool:
    words = {word.strip(".") for word in _TOKEN.findall(message)}
    pending, visited = [sent], 0
    while pending:
        here = pending.pop()
        visited += 1
        if visited > 1000:
            return True
        if isinstance(here, Mapping):
            pending.extend(here.values())
        elif isinstance(here, (list, tuple, set, frozenset)):
            pending.extend(here)
        elif here is not None and not isinstance(here, bool):
            text = here.decode("utf-8", "replace") if isinstance(here, bytes) else str(here)
            if text in words or (len(text) >= 4 and text in message):
                return True
    return False
