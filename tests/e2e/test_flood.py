"""Far more uploads at once than a service takes: memory stays bounded, and what is accepted stays.

Memory is that of the curator's process. Its bound is what the limits allow (`max_requests` bodies
of their largest size and what parsing makes of them), far below what all uploads at once would
take.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections import Counter
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from tacit.wire import format_instant
from tests.e2e.plain import plain
from tests.e2e.world import World

UPLOADS = 240
ITEMS = 5000
LIMITS = {
    "TACIT_MAX_REQUESTS": "6",
    "TACIT_MAX_HELD_BYTES": "4000000",
    "TACIT_MAX_BODY_BYTES": "1000000",
    "TACIT_MAX_ITEMS": str(ITEMS),
}
GROWTH_BYTES = 160 * 1024 * 1024


def body(it: World, number: int) -> bytes:
    """An upload of many readings of one device."""
    start = it.window_end - timedelta(days=10)
    return json.dumps(
        [
            {
                "curator": "home",
                "device": f"d{number}",
                "time": format_instant(start + timedelta(seconds=60 * place)),
                "value": "0.25",
                "unit": "kWh",
                "kind": "delta",
            }
            for place in range(ITEMS)
        ]
    ).encode()


def resident_bytes(pid: int) -> int:
    """The memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
async def test_a_flood_of_uploads(tmp_path: Path) -> None:
    async with plain(tmp_path, by_kind={"curator": LIMITS}) as it:
        await it.enrol("home", None)
        curator = it.real.curator
        pid = it.running.processes[curator.id].pid
        token = (Path(curator.directory) / "operator.token").read_text().strip()
        sent = body(it, 0)
        assert 400_000 < len(sent) < 1_000_000
        statuses: dict[int, int] = {}
        headers: list[httpx.Headers] = []
        peak = 0

        async with httpx.AsyncClient(
            base_url=curator.url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=120,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
        ) as client:

            async def upload(number: int) -> None:
                content = sent.replace(b'"d0"', b'"d%d"' % number)
                try:
                    answer = await client.post(
                        "/v1/readings",
                        content=content,
                        headers={"Content-Type": "application/json"},
                    )
                except httpx.TransportError:
                    # Refused while it was still sending: the end overtook the answer.
                    statuses[number] = 0
                    return
                statuses[number] = answer.status_code
                if answer.status_code in (429, 503):
                    headers.append(answer.headers)

            async def watch() -> None:
                nonlocal peak
                while True:
                    peak = max(peak, resident_bytes(pid))
                    await asyncio.sleep(0.01)

            await upload(UPLOADS)  # warm
            before = resident_bytes(pid)
            watcher = asyncio.create_task(watch())
            await asyncio.gather(*(upload(number) for number in range(UPLOADS)))
            watcher.cancel()
            alive = await client.get("/healthz")

            counted = Counter(statuses.values())
            print(f"{counted}; resident before {before >> 20} MiB, at most {peak >> 20} MiB")
            assert set(counted) <= {0, 200, 429, 503}, counted
            assert counted[200] > 1
            assert counted[503] + counted[429] > 10, counted
            assert all("retry-after" in found for found in headers)
            assert alive.status_code == 200
            assert peak - before < GROWTH_BYTES, (before, peak)
            there = stored(Path(curator.directory) / "curator.db")
            for number, status in statuses.items():
                if status == 200:
                    assert there[f"d{number}"] == ITEMS


def stored(database: Path) -> dict[str, int]:
    """How many readings of each device the curator has."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return dict(
            connection.execute(
                "SELECT device.id, count(*) FROM reading "
                "JOIN device ON device.key = reading.device GROUP BY device.id"
            )
        )
