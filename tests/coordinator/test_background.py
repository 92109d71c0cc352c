"""Tasks end at their pauses."""

from __future__ import annotations

import asyncio
import time

import pytest

from coordinator import background
from coordinator.background import Pauses, finish
from tests.coordinator.conftest import Houses
from tests.coordinator.double import query


async def test_a_wake_before_the_pause_is_not_lost() -> None:
    pauses = Pauses()
    pauses.begin()
    pauses.wake()
    began = time.perf_counter()
    await pauses.pause(5)
    assert time.perf_counter() - began < 4  # not the five seconds of the pause
    pauses.begin()
    await pauses.pause(0.01)
    assert not pauses.ending
    pauses.end()
    pauses.begin()
    await pauses.pause(5)
    assert time.perf_counter() - began < 4  # not the five seconds of the pause


async def test_what_is_under_way_is_done_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "GRACE_S", 0.1)
    done = []

    async def short() -> None:
        await asyncio.sleep(0.02)
        done.append("short")

    async def hanging() -> None:
        await asyncio.sleep(60)
        done.append("hanging")

    tasks = [asyncio.create_task(short()), asyncio.create_task(hanging())]
    await finish(tasks)
    assert done == ["short"]
    assert all(task.done() for task in tasks)
    await finish([])


async def test_a_stop_at_any_moment_leaves_the_store_free(house: Houses) -> None:
    """Rounds begin and end while the coordinator is stopped again and again."""
    async with house(2) as it:
        await it.host("gateway", 2)
        for index in range(12):
            asked = query(name=f"q-{index}", aggregators=2)
            opened = (await it.ask_for(asked, deadline_s=1))["id"]
            await asyncio.sleep(index * 0.004)
            began = time.perf_counter()
            await it.restart()
            assert time.perf_counter() - began < 5
            assert (await it.ask("GET", f"/v1/rounds/{opened}")).status_code == 200
