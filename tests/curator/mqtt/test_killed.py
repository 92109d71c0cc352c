"""A curator process that is killed again and again while its meters send."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from tests.curator.conftest import OpenSite
from tests.curator.mqtt.broker import Broker, send
from tests.curator.mqtt.process import Process
from tests.curator.mqtt.test_meters import TOPIC, reading

MESSAGES = 2400
KILLS = 3


def count(path: Path) -> int:
    """Readings in a store."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as store:
        return int(store.execute("SELECT COUNT(*) FROM reading").fetchone()[0])


@pytest.mark.slow
async def test_a_killed_curator_loses_nothing(
    site: OpenSite, broker: Broker, tmp_path: Path
) -> None:
    path = tmp_path / "test.db"
    async with site() as s:
        await s.enrol("house")
    process = Process(
        tmp_path / "curator", f"sqlite:///{path}", broker.port, TACIT_MQTT_BATCH_MESSAGES="50"
    )
    try:
        await asyncio.to_thread(process.start)
        sent = 0
        for _ in range(KILLS):
            seen = count(path)
            async with broker.client() as client:
                part = [(TOPIC, reading(sent + n)) for n in range(MESSAGES // KILLS)]
                sending = asyncio.create_task(send(client, part))
                async with asyncio.timeout(120):
                    while count(path) == seen:
                        await asyncio.sleep(0.005)
                process.kill()
                await sending
            sent += len(part)
            await asyncio.to_thread(process.start)
        async with asyncio.timeout(120):
            while count(path) < MESSAGES:
                await asyncio.sleep(0.02)
    finally:
        process.stop()
    assert count(path) == MESSAGES
    async with site() as s:
        counts = await s.get("/v1/curators/house/readings")
        assert counts["accepted"] == MESSAGES
        assert counts["conflicts"] == counts["rejected"] == 0
