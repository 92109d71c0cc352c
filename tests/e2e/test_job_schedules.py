"""Scheduled federated jobs through real processes, killed and started again (spec: jobs).

Four hours are over when the schedule begins, and one more ends while the test runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio

from tacit.wire import format_instant
from tests.e2e.world import World, world

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

CURATORS = [f"home-{index}" for index in range(6)]
HOUR = timedelta(hours=1)
SOON_S = 30
"""How long after its beginning the schedule's fifth hour ends."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def it(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with world(tmp_path_factory.mktemp("schedules"), aggregators=1) as running:
        await running.enrol("gateway", CURATORS)
        yield running


def readings(first: datetime) -> list[dict[str, Any]]:
    """One of each curator in each of five hours: in hour k, k kWh."""
    return [
        {
            "curator": curator,
            "device": f"meter-{curator}",
            "time": format_instant(first + number * HOUR + HOUR / 2),
            "value": str(number),
            "unit": "kWh",
            "kind": "delta",
        }
        for curator in CURATORS
        for number in range(5)
    ]


def task(first: datetime) -> dict[str, Any]:
    """The mean of an hour, almost without noise, so that each result tells its window."""
    return {
        "algorithm": "crowd-tasking",
        "params": {
            "sensor": {"name": "hour", "coordinates": [{"name": "kwh", "lower": 0, "upper": 5}]},
            "n": 6,
            "epsilon": "64",
        },
        "federation": {
            "collect": "reports",
            "columns": [{"register": "energy_import", "statistic": "sum"}],
            "schedule": {"period_s": 3600, "first_start": format_instant(first)},
            "min_participants": 6,
            "n_max": 10,
            "deadline": 30,
        },
    }


async def test_every_hour_is_asked_for_once_also_over_kill_and_restart(it: World) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    first = now + timedelta(seconds=SOON_S) - 5 * HOUR

    def agree() -> None:
        with it.real.curator.client() as client:
            policy = client.request("GET", "/v1/policy").json()
            limits = {"period": {"epsilon": "320"}}
            policy |= {"algorithms": ["crowd-tasking"], "record": limits, "curator": limits}
            client.request("PUT", "/v1/policy", policy)
            client.request("POST", "/v1/readings", readings(first))

    def begin() -> Any:
        with it.real.coordinator.client() as client:
            return client.jobs.schedule(task(first))

    def jobs(schedule: str) -> list[Any]:
        with it.real.coordinator.client() as client:
            return list(client.jobs.list(schedule=schedule))

    async def known(schedule: str, count: int, states: tuple[str, ...]) -> list[Any]:
        found: list[Any] = []
        async with asyncio.timeout(90):
            while sum(item["state"] in states for item in found) < count:
                await asyncio.sleep(0.1)
                found = await it.call(jobs, schedule)
        return found

    await it.call(agree)
    schedule = await it.call(begin)
    assert schedule["forecast"]["horizons"][0]["curator"]["epsilon"] == "1536"
    # Killed while the four hours that are over are asked for, and the curator's host after it.
    await known(schedule["id"], 1, ("running", "succeeded"))
    await it.call(it.kill, "coordinator")
    await it.restart("coordinator")
    await known(schedule["id"], 4, ("running", "succeeded"))
    await it.call(it.kill, "curator")
    await it.call(it.kill, "coordinator")
    await it.restart("curator")
    await it.restart("coordinator")
    found = await known(schedule["id"], 5, ("succeeded", "failed"))
    assert [item["error"] for item in found] == [None] * 5

    def shown() -> tuple[Any, dict[str, float], Any]:
        with it.real.coordinator.client() as client:
            means = {
                item["federation"]["window"]["start"]: client.jobs.result(item["id"])["summary"][
                    "average"
                ]["kwh"]["estimate"]
                for item in found
            }
            stopped = client.jobs.stop_schedule(schedule["id"])
        with it.real.curator.client() as client:
            own = client.request("GET", f"/v1/curators/{CURATORS[0]}/budget").json()["units"]
        return stopped, means, own

    stopped, means, own = await it.call(shown)
    assert (stopped["state"], stopped["runs"], stopped["waits_for"]) == ("stopped", 5, None)
    windows = sorted(means)
    assert windows == [format_instant(first + number * HOUR) for number in range(5)]
    for number, window in enumerate(windows):  # scale 5/64 kWh over 6 homes: 0.05; 10 of them
        assert abs(means[window] - number) < 0.5
    # Each hour was paid for once; a reading lies in one of them only.
    assert [debit["epsilon"] for debit in own["record"]["debits"]] == ["64"] * 5
    assert own["record"]["worst_instant"]["epsilon"] == "64"
