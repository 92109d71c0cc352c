"""`Client` and `AsyncClient`: one set of calls, two ways to run them, to an address or to the
services of `tacit up`; and the calls that any service takes.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import httpx

from tacit.answers.base import Answer, Audited, Support
from tacit.client.budget import Budget
from tacit.client.curator import Contributions, Curators, Ledger, Policies, Readings, Records
from tacit.client.exchange import (
    KEY,
    SAFE,
    Item,
    Json,
    NextLine,
    Pause,
    Reply,
    Request,
    Retry,
    Steps,
    Stream,
    answer_of,
    get,
    json_of,
    operation,
    pages_of,
    primitive,
    stream,
)
from tacit.client.jobs import Datasets, Jobs
from tacit.client.notifications import Notifications
from tacit.client.problems import NotFinished, Problem
from tacit.client.registry import (
    Aggregators,
    Groups,
    Keys,
    Parties,
    Tokens,
    Trust,
)
from tacit.client.rounds import Queries, Rounds
from tacit.errors import NoDeployment

FILE = "deployment.json"


def access(home: str | Path, service: str) -> tuple[str, str]:
    """The address and the operator's token of a service of a deployment: `coordinator`, `curator`,
    or an aggregator by its name. Raises NoDeployment, ValueError for a service that it does not
    have."""
    try:
        document = json.loads((Path(home) / FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NoDeployment(f"there is no deployment in {home}: start one with `tacit up`") from None
    services = document["services"]
    entry = next((entry for entry in services if service in (entry["kind"], entry["id"])), None)
    if entry is None:
        names = ", ".join(service["id"] for service in services)
        raise ValueError(f"there is no service {service!r} in {home}; there are: {names}")
    token = Path(entry["directory"], "operator.token").read_text(encoding="ascii").strip()
    return entry["url"], token


READY_PAUSE_S = 0.05


def _request(
    method: str,
    path: str,
    body: object = None,
    *,
    content: bytes | None = None,
    media_type: str | None = None,
    params: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Steps[httpx.Response]:
    """One request; raises a Problem for a refusal, NoAnswer for no answer."""
    sent = dict(headers or {})
    if media_type is not None:
        sent["Content-Type"] = media_type
    repeatable = method in SAFE or KEY in sent
    answer: httpx.Response = yield Request(
        method, path, body, content, params, sent, repeatable=repeatable
    )
    return answer


def _get(path: str, **params: Any) -> Steps[Json]:
    """A GET as a dictionary."""
    return json_of(get(path, params))


def _post(path: str, body: object = None, *, key: str | None = None) -> Steps[Json]:
    """A POST as a dictionary; `key` makes it safe to repeat (`Idempotency-Key`)."""
    headers = {} if key is None else {KEY: key}
    return json_of(Request("POST", path, body, headers=headers, repeatable=key is not None))


def _pages(path: str, name: str, **params: Any) -> Stream[Answer]:
    """All items of a paged list."""
    return pages_of(Answer, path, name, params)


def _ready() -> Steps[bool]:
    """Whether the service can do its work; False too if it does not answer."""
    try:
        yield Request("GET", "/readyz", once=True)
    except (Problem, httpx.TransportError):
        return False
    return True


def _wait_until_ready(timeout_s: float = 30.0) -> Steps[None]:
    """Wait until the service is ready; raises NotFinished."""
    end = time.monotonic() + timeout_s
    while not (yield from _ready()):
        if time.monotonic() > end:
            raise NotFinished(f"the service is not ready after {timeout_s:.0f} s")
        yield Pause(READY_PAUSE_S)


def _support() -> Steps[Support]:
    """What an operator sends to the people who help: no secret, no reading, no curator's name."""
    return answer_of(Support, get("/v1/support"))


def _audit() -> Stream[Audited]:
    """Who did what on a service's pages, the newest first."""
    return pages_of(Audited, "/v1/audit", "audit")


class Plain:
    """Calls that every service accepts."""

    request = operation(_request)
    get = operation(_get)
    post = operation(_post)
    pages = stream(_pages)
    ready = operation(_ready)
    support = operation(_support)
    audit = stream(_audit)
    wait_until_ready = operation(_wait_until_ready)


#     with Client(coordinator_url, token) as client:
#         result = client.rounds.ask(query, window=("2025-11-03T18:00:00Z", "2025-11-03T19:00:00Z"))
#         print(result.value, result.interval)
#
#     async with AsyncClient(coordinator_url, token) as client:
#         async for query in client.queries.list(): ...
#
# A client connects to one service. Answers are the models of `tacit.answers`; errors are
# `tacit.Error`: `Problem` for a refusal, `NoAnswer` for no answer.

T = TypeVar("T")
LINES: Final = "tacit_lines"
"""Where a streamed answer keeps what gives its lines."""


class Calls(Plain):
    """Every call that a client has, in groups by subject.

    Of a coordinator: queries, rounds, jobs, datasets, budget, groups. Of a curator service:
    readings, records, contributions, ledger, policies. Of several: curators, parties, aggregators,
    tokens, keys, trust, notifications.
    """

    @property
    def queries(self) -> Queries[Self]:
        """What rounds compute."""
        return Queries(self)

    @property
    def rounds(self) -> Rounds[Self]:
        """Rounds of a query, and what they released."""
        return Rounds(self)

    @property
    def jobs(self) -> Jobs[Self]:
        """Algorithms on stored datasets, and over curators."""
        return Jobs(self)

    @property
    def datasets(self) -> Datasets[Self]:
        """Data for jobs."""
        return Datasets(self)

    @property
    def budget(self) -> Budget[Self]:
        """The public ledger of the coordinator."""
        return Budget(self)

    @property
    def aggregators(self) -> Aggregators[Self]:
        """The aggregators of a coordinator."""
        return Aggregators(self)

    @property
    def parties(self) -> Parties[Self]:
        """Parties of a coordinator or curator service: invitations, enrolment, new identities."""
        return Parties(self)

    @property
    def curators(self) -> Curators[Self]:
        """Curators: all that a coordinator knows, or those that a curator service hosts."""
        return Curators(self)

    @property
    def groups(self) -> Groups[Self]:
        """Named groups of curators."""
        return Groups(self)

    @property
    def tokens(self) -> Tokens[Self]:
        """Access to a service."""
        return Tokens(self)

    @property
    def keys(self) -> Keys[Self]:
        """A service's own keys: storage, sealing, identity."""
        return Keys(self)

    @property
    def trust(self) -> Trust[Self]:
        """Identities of others that a service follows, and their confirmation."""
        return Trust(self)

    @property
    def notifications(self) -> Notifications[Self]:
        """What needs an operator."""
        return Notifications(self)

    @property
    def readings(self) -> Readings[Self]:
        """Readings of a curator service."""
        return Readings(self)

    @property
    def records(self) -> Records[Self]:
        """Tables, sequences and sets of a service's curators."""
        return Records(self)

    @property
    def ledger(self) -> Ledger[Self]:
        """What a service's curators have spent."""
        return Ledger(self)

    @property
    def contributions(self) -> Contributions[Self]:
        """What curators contributed to rounds and jobs."""
        return Contributions(self)

    @property
    def policies(self) -> Policies[Self]:
        """What curators agree to."""
        return Policies(self)


class Client(Calls):
    """A client of one service that blocks until it is answered."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout_s: float = 60.0,
        retry: Retry | None = None,
        verify: bool | str | ssl.SSLContext = True,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.url, self.retry, self.timeout_s = url.rstrip("/"), retry or Retry(), timeout_s
        self._http = httpx.Client(
            **_settings(self.url, token, timeout_s), verify=verify, transport=transport
        )

    @classmethod
    def at_home(cls, home: str | Path = ".tacit", service: str = "coordinator") -> Self:
        """A client of a service that `tacit up` runs on this machine, with its operator's rights.
        See `access` for `service` and errors."""
        return cls(*access(home, service))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def run(self, call: Steps[T]) -> T:
        """Run a call to its answer."""
        steps, reply = primitive(call, self.retry), None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as done:
                answer: T = done.value
                return answer
            reply = self._perform(step)

    def iterate(self, call: Stream[T]) -> Iterator[T]:
        """Run a call item by item."""
        steps, reply = primitive(call, self.retry), None
        answers: list[httpx.Response] = []
        try:
            while True:
                try:
                    step = steps.send(reply)
                except StopIteration:
                    return
                if isinstance(step, Item):
                    yield step.value
                    reply = None
                    continue
                reply = self._perform(step)
                if isinstance(reply, httpx.Response) and LINES in reply.extensions:
                    answers.append(reply)
        finally:  # also if the caller wants no more
            for answer in answers:
                answer.close()

    def _perform(self, step: Request | NextLine | Pause | Item[Any]) -> Reply:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        try:
            if isinstance(step, NextLine):
                return next(step.answer.extensions[LINES], None)
            assert isinstance(step, Request)
            if not step.streamed:
                return self._http.request(**_arguments(step, self.timeout_s))
            request = self._http.build_request(**_arguments(step, self.timeout_s))
            answer = self._http.send(request, stream=True)
            if answer.status_code >= 400:
                answer.read()
            else:
                answer.extensions[LINES] = answer.iter_lines()
            return answer
        except httpx.TransportError as error:
            return error


class AsyncClient(Calls):
    """A client of one service for programs with an event loop: the same calls, awaited."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout_s: float = 60.0,
        retry: Retry | None = None,
        verify: bool | str | ssl.SSLContext = True,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.url, self.retry, self.timeout_s = url.rstrip("/"), retry or Retry(), timeout_s
        self._http = httpx.AsyncClient(
            **_settings(self.url, token, timeout_s), verify=verify, transport=transport
        )

    @classmethod
    def at_home(cls, home: str | Path = ".tacit", service: str = "coordinator") -> Self:
        """A client of a service that `tacit up` runs on this machine, with its operator's rights.
        See `access` for `service` and errors."""
        return cls(*access(home, service))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def run_async(self, call: Steps[T]) -> T:
        """Run a call to its answer."""
        steps, reply = primitive(call, self.retry), None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as done:
                answer: T = done.value
                return answer
            reply = await self._perform(step)

    async def iterate_async(self, call: Stream[T]) -> AsyncIterator[T]:
        """Run a call item by item."""
        steps, reply = primitive(call, self.retry), None
        answers: list[httpx.Response] = []
        try:
            while True:
                try:
                    step = steps.send(reply)
                except StopIteration:
                    return
                if isinstance(step, Item):
                    yield step.value
                    reply = None
                    continue
                reply = await self._perform(step)
                if isinstance(reply, httpx.Response) and LINES in reply.extensions:
                    answers.append(reply)
        finally:  # also if the caller wants no more
            for answer in answers:
                await answer.aclose()

    async def _perform(self, step: Request | NextLine | Pause | Item[Any]) -> Reply:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        try:
            if isinstance(step, NextLine):
                return await anext(step.answer.extensions[LINES], None)
            assert isinstance(step, Request)
            if not step.streamed:
                return await self._http.request(**_arguments(step, self.timeout_s))
            request = self._http.build_request(**_arguments(step, self.timeout_s))
            answer = await self._http.send(request, stream=True)
            if answer.status_code >= 400:
                await answer.aread()
            else:
                answer.extensions[LINES] = answer.aiter_lines()
            return answer
        except httpx.TransportError as error:
            return error


def _settings(url: str, token: str | None, timeout_s: float) -> dict[str, Any]:
    headers = {"User-Agent": "tacit"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    return {"base_url": url, "headers": headers, "timeout": timeout_s, "trust_env": False}


def _arguments(request: Request, timeout_s: float) -> dict[str, Any]:
    return {
        "method": request.method,
        "url": request.path,
        "json": request.json,
        "content": request.content,
        "params": request.params,
        "headers": request.headers,
        "timeout": timeout_s + request.wait_s,
    }
