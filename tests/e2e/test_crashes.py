"""Kill -9 any one service at each of the eight steps (spec: aggregation, section 10, check 5), and
at those of a proved round (spec: validity, section 17)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.e2e.world import World, world
from tests.rules import energy_sum

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

CURATORS = [f"home-{index}" for index in range(8)]
QUERY = energy_sum(
    name="crash", bounds=["0", "1"], max_readings=1, mechanism="exact", n_max=1000, deadline_s=30
)
# A step is known by the request that carries it, at the service before which the proxy stands.
STEPS = {
    "open": ("aggregator-1", "POST", "/v1/rounds"),
    "discover": ("coordinator", "GET", "/v1/rounds"),
    "contribute": ("aggregator-1", "POST", "/batches"),
    "accept": ("aggregator-2", "POST", "/batches"),
    "agree": ("aggregator-1", "POST", "/freeze"),
    "open the sum": ("aggregator-1", "POST", "/reveal"),
    "release": ("aggregator-2", "POST", "/reveal"),
}
PROVED_STEPS = {
    "keys": ("aggregator-1", "POST", "/verification-keys"),
    "verify": ("aggregator-1", "POST", "/verification"),
    "decide": ("aggregator-1", "POST", "/verdict"),
    "commit": ("aggregator-1", "POST", "/commitment"),
}
COMMIT = ("aggregator-1", "POST", "/commitment")
"""A step of its own where not all that are expected send: else the one before it commits."""
MOMENTS = ["response", pytest.param("request", marks=pytest.mark.release)]
"""A step that was done and whose answer is lost is the harder: the one before is for releases."""
VICTIMS = ("coordinator", "aggregator-1", "curator")


@asynccontextmanager
async def homes(directory: Path) -> AsyncIterator[World]:
    async with world(directory) as it:
        await it.enrol("gateway", CURATORS)
        await it.allow_everything()
        # Powers of two: the sum tells who is in it, and whether anybody is counted twice.
        await it.give({name: str(2**i / 1000) for i, name in enumerate(CURATORS)})
        yield it


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with homes(tmp_path_factory.mktemp("crash")) as it:
        yield it


@pytest_asyncio.fixture(loop_scope="module")
async def lacking(tmp_path: Path) -> AsyncIterator[World]:
    """One of the curators refuses; no other round may be opened here then, for the difference."""
    async with homes(tmp_path) as it:
        await it.demand(CURATORS[-1], 1000)
        yield it


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("victim", VICTIMS)
async def test_a_killed_service_spoils_nothing(
    running: World, victim: str, step: str, moment: str
) -> None:
    await _killed(running, victim, step, moment, STEPS[step], QUERY)


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("victim", VICTIMS)
async def test_a_killed_service_spoils_no_commitment(
    lacking: World, victim: str, moment: str
) -> None:
    await _killed(lacking, victim, "commit", moment, COMMIT, QUERY)


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("step", PROVED_STEPS)
@pytest.mark.parametrize("victim", VICTIMS)
async def test_a_killed_service_spoils_no_proved_round(
    running: World, victim: str, step: str, moment: str
) -> None:
    asked = {**QUERY, "validity": "proved"}
    await _killed(running, victim, step, moment, PROVED_STEPS[step], asked)


async def _killed(
    running: World,
    victim: str,
    step: str,
    moment: str,
    place: tuple[str, str, str],
    asked: dict[str, Any],
) -> None:
    """Kill a service at the request or answer of a step, start it again, and look what became of
    the round."""
    before, method, ending = place
    killed, seen_it = asyncio.Event(), False

    async def watch(seen: str, called: str, path: str) -> None:
        nonlocal seen_it
        if not seen_it and (seen, called) == (moment, method) and path.endswith(ending):
            seen_it = True
            await running.call(running.kill, victim)
            killed.set()

    async def opened(seen: str, called: str, path: str) -> None:
        if (seen, called) == ("response", "POST") and path.endswith("/v1/rounds"):
            proxy.watch = watch

    kind = asked.get("validity", "declared")
    query = {**asked, "name": f"{kind}-{victim}-{step.replace(' ', '-')}-{moment}"}
    proxy = running.proxies[before]
    if step == "discover":
        # A poll that ends before the round is there would kill a coordinator that is being asked.
        running.proxies["aggregator-1"].watch = opened
    else:
        proxy.watch = watch
    try:
        round_id = await running.open(query)
        await asyncio.wait_for(killed.wait(), 120)
    finally:
        for each in running.proxies.values():
            each.watch = None
        if seen_it:
            await asyncio.wait_for(killed.wait(), 120)
            await running.restart(victim)
    finished = await running.finish(round_id)
    # sessions and seal keys, of which some are in memory alone, are among what was lost
    assert (await running.descriptor(round_id))["format"] == "tacit.round/1"
    if finished["state"] == "released":
        found = await running.result(round_id)
        total = round(float(found["result"]["sum"]) * 1000)
        assert total.bit_count() == found["participants"]
        assert total < 2 ** len(CURATORS)
        included = {name for i, name in enumerate(CURATORS) if total >> i & 1}
        assert await running.delivered(CURATORS, round_id) == included
    assert await running.debits(CURATORS[0], round_id) <= 1
