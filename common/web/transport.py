"""How a request of a service travels: HTTP/1.1 on aiohttp's connections, behind httpx.

httpx stays what services see, with its own errors. Its own transport does the same with a parser
and streams in Python, which take twice the CPU time of a request between services.

No redirect is followed, no cookie is kept, and no proxy and no password of the environment or of an
address is used. A name is resolved for every connection, as its address may have changed.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import aiohttp
import httpx
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload
from yarl import URL

PART_BYTES: Final = 1 << 16
"""Of a body: what is handed to the connection at a time, and has the write timeout."""
_NOT_ADDED: Final = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
_ERRORS: Final[tuple[tuple[type[Exception], type[httpx.TransportError]], ...]] = (
    (aiohttp.ConnectionTimeoutError, httpx.ConnectTimeout),
    (aiohttp.ServerTimeoutError, httpx.ReadTimeout),
    (aiohttp.ClientConnectorError, httpx.ConnectError),  # nothing was sent: names and TLS, too
    (aiohttp.ServerDisconnectedError, httpx.RemoteProtocolError),
    (aiohttp.ClientConnectionResetError, httpx.WriteError),
    (aiohttp.ClientConnectionError, httpx.ReadError),
    (aiohttp.ClientPayloadError, httpx.RemoteProtocolError),
    (aiohttp.ClientResponseError, httpx.RemoteProtocolError),
    (aiohttp.NonHttpUrlClientError, httpx.UnsupportedProtocol),
    (aiohttp.InvalidURL, httpx.UnsupportedProtocol),
    (aiohttp.ClientError, httpx.NetworkError),
    (TimeoutError, httpx.WriteTimeout),  # of `_Body`: the others have classes of aiohttp
    (OSError, httpx.ReadError),
    (ValueError, httpx.LocalProtocolError),  # a header that holds the end of its line
)
"""What an error of aiohttp is in httpx: the first that fits."""


class Transport(httpx.AsyncBaseTransport):
    """Connections to any number of services, kept while they are used.

    `max_connections` at the same time, further requests wait; an unused one is closed after
    `keepalive_s`. `verify`: trust of TLS, as httpx takes it.
    """

    def __init__(
        self, verify: ssl.SSLContext | bool, max_connections: int, keepalive_s: float
    ) -> None:
        self._ssl = httpx.create_ssl_context(verify=verify, trust_env=False)
        self._limit, self._keepalive_s = max_connections, keepalive_s
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; its answer, with its body. Raises httpx.TransportError."""
        if self._session is None:  # not before a loop runs
            self._session = self._opened()
        times = request.extensions["timeout"]
        content = await request.aread()
        with _errors_of_httpx(request):
            answer = await self._session.request(
                request.method,
                URL(str(_without_password(request.url)), encoded=True),
                headers=request.headers.multi_items(),
                data=_Body(content, times["write"]) if content else None,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(
                    connect=times["pool"], sock_connect=times["connect"], sock_read=times["read"]
                ),
            )
            async with answer:
                body = await answer.read()
        return httpx.Response(
            answer.status,
            headers=answer.raw_headers,
            content=body,
            request=request,
            extensions={
                "http_version": b"HTTP/1.1",
                "reason_phrase": (answer.reason or "").encode("ascii", "ignore"),
            },
        )

    def _opened(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                ssl=self._ssl,
                limit=self._limit,
                keepalive_timeout=self._keepalive_s,
                use_dns_cache=False,
                resolver=aiohttp.ThreadedResolver(),
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,  # httpx does
            skip_auto_headers=_NOT_ADDED,
            trust_env=False,
        )

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()


class _Body(Payload):
    """Bytes that are sent part by part, each within a time: aiohttp itself waits without end for a
    service that reads nothing."""

    def __init__(self, content: bytes, timeout_s: float | None) -> None:
        super().__init__(content)
        self._size, self._timeout_s = len(content), timeout_s

    async def write(self, writer: AbstractStreamWriter) -> None:
        if len(self._value) <= PART_BYTES:  # the connection's buffer takes it
            await writer.write(self._value)
            return
        view = memoryview(self._value)
        for start in range(0, len(view), PART_BYTES):
            async with asyncio.timeout(self._timeout_s):
                await writer.write(view[start : start + PART_BYTES])

    async def write_with_length(
        self,
        writer: AbstractStreamWriter,
        content_length: int | None,  # noqa: ARG002 (httpx has counted it)
    ) -> None:
        await self.write(writer)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return str(self._value, encoding, errors)


@contextmanager
def _errors_of_httpx(request: httpx.Request) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        for kind, shown in _ERRORS:
            if isinstance(error, kind):
                said = str(error) or type(error).__name__
                raise shown(said, request=request) from _underlying(error)
        raise


def _underlying(error: Exception) -> Exception:
    """Of a connection that was not made: the operating system's or the TLS library's error, whose
    fields say why. aiohttp's are of the same classes, and lack them."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return error.certificate_error
    return error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error


def _without_password(url: httpx.URL) -> httpx.URL:
    return url.copy_with(userinfo=b"") if url.userinfo else url
