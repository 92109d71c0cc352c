"""Bodies in and out: JSON or CBOR into a pydantic model and back, and what no store keeps.

What no store of ours keeps, refused in one place before anything is asked of the store.

PostgreSQL keeps no NUL in a text, and both databases whole numbers of 64 bits with a sign.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import EnumMeta
from fractions import Fraction
from functools import cache
from types import UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    Literal,
    NoReturn,
    TypeVar,
    Union,
    get_args,
    get_origin,
)
from urllib.parse import parse_qsl

import cbor2
from pydantic import BaseModel, RootModel, ValidationError
from pydantic_core import from_json, to_json, to_jsonable_python
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import Scope

from common.web.problems import MalformedBody, invalid_from, pointer
from tacit.errors import DomainError, FieldError, Invalid, TooLarge, UnsupportedForm
from tacit.field_errors import unknown_field
from tacit.records.text_files import json_float

NUL: Final = "\0"
LARGEST: Final = 2**63 - 1
_NO_NUL: Final = "must not contain the character U+0000"
_NO_SUCH_NUMBER: Final = "must be a number of 64 bits"
_ESCAPED: Final = b"\\u0000"
_DIGITS_AS_ONE: Final = bytes(ord("0") if chr(each).isdecimal() else each for each in range(256))
_LONG: Final = b"0" * 19
"""Digits of the least number that does not fit."""


def may_be_unstorable(body: bytes) -> bool:
    """Whether a JSON text could hold such a value: two searches, far cheaper than to parse it."""
    return _ESCAPED in body or _LONG in body.translate(_DIGITS_AS_ONE)


def refuse_unstorable(value: object) -> None:
    """Raise Invalid with the places of such values in what was parsed from a body."""
    found: list[FieldError] = []
    pending: list[tuple[tuple[str | int, ...], object]] = [((), value)]
    while pending:
        place, here = pending.pop()
        inner: Iterable[tuple[str | int, object]] = ()
        if isinstance(here, str):
            _note_text(found, place, here)
        elif isinstance(here, int) and not -LARGEST - 1 <= here <= LARGEST:
            found.append(FieldError(pointer(place), _NO_SUCH_NUMBER))
        elif isinstance(here, dict):
            for key in here:
                _note_text(found, place, key)
            inner = here.items()
        elif isinstance(here, list):
            inner = enumerate(here)
        pending.extend(((*place, key), item) for key, item in inner)
    _refuse(found)


def refuse_unstorable_address(scope: Scope, routes: Iterable[BaseRoute]) -> None:
    """Raise Invalid for a NUL in the path or the query of a request, naming the parameter."""
    if NUL not in scope["path"] and b"%00" not in scope["query_string"]:
        return
    found = [
        FieldError(pointer([name]), _NO_NUL, "query")
        for name, text in parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if NUL in text
    ]
    for route in routes:
        match, below = route.matches(scope)
        if match is Match.FULL:
            named: Mapping[str, Any] = below.get("path_params", {})
            found += [
                FieldError(pointer([name]), _NO_NUL, "path")
                for name, text in named.items()
                if NUL in str(text)
            ]
            break
    _refuse(found)


def refuse_unstorable_fields(fields: Mapping[str, str]) -> None:
    """The same for the fields of a form."""
    _refuse([FieldError(pointer([name]), _NO_NUL) for name, text in fields.items() if NUL in text])


def _note_text(found: list[FieldError], place: tuple[str | int, ...], text: object) -> None:
    if isinstance(text, str) and NUL in text:
        found.append(FieldError(pointer(place), _NO_NUL))


def _refuse(found: list[FieldError]) -> None:
    if found:
        raise Invalid("a value of the request cannot be stored", errors=found)


# Bodies in and out: JSON or CBOR into a pydantic model, and back in the requested form.
#
# Both forms mean the same. A CBOR body becomes JSON values first (byte strings become base64url),
# so a model is as strict with one as with the other; a model that carries bytes is configured with
# `ser_json_bytes="base64"` and `val_json_bytes="base64"`. Refused: NaN and infinities, CBOR tags,
# keys that are not text, doubled CBOR keys, depth over `MAX_DEPTH`.

JSON: Final = "application/json"
CBOR: Final = "application/cbor"
NDJSON: Final = "application/x-ndjson"
MAX_DEPTH: Final = 32
_EXTREME: Final = re.compile(rb"[0-9.][eE][-+]?[0-9]{3}|[0-9]{300}")
"""What every number has that a float would make 0 or infinite."""
MAX_LINE_BYTES: Final = 64 * 1024

_FLAT: Final = (str, bytes, int, float, bool, type(None), datetime, Fraction)
_NDJSON_TYPES: Final = frozenset({NDJSON, "application/ndjson", "application/jsonl"})
_BUILT_IN_TAGS: Final = (
    *range(6),
    *(25, 28, 29, 30, 35, 36, 37, 52, 54, 100, 256, 258, 260, 261, 1004, 43000, 55799),
)

M = TypeVar("M", bound=BaseModel)


class LineTooLong(TooLarge):
    """A line of newline-delimited JSON is longer than is read."""

    name = "line_too_long"
    title = "A line of the body is too long"


@dataclass(frozen=True, slots=True)
class Line(Generic[M]):
    """One line of newline-delimited JSON: a model, or what is wrong with it."""

    number: int
    value: M | None
    errors: tuple[FieldError, ...] = ()


def content_type(request: Request) -> str:
    """The media type of the body, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def read_body(request: Request, model: type[M]) -> M:
    """The body as `model`; 415, 400 `malformed_body` or 422 `bad_parameter` otherwise."""
    form = content_type(request)
    if form not in (JSON, CBOR):
        raise UnsupportedForm(extra={"supported": [JSON, CBOR]})
    body = await request.body()
    return parse_json(body, model) if form == JSON else parse_cbor(body, model)


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
    """The domain error of a failed validation; a field that is unknown gets the nearest name."""
    found = invalid_from(error, body)
    if not isinstance(found, Invalid):
        return found
    items = error.errors(include_url=False, include_input=False)
    named = [
        replace(each, message=unknown_field(item["loc"], model))
        if item["type"] == "extra_forbidden"
        else each
        for each, item in zip(found.errors, items, strict=False)
    ]
    return Invalid(found.detail, errors=named)


async def read_ndjson(
    request: Request, model: type[M], *, max_line_bytes: int = MAX_LINE_BYTES
) -> AsyncIterator[Line[M]]:
    """The lines of a newline-delimited body as they arrive; a bad line spoils no other."""
    if content_type(request) not in _NDJSON_TYPES:
        raise UnsupportedForm(extra={"supported": sorted(_NDJSON_TYPES)})
    number, rest = 0, b""
    async for chunk in request.stream():
        *whole, rest = (rest + chunk).split(b"\n")
        for raw in whole:
            number += 1
            if line := _line(number, raw, model, max_line_bytes):
                yield line
        if len(rest) > max_line_bytes:
            raise LineTooLong(extra={"line": number + 1, "max_line_bytes": max_line_bytes})
    if line := _line(number + 1, rest, model, max_line_bytes):
        yield line


def answer(
    request: Request,
    value: BaseModel | Mapping[str, Any] | list[Any],
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """`value` in JSON, or in CBOR when the request prefers it."""
    form = preferred(request)
    body = encode(value, form)
    return Response(
        body, status, media_type=form, headers={"Vary": "Accept", **dict(headers or {})}
    )


def json_response(
    body: str | bytes, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """JSON that is written already, byte for byte."""
    return Response(body, status, headers, JSON)


def encode(value: BaseModel | Mapping[str, Any] | list[Any], form: str = JSON) -> bytes:
    """`value` as JSON text or as deterministic CBOR without tags."""
    if form == JSON:
        if isinstance(value, BaseModel):
            return value.model_dump_json().encode()
        return to_json(value, bytes_mode="base64")
    plain = value.model_dump(mode="python") if isinstance(value, BaseModel) else value
    return cbor2.dumps(_untagged(plain), canonical=True)


def preferred(request: Request) -> str:
    """`application/cbor` if the request accepts it and likes JSON less, else JSON."""
    weights = {JSON: 0.0, CBOR: 0.0}
    for part in request.headers.get("accept", JSON).split(","):
        kind, *parameters = (piece.strip().lower() for piece in part.split(";"))
        weight = next((_weight(p[2:]) for p in parameters if p.startswith("q=")), 1.0)
        for form in weights:
            if kind == form:
                weights[form] = weight
        if kind in ("*/*", "application/*"):
            weights[JSON] = max(weights[JSON], weight)
    return CBOR if weights[CBOR] > weights[JSON] else JSON


def etag_response(
    request: Request,
    body: bytes,
    *,
    media_type: str = JSON,
    headers: Mapping[str, str] | None = None,
    tag_of: bytes | None = None,
) -> Response:
    """`body` with an ETag, or 304 without it when the client has it already. `tag_of`: what the tag
    is of, where the body also tells what changes with time alone."""
    tag = f'"{hashlib.sha256(body if tag_of is None else tag_of).hexdigest()[:32]}"'
    fields = {"ETag": tag, "Cache-Control": "private, no-cache", **dict(headers or {})}
    known = request.headers.get("if-none-match")
    if known is not None and request.method in ("GET", "HEAD"):
        tags = {item.strip().removeprefix("W/") for item in known.split(",")}
        if tag in tags or "*" in tags:
            return Response(status_code=304, headers=fields)
    return Response(body, media_type=media_type, headers=fields)


def _line(number: int, raw: bytes, model: type[M], max_bytes: int) -> Line[M] | None:
    if not raw.strip():
        return None
    if len(raw) > max_bytes:
        return Line(number, None, (FieldError("", f"The line is longer than {max_bytes} bytes"),))
    try:
        return Line(number, parse_json(raw, model))
    except Invalid as error:
        return Line(number, None, error.errors)
    except MalformedBody:
        return Line(number, None, (FieldError("", "The line is not JSON that is read here"),))


def _kept(text: str) -> float:
    value = json_float(text)
    if math.isinf(value):
        raise ValueError
    return value


def _refuse_lost_numbers(body: bytes) -> None:
    """Parse a second time only a body that could hold a number that a float would make 0 or
    infinite: such a number is never silently another one."""
    try:
        json.loads(body, parse_float=_kept)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        return  # the parser of the model says what is wrong
    except ValueError:
        raise MalformedBody("A number is too large or too small") from None


def _refuse_exotic_json(body: bytes) -> None:
    """Parse a second time only a body that could hold NaN, an infinity, or too much depth."""
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
    """Whether what a model accepts is never too deep: it has no place for values of any form, and
    none of its own kind inside."""
    return _depth(model, ()) <= MAX_DEPTH


def _depth(annotation: Any, inside: tuple[Any, ...]) -> float:
    """How deep the values of an annotation are; infinity where that is not known."""
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
        own = arguments[:1] if origin is Annotated else arguments
        return max(_depth(each, inside) for each in own)
    if origin in (tuple, list, dict):
        return 1 + max(_depth(each, inside) for each in arguments if each is not Ellipsis)
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


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
