"""More at once than a process takes."""

import asyncio
from pathlib import Path

import pytest

from common.runtime.telemetry import ServiceMetrics
from common.web.limits import STREAM_BYTES, Load, waits
from tests.common.web.serving import Serving, rest, serving, upload


async def held(it: Serving, count: int) -> list["asyncio.Task[bytes]"]:
    """Requests that are under way."""
    tasks = [asyncio.create_task(it.get("/held")) for _ in range(count)]
    async with asyncio.timeout(60):
        while f"requests_in_flight {count}.0" not in (await it.get("/metrics")).decode():
            await asyncio.sleep(0.02)
    return tasks


async def test_one_request_too_many_is_refused_and_what_costs_little_is_not(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, max_requests=2) as it:
        tasks = await held(it, 2)
        refused = (await it.get()).lower()
        assert refused.startswith(b"http/1.1 503 ")
        assert b"retry-after: 1\r\n" in refused
        assert b'ratelimit: "overloaded";r=0;t=1\r\n' in refused
        assert b'ratelimit-policy: "overloaded";q=2;qu="concurrent-requests"\r\n' in refused
        assert b'"retryable":true' in refused
        for path in ("/healthz", "/readyz", "/metrics"):
            assert (await it.get(path)).startswith(b"HTTP/1.1 200 ")
        poll = asyncio.create_task(it.get("/held?wait_s=30"))
        metrics = (await it.get("/metrics")).decode()
        assert 'tacit_probe_requests_refused_total{reason="requests"} 1.0' in metrics
        it.gate.set()
        for answer in await asyncio.gather(poll, *tasks):
            assert answer.startswith(b"HTTP/1.1 200 ")
        assert (await it.get()).endswith(b"small")


async def test_bodies_find_room_or_are_refused_before_they_are_read(tmp_path: Path) -> None:
    async with serving(tmp_path, max_held_bytes=1000) as it:
        first = asyncio.create_task(
            it.ask(upload(900, "/held", "connection: close\r\n") + b"a" * 900)
        )
        async with asyncio.timeout(60):
            while b"held_bytes 900.0" not in await it.get("/metrics"):
                await asyncio.sleep(0.02)
        declared = await it.ask(upload(200))
        assert declared.startswith(b"HTTP/1.1 503 ")
        assert b'qu="content-bytes"' in declared
        chunked = b"POST /length HTTP/1.1\r\nhost: it\r\ntransfer-encoding: chunked\r\n\r\n"
        assert (await it.ask(chunked + b"c8\r\n" + b"a" * 200)).startswith(b"HTTP/1.1 503 ")
        assert (await it.ask(upload(50, more="connection: close\r\n") + b"a" * 50)).endswith(b"50")
        it.gate.set()
        assert (await first).endswith(b"900")
        # Alone, a body that is larger than all the room is read.
        assert (await it.ask(upload(5000, more="connection: close\r\n") + b"a" * 5000)).endswith(
            b"5000"
        )
        async with asyncio.timeout(60):  # it is given back after the answer
            while b"held_bytes 0.0" not in await it.get("/metrics"):
                await asyncio.sleep(0.02)


async def test_a_client_that_leaves_gives_back_what_it_held(tmp_path: Path) -> None:
    async with serving(tmp_path, max_held_bytes=1000) as it:
        reader, writer = await it.connect()
        writer.write(upload(900) + b"a" * 800)
        async with asyncio.timeout(60):
            while b"held_bytes 800.0" not in await it.get("/metrics"):
                await asyncio.sleep(0.02)
            writer.close()
            while b"held_bytes 0.0" not in await it.get("/metrics"):
                await asyncio.sleep(0.02)
        await rest(reader)


def test_a_stream_counts_for_no_more_than_its_share() -> None:
    load = Load(10, 100 * 1024 * 1024, ServiceMetrics("probe"))
    stream, other = load.body(), load.body()
    for _ in range(1000):
        assert stream.add(1024 * 1024) is None
    assert load.held_bytes == STREAM_BYTES
    assert other.expect(30 * 1024 * 1024) is None
    assert other.add(30 * 1024 * 1024) is None
    assert other.add(30 * 1024 * 1024) is not None
    stream.release()
    assert other.add(30 * 1024 * 1024) is None
    other.release()
    assert load.held_bytes == 0


@pytest.mark.parametrize(
    ("method", "query", "expected"),
    [
        ("GET", b"wait_s=20", True),
        ("GET", b"state=open&wait_s=0.5", True),
        ("GET", b"wait_s=0", False),
        ("GET", b"wait_s=", False),
        ("GET", b"await_s=1", False),
        ("GET", b"", False),
        ("POST", b"wait_s=20", False),
    ],
)
def test_long_polls(method: str, query: bytes, expected: bool) -> None:
    assert waits({"type": "http", "method": method, "query_string": query}) is expected
