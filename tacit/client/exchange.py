"""What a call of the client is made of: requests, pauses and items, and when to try again.

A call is a generator. It yields a `Request` and is sent the answer, or the error is raised inside
it; it yields a `Pause` to wait, and an `Item` to pass a result to the caller before the end. So
each call is written once, and `tacit.client` runs it blocking or on an event loop.

What is repeated: requests that change nothing twice (`repeatable`) after no answer or 503; any
request after 429, after 409 `idempotency_in_progress`, or if it cannot have been sent. Pauses are
random, double, and are never shorter than `Retry-After`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, TypeAlias, TypeVar

import httpx

from tacit.client.problems import NoAnswer, Problem, Unavailable, problem_in
from tacit.pauses import backoff

T = TypeVar("T")
S = TypeVar("S", bound=dict[str, Any])
Json: TypeAlias = dict[str, Any]

SAFE: Final = frozenset({"GET", "HEAD", "PUT"})
KEY: Final = "Idempotency-Key"
_UNSENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


@dataclass(frozen=True)
class Request:
    """One request.

    `repeatable`: idempotent, so that it may be sent again. `once`: it asks for the current state,
    so a later answer is useless. `wait_s`: how long the service may take beyond the client's
    timeout. `streamed`: the answer's lines are asked for one by one (`NextLine`).
    """

    method: str
    path: str
    json: object = None
    content: bytes | None = None
    params: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = False
    once: bool = False
    wait_s: float = 0.0
    streamed: bool = False


@dataclass(frozen=True)
class NextLine:
    """The next line of a streamed answer, None at its end; a lost connection is an error."""

    answer: httpx.Response


@dataclass(frozen=True)
class Pause:
    """Wait this many seconds."""

    seconds: float


@dataclass(frozen=True)
class Item(Generic[T]):
    """One item that a stream yields."""

    value: T


@dataclass(frozen=True)
class Retry:
    """How often a request is made at most, and after how long no new pause is begun."""

    attempts: int = 5
    deadline_s: float = 30.0
    pause_factor: float = 1.0


Reply: TypeAlias = httpx.Response | httpx.TransportError | str | None
Steps: TypeAlias = Generator[Request | NextLine | Pause, Any, T]
"""A call that has one answer. It is sent an `httpx.Response` for every request."""
Stream: TypeAlias = Generator[Request | NextLine | Pause | Item[T], Any, None]
"""A call that yields items."""


def attempts(request: Request, retry: Retry) -> Generator[Request | Pause, Reply, httpx.Response]:
    """The answer to a request, after as many attempts as are due.

    Raises a Problem for an answer of 400 and above, NoAnswer for none.
    """
    end = time.monotonic() + retry.deadline_s
    made = 0
    while True:
        reply = yield request
        made += 1
        error: Problem | httpx.TransportError
        if isinstance(reply, httpx.Response):
            if reply.status_code < 400:
                return reply
            error = problem_in(reply)
            again = _asks_again(error, request)
            pause = max(retry.pause_factor * backoff(made - 1), error.retry_after_s or 0.0)
        else:
            assert isinstance(reply, httpx.TransportError)
            error = reply
            again = request.repeatable or isinstance(error, _UNSENT)
            pause = retry.pause_factor * backoff(made - 1)
        if not again or request.once or made >= retry.attempts or time.monotonic() + pause > end:
            if isinstance(error, Problem):
                raise error
            raise NoAnswer(_unanswered(error)) from error
        yield Pause(pause)


def _unanswered(error: httpx.TransportError) -> str:
    told = str(error) or type(error).__name__
    try:
        url = error.request.url
    except RuntimeError:  # it has none
        return told
    return f"{url.scheme}://{url.netloc.decode()} ({told})"


def _asks_again(problem: Problem, request: Request) -> bool:
    if problem.status == 429 or problem.name == "idempotency_in_progress":
        return True
    return isinstance(problem, Unavailable) and problem.retryable and request.repeatable


def primitive(
    call: Generator[Any, Any, T], retry: Retry
) -> Generator[Request | NextLine | Pause | Item[Any], Reply, T]:
    """A call in single attempts, pauses and items: what both clients run, and all they run."""
    value: httpx.Response | str | None = None
    error: Exception | None = None
    while True:
        try:
            step = call.send(value) if error is None else call.throw(error)
        except StopIteration as done:
            answer: T = done.value
            return answer
        value, error = None, None
        if isinstance(step, Request):
            try:
                value = yield from attempts(step, retry)
            except (Problem, httpx.TransportError) as caught:
                error = caught
        elif isinstance(step, NextLine):
            reply = yield step
            if isinstance(reply, httpx.TransportError):
                error = reply
            else:
                assert not isinstance(reply, httpx.Response)
                value = reply
        else:
            yield step


def following(answer: httpx.Response) -> str | None:
    """The address of the next page in an answer's `Link`."""
    return answer.links.get("next", {}).get("url")


def pages(path: str, name: str, params: Mapping[str, Any] | None = None) -> Stream[Json]:
    """All items of a paged list."""
    return pages_of(dict, path, name, params)


def pages_of(
    kind: Callable[[Json], S], path: str, name: str, params: Mapping[str, Any] | None = None
) -> Stream[S]:
    """All items of a paged list, as objects of this kind."""
    answer: httpx.Response = yield get(path, params)
    while True:
        for item in answer.json()[name]:
            yield Item(kind(item))
        following_page = following(answer)
        if following_page is None:
            return
        answer = yield get(following_page)


def get(path: str, params: Mapping[str, Any] | None = None) -> Request:
    """A GET; parameters that are None are omitted."""
    kept = {name: value for name, value in (params or {}).items() if value is not None}
    return Request("GET", path, params=kept or None, repeatable=True)


def creating(path: str, body: object, key: str) -> Request:
    """A POST that creates, made safe to repeat by its key."""
    return Request("POST", path, body, headers={KEY: key}, repeatable=True)


def json_of(request: Request) -> Steps[Any]:
    """The decoded body of the answer to a request."""
    answer: httpx.Response = yield request
    return answer.json()


def shown_of(kind: type[S], request: Request) -> Steps[S]:
    """The decoded body of the answer to a request as an object of this kind."""
    return kind((yield from json_of(request)))


def items_of(request: Request, name: str) -> Steps[list[Json]]:
    """The list of this name in the answer to a request."""
    answer: httpx.Response = yield request
    found: list[Json] = answer.json()[name]
    return found


def content_of(path: str) -> Steps[bytes]:
    """What is at a path, as received."""
    answer: httpx.Response = yield get(path)
    return answer.content


def text_of(path: str) -> Steps[str]:
    """What is at a path, in plain words."""
    answer: httpx.Response = yield replace(get(path), headers={"Accept": "text/plain"})
    return answer.text
