"""When a client asks again, over a network that fails: the same for both clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from common.web.problems import TYPE_PREFIX
from tacit import AsyncClient, Client, NoAnswer, Problem, Retry, TooMany, Unavailable

QUICK = Retry(attempts=4, deadline_s=5.0, pause_factor=0.0)
Call = Callable[[Any], Any]


class Line:
    """A line to a service that fails as it is told, and notes what passes."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.answers, self.seen = list(answers), list[httpx.Request]()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def refusal(status: int, name: str, *, retryable: bool, **headers: str) -> httpx.Response:
    document = {
        "type": TYPE_PREFIX + name,
        "title": "No",
        "status": status,
        "detail": "not now",
        "errors": [],
        "retryable": retryable,
    }
    media = {"Content-Type": "application/problem+json", **headers}
    return httpx.Response(status, json=document, headers=media)


def done() -> httpx.Response:
    return httpx.Response(200, json={"id": "it"})


def by_blocking(line: Line, call: Call) -> Any:
    with Client("http://it.test", transport=httpx.MockTransport(line), retry=QUICK) as client:
        return call(client)


def by_loop(line: Line, call: Call) -> Any:
    async def run() -> Any:
        transport = httpx.MockTransport(line)
        async with AsyncClient("http://it.test", transport=transport, retry=QUICK) as client:
            return await call(client)

    return asyncio.run(run())


both = pytest.mark.parametrize("run", [by_blocking, by_loop])
Run = Callable[[Line, Call], Any]
LOST = httpx.ReadTimeout("lost")
BUSY = {"retryable": True, "Retry-After": "0"}


@both
def test_a_creation_is_repeated_with_one_key(run: Run) -> None:
    line = Line(LOST, refusal(503, "unavailable", **BUSY), done())
    assert run(line, lambda client: client.queries.create({"name": "q"}))["id"] == "it"
    keys = {request.headers["Idempotency-Key"] for request in line.seen}
    assert len(line.seen) == 3
    assert len(keys) == 1
    assert len({request.content for request in line.seen}) == 1


@both
def test_what_would_happen_twice_is_not_repeated(run: Run) -> None:
    line = Line(LOST, done())
    with pytest.raises(NoAnswer) as caught:
        run(line, lambda client: client.tokens.create("analyst"))
    assert isinstance(caught.value.__cause__, httpx.ReadTimeout)
    line = Line(refusal(503, "unavailable", **BUSY), done())
    with pytest.raises(Unavailable):
        run(line, lambda client: client.parties.grant("house"))
    assert len(line.seen) == 1


@both
def test_what_was_never_sent_is_repeated(run: Run) -> None:
    line = Line(httpx.ConnectError("refused"), done())
    assert run(line, lambda client: client.tokens.create("analyst"))["id"] == "it"


@both
def test_too_many_requests_are_repeated_whatever_they_do(run: Run) -> None:
    line = Line(refusal(429, "too_many_requests", **BUSY), done())
    assert run(line, lambda client: client.tokens.create("analyst"))["id"] == "it"
    line = Line(*(refusal(429, "too_many_requests", **BUSY) for _ in range(9)))
    with pytest.raises(TooMany):
        run(line, lambda client: client.queries.get("q"))
    assert len(line.seen) == QUICK.attempts


@both
def test_a_refusal_is_final(run: Run) -> None:
    line = Line(refusal(409, "budget_exceeded", retryable=False), done())
    with pytest.raises(Problem):
        run(line, lambda client: client.queries.create({}))
    assert len(line.seen) == 1


@both
def test_no_pause_is_begun_that_would_end_too_late(run: Run) -> None:
    line = Line(refusal(503, "unavailable", retryable=True, **{"Retry-After": "3600"}), done())
    with pytest.raises(Unavailable) as caught:
        run(line, lambda client: client.queries.get("q"))
    assert caught.value.retry_after_s == 3600
    assert len(line.seen) == 1


def pages() -> Line:
    link = {"Link": '</v1/queries?cursor=abc>; rel="next"'}
    first = httpx.Response(200, json={"queries": [{"id": 1}, {"id": 2}]}, headers=link)
    return Line(first, LOST, httpx.Response(200, json={"queries": [{"id": 3}]}))


def test_pages_are_one_iterator() -> None:
    line = pages()
    with Client("http://it.test", transport=httpx.MockTransport(line), retry=QUICK) as client:
        found = client.queries.list()
        assert next(found)["id"] == 1
        assert len(line.seen) == 1  # no page is asked for before it is needed
        assert [item["id"] for item in found] == [2, 3]
    assert line.seen[-1].url.query == b"cursor=abc"


def state(name: str, tag: str) -> httpx.Response:
    body = {"state": name, "reason": "an operator" if name == "aborted" else None}
    return httpx.Response(200, json=body, headers={"ETag": tag})


@both
def test_waiting_for_a_round_that_aborts(run: Run) -> None:
    from tacit import RoundNotReleased

    line = Line(state("open", '"1"'), state("aborted", '"2"'))
    with pytest.raises(RoundNotReleased, match="an operator"):
        run(line, lambda client: client.rounds.wait("r"))
