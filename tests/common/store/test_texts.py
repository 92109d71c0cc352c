"""Texts at rest come back as they were, whatever they were packed against."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.dialects import postgresql, sqlite

from common.store.columns import WINDOW_BYTES, packed, unpacked

SQLITE, POSTGRESQL = sqlite.dialect(), postgresql.dialect()


@given(st.text(max_size=300), st.binary(max_size=300))
def test_a_text_comes_back_as_it_was(text: str, dictionary: bytes) -> None:
    for against in (b"", dictionary, text.encode()):
        stored = packed(SQLITE, text, against)
        assert isinstance(stored, bytes)
        assert unpacked(stored, against) == text
    assert packed(POSTGRESQL, text, dictionary) == text
    assert unpacked(text, dictionary) == text


def test_a_text_that_was_there_before_is_read_as_it_is() -> None:
    assert unpacked('{"a": 1}', b"whatever") == '{"a": 1}'


def test_what_hardly_differs_takes_little_and_needs_its_dictionary() -> None:
    noise = os.urandom(2 * WINDOW_BYTES).hex()
    text, dictionary = f"{noise[:3000]} and a word", noise.encode()
    near = noise[-2 * WINDOW_BYTES :][3000:6000]
    assert len(packed(SQLITE, near, dictionary[-WINDOW_BYTES:])) > 1000  # beyond the window
    last = noise[-3000:]
    stored = packed(SQLITE, last, dictionary)
    assert len(stored) < 100
    assert unpacked(stored, dictionary) == last
    for wrong in (b"", dictionary[:-1], b"another"):
        with pytest.raises(ValueError, match="does not unpack"):
            unpacked(stored, wrong)
    alone = packed(SQLITE, text)
    for broken in (stored[:-3], alone[:-3], b"\x02" + stored[1:], b""):
        with pytest.raises(ValueError, match="does not unpack"):
            unpacked(broken, dictionary)
