"""Limits of a request's body: its size, its slowest rate, and the memory of all bodies together.

A body that is too large is answered 413, too slow 408, beyond the memory limit 503, compressed
415: as problems, after which the connection is closed, because the rest of the body is not read.
A compressed body could expand past every limit here; files that may be large are compressed as
files, and expanded by their readers, within separate limits.

`read_within` is for a body whose limit is decided when its first bytes arrive: after its sender is
known.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Final, NoReturn

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from common.web.load import HeldBody, Load
from common.web.problems import BodyTooSlow, MalformedBody, problem_response
from common.web.wire import CBOR, JSON, M, content_type, parse_cbor, parse_json
from tacit.errors import DomainError, TooLarge, UnsupportedForm

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
    """The body, if it ends before the limit and arrives in time.

    Raises BodyTooLarge with `detail`, and MalformedBody.
    """
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
    """Counts the bytes of a body, declared and received, and the time that was waited for them.

    `exceptions` gives other limits to paths that start with a prefix; the longest prefix holds.
    A body may keep the service waiting for `grace_s` seconds, and one second more for every
    `least_bytes_per_s` bytes that came. Time in which the service reads nothing does not count,
    nor does the wait for a client to go away after its body (as long polls do).
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
        held = None if self._load is None else self._load.body()
        headers = Headers(scope=scope)
        text = headers.get("content-length", "0")
        declared = int(text) if text.isdecimal() else 0
        error: DomainError | None = None
        if headers.get("content-encoding", IDENTITY).strip().lower() not in ("", IDENTITY):
            error = EncodedBody(extra={"supported": [IDENTITY]})
        elif declared > limit:
            error = _too_large(limit)
        elif declared and held is not None:
            error = held.expect(declared)
        if error is not None:
            await _refuse(error, scope, receive, send)
            return
        body = _Body(receive, limit, held, self._grace_s, self._rate)
        try:
            await self._watch(scope, body, send)
        finally:
            if held is not None:
                held.release()

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
        self, receive: Receive, limit: int, held: HeldBody | None, grace_s: float, rate: int
    ) -> None:
        self._receive, self._limit, self._held = receive, limit, held
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
