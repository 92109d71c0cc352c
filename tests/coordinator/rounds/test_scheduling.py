"""Scheduled queries open one round for each period that is over, whatever happened meanwhile."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from fastapi import FastAPI

from common.runtime.clock import ManualClock
from common.web.dependencies import part_of
from coordinator.rounds import scheduling
from coordinator.rounds.scheduling import Scheduler
from tests.coordinator.conftest import Houses
from tests.coordinator.double import House, problem, query

SCHEDULED = query(schedule={"period_s": 3600, "first_start": "2026-01-01T00:00:00Z"})
HOUR = timedelta(hours=1)


async def look(app: FastAPI) -> None:
    """The scheduler looks once more, from beginning to end."""
    scheduler, looked = part_of(app, Scheduler), asyncio.Event()
    usual = scheduler.look

    async def noticed() -> bool:
        try:
            return await usual()
        finally:
            looked.set()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheduler, "look", noticed)
        scheduler.wake()
        async with asyncio.timeout(60):
            await looked.wait()


async def starts(it: House) -> list[str]:
    """The starts of all windows, after another look."""
    await look(it.app)
    found = (await it.ask("GET", "/v1/rounds")).json()["rounds"]
    return sorted(item["window"]["start"][11:16] for item in found)


async def test_a_round_for_each_period_that_is_over(house: Houses, database_url: str) -> None:
    clock = ManualClock()
    async with house(3, database_url, clock=clock) as it:
        await it.host("gateway", 3)
        assert (await it.ask("POST", "/v1/queries", SCHEDULED)).status_code == 201
        clock.advance(HOUR - timedelta(seconds=1))
        assert await starts(it) == []
        clock.advance(timedelta(seconds=1))
        assert await starts(it) == ["00:00"]
        clock.advance(HOUR)
        assert await starts(it) == ["00:00", "01:00"]
        # Down for three hours: every period still gets its round, in order, and none gets two.
        await it.stop()
        clock.advance(3 * HOUR)
        await it.start()
        assert await starts(it) == ["00:00", "01:00", "02:00", "03:00", "04:00"]
        async with it.replica() as (replica, _):
            await look(replica)
            assert len(await starts(it)) == 5


async def test_what_was_missed_is_caught_up_in_strides(
    house: Houses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduling, "MAX_UNFINISHED", 2)
    clock = ManualClock()
    clock.advance(timedelta(hours=5))
    async with house(3, clock=clock) as it:
        await it.host("gateway", 3)
        await it.ask("POST", "/v1/queries", SCHEDULED)
        assert await starts(it) == await starts(it) == ["00:00", "01:00"]
        first = (await it.ask("GET", "/v1/rounds")).json()["rounds"][0]["id"]
        await it.ask("POST", f"/v1/rounds/{first}/abort")
        await it.finish(await it.round_of(first))
        assert await starts(it) == ["00:00", "01:00", "02:00"]


async def test_an_aggregator_that_is_away_delays_a_schedule_and_nothing_else(
    house: Houses,
) -> None:
    clock = ManualClock()
    clock.advance(HOUR)
    async with house(3, clock=clock) as it:
        host = await it.host("gateway", 3)
        it.wires[2].down = True
        await it.ask("POST", "/v1/queries", SCHEDULED)
        assert await starts(it) == []
        opened = await it.open(query(aggregators=2, name="other"))
        assert host.curators
        await it.ask("POST", f"/v1/rounds/{opened.id}/abort")
        it.wires[2].down = False
        assert len(await starts(it)) == 2


async def test_a_schedule_is_ended_and_what_is_open_goes_on(house: Houses) -> None:
    clock = ManualClock()
    clock.advance(HOUR)
    async with house(3, clock=clock) as it:
        await it.host("gateway", 3)
        created = (await it.ask("POST", "/v1/queries", SCHEDULED)).json()
        assert created["stopped"] is None
        path = f"/v1/queries/{created['id']}/schedule"
        assert await starts(it) == ["00:00"]
        clock.advance(HOUR / 2)
        stopped = await it.ask("DELETE", path)
        assert (stopped.status_code, stopped.json()["stopped"]) == (200, "2026-01-01T01:30:00Z")
        clock.advance(3 * HOUR)
        again = await it.ask("DELETE", path)
        assert (again.status_code, again.json()) == (200, stopped.json())
        assert await starts(it) == ["00:00"]
        await it.restart()
        assert await starts(it) == ["00:00"]
        # The same content is the same query: asking again does not begin again.
        known = await it.ask("POST", "/v1/queries", SCHEDULED)
        assert (known.status_code, known.json()["stopped"]) == (200, stopped.json()["stopped"])
        window = {"start": "2026-01-01T03:00:00Z", "end": "2026-01-01T04:00:00Z"}
        body = {"query_id": created["id"], "window": window}
        assert (await it.ask("POST", "/v1/rounds", body)).status_code == 201
        once = (await it.ask("POST", "/v1/queries", query(name="once"))).json()["id"]
        answer = await it.ask("DELETE", f"/v1/queries/{once}/schedule")
        assert problem(answer) == (404, "unknown_schedule")
        answer = await it.ask("DELETE", "/v1/queries/nobody/schedule")
        assert problem(answer) == (404, "unknown_query")
