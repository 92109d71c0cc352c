"""Bodies that trickle, over real sockets."""

import asyncio
from pathlib import Path

import pytest

from tests.common.web.serving import rest, serving, upload

SLOW = {"transfer_grace_s": 0.5, "transfer_least_bytes_per_s": 20_000}


@pytest.mark.slow
async def test_a_body_that_trickles_is_answered_408(tmp_path: Path) -> None:
    async with serving(tmp_path, **SLOW) as it:
        reader, writer = await it.connect()
        writer.write(upload(1_000_000))

        async def trickle() -> None:
            while True:
                writer.write(b"a")
                await asyncio.sleep(0.02)

        task = asyncio.create_task(trickle())
        answer = await reader.readuntil(b"}")
        task.cancel()
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"urn:tacit:problem:body_too_slow" in answer
        assert b"connection: close" in answer.lower()
        await rest(reader)
        writer.close()
        assert (await it.get()).endswith(b"small")


async def test_a_body_that_never_comes_is_answered_408(tmp_path: Path) -> None:
    async with serving(tmp_path, **SLOW) as it:
        assert (await it.ask(upload(10))).startswith(b"HTTP/1.1 408 ")


async def test_a_slow_but_honest_body_passes_though_it_takes_longer_than_the_grace(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, **SLOW) as it:
        reader, writer = await it.connect()
        pieces, size = 30, 10_000  # at most 100 kB/s, 3 s in all
        writer.write(upload(pieces * size, more="connection: close\r\n"))
        for _ in range(pieces):
            writer.write(b"a" * size)
            await writer.drain()
            await asyncio.sleep(0.1)
        assert (await rest(reader)).endswith(b"300000")
        writer.close()


async def test_time_in_which_the_service_does_not_read_is_its_own(tmp_path: Path) -> None:
    async with serving(tmp_path, **SLOW) as it:
        task = asyncio.create_task(it.ask(upload(3, "/held", "connection: close\r\n") + b"abc"))
        await asyncio.sleep(1.5)
        it.gate.set()
        assert (await task).endswith(b"\r\n\r\n3")
