"""Metrics by which an operator sees that a schedule stopped, and that a budget will end."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from common.runtime.clock import ManualClock
from tacit.wire import format_instant
from tests.coordinator.budget.test_routes import limited
from tests.coordinator.conftest import Houses
from tests.coordinator.double import NOISY, House, query


async def figure(it: House, name: str) -> float:
    text = (await it.client.get("/metrics")).text
    [value] = [line.split()[1] for line in text.splitlines() if line.startswith(f"{name} ")]
    return float(value)


async def test_a_schedule_without_rounds_and_the_end_of_a_budget(house: Houses) -> None:
    clock = ManualClock()
    async with house(3, clock=clock) as it:
        for wire in it.wires:
            wire.down = True
        begun = clock.now()
        daily = {"first_start": format_instant(begun), "period_s": 86_400}
        asked = query(**NOISY, schedule=daily, name="daily")
        assert (await it.ask("POST", "/v1/queries", asked)).status_code == 201
        overdue, ends = (
            "tacit_coordinator_schedules_overdue",
            ("tacit_coordinator_budget_exhausted_timestamp_seconds"),
        )
        clock.advance(timedelta(days=1, minutes=9))
        assert await figure(it, overdue) == 0
        assert math.isnan(await figure(it, ends))  # no limit
        clock.advance(timedelta(minutes=2))
        assert await figure(it, overdue) == 1
        await limited(it, {"epsilon": "4"})
        assert math.isnan(await figure(it, ends))  # it was worked out two minutes ago
        clock.advance(timedelta(minutes=10))
        outlook = (await it.ask("POST", "/v1/budget/outlook", {"days": 30})).json()
        [limit] = outlook["limits"]
        expected = datetime.fromisoformat(limit["exhausted"]).timestamp()
        assert await figure(it, ends) == expected
