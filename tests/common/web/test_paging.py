"""Cursors, their keys, and the address of the next page."""

from __future__ import annotations

import json

import pytest
from starlette.requests import Request

from common.web.paging import BadCursor, Key, Page, decode_cursor, encode_cursor, page_response


def _asked(path: str, query: bytes = b"") -> Request:
    return Request({"type": "http", "path": path, "query_string": query, "headers": []})


@pytest.mark.parametrize("key", [("a",), (7,), ("a", 7), ("é",)])
def test_a_cursor_holds_its_key(key: Key) -> None:
    assert decode_cursor(encode_cursor(*key)) == key


@pytest.mark.parametrize("text", ["", "!", "e30", "W10", "W251bGxd"])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(BadCursor):
        decode_cursor(text)


def test_a_key_is_of_the_kind_that_the_list_is_sorted_by() -> None:
    assert Page(1, None).after_text() is Page(1, None).after_number() is None
    assert Page(1, ("a",)).after_text() == "a"
    for number in (0, 2**63 - 1):
        assert Page(1, (number,)).after_number() == number
    for key in ((7,), ("a", "b"), ("a", 7)):
        with pytest.raises(BadCursor):
            Page(1, key).after_text()
    for key in (("a",), ("7",), (7, 8), (-1,), (2**63,)):
        with pytest.raises(BadCursor):
            Page(1, key).after_number()


def test_a_full_page_has_the_address_of_the_next_one() -> None:
    items = [{"id": "a"}, {"id": "b"}]
    request = _asked("/v1/things", b"limit=2&cursor=old")
    answer = page_response(request, "things", items, 2, "id")
    assert json.loads(bytes(answer.body)) == {"things": items}
    cursor = encode_cursor("b")
    assert answer.headers["link"] == f'</v1/things?limit=2&cursor={cursor}>; rel="next"'


def test_a_page_that_is_not_full_is_the_last() -> None:
    answer = page_response(_asked("/v1/things"), "things", [{"id": "a"}], 2, "id")
    assert "link" not in answer.headers
    assert "link" not in page_response(_asked("/v1/things"), "things", [], 2, "id").headers
