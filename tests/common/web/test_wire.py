"""Bodies in JSON and CBOR, lines, ETags, pages."""

import contextlib
import json
from datetime import UTC, datetime
from typing import Any, Literal

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, RootModel
from starlette.requests import Request

from common import bodies
from common.bodies import CBOR, JSON, MAX_DEPTH, decode_cbor, encode, parse_cbor, parse_json
from common.web.wire import (
    LineTooLong,
    answer,
    etag_response,
    json_response,
    preferred,
    read_body,
    read_ndjson,
)
from tacit.crypto.signing import Signed
from tacit.errors import DomainError, Invalid, Malformed, UnsupportedForm
from tacit.wire import WireModel


class Piece(BaseModel):
    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        ser_json_bytes="base64",
        val_json_bytes="base64",
    )
    kind: Literal["piece"] = "piece"
    sealed: bytes = b""
    parts: tuple[int, ...] = ()
    at: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    weight: float = 0.0
    anything: Any = None
    small: int = Field(default=0, le=10)


def request_of(
    body: bytes = b"",
    headers: dict[str, str] | None = None,
    *,
    path: str = "/v1/things",
    query: str = "",
    chunk: int = 1 << 20,
) -> Request:
    chunks = [body[i : i + chunk] for i in range(0, len(body), chunk)] or [b""]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": chunks.pop(0), "more_body": bool(chunks)}

    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": query.encode(),
        "server": ("service.test", 80),
        "scheme": "http",
        "headers": [(k.lower().encode(), v.encode()) for k, v in (headers or {}).items()],
    }
    return Request(scope, receive)


SAMPLE = Piece(sealed=b"\x00\xff?>", parts=(1, -(2**62)), weight=0.5, anything={"a": [None, True]})


@pytest.mark.parametrize("form", [JSON, CBOR])
async def test_both_forms_mean_the_same(form: str) -> None:
    body = encode(SAMPLE, form)
    assert await read_body(request_of(body, {"Content-Type": f"{form}; charset=utf-8"}), Piece) == (
        SAMPLE
    )


def test_cbor_carries_bytes_as_bytes_and_no_tags() -> None:
    plain = cbor2.loads(encode(SAMPLE, CBOR))
    assert plain["sealed"] == SAMPLE.sealed
    assert isinstance(plain["at"], str)
    assert json.loads(encode(SAMPLE, JSON))["parts"] == [1, -(2**62)]


@given(st.binary(max_size=50), st.lists(st.integers(-(2**63), 2**63 - 1)), st.floats(-1e9, 1e9))
def test_round_trip(sealed: bytes, parts: list[int], weight: float) -> None:
    piece = Piece(sealed=sealed, parts=tuple(parts), weight=weight)
    assert parse_json(encode(piece, JSON), Piece) == piece
    assert parse_cbor(encode(piece, CBOR), Piece) == piece


@pytest.mark.parametrize("form", ["", "text/plain", "application/xml"])
async def test_other_forms_are_refused(form: str) -> None:
    with pytest.raises(UnsupportedForm):
        await read_body(request_of(b"{}", {"Content-Type": form}), Piece)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"{} {}",
        b"\xff\xfe",
        b'{"anything": NaN}',
        b'{"weight": Infinity}',
        b'{"anything": [-Infinity]}',
        json.dumps({"anything": nested(MAX_DEPTH)}).encode(),
        b'{"anything": ' + b"[" * 100_000,
    ],
)
def test_json_that_is_refused(body: bytes) -> None:
    with pytest.raises(Malformed) as refused:
        parse_json(body, Piece)
    assert refused.value.name == "malformed_body"


def test_json_that_only_looks_exotic() -> None:
    assert parse_json(b'{"anything": "NaN"}', Piece).anything == "NaN"
    wide = json.dumps({"anything": [[1]] * 100}).encode()
    assert len(parse_json(wide, Piece).anything) == 100
    deepest = json.dumps({"anything": nested(MAX_DEPTH - 1)}).encode()
    assert parse_json(deepest, Piece).anything == nested(MAX_DEPTH - 1)


class Leaf(WireModel):
    places: dict[str, tuple[int, ...]] | None = None


class Tree(WireModel):
    below: tuple["Tree", ...] = ()


class Lenient(BaseModel):
    leaf: Leaf


class Other(BaseModel):
    model_config = ConfigDict(extra="allow")


def test_a_body_is_read_twice_where_its_model_allows_any_depth() -> None:
    for bounded in (Leaf, Signed[Leaf], RootModel[tuple[Leaf, ...]]):
        assert bodies._bounds_depth(bounded)
    # `Lenient` passes over what it does not know
    for free in (Tree, Lenient, Other, Piece, Signed[Tree], RootModel[list[object]]):
        assert not bodies._bounds_depth(free)


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({"places": nested(MAX_DEPTH)}).encode(),
        json.dumps({"unknown": nested(MAX_DEPTH)}).encode(),
        b'{"places": {"a": [NaN]}}',
        b'{"unknown": -Infinity}',
        b'{"below": ' + b'[{"below": ' * 500 + b"[]" + b"}]" * 500 + b"}",
    ],
)
def test_too_much_depth_and_no_number_are_malformed_in_every_model(
    body: bytes,
) -> None:
    for model in (Leaf, Tree, Lenient, Other, Piece):
        with pytest.raises(Malformed) as refused:
            parse_json(body, model)
        assert refused.value.name == "malformed_body"


TAGS = [0, 1, 2, 3, 4, 5, 25, 28, 29, 30, 35, 36, 37, 100, 256, 258, 260, 261, 1004, 43000, 55799]
TAGS += [6, 24, 32, 999, 65535]


def test_cbor_tags_are_refused() -> None:
    for tag in TAGS:
        head = bytes([0xC0 | tag]) if tag < 24 else b"\xd9" + tag.to_bytes(2, "big")
        for content in (b"\x01", b"\x61a", b"\x41a", b"\x80", b"\x82\x01\x02"):
            with pytest.raises(Malformed):
                decode_cbor(b"\xa1\x68anything" + head + content)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xa1",
        b"\x01\x01",
        cbor2.dumps({"weight": float("nan")}),
        cbor2.dumps({"anything": [float("inf")]}),
        cbor2.dumps({1: 2}),
        cbor2.dumps({b"weight": 2}),
        cbor2.dumps({"anything": cbor2.undefined}),
        cbor2.dumps({"anything": cbor2.CBORSimpleValue(99)}),
        cbor2.dumps({"anything": nested(MAX_DEPTH + 5)}),
        b"\x81" * 100_000,
        b"\xa2\x61a\x01\x61a\x02",
    ],
)
def test_cbor_that_is_refused(body: bytes) -> None:
    with pytest.raises(DomainError) as refused:
        parse_cbor(body, Piece)
    assert refused.value.name == "malformed_body"


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    for parse in (parse_json, parse_cbor):
        with contextlib.suppress(Malformed, Invalid):
            parse(body, Piece)


def test_a_wrong_field_is_pointed_at_and_not_repeated() -> None:
    for body in (b'{"small": 4711}', cbor2.dumps({"small": 4711}), cbor2.dumps({"small": "4711"})):
        with pytest.raises(Invalid) as error:
            (parse_json if body.startswith(b"{") else parse_cbor)(body, Piece)
        assert [item.pointer for item in error.value.errors] == ["/small"]
        assert "4711" not in repr(error.value.errors)


@pytest.mark.parametrize("chunk", [1, 7, 1000])
async def test_lines(chunk: int) -> None:
    body = b'{"small": 1}\n\n  \n{"small": 11}\nnothing\n{"anything": NaN}\r\n{"small": 2}'
    headers = {"Content-Type": "application/x-ndjson"}
    found = [line async for line in read_ndjson(request_of(body, headers, chunk=chunk), Piece)]
    assert [line.number for line in found] == [1, 4, 5, 6, 7]
    assert [line.value.small if line.value else None for line in found] == [1, None, None, None, 2]
    assert found[1].errors[0].pointer == "/small"
    assert all(line.errors for line in found if line.value is None)


async def test_long_lines() -> None:
    headers = {"Content-Type": "application/x-ndjson"}

    async def all_of(body: bytes, chunk: int) -> list[Any]:
        request = request_of(body, headers, chunk=chunk)
        return [line async for line in read_ndjson(request, Piece, max_line_bytes=20)]

    found = await all_of(b'{"small": 1}\n' + b" " * 30 + b"1\n{}", 1000)
    assert [line.value is None for line in found] == [False, True, False]
    with pytest.raises(LineTooLong):
        await all_of(b"1" * 100, 10)
    with pytest.raises(UnsupportedForm):
        [line async for line in read_ndjson(request_of(b"{}"), Piece)]


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        (None, JSON),
        ("*/*", JSON),
        (CBOR, CBOR),
        (f"{JSON}, {CBOR}", JSON),
        (f"{JSON};q=0.5, {CBOR}", CBOR),
        (f"{CBOR};q=0.5, */*;q=0.1", CBOR),
        (f"{CBOR};q=x", JSON),
        ("text/html", JSON),
    ],
)
def test_negotiation(accept: str | None, form: str) -> None:
    request = request_of(headers={} if accept is None else {"Accept": accept})
    assert preferred(request) == form
    response = answer(request, SAMPLE, status=201, headers={"Location": "/x"})
    assert response.status_code == 201
    assert response.headers["content-type"] == form
    assert response.headers["vary"] == "Accept"


def test_etag() -> None:
    first = etag_response(request_of(), b"{}")
    tag = first.headers["etag"]
    for known in (tag, f'"other", W/{tag}', "*"):
        again = etag_response(request_of(headers={"If-None-Match": known}), b"{}")
        assert (again.status_code, again.body, again.headers["etag"]) == (304, b"", tag)
    changed = etag_response(request_of(headers={"If-None-Match": tag}), b"[]")
    assert (changed.status_code, changed.body) == (200, b"[]")


@pytest.mark.parametrize("body", ['{"a": 1.50}', b'{"a": 1.50}'])
def test_json_that_is_written_already_is_not_written_again(body: str | bytes) -> None:
    found = json_response(body, 201, {"Vary": "Accept"})
    assert (bytes(found.body), found.status_code) == (b'{"a": 1.50}', 201)
    assert (found.headers["content-type"], found.headers["vary"]) == (JSON, "Accept")
