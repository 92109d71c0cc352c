"""The Python client, blocking and asynchronous: one set of calls, two ways to run them.

    with Client(coordinator_url, token) as client:
        found = client.ask(Query.of(...), window=("2025-11-03T18:00:00Z", "2025-11-03T19:00:00Z"))
        print(found.value, found.interval)

    async with AsyncClient(coordinator_url, token) as client:
        async for query in client.queries(): ...

A client connects to one service: queries, rounds, budget and registry are calls of the coordinator,
readings, policies and statements those of a curator service. Answers are the dictionaries
of the API, the main ones with their fields as attributes too (`tacit.shown`); what goes wrong is a
`tacit.Error`: a refusal a `Problem`, no answer `NoAnswer`.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import httpx

from tacit.client.at_home import access
from tacit.client.budget import Budget
from tacit.client.datasets import Datasets
from tacit.client.exchange import (
    Item,
    NextLine,
    Pause,
    Reply,
    Request,
    Retry,
    Steps,
    Stream,
    primitive,
)
from tacit.client.jobs import Jobs
from tacit.client.plain import Plain
from tacit.client.queries import Queries
from tacit.client.readings import Readings
from tacit.client.registry import Registry
from tacit.client.rounds import Rounds

T = TypeVar("T")
LINES: Final = "tacit_lines"
"""Where a streamed answer keeps what gives its lines."""


class Calls(Plain, Queries, Rounds, Jobs, Budget, Registry, Readings, Datasets):
    """Every call that a client has."""


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
