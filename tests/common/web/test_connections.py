"""Connections that say little or nothing, over real sockets."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.common.web.serving import Serving, rest, serving, upload


async def test_half_a_header_is_answered_408(tmp_path: Path) -> None:
    async with serving(tmp_path, header_timeout_s=0.6) as it:
        answer = await it.ask(b"GET /small HTTP/1.1\r\nhost: it\r\n")
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 408 ")
        assert b"application/problem+json" in head
        assert b"header_too_slow" in body


async def test_the_time_of_a_header_counts_from_the_last_answer_and_no_other(
    tmp_path: Path,
) -> None:
    """A request in progress is left alone, however long it takes."""
    async with serving(tmp_path, header_timeout_s=3600) as it:
        under_way = asyncio.create_task(it.get("/held"))
        reader, writer = await it.connect()
        whole = b"GET /small HTTP/1.1\r\nhost: it\r\n\r\n"
        writer.write(whole)
        assert (await reader.readuntil(b"small")).startswith(b"HTTP/1.1 200 ")
        writer.write(whole[:-2])
        async with asyncio.timeout(60):
            while (
                not any(one._unparsed for one in it.register.waiting)
                or len(it.register.open) - len(it.register.waiting) != 1
            ):
                await asyncio.sleep(0.01)
        [since] = it.register.waiting.values()
        it.register.look(since + 3599)
        assert len(it.register.open) == 2
        it.register.look(since + 3601)
        assert (await rest(reader)).startswith(b"HTTP/1.1 408 ")
        writer.close()
        it.register.look(since + 10**6)
        it.gate.set()
        assert (await under_way).endswith(b"\r\n\r\n0")


@pytest.mark.parametrize(
    "endless",
    [
        pytest.param(b"GET /small HTTP/1.1\r\nhost: it\r\nx: ", id="header"),
        pytest.param(b"GET /", id="path"),
        pytest.param(
            b"POST /length HTTP/1.1\r\nhost: it\r\ntransfer-encoding: chunked\r\n\r\n"
            b"1\r\na\r\n0\r\nx: ",
            id="trailer",
        ),
        pytest.param(
            b"POST /length HTTP/1.1\r\nhost: it\r\ntransfer-encoding: chunked\r\n\r\n1;x=",
            id="chunk-extension",
        ),
    ],
)
async def test_what_goes_on_and_on_is_cut_off(tmp_path: Path, endless: bytes) -> None:
    async with serving(tmp_path, max_header_bytes=4096) as it:
        _, writer = await it.connect()
        writer.write(endless)
        sent = await pour(writer, 64 * 1024 * 1024)
        assert sent < 16 * 1024 * 1024  # what the system's buffers take, and no more
        writer.close()
        assert b"small" in await it.get()


async def pour(writer: asyncio.StreamWriter, most: int) -> int:
    """Send until the service ends the connection; how much went."""
    sent = 0
    async with asyncio.timeout(120):
        while sent < most:
            writer.write(b"a" * 4096)
            try:
                await writer.drain()
            except ConnectionError:
                break
            sent += 4096
            await asyncio.sleep(0)
    return sent


async def test_a_header_that_is_too_large_is_answered_431(tmp_path: Path) -> None:
    async with serving(tmp_path, max_header_bytes=4096) as it:
        answer = await it.ask(b"GET /small HTTP/1.1\r\nx: " + b"a" * 5000)
        assert answer.startswith(b"HTTP/1.1 431 ")
        # A large body is no header.
        size = 1_000_000
        request = upload(size, more="connection: close\r\n") + b"a" * size
        assert (await it.ask(request)).endswith(b"1000000")


@pytest.mark.slow
async def test_an_answer_that_nobody_reads_is_dropped(tmp_path: Path) -> None:
    async with serving(tmp_path, transfer_grace_s=2.5, transfer_least_bytes_per_s=1_000_000) as it:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(client, ("127.0.0.1", it.port))
            await loop.sock_sendall(client, b"GET /large HTTP/1.1\r\nhost: it\r\n\r\n")
            async with asyncio.timeout(60):
                while not it.register.unread:
                    await asyncio.sleep(0.01)
                while it.register.open:
                    await asyncio.sleep(0.05)
        assert len(await it.get("/large")) > 32 * 1024 * 1024


@asynccontextmanager
async def crowd(it: Serving, count: int, said: bytes) -> AsyncIterator[list[socket.socket]]:
    """So many connections on which so much was sent."""
    loop = asyncio.get_running_loop()
    made: list[socket.socket] = []
    try:
        for _ in range(count):
            client = socket.socket()
            made.append(client)
            client.setblocking(False)
            await loop.sock_connect(client, ("127.0.0.1", it.port))
            if said:
                await loop.sock_sendall(client, said)
        yield made
    finally:
        for client in made:
            client.close()


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nx"], ids=["silent", "half-a-header"])
async def test_a_crowd_that_asks_nothing_displaces_itself(tmp_path: Path, said: bytes) -> None:
    async with serving(tmp_path, max_connections=100) as it, crowd(it, 300, said):
        assert (await it.get()).endswith(b"small")
        assert len(it.register.open) <= 101
        metrics = (await it.get("/metrics")).decode()
        assert 'tacit_probe_connections_closed_total{reason="displaced"} 20' in metrics


async def test_without_anyone_to_displace_a_connection_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path, max_connections=2) as it:
        tasks = [asyncio.create_task(it.get("/held")) for _ in range(2)]
        async with asyncio.timeout(60):
            while len(it.register.open) < 2 or it.register.waiting:
                await asyncio.sleep(0.01)
        answer = await it.ask(b"")
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1" in answer
        it.gate.set()
        assert all(answer.endswith(b"0") for answer in await asyncio.gather(*tasks))
        assert (await it.get()).endswith(b"small")


async def test_pipelined_requests_are_all_answered(tmp_path: Path) -> None:
    async with serving(tmp_path, header_timeout_s=1) as it:
        one = b"GET /small HTTP/1.1\r\nhost: it\r\n\r\n"
        last = b"GET /small HTTP/1.1\r\nhost: it\r\nconnection: close\r\n\r\n"
        assert (await it.ask(one * 20 + last)).count(b"small") == 21
