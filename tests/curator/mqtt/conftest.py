"""A broker, and a curator service that listens to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.curator.conftest import OpenSite, Site
from tests.curator.conftest import site as site
from tests.curator.conftest import world as world
from tests.curator.mqtt.broker import EXECUTABLE, WHY, Broker

Listening = Callable[..., AbstractAsyncContextManager[Site]]
WAIT_S = 30.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker that lets everybody in."""
    if EXECUTABLE is None:
        pytest.skip(WHY)
    made = Broker(tmp_path / "broker")
    made.start()
    yield made
    made.stop()


@pytest.fixture
def listening(site: OpenSite, broker: Broker) -> Listening:
    """`async with listening() as s`: the service, connected to the broker."""

    @asynccontextmanager
    async def opened(**changes: Any) -> AsyncIterator[Site]:
        values: dict[str, Any] = {"mqtt_host": "127.0.0.1", "mqtt_port": broker.port, **changes}
        async with site(**values) as s:
            await connected(s)
            yield s

    return opened


async def connected(s: Site) -> None:
    """Wait until the service has its broker."""
    async with asyncio.timeout(WAIT_S):
        # A process that does not lead yet is ready, and has no broker.
        while not await metric(s, "mqtt_connected "):
            await asyncio.sleep(0.02)
        assert (await s.client.get("/readyz")).status_code == 200


async def stored(s: Site, curator: str, count: int) -> dict[str, Any]:
    """Wait until so many readings of a curator are stored; its counts."""
    async with asyncio.timeout(WAIT_S):
        while True:
            found: dict[str, Any] = await s.get(f"/v1/curators/{curator}/readings")
            if found["accepted"] >= count:
                return found
            await asyncio.sleep(0.02)


async def metric(s: Site, line: str) -> float:
    """The figure of a metric; 0 where it was never counted."""
    lines = (await s.client.get("/metrics")).text.splitlines()
    found = [each for each in lines if line in each and "_created" not in each and each[0] != "#"]
    return sum(float(each.rpartition(" ")[2]) for each in found)
