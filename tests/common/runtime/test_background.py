"""Tasks end at their pauses."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from common.runtime import tasks as background
from common.runtime.logs import get_logger
from common.runtime.tasks import Pauses, Repeating, finish


async def test_a_wake_before_the_pause_is_not_lost() -> None:
    pauses = Pauses()
    pauses.begin()
    pauses.wake()
    async with asyncio.timeout(60):
        await pauses.pause(3600)
    pauses.begin()
    await pauses.pause(0.01)
    assert not pauses.ending
    pauses.end()
    pauses.begin()
    async with asyncio.timeout(60):
        await pauses.pause(3600)


async def test_what_is_under_way_is_done_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "GRACE_S", 1.0)
    done = []

    async def short() -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        done.append("short")

    async def hanging() -> None:
        await asyncio.Event().wait()
        done.append("hanging")

    tasks = [asyncio.create_task(short()), asyncio.create_task(hanging())]
    await finish(tasks)
    assert done == ["short"]
    assert all(task.done() for task in tasks)
    await finish([])


class Counting(Repeating):
    """Counts its passes; those in `failing` fail."""

    def __init__(
        self, *failing: int, pause_s: float, retry_s: float | None = None, first_s: float = 0.0
    ) -> None:
        log = get_logger("tacit.test")
        super().__init__("count", log, pause_s, retry_s=retry_s, first_s=first_s)
        self.passes, self.failing = 0, failing

    async def look(self) -> None:
        self.passes += 1
        if self.passes in self.failing:
            raise ValueError("private words")


async def _reached(task: Counting, passes: int) -> None:
    async with asyncio.timeout(60):
        while task.passes < passes:
            await asyncio.sleep(0.001)


async def test_a_failed_pass_is_logged_and_the_next_one_follows() -> None:
    task = Counting(1, pause_s=60, retry_s=0)
    with capture_logs() as logs:
        task.start()
        await _reached(task, 2)
        await task.stop()
    assert task.passes == 2
    assert [each["event"] for each in logs] == ["count_failed"]
    assert "private words" not in str(logs)


async def test_a_failed_pass_pauses_like_any_other_unless_told() -> None:
    task = Counting(1, pause_s=60)
    task.start()
    await _reached(task, 1)
    for _ in range(50):
        await asyncio.sleep(0)
    assert task.passes == 1
    task.wake()
    await _reached(task, 2)
    await task.stop()
    assert task.passes == 2


async def test_the_first_pass_may_wait_and_the_end_does_not_wait_for_it() -> None:
    task = Counting(pause_s=0, first_s=60)
    task.start()
    for _ in range(50):
        await asyncio.sleep(0)
    assert task.passes == 0
    await asyncio.wait_for(task.stop(), 60)
    assert task.passes == 0


async def test_a_wake_during_a_pass_starts_the_next_one() -> None:
    class Waking(Counting):
        async def look(self) -> None:
            await super().look()
            if self.passes < 3:
                self.wake()

    task = Waking(pause_s=60)
    task.start()
    await _reached(task, 3)
    await task.stop()
    assert task.passes == 3


async def _exactly(task: Following, passes: int) -> None:
    """So many, and none follows."""
    async with asyncio.timeout(60):
        while task.passes < passes:
            await asyncio.sleep(0.001)
    await asyncio.sleep(0.05)
    assert task.passes == passes


class Following(Repeating):
    """Looks at what has versions; `settled` is what its looks say."""

    def __init__(self, *, settled: bool) -> None:
        self.version, self.passes, self.settled = 0, 0, settled
        super().__init__(
            "follow", get_logger("tacit.test"), pause_s=0.001, version=self.version_now
        )

    async def version_now(self) -> int:
        return self.version

    async def look(self) -> bool:
        self.passes += 1
        return self.settled


async def test_a_settled_task_looks_again_after_a_commit_or_a_wake_only() -> None:
    task = Following(settled=True)
    task.start()
    await _exactly(task, 1)
    task.version += 1
    await _exactly(task, 2)
    task.wake()
    await _exactly(task, 3)
    await task.stop()


async def test_what_comes_during_a_look_is_looked_for() -> None:
    """A commit and a wake, each while the task looks already."""

    class Late(Following):
        async def look(self) -> bool:
            if self.passes == 0:
                self.version += 1
            if self.passes == 1:
                self.wake()
            return await super().look()

    task = Late(settled=True)
    task.start()
    await _exactly(task, 3)
    await task.stop()


async def test_a_settled_task_looks_now_and_then_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(background, "REST_S", 0.0)
    task = Following(settled=True)
    task.start()
    async with asyncio.timeout(60):
        while task.passes < 3:
            await asyncio.sleep(0.001)
    await task.stop()
