"""The search of the taint test finds what it should, in every form, and nothing else."""

import base64
import json
from pathlib import Path

import pytest

from tacit.randomness import SeededRandom
from tests.e2e.taint import Taint

VALUE = SeededRandom(5).generator.bytes(200)


@pytest.fixture
def taint() -> Taint:
    made = Taint()
    made.number("reading", "8675.30917")
    made.secret("share", VALUE)
    made.text("token", "t0ken-of-somebody")
    return made


@pytest.mark.parametrize("shift", range(5))
@pytest.mark.parametrize(
    "write",
    [
        bytes,
        lambda value: value.hex().encode(),
        base64.b64encode,
        base64.urlsafe_b64encode,
        lambda value: repr(value).encode(),
        lambda value: json.dumps(list(value)).encode(),
    ],
    ids=["raw", "hex", "base64", "base64url", "repr", "list"],
)
def test_bytes_in_any_form_at_any_place(taint: Taint, write: object, shift: int) -> None:
    assert callable(write)
    assert taint.found(b"x " + write(b"\x01" * shift + VALUE + b"\x02" * shift)) == {"share"}
    part = VALUE[len(VALUE) - 40 :]
    assert taint.found(write(b"\x07" * shift + part)) == {"share"}


@pytest.mark.parametrize(
    "text",
    ["8675.30917", "-8675.309170", "0.00867530917", "867530917000", "8.67530917e3", '"8675.30917"'],
)
def test_a_number_in_any_unit(taint: Taint, text: str) -> None:
    assert taint.found(f"a {text}, b".encode()) == {"reading"}


@pytest.mark.parametrize("shift", range(3))
def test_text_that_was_encoded(taint: Taint, shift: int) -> None:
    for text, label in (("8675.30917", "reading"), ("t0ken-of-somebody", "token")):
        sent = b"{" * shift + text.encode() + b"}"
        assert taint.found(sent.hex().encode()) == {label}
        assert taint.found(base64.b64encode(sent)) == {label}


def test_words_as_numbers_and_tokens(taint: Taint) -> None:
    word = int.from_bytes(VALUE[16:24], "little", signed=True)
    assert taint.found(f"[{word}]".encode()) == {"share"}
    assert taint.found(b"Bearer t0ken-of-somebody") == {"token"}


def test_other_bytes_and_numbers_are_not_found(taint: Taint) -> None:
    other = SeededRandom(6).generator.bytes(100_000)
    assert taint.found(other + other.hex().encode() + base64.b64encode(other)) == set()
    assert taint.found(b"8675.3 309 1867530917 86753091 8675.30927") == set()
    assert taint.found(Path(__file__).read_bytes().replace(b"8675", b"1234")[:300]) == set()
