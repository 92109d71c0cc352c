"""Plots are drawn when they are first requested: once, elsewhere, from what was released."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from common.runtime.compute_processes import Apart
from coordinator.errors import DrawingBusy, PlotNotDrawn, UnknownPart
from coordinator.jobs import pictures
from coordinator.jobs.pictures import Pictures
from coordinator.jobs.results import Results

VALUES = {
    "counts": {"ranks": [1, 2, 3], "counts": [9, 4, 1]},
    "lengths": {"records": [9, 5], "sets": [1, 2]},
}
FILES = ["counts.svg", "counts.png", "lengths.svg", "lengths.png"]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What each process that was started had to draw."""
    requests: list[tuple[Any, ...]] = []
    run = Apart.run

    async def counted(apart: Apart, work: Any, *arguments: Any) -> Any:
        requests.append(arguments)
        return await run(apart, work, *arguments)

    monkeypatch.setattr(Apart, "run", counted)
    return requests


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The same, and none of them ends."""
    requests: list[tuple[Any, ...]] = []

    async def never(_apart: Apart, _work: Any, *arguments: Any) -> None:
        requests.append(arguments)
        await asyncio.Event().wait()

    monkeypatch.setattr(Apart, "run", never)
    return requests


def stored(directory: Path, job: str = "job", values: dict[str, Any] = VALUES) -> Results:
    """A result of set-valued as a job stores it."""
    place = directory / job / "plots"
    place.mkdir(parents=True)
    for name, content in values.items():
        (place / f"{name}.json").write_text(json.dumps(content), "utf-8")
    document = {"job": job, "algorithm": "set-valued", "files": [], "plots": list(values)}
    (directory / job / "result.json").write_text(json.dumps(document), "utf-8")
    return Results(directory, None)  # type: ignore[arg-type] - nothing is sealed here


async def test_many_who_ask_at_once_get_one_drawing(
    tmp_path: Path, started: list[tuple[Any, ...]]
) -> None:
    results = stored(tmp_path)
    drawing = Pictures(results)
    first = asyncio.create_task(drawing.path("job", FILES[0]))
    others = [asyncio.create_task(drawing.path("job", name)) for name in FILES * 3]
    while not started:
        await asyncio.sleep(0)
    first.cancel()  # who goes away takes nothing from the others
    paths = await asyncio.gather(*others)
    assert len(started) == 1
    assert started[0] == ("set-valued", VALUES)
    assert [path.name for path in paths] == FILES * 3
    assert b"<svg" in paths[0].read_bytes()
    assert paths[1].read_bytes().startswith(b"\x89PNG")
    names = {path.name for path in (tmp_path / "job" / "plots").iterdir()}
    assert names == {*FILES, "counts.json", "lengths.json"}
    after_a_restart = Pictures(results)
    for name in FILES:
        assert (await after_a_restart.path("job", name)).is_file()
    assert len(started) == 1


@pytest.mark.parametrize(
    "name",
    [
        *("nothing.svg", "counts", "counts.pdf", "counts.json", ".svg"),
        *("../result.json", "../counts.svg"),
    ],
)
async def test_what_the_result_does_not_list_is_not_drawn(
    tmp_path: Path, started: list[tuple[Any, ...]], name: str
) -> None:
    with pytest.raises(UnknownPart):
        await Pictures(stored(tmp_path)).path("job", name)
    assert not started


async def test_values_that_cannot_be_drawn_are_tried_once(
    tmp_path: Path, started: list[tuple[Any, ...]]
) -> None:
    drawing = Pictures(stored(tmp_path, values={"counts": {"ranks": [1, 2]}}))
    for _ in range(2):
        with pytest.raises(PlotNotDrawn):
            await drawing.path("job", "counts.svg")
    assert len(started) == 1
    assert [path.name for path in (tmp_path / "job" / "plots").iterdir()] == ["counts.json"]


async def test_the_queue_is_bounded_and_ends_with_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endless: list[tuple[Any, ...]]
) -> None:
    monkeypatch.setattr(pictures, "MOST_WAITING", 2)
    for job in ("one", "two", "three"):
        results = stored(tmp_path, job)
    drawing = Pictures(results)
    waiting = [asyncio.create_task(drawing.path(job, "counts.svg")) for job in ("one", "two")]
    while not endless:
        await asyncio.sleep(0)
    while len(drawing._tasks) < 2:
        await asyncio.sleep(0)
    with pytest.raises(DrawingBusy):
        await drawing.path("three", "counts.svg")
    await drawing.close()
    assert all(task.cancelled() for task in [*waiting, *drawing._tasks.values()] if task.done())
    assert len(endless) == 1  # one at a time
    await asyncio.gather(*waiting, return_exceptions=True)
