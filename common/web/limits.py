"""Limits of requests: load shedding, and a body's size, slowest rate and memory.

Load shedding: how much a process accepts at the same time; more is refused early, with 503.

Requests are counted from their arrival to the end of their answer. Bodies are counted as they
arrive, not as declared: a large declared size alone takes no capacity from others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Annotated, Final, NoReturn
from urllib.parse import parse_qsl

from fastapi import Query
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from common.bodies import CBOR, JSON, MalformedBody, parse_cbor, parse_json
from common.runtime.telemetry import ServiceMetrics
from common.web.problems import BodyTooSlow, problem_response
from common.web.wire import M, content_type
from tacit.errors import DomainError, TooLarge, Unavailable, UnsupportedForm

MAX_WAIT_S: Final = 30.0
Wait = Annotated[float, Query(ge=0, le=MAX_WAIT_S, description="Long poll: seconds to wait.")]
"""`wait_s` of a route; a request that waits does not count."""
APART: Final = frozenset({"/healthz", "/readyz", "/metrics"})
STREAM_BYTES: Final = 64 * 1024 * 1024
"""A body longer than this is read as a stream, or one at a time: no more of it is counted."""


class Overloaded(Unavailable):
    """As much is in progress as the process accepts at the same time."""

    name = "overloaded"
    title = "The service is at its limit"


class Load:
    """What one process has in progress."""

    def __init__(self, max_requests: int, max_bytes: int, metrics: ServiceMetrics) -> None:
        self.requests = 0
        self.held_bytes = 0
        self.max_requests = max_requests
        self.max_bytes = max_bytes
        self._refused = metrics.counter(
            "requests_refused", "Requests answered 503 because of those in progress.", ("reason",)
        )
        metrics.gauge("requests_in_flight", "Requests in progress.").set_function(
            lambda: float(self.requests)
        )
        metrics.gauge("request_body_held_bytes", "Bodies of requests in progress.").set_function(
            lambda: float(self.held_bytes)
        )

    def full(self) -> Overloaded | None:
        """Why one more request is refused, or None."""
        if self.requests < self.max_requests:
            return None
        return self._refuse("requests", self.max_requests)

    def body(self) -> HeldBody:
        """The account of one request's body; `release` it in the end."""
        return HeldBody(self)

    def room(self, own_bytes: int, more_bytes: int) -> Overloaded | None:
        """Why a body of this size may not grow by this much, or None."""
        other_bytes = self.held_bytes - own_bytes
        if other_bytes == 0 or self.held_bytes + more_bytes <= self.max_bytes:
            return None
        return self._refuse("bytes", self.max_bytes)

    def _refuse(self, reason: str, quota: int) -> Overloaded:
        self._refused.labels(reason).inc()
        return Overloaded(retry_after_s=1, extra={"quota": quota, "quota_unit": reason})


class HeldBody:
    """The bytes of one body that count."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._bytes = 0

    def expect(self, declared_bytes: int) -> Overloaded | None:
        """Why a body of a declared length is refused, or None."""
        return self._load.room(0, min(declared_bytes, STREAM_BYTES))

    def add(self, arrived_bytes: int) -> Overloaded | None:
        """Count what arrived, or return why there is no capacity for it."""
        counted = min(arrived_bytes, STREAM_BYTES - self._bytes)
        refusal = self._load.room(self._bytes, counted)
        if refusal is None:
            self._bytes += counted
            self._load.held_bytes += counted
        return refusal

    def release(self) -> None:
        """The body is not held any more."""
        self._load.held_bytes -= self._bytes
        self._bytes = 0


class LoadLimit:
    """Middleware: refuses what exceeds `max_requests`."""

    def __init__(self, app: ASGIApp, load: Load) -> None:
        self._app, self._load = app, load

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, counted, or refuse it."""
        if scope["type"] != "http" or scope["path"] in APART or waits(scope):
            await self._app(scope, receive, send)
            return
        if refusal := self._load.full():
            await problem_response(refusal)(scope, receive, send)
            return
        self._load.requests += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._load.requests -= 1


def waits(scope: Scope) -> bool:
    """Whether a request is a long poll, which costs a connection and little else."""
    if scope["method"] != "GET" or b"wait_s=" not in scope["query_string"]:
        return False
    parameters = dict(parse_qsl(scope["query_string"].decode("latin-1")))
    return parameters.get("wait_s", "0") not in ("", "0")


# Limits of a request's body: its size, its slowest rate, and the memory of all bodies together.
#
# A body that is too large is answered 413, too slow 408, beyond the memory limit 503, compressed
# 415: as problems, after which the connection is closed, because the rest of the body is not read.
# A compressed body could expand past every limit here; files that may be large are compressed as
# files, and expanded by their readers, within separate limits.
#
# `read_within` is for a body whose limit is decided when its first bytes arrive: after its sender
# is known.

NO_LIMIT: Final = float("inf")
IDENTITY: Final = "identity"
READ_S: Final = 300.0
"""How long a body whose limit depends on its sender may take to arrive."""


class BodyTooLarge(TooLarge):
    """The body is larger than the service reads at this path."""

    name = "body_too_large"
    title = "The request body is too large"


class EncodedBody(UnsupportedForm):
    """The body has a Content-Encoding."""

    name = "unsupported_encoding"
    title = "A body with a Content-Encoding is not read: send it as it is"


async def read_within(request: Request, model: type[M], limit: int, detail: str) -> M:
    """The body as `model`, if it ends before the limit and arrives in time; parsed in a thread.

    Raises what `body_within` and `wire.read_body` raise.
    """
    form = content_type(request)
    if form not in (JSON, CBOR):
        raise UnsupportedForm(extra={"supported": [JSON, CBOR]})
    body = await body_within(request, limit, detail)
    return await asyncio.to_thread(parse_json if form == JSON else parse_cbor, body, model)


async def body_within(request: Request, limit: int, detail: str) -> bytes:
    """The body, if it ends before the limit and arrives in time. Raises BodyTooLarge with
    `detail`, and MalformedBody."""
    too_large = BodyTooLarge(detail, extra={"max_body_bytes": limit})
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > limit:
        raise too_large
    chunks, size = [], 0
    try:
        async with asyncio.timeout(READ_S):
            async for chunk in request.stream():
                size += len(chunk)
                if size > limit:
                    raise too_large
                chunks.append(chunk)
    except TimeoutError:
        raise MalformedBody("The body did not arrive in time") from None
    return b"".join(chunks)


class BodyLimit:
    """Limits the bytes of a body, declared and received, and the time spent waiting for them.

    `exceptions` gives other limits to paths that start with a prefix; the longest prefix
    applies. A body may keep the service waiting for `grace_s` seconds, and one second more for
    every `least_bytes_per_s` bytes received. Time in which the service does not read does not
    count, nor does the wait for a client to disconnect after its body (as long polls do).
    """

    def __init__(
        self,
        app: ASGIApp,
        max_bytes: int,
        exceptions: Mapping[str, int],
        load: Load | None = None,
        *,
        grace_s: float = NO_LIMIT,
        least_bytes_per_s: int = 1,
    ) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._exceptions = sorted(exceptions.items(), key=lambda item: -len(item[0]))
        self._load = load
        self._grace_s = grace_s
        self._rate = least_bytes_per_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, watched."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._limit(scope["path"])
        held_body = None if self._load is None else self._load.body()
        headers = Headers(scope=scope)
        text = headers.get("content-length", "0")
        declared = int(text) if text.isdecimal() else 0
        error: DomainError | None = None
        if headers.get("content-encoding", IDENTITY).strip().lower() not in ("", IDENTITY):
            error = EncodedBody(extra={"supported": [IDENTITY]})
        elif declared > limit:
            error = _too_large(limit)
        elif declared and held_body is not None:
            error = held_body.expect(declared)
        if error is not None:
            await _refuse(error, scope, receive, send)
            return
        body = _Body(receive, limit, held_body, self._grace_s, self._rate)
        try:
            await self._watch(scope, body, send)
        finally:
            if held_body is not None:
                held_body.release()

    async def _watch(self, scope: Scope, body: _Body, send: Send) -> None:
        started = False

        async def guarded(message: Message) -> None:
            # regardless of the route's handling of the interrupted body, the answer is ours
            nonlocal started
            if body.broken is not None and not started:
                return
            started = True
            await send(message)

        try:
            await self._app(scope, body.receive, guarded)
        except DomainError as error:
            if started or error is not body.broken:
                raise
        if body.broken is not None and not started:
            await _refuse(body.broken, scope, body.receive, send)

    def _limit(self, path: str) -> int:
        for prefix, limit in self._exceptions:
            if path.startswith(prefix):
                return limit
        return self._max_bytes


class _Body:
    """One body on its way in; `broken` is why it is not read to its end."""

    def __init__(
        self, receive: Receive, limit: int, held_body: HeldBody | None, grace_s: float, rate: int
    ) -> None:
        self._receive, self._limit, self._held = receive, limit, held_body
        self._patience_s, self._rate = grace_s, rate
        self._received = 0
        self._ended = False
        self.broken: DomainError | None = None

    async def receive(self) -> Message:
        if self.broken is not None:
            raise self.broken
        if self._ended:
            return await self._receive()
        message = await self._in_time()
        if message["type"] != "http.request":
            self._ended = True
            return message
        self._ended = not message.get("more_body", False)
        size = len(message.get("body", b""))
        self._received += size
        self._patience_s += size / self._rate
        if self._received > self._limit:
            self._break(_too_large(self._limit))
        elif size and self._held is not None and (refusal := self._held.add(size)):
            self._break(refusal)
        return message

    async def _in_time(self) -> Message:
        if self._patience_s == NO_LIMIT:
            return await self._receive()
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._patience_s):
                message = await self._receive()
        except TimeoutError:
            self._break(BodyTooSlow(extra={"least_bytes_per_s": self._rate}))
        self._patience_s -= time.monotonic() - began
        return message

    def _break(self, error: DomainError) -> NoReturn:
        self.broken = error
        raise error from None


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(extra={"max_body_bytes": limit})


async def _refuse(error: DomainError, scope: Scope, receive: Receive, send: Send) -> None:
    response = problem_response(error)
    response.headers["Connection"] = "close"
    if isinstance(error, EncodedBody):
        response.headers["Accept-Encoding"] = IDENTITY
    await response(scope, receive, send)
