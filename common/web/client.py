"""How one service calls another: a client per service, few connections, short timeouts, retries.

The HTTP library (aiohttp) is used here alone: callers see `ServiceResponse` and `NoAnswer`. No
redirect is followed, no cookie is kept, and no proxy and no password of the environment or of an
address is used. Retry only what may be repeated: GETs, PUTs, POSTs with an `Idempotency-Key` or
with idempotent items.
"""

from __future__ import annotations

import asyncio
import json
import re
import select
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, Protocol
from weakref import WeakSet

import aiohttp
from yarl import URL

from tacit.backoff import backoff

PART_BYTES: Final = 1 << 16
"""A larger body is sent in parts of this size; each has the timeout."""
HEAD_BYTES: Final = 1 << 16
"""The longest line of a head of an answer."""
BODY_BYTES: Final = 512 * 1024 * 1024
"""The longest body of an answer: twice the longest request that a service reads by default."""
CONNECT_S: Final = 5.0
KEEPALIVE_S: Final = 4.0
"""How long a connection is kept unused: less than a service keeps its end of it."""
RETRIED: Final = frozenset({429, 503})
_NEXT: Final = re.compile(r'<(/[^>]*)>; rel="next"')
_NO_HEADERS: Final[Mapping[str, str]] = {}


class NoAnswer(Exception):
    """A request was not answered, or the answer is refused; the cause has the library's reason."""


class TimedOut(NoAnswer):
    """Nothing came, or nothing was read, for the timeout."""


class BadAddress(NoAnswer):
    """An address that is not http:// or https:// with a host."""


@dataclass(frozen=True, slots=True)
class ServiceRequest:
    """One request. `timeout_s`: until the answer begins, and until each further part of either."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    timeout_s: float


@dataclass(frozen=True, slots=True)
class ServiceResponse:
    """An answer with its whole body; names of `headers` in any case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body's JSON value. Raises ValueError."""
        return json.loads(self.body)

    def next_page(self, base_url: str) -> str | None:
        """The path of the next page of a list, after the address of the service."""
        link = _NEXT.search(self.headers.get("Link", ""))
        return None if link is None else link[1].removeprefix(URL(base_url).path.rstrip("/"))


class Transport(Protocol):
    """What carries requests: the network, or a stand-in."""

    async def send(self, request: ServiceRequest) -> ServiceResponse:
        """Send a request once. Raises NoAnswer."""

    async def aclose(self) -> None:
        """Close all connections."""


class TcpTransport:
    """The transport over TCP: at most `max_connections` at the same time, further requests wait.

    `verify`: trust of TLS, the system's if True. Create it while an event loop runs.
    """

    def __init__(self, verify: ssl.SSLContext | bool = True, max_connections: int = 4) -> None:
        self._free = asyncio.Semaphore(max_connections)
        self._session = aiohttp.ClientSession(
            connector=_Connector(ssl=verify, limit=0, keepalive_timeout=KEEPALIVE_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(sock_connect=CONNECT_S),
            skip_auto_headers=("Content-Type",),
            auto_decompress=False,
            max_line_size=HEAD_BYTES,
            max_field_size=HEAD_BYTES,
        )

    async def send(self, request: ServiceRequest) -> ServiceResponse:
        """Send a request once; a PUT or GET twice if a kept connection had ended. Raises
        NoAnswer."""
        try:
            async with asyncio.timeout(request.timeout_s if self._free.locked() else None):
                await self._free.acquire()
        except TimeoutError:
            raise TimedOut("all connections are in use") from None
        try:
            async with asyncio.timeout(request.timeout_s) as patience:
                return await self._exchange(request, patience)
        except TimeoutError as error:
            raise TimedOut("no answer in time") from error
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
            raise BadAddress("an address begins with http:// or https:// and a host") from error
        except aiohttp.ClientConnectorError as error:
            raise NoAnswer("no connection") from error
        except (aiohttp.ClientError, OSError) as error:
            raise NoAnswer("no whole answer") from error
        except ValueError as error:
            raise NoAnswer("the request cannot be written") from error
        finally:
            self._free.release()

    async def _exchange(
        self, request: ServiceRequest, patience: asyncio.Timeout
    ) -> ServiceResponse:
        """`patience` begins again with each part of a body that is sent or received: an answer
        whose body does not begin, or whose head is followed by others without end, is given up."""
        now, read_to_end = asyncio.get_running_loop().time, True

        async def parts() -> AsyncIterator[memoryview]:
            nonlocal read_to_end
            read_to_end = False
            for start in range(0, len(request.body), PART_BYTES):
                patience.reschedule(now() + request.timeout_s)
                yield memoryview(request.body)[start : start + PART_BYTES]
            patience.reschedule(now() + request.timeout_s)
            read_to_end = True

        headers: Mapping[str, str] = request.headers
        data: bytes | AsyncIterator[memoryview] | None = request.body or None
        if len(request.body) > PART_BYTES:
            headers = {**headers, "Content-Length": str(len(request.body))}
            data = parts()
        response = await self._session.request(
            request.method, request.url, data=data, headers=headers, allow_redirects=False
        )
        try:
            if response.status < 200:
                raise NoAnswer("another protocol is not used")
            if any(_is_packed(value) for value in response.headers.getall("Content-Encoding", ())):
                raise NoAnswer("it is packed")  # a few bytes may expand to gigabytes
            body = bytearray()
            while part := await response.content.readany():
                patience.reschedule(now() + request.timeout_s)
                body += part
                if len(body) > BODY_BYTES:
                    raise NoAnswer("its body is too long")
        except BaseException:
            response.close()
            raise
        if not read_to_end:  # it answered before it had read all: the connection has the rest
            response.close()
        return ServiceResponse(response.status, response.headers, bytes(body))

    async def aclose(self) -> None:
        """Close all connections."""
        await self._session.close()


def _is_packed(encoding: str) -> bool:
    return encoding.lower() != "identity"


class _Connector(aiohttp.TCPConnector):
    """Reuses a kept connection only if nothing has arrived on it since the last answer:
    unsolicited bytes would be taken for the next answer, and an end would lose the request."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._used: WeakSet[object] = WeakSet()

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Any],
        timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.connector.Connection:
        while True:
            connection = await super().connect(req, traces, timeout)
            protocol = connection.protocol
            assert protocol is not None
            assert protocol.transport is not None
            if protocol not in self._used:
                self._used.add(protocol)
                return connection
            waiting = select.poll()
            waiting.register(protocol.transport.get_extra_info("socket"), select.POLLIN)
            if not protocol.should_close and not waiting.poll(0):
                return connection
            connection.close()


class ServiceClient:
    """A client of one service, with its address and token; close it with `aclose` or
    `async with`."""

    def __init__(
        self, base_url: str, token: str | None, timeout_s: float, transport: Transport
    ) -> None:
        try:
            self._base = str(URL(base_url).with_user(None)).rstrip("/")
        except ValueError:
            self._base = base_url
        self._headers = {
            "User-Agent": "tacit",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
        }
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._timeout_s, self._transport = timeout_s, transport

    async def call(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] = _NO_HEADERS,
        *,
        wait_s: float = 0.0,
    ) -> ServiceResponse:
        """The answer to one request; `wait_s`: how much later than usual it may arrive. Raises
        NoAnswer."""
        return await self._transport.send(
            ServiceRequest(
                method,
                self._base + path,
                {**self._headers, **headers},
                body,
                self._timeout_s + wait_s,
            )
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._transport.aclose()

    async def __aenter__(self) -> ServiceClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def service_client(
    base_url: str,
    token: str | None = None,
    *,
    timeout_s: float = 10.0,
    verify: ssl.SSLContext | bool = True,
    max_connections: int = 4,
    transport: Transport | None = None,
) -> ServiceClient:
    """A client of one service, over the network unless a `transport` is given."""
    return ServiceClient(
        base_url, token, timeout_s, transport or TcpTransport(verify, max_connections)
    )


async def with_retries(
    call: Callable[[], Awaitable[ServiceResponse]],
    *,
    attempts: int = 5,
    deadline_s: float = 30.0,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> ServiceResponse:
    """Call until there is an answer other than 429 or 503, or attempts or time run out.

    `call` makes one request each time. The last answer is returned whatever it is (see
    `raise_for_problem`); if the last attempt got none, its `NoAnswer` is raised. A pause that
    would end after `deadline_s` is not begun.
    """
    if attempts < 1:
        raise ValueError("at least one attempt is needed")
    end = monotonic() + deadline_s
    for attempt in range(attempts):
        last = attempt == attempts - 1
        try:
            response = await call()
        except NoAnswer:
            pause = backoff(attempt)
            if last or monotonic() + pause > end:
                raise
        else:
            if response.status not in RETRIED or last:
                return response
            pause = max(backoff(attempt), retry_after(response))
            if monotonic() + pause > end:
                return response
        await sleep(pause)
    raise AssertionError("every attempt returns, raises or sleeps")


def retry_after(response: ServiceResponse) -> float:
    """The seconds to wait according to an answer; 0 when it names none."""
    value = response.headers.get("Retry-After", "").strip()
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
    """Why the other side's certificate was refused; None if the failure has another reason."""
    cause: BaseException | None = error
    while cause is not None:
        if not isinstance(cause, aiohttp.ClientError):  # it wraps one of those below
            if isinstance(cause, ssl.SSLCertVerificationError):
                return cause.verify_message or "the certificate is not good"
            if isinstance(cause, ssl.SSLError):
                return (cause.reason or "TLS failed").lower().replace("_", " ")
        cause = cause.__cause__ or cause.__context__
    return None
