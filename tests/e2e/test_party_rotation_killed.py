"""Kill -9 of a curator service while it replaces its parties' identities (spec: keys, section 5.2):
it goes on by itself, and what it sends is counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.e2e.test_crashes import CURATORS, QUERY
from tests.e2e.world import World, world

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with world(tmp_path_factory.mktemp("killed")) as it:
        await it.enrol("gateway", CURATORS)
        await it.allow_everything()
        await it.give({name: str(2**i / 1000) for i, name in enumerate(CURATORS)})
        yield it


async def keys(it: World) -> set[str]:
    """The gateway's keys on the aggregators' rosters."""

    def of(number: int) -> str:
        with it.real.aggregators[number].client() as client:
            (found,) = client.get("/v1/roster")["parties"]
        return str(found["identity_key"])

    return {await it.call(of, number) for number in range(len(it.real.aggregators))}


@pytest.mark.parametrize("moment", ["request", "response"])
@pytest.mark.parametrize("service", ["coordinator", "aggregator-1", "aggregator-3"])
async def test_a_killed_curator_service_goes_on(running: World, service: str, moment: str) -> None:
    (before,) = await keys(running)
    killed = asyncio.Event()

    async def watch(seen: str, asked: str, path: str) -> None:
        if (seen, asked) == (moment, "PUT") and path.endswith("/gateway/identity"):
            running.proxies[service].watch = None
            await running.call(running.kill, "curator")
            killed.set()

    def rotate() -> Any:
        with running.real.curator.client() as client:
            return client.parties.rotate()["begun"]

    def waiting() -> Any:
        with running.real.curator.client() as client:
            return client.parties.waiting()

    running.proxies[service].watch = watch
    assert await running.call(rotate) == 1
    await asyncio.wait_for(killed.wait(), 120)
    await running.restart("curator")
    async with asyncio.timeout(120):
        while await running.call(waiting):
            await asyncio.sleep(0.2)
    (after,) = await keys(running)
    assert after != before
    round_id = await running.open({**QUERY, "name": f"{service}-{moment}"})
    finished = await running.finish(round_id, 60)
    assert finished["state"] == "released", finished
    found = await running.result(round_id)
    assert (found["participants"], round(float(found["result"]["sum"]) * 1000)) == (8, 255)
