"""How one service calls another: few connections, short timeouts, patient retries; and the
transport beneath.

How a request of a service travels: HTTP/1.1 on the event loop's connections, behind httpx.

httpx stays what services see, with its errors. Its own transport does the same with a parser and
five layers of streams in Python, two fifths of the CPU time of who asks others in a small round;
here llhttp parses (httptools, as in the server). A request is made once: its caller knows whether
it may be repeated. No redirect is followed, no cookie is kept, and no proxy and no password of the
environment or of an address is used.
"""

from __future__ import annotations

import asyncio
import re
import select
import ssl
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, TypeAlias, cast

import httptools
import httpx

from tacit.backoff import backoff

PART_BYTES: Final = 1 << 16
"""Of a large body: what is handed to the connection at a time, and has the write timeout."""
HEAD_BYTES: Final = 1 << 16
"""The longest head of an answer, and the longest trailer or extension of a chunk: the parser keeps
what is incomplete, so they are counted as they arrive, to within one read of the connection."""
MOST_INTERIM: Final = 16
"""Answers below 200 before the one to a request."""
BODY_BYTES: Final = 512 * 1024 * 1024
"""The longest body of one: twice the longest request that a service reads by default."""
_PORTS: Final = {"http": 80, "https": 443}
_NOT_IN_A_LINE: Final = re.compile(rb"[\0\r\n]")
_LENGTHS: Final = frozenset({b"content-length", b"transfer-encoding"})
_WITHOUT_BODY: Final = frozenset({"HEAD", "CONNECT"})
"""Their answers say lengths of what does not follow."""
_Origin: TypeAlias = tuple[str, str, int]
_Answer: TypeAlias = tuple[int, bytes, list[tuple[bytes, bytes]], bytes]
"""Status, reason, headers, body."""


class Transport(httpx.AsyncBaseTransport):
    """Connections to any number of services, kept while they are used.

    `max_connections` at the same time, further requests wait; one that was not used for
    `keepalive_s` is not used again. `verify`: trust of TLS, as httpx takes it.
    """

    def __init__(
        self, verify: ssl.SSLContext | bool, max_connections: int, keepalive_s: float
    ) -> None:
        self._verify, self._keepalive_s = verify, keepalive_s
        self._free, self._closed = asyncio.Semaphore(max_connections), False
        self._kept: dict[_Origin, list[_Connection]] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; its answer, with its body. Raises httpx.TransportError."""
        content = await request.aread()
        origin, head = _origin(request.url), _head(request, content)
        times = request.extensions["timeout"]
        await self._turn(times["pool"])
        try:
            connection = await self._connected(origin, times["connect"])
            try:
                status, reason, headers, body = await connection.asked(
                    head, content, times["write"], times["read"]
                )
            finally:
                self._keep(origin, connection)
        finally:
            self._free.release()
        return httpx.Response(
            status,
            headers=headers,
            content=body,
            request=request,
            extensions={"http_version": b"HTTP/1.1", "reason_phrase": reason},
        )

    async def _turn(self, timeout_s: float | None) -> None:
        """Wait until a connection is free."""
        try:
            async with asyncio.timeout(timeout_s if self._free.locked() else None):
                await self._free.acquire()
        except TimeoutError:
            raise httpx.PoolTimeout("all connections are in use") from None

    async def _connected(self, origin: _Origin, timeout_s: float | None) -> _Connection:
        """A kept connection, or a new one."""
        loop = asyncio.get_running_loop()
        kept = self._kept.get(origin, [])
        while kept:
            connection = kept.pop()
            if loop.time() < connection.used_at + self._keepalive_s and connection.is_quiet():
                return connection
            connection.end()
        scheme, host, port = origin
        try:
            async with asyncio.timeout(timeout_s):
                _, made = await loop.create_connection(
                    _Connection, host, port, ssl=self._trust() if scheme == "https" else None
                )
        except TimeoutError:
            raise httpx.ConnectTimeout("no connection in time") from None
        except (OSError, OverflowError, UnicodeError) as error:  # names, ports and TLS, too
            raise httpx.ConnectError(str(error)) from error
        return made

    def _keep(self, origin: _Origin, connection: _Connection) -> None:
        if connection.usable and not self._closed:
            self._kept.setdefault(origin, []).append(connection)
        else:
            connection.end()

    def _trust(self) -> ssl.SSLContext:
        """Made when it is first needed: it reads many certificates."""
        if not isinstance(self._verify, ssl.SSLContext):
            self._verify = httpx.create_ssl_context(verify=self._verify, trust_env=False)
        return self._verify

    async def aclose(self) -> None:
        """Close the connections that nobody uses; the others after their answer."""
        self._closed = True
        for connection in (each for kept in self._kept.values() for each in kept):
            connection.end()
        self._kept.clear()


class _Connection(asyncio.Protocol):
    """A connection, and the answer that comes on it. The parser calls what begins with `on_`."""

    _transport: asyncio.Transport

    def __init__(self) -> None:
        self.usable, self.used_at = True, 0.0
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._answer: asyncio.Future[_Answer] | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._room: asyncio.Future[None] | None = None
        """There while the other side reads slower than we write."""
        self._unparsed = self._interim = 0
        """Bytes since the parser last completed a head, a piece of a body or an answer; answers
        below 200 to the present request."""
        self._begin()

    def _begin(self) -> None:
        """Nothing of an answer has come."""
        self._reason, self._headers, self._head_bytes = b"", list[tuple[bytes, bytes]](), 0
        self._body = bytearray()
        self._head_ended = self._body_ends_with_the_connection = False

    async def asked(
        self, head: bytes, content: bytes, write_s: float | None, read_s: float | None
    ) -> _Answer:
        """The answer to a request; `write_s` and `read_s`: for each part of the two."""
        answer: asyncio.Future[_Answer] = self._loop.create_future()
        self._answer, self._interim = answer, 0
        try:
            await self._write(head, content, write_s)
            self.used_at = self._loop.time()
            if read_s is not None and not answer.done():
                self._watch = self._loop.call_later(read_s, self._look, read_s)
            return await answer
        except BaseException:
            self.end()
            raise
        finally:
            self._answer = None
            if self._watch is not None:
                self._watch.cancel()
                self._watch = None

    async def _write(self, head: bytes, content: bytes, timeout_s: float | None) -> None:
        """Send a request; not its rest, if an answer or the end of the connection comes first."""
        if len(content) <= PART_BYTES:
            self._transport.write(head + content)
            return
        self._transport.write(head)
        for start in range(0, len(content), PART_BYTES):
            if self._answered():
                self.usable = False
                return
            self._transport.write(memoryview(content)[start : start + PART_BYTES])
            if self._room is not None:
                try:
                    async with asyncio.timeout(timeout_s):
                        await self._room
                except TimeoutError:
                    raise httpx.WriteTimeout("the request was not read in time") from None

    def _look(self, read_s: float) -> None:
        """End the wait for an answer of which nothing has come for so long."""
        left = self.used_at + read_s - self._loop.time()
        if left > 0:
            self._watch = self._loop.call_later(left, self._look, read_s)
        else:
            self._fail(httpx.ReadTimeout("no answer in time"))

    def is_quiet(self) -> bool:
        """Whether nothing came since the last answer: no end, and nothing that nobody asked for and
        that would be taken for the next answer."""
        if not self.usable:
            return False
        waiting = select.poll()
        waiting.register(self._transport.get_extra_info("socket"), select.POLLIN)
        return not waiting.poll(0)

    def _answered(self) -> bool:
        return self._answer is None or self._answer.done()

    def _fail(self, error: httpx.TransportError) -> None:
        self.end()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)

    def end(self) -> None:
        """Close the connection; what is not sent yet is not sent."""
        self.usable = False
        self._transport.abort()

    # --- the event loop ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.used_at = self._loop.time()
        if self._answered():
            self.end()  # nobody asked
            return
        self._unparsed += len(data)
        try:
            self._parser.feed_data(data)
            if self._unparsed > HEAD_BYTES:
                self._fail(httpx.RemoteProtocolError("its head or trailer is too long"))
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(httpx.RemoteProtocolError(f"this is no answer: {error}"))

    def eof_received(self) -> None:
        self.usable = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.usable = False
        self.resume_writing()
        if self._body_ends_with_the_connection and exc is None:
            self.on_message_complete()
        elif exc is not None:
            self._fail(httpx.ReadError(str(exc)))
        else:
            self._fail(httpx.RemoteProtocolError("the connection ended before the answer"))

    def pause_writing(self) -> None:
        self._room = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        self._room = None

    # --- the parser -------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._answered():
            self.usable = False  # a second answer to one request

    def on_status(self, status: bytes) -> None:
        self._count(status)
        self._reason += status

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(name + value)
        if not self._head_ended:  # what follows a body in chunks is of no use here
            self._headers.append((name, value))

    def _count(self, part: bytes) -> None:
        self._head_bytes += len(part)
        if self._head_bytes > HEAD_BYTES:
            raise ValueError("its head is too long")

    def on_headers_complete(self) -> None:
        self._head_ended, self._unparsed = True, 0
        for name, value in self._headers:
            if name.lower() == b"content-encoding" and value.lower() != b"identity":
                raise ValueError("it is packed")  # a few bytes may expand to gigabytes
        if not self._parser.should_keep_alive():
            self.usable = False
            named = {name.lower() for name, _ in self._headers}
            self._body_ends_with_the_connection = named.isdisjoint(_LENGTHS)

    def on_body(self, body: bytes) -> None:
        self._unparsed = 0
        self._body += body  # one piece: a list of very small chunks would take twenty times as much
        if len(self._body) > BODY_BYTES:
            raise ValueError("its body is too long")

    def on_message_complete(self) -> None:
        self._unparsed = 0
        status = self._parser.get_status_code()
        self._interim += status < 200
        if self._interim > MOST_INTERIM:
            raise ValueError("its answer never comes")
        if status >= 200 and self._answer is not None and not self._answer.done():
            self._answer.set_result((status, self._reason, self._headers, bytes(self._body)))
        self._begin()  # below 200 the answer follows


def _origin(url: httpx.URL) -> _Origin:
    if url.scheme not in _PORTS or not url.raw_host:
        raise httpx.UnsupportedProtocol("an address begins with http:// or https:// and a host")
    port = _PORTS[url.scheme] if url.port is None else url.port
    return url.scheme, url.raw_host.decode("ascii"), port


def _head(request: httpx.Request, content: bytes) -> bytes:
    """A request's head. Raises httpx.LocalProtocolError for what would end a line early."""
    if "Transfer-Encoding" in request.headers:  # the body is known by now
        del request.headers["Transfer-Encoding"]
        request.headers["Content-Length"] = str(len(content))
    if request.method in _WITHOUT_BODY:
        raise httpx.UnsupportedProtocol(f"{request.method} is not used between services")
    lines = [
        b"%s %s HTTP/1.1" % (request.method.encode("ascii"), request.url.raw_path),
        *(b"%s: %s" % header for header in request.headers.raw),
    ]
    if any(map(_NOT_IN_A_LINE.search, lines)):
        raise httpx.LocalProtocolError("a header holds the end of its line")
    return b"\r\n".join((*lines, b"", b""))


# How one service calls another: few connections, short timeouts, patient retries.
#
# Retry only what may be repeated: GETs, PUTs, POSTs with an `Idempotency-Key` or with idempotent
# items. Redirects are not followed, and proxies or passwords of the environment are not used.

KEEPALIVE_S: Final = 4.0
"""How long a connection is kept unused: less than a service keeps its end of it."""
RETRIED: Final = frozenset({429, 503})


def service_client(
    base_url: str,
    token: str | None = None,
    *,
    timeout_s: float = 10.0,
    verify: bool | ssl.SSLContext = True,
    max_connections: int = 4,
    transport: httpx.AsyncBaseTransport | None = None,
) -> httpx.AsyncClient:
    """A client of one service; close it with `aclose` or `async with`."""
    headers = {
        "User-Agent": "tacit",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
    }
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    return _Client(
        transport or Transport(verify, max_connections, KEEPALIVE_S),
        base_url=base_url,
        headers=headers,
        timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, 5.0)),
        follow_redirects=False,
        trust_env=False,
    )


class _Client(httpx.AsyncClient):
    """A client without redirects, cookies and passwords, which no service uses and which cost a
    third of a request; its responses are freed as soon as they are no longer referenced.

    A response and its stream refer to each other, and the response to its request: a body of
    megabytes would stay until the garbage collector runs.
    """

    def __init__(self, wire: httpx.AsyncBaseTransport, **options: Any) -> None:
        super().__init__(transport=wire, **options)
        self._wire = wire

    async def send(
        self, request: httpx.Request, *, stream: bool = False, **_: Any
    ) -> httpx.Response:
        if self.is_closed:
            raise RuntimeError("the client is closed")
        response = await self._wire.handle_async_request(request)
        response.request = request
        if not stream:
            try:
                content = await response.aread()
            except BaseException:
                await response.aclose()
                raise
            response.stream = httpx.ByteStream(content)
        return response


async def with_retries(
    call: Callable[[], Awaitable[httpx.Response]],
    *,
    attempts: int = 5,
    deadline_s: float = 30.0,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> httpx.Response:
    """Call until there is an answer other than 429 or 503, or attempts or time run out.

    `call` makes one request each time. The last answer is returned whatever it is (see
    `raise_for_problem`); if the last attempt got none, its `httpx.TransportError` is raised.
    No pause is begun that would end after `deadline_s`.
    """
    if attempts < 1:
        raise ValueError("at least one attempt is needed")
    end = monotonic() + deadline_s
    for attempt in range(attempts):
        last = attempt == attempts - 1
        try:
            response = await call()
        except httpx.TransportError:
            pause = backoff(attempt)
            if last or monotonic() + pause > end:
                raise
        else:
            if response.status_code not in RETRIED or last:
                return response
            pause = max(backoff(attempt), retry_after(response))
            if monotonic() + pause > end:
                return response
        await sleep(pause)
    raise AssertionError("every attempt returns, raises or sleeps")


def retry_after(response: httpx.Response) -> float:
    """The seconds to wait according to an answer; 0 when it names none."""
    value = response.headers.get("retry-after", "").strip()
    if value.isdecimal():
        return float(value)
    try:
        until = parsedate_to_datetime(value)
    except ValueError:
        return 0.0
    if until.tzinfo is None:
        return 0.0
    return max(0.0, (until - datetime.now(UTC)).total_seconds())


def distrusted(error: BaseException) -> str | None:
    """Why the other side's certificate was refused; None when that is not what went wrong."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ssl.SSLCertVerificationError):
            return seen.verify_message or "the certificate is not good"
        if isinstance(seen, ssl.SSLError):
            return (seen.reason or "TLS failed").lower().replace("_", " ")
        seen = seen.__cause__ or seen.__context__
    return None
