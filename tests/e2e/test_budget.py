"""The coordinator's ledger beside the curators' own, over real services."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tacit.wire import format_instant
from tests.e2e.world import HOUR, World, world
from tests.rules import energy_sum

pytestmark = pytest.mark.slow
QUERY = energy_sum(
    name="street",
    mechanism="distributed",
    epsilon="0.5",
    collusion={"aggregators": 2},
    min_participants=2,
    n_max=1000,
    deadline_s=120,
)


async def acknowledged(it: World, round_id: str) -> dict[str, Any]:
    """The coordinator's view, when the host has told."""

    def look() -> dict[str, Any]:
        with it.real.coordinator.client() as client:
            return client.budget.round_charges(round_id)

    async with asyncio.timeout(120):
        while not (found := await it.call(look))["acknowledged_by"]:
            await asyncio.sleep(0.1)
    told: dict[str, Any] = found
    return told


async def test_both_ledgers_agree_and_a_refresh_is_counted(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        names = [f"house-{number}" for number in range(5)]
        await it.enrol("gateway", names)
        await it.give(dict.fromkeys(names, "1.5"))
        opened = await it.open(QUERY)
        assert (await it.finish(opened))["state"] == "released"
        found = await acknowledged(it, opened)
        assert found["acknowledged"] == found["charged"] == 5
        assert found["charged_but_not_debited"]["curators"] == 0
        assert found["debited_but_not_charged"]["curators"] == 0

        def ledgers() -> tuple[Any, Any]:
            with it.real.coordinator.client() as client:
                here = client.budget.curator("house-3")["spent"]["curator"]
            own = it._curator("GET", "/v1/curators/house-3/budget")
            return {row["key"]: row["epsilon"] for row in here}, own["units"]["curator"]

        here, own = await it.call(ledgers)
        assert here["e"] == own["lifetime"]["epsilon"] == "0.5"
        assert (here["d"], own["lifetime"]["epsilon_all_aggregators"]) == ("inf", "inf")

        middle = it.window_end - HOUR / 2

        def send(time: Any, value: str, **more: Any) -> Any:
            item = {
                "curator": "house-3",
                "device": "meter-house-3",
                "time": format_instant(time),
                "value": value,
                "unit": "kWh",
                **more,
            }
            return it._curator("POST", "/v1/readings", [item])["items"][0]["status"]

        def counted() -> int:
            found = it._curator("GET", "/v1/curators/house-3/readings")
            return int(found["refreshed_after_contribution"])

        assert await it.call(counted) == 0
        assert await it.call(send, middle, "2.5", correction=True) == "accepted"
        assert await it.call(counted) == 1
        assert await it.call(send, middle + timedelta(minutes=1), "0.5") == "accepted"
        assert await it.call(counted) == 2
        assert await it.call(send, middle + timedelta(minutes=1), "0.5") == "duplicate"
        assert await it.call(send, it.window_end - 2 * HOUR, "0.5") == "accepted"
        assert await it.call(counted) == 2
