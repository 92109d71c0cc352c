"""Calls that are one request: what they ask, and what they take from the answer."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import httpx
import pytest

from tacit.client.exchange import Request, content_of, get, items_of, json_of, text_of


def asked_and_answered(call: Generator[Any, Any, Any], answer: httpx.Response) -> tuple[Any, Any]:
    """The only request of a call, and what the call makes of its answer."""
    request = next(call)
    with pytest.raises(StopIteration) as done:
        call.send(answer)
    return request, done.value.value


def test_the_decoded_body_of_an_answer() -> None:
    request = Request("POST", "/v1/things", {"a": 1})
    answer = httpx.Response(200, json={"items": [{"b": 2}], "c": 3})
    assert asked_and_answered(json_of(request), answer) == (
        request,
        {"items": [{"b": 2}], "c": 3},
    )
    assert asked_and_answered(items_of(request, "items"), answer) == (request, [{"b": 2}])


def test_a_path_as_bytes_and_in_plain_words() -> None:
    answer = httpx.Response(200, text="words")
    assert asked_and_answered(content_of("/v1/file"), answer) == (get("/v1/file"), b"words")
    request, words = asked_and_answered(text_of("/v1/report"), answer)
    assert words == "words"
    assert request == Request(
        "GET", "/v1/report", headers={"Accept": "text/plain"}, repeatable=True
    )
