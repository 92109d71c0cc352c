"""How the client calls: requests with retries, one definition for the blocking and the asynchronous
method, and long polls.

A call is a generator. It yields a `Request` and is sent the answer, or the error is raised inside
it; it yields a `Pause` to wait, and an `Item` to pass a result to the caller before the end. So
each call is written once, and `tacit.client` runs it blocking or on an event loop.

Repeated are idempotent requests (`repeatable`) after no answer or 503, and any request after 429,
after 409 `idempotency_in_progress`, or if it cannot have been sent. Pauses are
random, double, and are never shorter than `Retry-After`.
"""

from __future__ import annotations

import functools
import inspect
import json
import time
from collections.abc import (
    AsyncIterator,
    Callable,
    Container,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from dataclasses import dataclass, field, replace
from types import MethodType
from typing import (
    Any,
    Concatenate,
    Final,
    Generic,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    get_args,
    get_type_hints,
    overload,
)

import httpx

from tacit.answers.base import Answer, read
from tacit.backoff import backoff
from tacit.client.problems import NoAnswer, NotFinished, Problem, Unavailable, problem_in

T = TypeVar("T")
A = TypeVar("A", bound=Answer)
Json: TypeAlias = dict[str, Any]

SAFE: Final = frozenset({"GET", "HEAD", "PUT"})
KEY: Final = "Idempotency-Key"
_UNSENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


@dataclass(frozen=True)
class Request:
    """One request. `repeatable`: idempotent, so that it may be sent again. `once`: it asks for
    the current state, so a later answer is useless. `wait_s`: how long the service may take
    beyond the client's timeout. `streamed`: the caller takes the answer line by line
    (`NextLine`)."""

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
    """How often a request is sent at most, and after how long it is not tried again."""

    attempts: int = 5
    deadline_s: float = 30.0
    pause_factor: float = 1.0


Reply: TypeAlias = httpx.Response | httpx.TransportError | str | None
Steps: TypeAlias = Generator[Request | NextLine | Pause, Any, T]
"""A call that has one answer. It is sent an `httpx.Response` for every request."""
Stream: TypeAlias = Generator[Request | NextLine | Pause | Item[T], Any, None]
"""A call that yields items."""


def attempts(request: Request, retry: Retry) -> Generator[Request | Pause, Reply, httpx.Response]:
    """The answer to a request, after as many attempts as `Retry` allows. Raises a Problem for a
    status of 400 and above, NoAnswer if there is no answer."""
    end = time.monotonic() + retry.deadline_s
    attempt = 0
    while True:
        reply = yield request
        attempt += 1
        error: Problem | httpx.TransportError
        if isinstance(reply, httpx.Response):
            if reply.status_code < 400:
                return reply
            error = problem_in(reply)
            again = _asks_again(error, request)
            pause = max(retry.pause_factor * backoff(attempt - 1), error.retry_after_s or 0.0)
        else:
            assert isinstance(reply, httpx.TransportError)
            error = reply
            again = request.repeatable or isinstance(error, _UNSENT)
            pause = retry.pause_factor * backoff(attempt - 1)
        if not again or request.once or attempt >= retry.attempts or time.monotonic() + pause > end:
            if isinstance(error, Problem):
                raise error
            raise NoAnswer(_unanswered(error)) from error
        yield Pause(pause)


def _unanswered(error: httpx.TransportError) -> str:
    reason = str(error) or type(error).__name__
    try:
        url = error.request.url
    except RuntimeError:  # it has none
        return reason
    return f"{url.scheme}://{url.netloc.decode()} ({reason})"


def _asks_again(problem: Problem, request: Request) -> bool:
    if problem.status == 429 or problem.name == "idempotency_in_progress":
        return True
    return isinstance(problem, Unavailable) and problem.retryable and request.repeatable


def primitive(
    call: Generator[Any, Any, T], retry: Retry
) -> Generator[Request | NextLine | Pause | Item[Any], Reply, T]:
    """A call as single attempts, pauses and items: both clients run calls in this form only."""
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


def following(answer: httpx.Response, path: str) -> str | None:
    """The path of the next page in the `Link` of an answer to a request for `path`, without the
    prefix under which a proxy may serve the API."""
    link: str | None = answer.links.get("next", {}).get("url")
    prefix = answer.request.url.path.removesuffix(path.partition("?")[0])
    return None if link is None else link.removeprefix(prefix)


def pages_of(
    kind: type[A], path: str, name: str, params: Mapping[str, Any] | None = None
) -> Stream[A]:
    """All items of a paged list."""
    answer: httpx.Response = yield get(path, params)
    while True:
        for item in answer.json()[name]:
            yield Item(read(kind, item))
        following_page = following(answer, path)
        if following_page is None:
            return
        path = following_page
        answer = yield get(path)


def get(path: str, params: Mapping[str, Any] | None = None) -> Request:
    """A GET; parameters that are None are omitted."""
    present = {name: value for name, value in (params or {}).items() if value is not None}
    return Request("GET", path, params=present or None, repeatable=True)


def repeatable(method: str, path: str, body: object = None) -> Request:
    """A request that has the same effect if it is sent twice."""
    return Request(method, path, body, repeatable=True)


def creating(path: str, body: object, key: str) -> Request:
    """A POST that creates, made safe to repeat by its key."""
    return Request("POST", path, body, headers={KEY: key}, repeatable=True)


def json_of(request: Request) -> Steps[Any]:
    """The decoded body of the answer to a request."""
    answer: httpx.Response = yield request
    return answer.json()


def answer_of(kind: type[A], request: Request) -> Steps[A]:
    """The answer to a request."""
    return read(kind, (yield from json_of(request)))


def items_of(kind: type[A], request: Request, name: str) -> Steps[list[A]]:
    """The items of the list of this name in the answer to a request."""
    body = yield from json_of(request)
    return [read(kind, item) for item in body[name]]


def content_of(path: str) -> Steps[bytes]:
    """What is at a path, as received."""
    answer: httpx.Response = yield get(path)
    return answer.content


def text_of(path: str) -> Steps[str]:
    """What is at a path, in plain words."""
    answer: httpx.Response = yield replace(get(path), headers={"Accept": "text/plain"})
    return answer.text


# How one definition of a call becomes a method of the blocking and of the asynchronous client.
#
#     class Queries(Group[C]):
#         get = operation(_query)   # client.queries.get(...) -> AskedQuery; AsyncClient: awaitable
#         list = stream(_queries)   # Client: iterator; AsyncClient: asynchronous iterator
#
# A descriptor makes the method for the client that it is accessed through, with a real signature:
# `help(client.queries)` shows all calls of a group.

P = ParamSpec("P")


class Runs(Protocol):
    """What a descriptor needs of a client that blocks."""

    def run(self, call: Steps[T]) -> T: ...
    def iterate(self, call: Stream[T]) -> Iterator[T]: ...


class RunsAsync(Protocol):
    """What a descriptor needs of a client on an event loop."""

    async def run_async(self, call: Steps[T]) -> T: ...
    def iterate_async(self, call: Stream[T]) -> AsyncIterator[T]: ...


C = TypeVar("C", covariant=True)


class Group(Generic[C]):
    """The calls of a client about one subject: `client.jobs`, `client.rounds`."""

    def __init__(self, client: C) -> None:
        self.client = client

    def __dir__(self) -> Iterable[str]:
        return [name for name in super().__dir__() if not name.startswith("_")]


class operation(Generic[P, T]):  # noqa: N801, used like a decorator
    """A call with one answer."""

    def __init__(self, call: Callable[P, Steps[T]]) -> None:
        self.call, self.__doc__ = call, call.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, caller: None, owner: type) -> Callable[Concatenate[Any, P], Any]: ...
    @overload
    def __get__(self, caller: Runs | Group[Runs], owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(
        self, caller: RunsAsync | Group[RunsAsync], owner: type
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, caller: Any, owner: type) -> Any:
        client = caller.client if isinstance(caller, Group) else caller
        method = _answering(self.call, self.name, hasattr(client or owner, "run_async"))
        return method if client is None else MethodType(method, client)


class stream(Generic[P, T]):  # noqa: N801, used like a decorator
    """A call that yields items."""

    def __init__(self, call: Callable[P, Stream[T]]) -> None:
        self.call, self.__doc__ = call, call.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, caller: None, owner: type) -> Callable[Concatenate[Any, P], Any]: ...
    @overload
    def __get__(self, caller: Runs | Group[Runs], owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(
        self, caller: RunsAsync | Group[RunsAsync], owner: type
    ) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, caller: Any, owner: type) -> Any:
        client = caller.client if isinstance(caller, Group) else caller
        method = _yielding(self.call, self.name, hasattr(client or owner, "iterate_async"))
        return method if client is None else MethodType(method, client)


@functools.cache
def _answering(call: Callable[..., Steps[Any]], name: str, awaited: bool) -> Callable[..., Any]:
    """A method that runs a call to its answer: `Steps[T]` gives T."""

    def method(client: Any, /, *arguments: Any, **named: Any) -> Any:
        return client.run(call(*arguments, **named))

    async def method_async(client: Any, /, *arguments: Any, **named: Any) -> Any:
        return await client.run_async(call(*arguments, **named))

    hints = get_type_hints(call)
    answer = get_args(hints["return"])[2]
    return _declared(method_async if awaited else method, name, call, hints | {"return": answer})


@functools.cache
def _yielding(call: Callable[..., Stream[Any]], name: str, awaited: bool) -> Callable[..., Any]:
    """A method that runs a call item by item: `Stream[T]` gives an iterator of T."""

    def method(client: Any, /, *arguments: Any, **named: Any) -> Any:
        return (client.iterate_async if awaited else client.iterate)(call(*arguments, **named))

    hints = get_type_hints(call)
    yielded = next(
        get_arg for get_arg in get_args(get_args(hints["return"])[0]) if get_args(get_arg)
    )
    (kind,) = get_args(yielded)
    items = AsyncIterator[kind] if awaited else Iterator[kind]  # type: ignore[valid-type]
    return _declared(method, name, call, hints | {"return": items})


def _declared(
    method: Callable[..., Any], name: str, call: Callable[..., Any], hints: dict[str, Any]
) -> Callable[..., Any]:
    """`method` with this name, the help and the parameters of `call`, behind the client itself."""
    functools.update_wrapper(method, call)
    method.__name__ = method.__qualname__ = name
    self_parameter = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    taken = [
        parameter_of.replace(annotation=hints.get(parameter, parameter_of.annotation))
        for parameter, parameter_of in inspect.signature(call).parameters.items()
    ]
    shown = inspect.Signature([self_parameter, *taken], return_annotation=hints["return"])
    vars(method)["__signature__"] = shown
    return method


POLL_S: Final = 20.0
"""How long one request waits for a change."""
MOST_LOST: Final = 5
"""Connections in a row that end a stream of events without telling anything new."""


def watch(
    path: str,
    subject: str,
    finished: Container[str],
    timeout_s: float,
    *,
    kind: type[A],
    only_finished: bool = False,
) -> Stream[A]:
    """The document at a path each time it changes, until its `state` is final.

    `only_finished`: a service that supports it answers only then. Raises NotFinished, which
    names the subject, if that takes longer than the timeout.
    """
    end = time.monotonic() + timeout_s
    tag = ""
    while True:
        remaining_s = end - time.monotonic()
        if remaining_s <= 0:
            raise NotFinished(f"{subject} is not finished after {timeout_s:.0f} s")
        wait_s = min(POLL_S, remaining_s)
        answer: httpx.Response = yield Request(
            "GET",
            path,
            params={"wait_s": wait_s} | ({"finished": "true"} if only_finished else {}),
            headers={"If-None-Match": tag},
            repeatable=True,
            wait_s=wait_s,
        )
        if answer.status_code == 304:
            continue
        tag = answer.headers.get("etag", "")
        state = read(kind, answer.json())
        yield Item(state)
        if state["state"] in finished:
            return


def events(path: str, subject: str, timeout_s: float) -> Stream[Json]:
    """Server-sent events at a path, `{"event": its name, "data": its JSON}`, until the service
    closes the stream. After a lost connection it connects again and skips the events that it has
    passed on: the service sends a subject's history from its start, and then its current state.
    Raises NotFinished, which names the subject, after the timeout, and NoAnswer."""
    end = time.monotonic() + timeout_s
    events_sent: list[Json] = []
    lost = 0
    while True:
        answer: httpx.Response = yield Request(
            "GET", path, repeatable=True, wait_s=POLL_S, streamed=True
        )
        repeated = list(events_sent)
        name, data = "message", ""
        try:
            while (line := (yield NextLine(answer))) is not None:
                if time.monotonic() > end:
                    raise NotFinished(f"{subject} is not finished after {timeout_s:.0f} s")
                field, _, value = line.partition(":")
                if field == "event":
                    name = value.strip()
                elif field == "data":
                    data += value.strip()
                elif not line and data:
                    event = {"event": name, "data": json.loads(data)}
                    name, data = "message", ""
                    if event in repeated:
                        repeated.remove(event)
                    else:
                        events_sent.append(event)
                        lost = 0
                        yield Item(event)
            return
        except httpx.TransportError as error:
            if (lost := lost + 1) > MOST_LOST:
                raise NoAnswer(f"{subject}: the connection was lost {lost} times") from error
            yield Pause(backoff(lost))


def last(items: Stream[T], progress: Callable[[T], object] | None = None) -> Steps[T]:
    """The last item of a stream; `progress` is called with each. Raises ValueError for an empty
    stream."""
    latest: Item[T] | None = None
    reply = None
    while True:
        try:
            step = items.send(reply)
        except StopIteration:
            if latest is None:
                raise ValueError("a stream without items has no last one") from None
            return latest.value
        if isinstance(step, Item):
            latest, reply = step, None
            if progress is not None:
                progress(step.value)
        else:
            reply = yield step
