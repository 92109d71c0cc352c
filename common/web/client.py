"""How one service calls another: few connections, short timeouts, patient retries.

Retry only what may be repeated: GETs, PUTs, POSTs with an `Idempotency-Key` or with idempotent
items. Redirects are not followed, and proxies or passwords of the environment are not used.
"""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

import httpx

from common.web.transport import Transport
from tacit.pauses import backoff

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
