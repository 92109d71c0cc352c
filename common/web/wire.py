"""Requests into models, and answers in the form that the caller prefers: JSON or CBOR."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import Scope

from common.bodies import (
    CBOR,
    JSON,
    NO_NUL,
    NUL,
    MalformedBody,
    encode,
    parse_cbor,
    parse_json,
    pointer,
    refuse,
)
from tacit.errors import FieldError, Invalid, TooLarge, UnsupportedForm

M = TypeVar("M", bound=BaseModel)


def refuse_unstorable_address(scope: Scope, routes: Iterable[BaseRoute]) -> None:
    """Raise Invalid for a NUL in the path or the query of a request, naming the parameter."""
    if NUL not in scope["path"] and b"%00" not in scope["query_string"]:
        return
    faults = [
        FieldError(pointer([name]), NO_NUL, "query")
        for name, text in parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if NUL in text
    ]
    for route in routes:
        match, below = route.matches(scope)
        if match is Match.FULL:
            named: Mapping[str, Any] = below.get("path_params", {})
            faults += [
                FieldError(pointer([name]), NO_NUL, "path")
                for name, text in named.items()
                if NUL in str(text)
            ]
            break
    refuse(faults)


NDJSON: Final = "application/x-ndjson"
MAX_LINE_BYTES: Final = 64 * 1024
_NDJSON_TYPES: Final = frozenset({NDJSON, "application/ndjson", "application/jsonl"})


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


async def read_ndjson(
    request: Request, model: type[M], *, max_line_bytes: int = MAX_LINE_BYTES
) -> AsyncIterator[Line[M]]:
    """The lines of a newline-delimited body as they arrive; a bad line does not affect others."""
    if content_type(request) not in _NDJSON_TYPES:
        raise UnsupportedForm(extra={"supported": sorted(_NDJSON_TYPES)})
    number, rest = 0, b""
    async for chunk in request.stream():
        *complete, rest = (rest + chunk).split(b"\n")
        for raw in complete:
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


def preferred(request: Request) -> str:
    """`application/cbor` if the request accepts it and does not prefer JSON, else JSON."""
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
    """`body` with an ETag, or 304 without it if the client has it already. `tag_of`: from what
    the tag is made, if the body also changes with time alone."""
    tag = f'"{hashlib.sha256(body if tag_of is None else tag_of).hexdigest()[:32]}"'
    fields = {"ETag": tag, "Cache-Control": "private, no-cache", **dict(headers or {})}
    known_tags = request.headers.get("if-none-match")
    if known_tags is not None and request.method in ("GET", "HEAD"):
        tags = {item.strip().removeprefix("W/") for item in known_tags.split(",")}
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


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
