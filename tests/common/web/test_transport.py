"""What becomes of a request whose other side refuses, is slow, lies, or goes away."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest
from aiohttp import ClientResponse

from cli.services.deployment import free_ports
from common.runtime.tls import trust
from common.web import client as transport
from common.web.client import PART_BYTES, BadAddress, NoAnswer, TimedOut, distrusted, service_client

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def served(serve: Serve, *, buffer_bytes: int | None = None) -> AsyncIterator[str]:
    """The address of a server that does this with every connection."""

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client is gone, or the test is over
        finally:
            writer.close()

    listening = socket.create_server(("127.0.0.1", 0))
    if buffer_bytes is not None:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    server = await asyncio.start_server(one, sock=listening, limit=1 << 24)
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.close()


async def request_of(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """The head and the body of a request."""
    head = await reader.readuntil(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
    return head, await reader.readexactly(int(fields.get(b"content-length", b"0")))


async def answer(
    content: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Answer one request with these bytes, and hang up."""
    await request_of(reader)
    writer.write(content)
    await writer.drain()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 3,
    ],
)
async def test_an_answer_that_is_none(content: bytes) -> None:
    async with served(partial(answer, content)) as url, service_client(url) as client:
        with pytest.raises(NoAnswer):
            await client.call("POST", "/v1/x", b"{}")


@pytest.mark.parametrize(
    ("content", "status", "text"),
    [
        (b"HTTP/1.1 100 Continue\r\nX: 1\r\n\r\n" + OK, 200, "ok"),
        (b"HTTP/1.1 103 Early Hints\r\nX: 1\r\n\r\n" * 3 + OK, 200, "ok"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, ""),
        (b"HTTP/1.0 200 OK\r\n\r\nto the end", 200, "to the end"),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", 200, ""),
        (
            b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"2\r\nok\r\n3;a=b\r\nyes\r\n0\r\nX: " + b"1" * 1000 + b"\r\n\r\n",
            404,
            "okyes",
        ),
        (OK + b"HTTP/1.1 200 OK\r\nX: 1\r\nContent-Length: 5\r\n\r\nnever", 200, "ok"),
    ],
)
async def test_answers_of_every_form(content: bytes, status: int, text: str) -> None:
    """Whole, and as single bytes. What comes before or after an answer is not part of it."""

    async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        for place in range(len(content)):
            writer.write(content[place : place + 1])
            await writer.drain()

    for serve in (partial(answer, content), slowly):
        async with served(serve) as url, service_client(url) as client:
            for _ in range(2):
                found = await client.call("POST", "/", b"{}")
                assert (found.status, found.body.decode()) == (status, text)
                assert "X" not in found.headers


async def test_a_second_answer_answers_nothing() -> None:
    """What a service sends unasked is never taken for the answer to the next request."""
    connections = 0

    async def twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while True:
            await request_of(reader)
            writer.write(OK)
            await writer.drain()
            writer.write(OK.replace(b"ok", b"no"))

    async with served(twice) as url, service_client(url) as client:
        for _ in range(3):
            assert (await client.call("GET", "/")).body == b"ok"
            time.sleep(0.05)  # it is there when the next request is made, and nobody has read it
    assert connections == 3


async def test_who_answers_before_all_is_sent() -> None:
    """A refusal reaches who sends too much, and the connection with the rest is not used again."""
    connections = 0

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK.replace(b"200 OK", b"413 Too Large"))
        await writer.drain()
        await reader.read()

    async with served(refuse, buffer_bytes=4096) as url, service_client(url) as client:
        for _ in range(2):
            async with asyncio.timeout(60):
                assert (await client.call("PUT", "/", bytes(1 << 25))).status == 413
    assert connections == 2


async def test_no_connection() -> None:
    (port,) = free_ports(1)
    for url in (
        f"http://127.0.0.1:{port}",
        "http://127.0.0.1:0",
        "http://127.0.0.1:70000",
        "http://there-is-none.invalid",
        "http://a..invalid",
        f"http://{'a' * 70}.invalid",
    ):
        async with service_client(url) as client:
            with pytest.raises(NoAnswer):
                await client.call("GET", "/")
    async with service_client("ftp://127.0.0.1") as client:
        with pytest.raises(BadAddress):
            await client.call("GET", "/")


async def test_tls_with_what_speaks_none() -> None:
    async def plain(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        await writer.drain()

    async with served(plain) as url:
        async with service_client(url.replace("http", "https"), verify=trust()) as client:
            with pytest.raises(NoAnswer) as caught:
                await client.call("GET", "/")
        assert distrusted(caught.value)


async def test_who_answers_nothing_is_given_up() -> None:
    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await request_of(reader)
        await reader.read()

    async def halting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answer(OK[:-1], reader, writer)
        await reader.read()

    for serve in (silent, halting):
        async with served(serve) as url, service_client(url, timeout_s=0.2) as client:
            with pytest.raises(TimedOut):
                await client.call("POST", "/", b"{}")


async def test_who_reads_nothing_is_given_up() -> None:
    ended = asyncio.Event()

    async def deaf(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        await ended.wait()

    async with served(deaf, buffer_bytes=4096) as url:
        async with service_client(url, timeout_s=0.3) as client:
            with pytest.raises(TimedOut):
                async with asyncio.timeout(60):
                    await client.call("PUT", "/", bytes(1 << 26))
        ended.set()


async def test_connections_are_kept_and_limited() -> None:
    """A connection serves one request after another; a request that finds none waits its time."""
    connections, free = 0, asyncio.Event()
    free.set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while True:
            await request_of(reader)
            await free.wait()
            writer.write(OK)

    async with served(serve) as url, service_client(url, timeout_s=0.5, max_connections=2) as c:
        for _ in range(3):
            assert (await c.call("GET", "/")).body == b"ok"
        assert connections == 1
        assert [
            one.body for one in await asyncio.gather(*(c.call("GET", "/") for _ in range(6)))
        ] == [b"ok"] * 6
        assert connections == 2
        free.clear()
        found = await asyncio.gather(
            *(c.call("POST", "/", b"{}") for _ in range(3)), return_exceptions=True
        )
        assert {type(error) for error in found} <= {TimedOut}
        free.set()
        assert (await c.call("GET", "/")).body == b"ok"


async def test_a_kept_connection_that_is_gone() -> None:
    """A POST is not repeated by the transport: its caller knows whether it may be."""
    posts = 0

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal posts
        await request_of(reader)
        writer.write(OK)
        await request_of(reader)
        posts += 1  # and hangs up without an answer

    async with served(once) as url, service_client(url) as client:
        assert (await client.call("GET", "/")).body == b"ok"
        with pytest.raises(NoAnswer):
            await client.call("POST", "/", b"{}")
        assert posts == 1
        assert (await client.call("GET", "/")).body == b"ok"


async def test_nothing_is_added_followed_or_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await request_of(reader)
            heads.append(head)
            writer.write(
                b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n"
                b"Set-Cookie: a=b\r\nContent-Length: 0\r\n\r\n"
            )

    async with served(serve) as url:
        for address in (url, url.replace("//", "//name:password@")):
            async with service_client(f"{address}/a%2Fb", "tct_x") as client:
                for _ in range(2):
                    found = await client.call("POST", "/c d?e=%20%7E", headers={"X-One": "1"})
                    assert found.status == 302
    host = url.removeprefix("http://").encode()
    assert len(heads) == 4
    for head in heads:
        line, *fields = head.rstrip().split(b"\r\n")
        assert line == b"POST /a%2Fb/c%20d?e=%20~ HTTP/1.1"
        assert sorted(field.lower() for field in fields if b"encoding" not in field.lower()) == [
            b"accept: application/json",
            b"authorization: bearer tct_x",
            b"content-length: 0",
            b"host: " + host,
            b"user-agent: tacit",
            b"x-one: 1",
        ]


async def test_a_line_end_in_a_header_is_not_sent() -> None:
    sent: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        sent.append(await reader.read(10))

    async with served(serve) as url, service_client(url, "tct_x\r\nX-More: 1") as client:
        with pytest.raises(NoAnswer):
            await client.call("GET", "/")
    assert not any(sent)


async def test_a_packed_answer_is_refused_unread() -> None:
    """A few bytes of it could fill the memory."""
    heads: list[bytes] = []
    body = zlib.compress(bytes(1 << 26), wbits=31)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n"

    async def serve(
        encoding: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        heads.append((await request_of(reader))[0])
        writer.write(head % (encoding, len(body)) + body)
        await writer.drain()

    for encoding in (b"gzip", b"GZIP", b"br", b"identity, gzip"):
        async with served(partial(serve, encoding)) as url, service_client(url) as client:
            with pytest.raises(NoAnswer):
                await client.call("GET", "/")
    assert all(b"accept-encoding: identity\r\n" in head.lower() for head in heads)


async def test_an_answer_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "BODY_BYTES", 1 << 22)

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"10000\r\n" + bytes(1 << 16) + b"\r\n")
            await writer.drain()

    async with served(endless) as url, service_client(url) as client:
        async with asyncio.timeout(60):
            with pytest.raises(NoAnswer):
                await client.call("GET", "/")


BODY = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"
FILLER = b"x" * (1 << 16)


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (b"HTTP/1.1 200 OK\r\nX: ", FILLER),
        (b"HTTP/1.1 200 OK\r\n", FILLER),
        (b"HTTP/1.1 200 ", FILLER),
        (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 10_000),
        (BODY + b"0\r\nX: ", FILLER),
        (BODY + b"0\r\n", FILLER),
        (BODY + b"0\r\n", b"X: y\r\n" * 10_000),
        (BODY + b"2;", FILLER),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 2_000),
        (b"", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" * 2_000),
        (b"HTTP/1.1 103 Early Hints\r\nLink: ", FILLER),
    ],
    ids=[
        *("header", "name", "reason", "headers", "trailer", "trailer-name", "trailers"),
        *("extension", "continue", "hints", "header-of-hints"),
    ],
)
async def test_what_comes_before_or_after_a_body_without_end_is_given_up(
    begin: bytes, more: bytes
) -> None:
    """Its lines by their length, anything else by the timeout, as none of it is a body's part."""
    sent = 0

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await request_of(reader)
        writer.write(begin)
        while True:
            writer.write(more)
            await writer.drain()
            sent += len(more)

    async with served(endless) as url, service_client(url, timeout_s=1) as client:
        with pytest.raises(NoAnswer) as caught:
            await client.call("GET", "/")
    assert sent < 1 << 24 or isinstance(caught.value, TimedOut)


async def test_what_was_sent_and_received_is_freed() -> None:
    content = bytes(3 * PART_BYTES)
    before = sys.getrefcount(content)
    gc.collect()
    gc.disable()
    try:
        async with served(partial(answer, OK)) as url, service_client(url) as client:
            found = await client.call("POST", "/", content)
            assert found.body == b"ok"
            assert sys.getrefcount(content) == before
            assert not [each for each in gc.get_objects() if isinstance(each, ClientResponse)]
    finally:
        gc.enable()


async def test_a_request_that_is_cancelled_leaves_no_connection() -> None:
    asked, gone = asyncio.Event(), asyncio.Event()

    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await request_of(reader)
        asked.set()
        assert await reader.read() == b""
        gone.set()

    async with served(silent) as url, service_client(url) as client, asyncio.timeout(60):
        asking = asyncio.create_task(client.call("GET", "/"))
        await asked.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await gone.wait()
