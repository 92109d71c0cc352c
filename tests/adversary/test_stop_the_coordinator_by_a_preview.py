"""An analyst asks, in a few hundred bytes, for figures that take minutes to compute; or a curator's
made-up counts do so of a job's outcome.

They are computed in a process apart, within a limit of processor time: the coordinator goes on
answering, and nothing is computed for a client that has left. The control is the same arithmetic in
the coordinator's own process, where it takes the interpreter.
"""

from __future__ import annotations

import asyncio
import operator
import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from common.runtime import compute_processes
from common.runtime.compute_processes import (
    Apart,
    Asker,
    CallerLeft,
    StillComputing,
    TooMuchArithmetic,
)
from coordinator import examples
from coordinator.jobs.federated.computing import Computing
from coordinator.settings import CoordinatorSettings
from tests.coordinator.double import House

Houses = Callable[..., AbstractAsyncContextManager[House]]
ENDLESS = (operator.pow, 3, 10**9)
"""Minutes in one step of the interpreter."""
TWO_LAYER: dict[str, Any] = {
    **{name: value for name, value in examples.QUERY.items() if name not in ("epsilon", "layer")},
    "mechanism": "two-layer",
    "epsilon_u": "0.5",
    "epsilon_s": "0.5",
    "pr_s": "0.5",
    "delta": "0.9",
}


@pytest.fixture
def mine() -> Iterator[Apart]:
    """Processes of this test alone."""
    made = Apart()
    yield made
    made.close()


def children() -> set[int]:
    """The processes apart that this one has."""
    found = set()
    for each in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((each / "stat").read_text().rpartition(")")[2].split()[1])
            if (
                parent == os.getpid()
                and b"common.runtime.compute_processes" in (each / "cmdline").read_bytes()
            ):
                found.add(int(each.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def begins(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set when a process apart is there."""
    loop, begun = asyncio.get_running_loop(), asyncio.Event()

    class Child(compute_processes._Child):
        def __init__(self) -> None:
            super().__init__()
            loop.call_soon_threadsafe(begun.set)

    monkeypatch.setattr(compute_processes, "_Child", Child)
    return begun


async def test_tiny_probabilities_have_figures_at_once(house: Houses) -> None:
    asked = {**TWO_LAYER, "pr_u": "0.9999999", "min_participants": 10**7, "n_max": 10**7}
    async with house() as it:
        token = await it.token("analyst")
        answer = await it.ask("POST", "/v1/queries/preview", asked, token=token)
        assert answer.status_code in (200, 422), answer.text
        assert "too_much_arithmetic" not in answer.text


async def test_what_takes_too_long_is_refused(
    house: Houses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """81 kB of blocks; the limit is lowered, so that the test need not wait for it."""
    monkeypatch.setattr(compute_processes, "_apart", quick := Apart(seconds=1))
    blocks = [
        {"name": f"b{place}", "dimension": 1, "l1_bound": "1", "resolution": f"0.{place + 100}"}
        for place in range(800)
    ]
    asked = {
        **TWO_LAYER,
        "pr_u": "0.5",
        "function": "vector_sum",
        "coordinates": "values",
        "blocks": blocks,
    }
    async with house() as it:
        token = await it.token("analyst")
        answer = await it.ask("POST", "/v1/queries/preview", asked, token=token)
        assert answer.status_code == 422
        assert answer.json()["type"] == "urn:tacit:problem:too_much_arithmetic", answer.text
        answer = await it.ask("POST", "/v1/queries/preview", examples.QUERY, token=token)
        assert answer.status_code == 200, answer.text
    quick.close()


async def test_other_requests_are_answered_meanwhile(
    mine: Apart, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = begins(monkeypatch)
    working = asyncio.create_task(mine.run(*ENDLESS))
    await begun.wait()
    # Control: in a thread of this process no step of this loop would follow.
    assert await mine.run(operator.add, 1, 2) == 3
    assert not working.done()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working


async def test_nothing_is_computed_for_a_client_that_has_left(
    mine: Apart, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, left, begun = children(), asyncio.Event(), begins(monkeypatch)

    async def gone() -> None:
        await left.wait()

    token = compute_processes.ASKER.set(Asker(gone, "a"))
    try:
        working = asyncio.create_task(mine.run(*ENDLESS))
        await begun.wait()
        (process,) = map(os.pidfd_open, children() - before)
        left.set()
        with pytest.raises(CallerLeft):
            await working
        ended, _, _ = await asyncio.to_thread(select.select, [process], [], [], 60)
        os.close(process)
        assert ended
    finally:
        compute_processes.ASKER.reset(token)


async def test_one_at_a_time_for_a_caller_and_few_wait(
    mine: Apart, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, begun = children(), begins(monkeypatch)

    async def never() -> None:
        await asyncio.Event().wait()

    token = compute_processes.ASKER.set(Asker(never, "a"))
    try:
        working = [
            asyncio.create_task(mine.run(*ENDLESS)) for _ in range(compute_processes.MOST_WAITING)
        ]
        await begun.wait()
        with pytest.raises(StillComputing):
            await mine.run(operator.add, 1, 2)
        compute_processes.ASKER.set(Asker(never, "b"))
        assert await mine.run(operator.add, 1, 2) == 3
        assert len(children() - before) == 2
    finally:
        compute_processes.ASKER.reset(token)
        for each in working:
            each.cancel()
        await asyncio.gather(*working, return_exceptions=True)


async def test_modules_of_our_names_in_the_working_folder_are_not_ours(
    mine: Apart, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "common.py").write_text("raise SystemExit('the wrong module')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(filter(None, sys.path)))
    assert await mine.run(operator.add, 1, 2) == 3


async def test_a_process_that_ends_as_it_was_idle_refuses_nothing(
    mine: Apart, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers no more and has not ended yet, as on a loaded machine: here it takes an hour."""
    before = children()
    monkeypatch.setattr(
        compute_processes,
        "_PROGRAM",
        "import atexit, time, common.runtime.compute_processes as apart;"
        "waits = iter((True, False));"
        "apart.select.select = lambda *_: (next(waits),); atexit.register(time.sleep, 3600);"
        "apart.compute()",
    )
    assert await mine.run(operator.add, 1, 2) == 3
    (ending,) = children() - before
    monkeypatch.undo()
    assert await mine.run(operator.add, 1, 2) == 3
    assert ending not in children()


async def test_a_process_that_has_answered_is_not_killed_with_its_request(mine: Apart) -> None:
    idle: list[Any] = []
    call = compute_processes._Call((60.0, 1 << 30, operator.add, (1, 2)), idle)
    assert call() == 3
    call.cancel()
    assert compute_processes._Call(call.question, idle)() == 3
    assert len(idle) == 1
    idle.pop().end()


async def test_memory_is_limited(mine: Apart) -> None:
    with pytest.raises(TooMuchArithmetic):
        await mine.run(operator.mul, b"x", 2 << 30)
    assert await mine.run(operator.add, 1, 2) == 3


async def test_what_made_up_counts_ask_for_stops_no_other_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, before = asyncio.Event(), children()
    settings = CoordinatorSettings(data_dir=tmp_path, job_memory_bytes=1 << 30)
    computing = Computing(settings, ended.set)
    begun = begins(monkeypatch)
    computing.begin("long", *ENDLESS)
    await begun.wait()
    computing.begin("large", operator.mul, b"x", 2 << 30)
    await ended.wait()
    with pytest.raises(TooMuchArithmetic):
        computing.outcome("large")
    assert computing.outcome("long") is None
    computing.keep_only([])
    assert "long" not in computing
    await computing.stop()
    async with asyncio.timeout(60):
        while children() != before:
            await asyncio.sleep(0.05)
