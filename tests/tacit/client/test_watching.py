"""Long polls, step by step."""

from __future__ import annotations

import time
from typing import Any

import httpx
import pytest

from tacit.answers.base import Answer
from tacit.client.exchange import POLL_S, Item, Pause, Request, Steps, Stream, last, watch


def state(name: str, tag: str = "") -> httpx.Response:
    return httpx.Response(200, json={"state": name}, headers={"etag": tag} if tag else {})


def watched(step: object) -> dict[str, Any]:
    assert isinstance(step, Item)
    return dict(step.value)


def test_each_change_is_an_item_and_the_tag_goes_with_the_next_request() -> None:
    watching = watch("/v1/things/1", "thing 1", ("done",), 600, kind=Answer)
    first = next(watching)
    assert (first.method, first.path, first.headers) == (
        "GET",
        "/v1/things/1",
        {"If-None-Match": ""},
    )
    assert first.params == {"wait_s": POLL_S}
    assert (first.wait_s, first.repeatable, first.once) == (POLL_S, True, False)
    assert watched(watching.send(state("open", '"a"'))) == {"state": "open"}
    second = next(watching)
    assert second.headers == {"If-None-Match": '"a"'}
    third = watching.send(httpx.Response(304))
    assert third.headers == {"If-None-Match": '"a"'}
    assert watched(watching.send(state("done"))) == {"state": "done"}
    assert next(watching, None) is None


def test_no_request_waits_beyond_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    watching = watch("/v1/things/1", "thing 1", ("done",), 25, kind=Answer)
    first = next(watching)
    now = 20.0
    second = watching.send(httpx.Response(304))
    assert (first.wait_s, second.wait_s) == (20, 5)
    now = 25.0
    with pytest.raises(TimeoutError, match=r"^thing 1 is not finished after 25 s$"):
        watching.send(httpx.Response(304))


def test_the_last_item_of_a_stream_asks_all_that_the_stream_asks() -> None:
    def numbers() -> Stream[int]:
        answer = yield Request("GET", "/a")
        yield Item(answer)
        yield Pause(1)
        yield Item(2)

    call: Steps[int] = last(numbers())
    assert next(call) == Request("GET", "/a")
    assert call.send(1) == Pause(1)
    with pytest.raises(StopIteration) as done:
        call.send(None)
    assert done.value.value == 2
