"""Exact scalars on the wire, and the one canonical form."""

import base64
import json
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from tacit.wire import (
    Binary,
    Exact,
    Instant,
    WireModel,
    canonical_json,
    encode_binary,
    format_exact,
    format_instant,
    parse_binary,
    parse_exact,
)


class Sample(WireModel):
    amount: Exact | None = None
    content: Binary | None = None
    at: Instant | None = None
    count: int | None = None


def read(text: str) -> Sample:
    return Sample.model_validate_json(text)


def test_decimals_are_exact():
    assert parse_exact("0.1") + parse_exact("0.2") == parse_exact("0.3")
    assert parse_exact("1e-9") == Fraction(1, 10**9)
    assert parse_exact("-1/3") == Fraction(-1, 3)
    assert parse_exact(Decimal("2.50")) == parse_exact(" 5/2 ") == Fraction(5, 2)
    assert parse_exact(7) == 7
    assert parse_exact(".5") == parse_exact("+0.5")


@pytest.mark.parametrize(
    "value",
    [
        "", "-", ".", "1.", "NaN", "Infinity", "-inf", "0x10", "1_000", "1,5", "1/0", "1/00",
        "1//2", "1/-2", "1.5/2", "١", "1e100", "1e", "9" * 201, "1/" + "3" * 201, "9" * 150 + "e99",
        True, 0.5, None, [], {}, Decimal("NaN"), Decimal("Infinity"), b"1",
    ],
)  # fmt: skip
def test_what_is_no_exact_number_is_refused(value):
    with pytest.raises(ValidationError):
        Sample.model_validate({"amount": value} if value is not None else {"amount": ()})


@pytest.mark.parametrize("number", ["0.5", "1", "-3", "1e3", "NaN", "Infinity", "true"])
def test_a_number_on_the_wire_is_refused(number):
    with pytest.raises(ValidationError) as error:
        read(f'{{"amount": {number}}}')
    assert error.value.errors()[0]["loc"] == ("amount",)


@given(st.fractions())
def test_what_is_written_is_read_back(value):
    assert parse_exact(format_exact(value)) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Fraction(0), "0"),
        (Fraction(-1, 2), "-0.5"),
        (Fraction(1, 1000), "0.001"),
        (Fraction(12300, 1), "12300"),
        (Fraction(5, 4), "1.25"),
        (Fraction(-1, 3), "-1/3"),
        (Fraction(1, 2**40), f"{1 / 2**40:.40f}"),
        (Fraction(1, 2**116), f"1/{2**116}"),
    ],
)
def test_texts(value, text):
    assert format_exact(value) == text
    assert parse_exact(text) == value


@given(st.binary(max_size=50))
def test_binary_values_are_base64url(content):
    text = encode_binary(content)
    assert "=" not in text and "+" not in text and "/" not in text
    padded = text + "=" * (-len(text) % 4)
    assert parse_binary(text) == parse_binary(padded) == parse_binary(content) == content
    assert read(json.dumps({"content": text})).content == content


@given(st.text("Aw+/-_= \né", max_size=9))
def test_texts_are_read_as_the_standard_library_reads_them(text):
    """Nothing is skipped that is no base64, wherever it is."""
    try:
        wanted = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:
        with pytest.raises(PydanticCustomError):
            parse_binary(text)
    else:
        assert parse_binary(text) == wanted


@pytest.mark.parametrize("value", ["a", "a b=", "é", "****", 5, None, [1]])
def test_what_is_no_binary_value_is_refused(value):
    with pytest.raises(ValidationError):
        Sample.model_validate({"content": value if value is not None else 0})


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05.25+02:00", "2026-01-02T01:04:05.250Z"),
        ("2026-01-02T03:04:05.000001Z", "2026-01-02T03:04:05.000001Z"),
        ("2026-01-02 03:04:05.120000Z", "2026-01-02T03:04:05.120Z"),
    ],
)
def test_instants_are_utc_and_lose_nothing(text, canonical):
    at = read(json.dumps({"at": text})).at
    assert at.tzinfo is UTC
    assert format_instant(at) == canonical
    assert read(json.dumps({"at": canonical})).at == at


@pytest.mark.parametrize(
    "value",
    ["2026-01-02", "2026-01-02T03:04:05", "yesterday", "", "0001-01-01T00:00:00+05:00",
     "9999-12-31T23:59:59-05:00", 1767322800, 1.5, [], True],
)  # fmt: skip
def test_what_is_no_instant_is_refused(value):
    with pytest.raises(ValidationError) as error:
        read(json.dumps({"at": value}))
    assert error.value.errors()[0]["loc"] == ("at",)


def test_a_naive_time_is_refused_and_a_zone_is_converted():
    with pytest.raises(ValidationError):
        Sample(at=datetime(2026, 1, 2))  # noqa: DTZ001 - the mistake under test
    east = datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=2)))
    assert Sample(at=east).canonical() == b'{"at":"2026-01-02T01:00:00Z"}'


def test_the_canonical_form():
    sample = read('{"count": 3, "content": "AP8=", "amount": "0.50", "at": null}')
    assert sample.canonical() == b'{"amount":"0.5","content":"AP8","count":3}'
    assert read(sample.canonical().decode()) == sample
    assert read('{"amount":"5e-1","count":3,"content":"AP8"}').digest() == sample.digest()


def test_models_are_closed_frozen_and_strict():
    for text in ('{"other": 1}', '{"count": "3"}', '{"count": 3.0}', '{"count": true}', "[]"):
        with pytest.raises(ValidationError):
            read(text)
    with pytest.raises(ValidationError):
        read('{"count": 3}').count = 4


@pytest.mark.parametrize(
    "value", [0.5, [1, 2.0], {"a": {"b": (1.0,)}}, float("nan"), [[[]], [[np.float64(1)]]]]
)
def test_no_float_enters_a_canonical_form(value):
    with pytest.raises(TypeError):
        canonical_json(value)


def test_canonical_json_is_sorted_and_ascii():
    assert canonical_json({"b": [1, None], "a": "é", "c": True}) == (
        b'{"a":"\\u00e9","b":[1,null],"c":true}'
    )
