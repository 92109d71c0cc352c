"""Pictures of plots, drawn when one is first requested, and then kept beside the result.

A result is stored with the published values of each plot and nothing else to draw it from. All
plots of a job are drawn together in a process of their own, which gets these values and has neither
data nor keys: the service never loads matplotlib. One job is drawn at a time; whoever requests a
plot of it meanwhile waits for the same drawing. Nothing is charged.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
import zipfile
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from algorithms.drawing import can_draw
from common.runtime.logs import describe, get_logger
from coordinator.errors import DrawingBusy, PlotNotDrawn, UnknownPart
from coordinator.jobs.results import Results
from coordinator.jobs.workers.own_workers import one_thread_environment

log = get_logger("tacit.jobs")

DRAWING_S: Final = 60.0
"""The time after which a drawing is given up."""
MOST_WAITING: Final = 32
"""Jobs whose plots wait to be drawn."""
KINDS: Final = {".svg": "image/svg+xml", ".png": "image/png"}
"""Media types by the end of a plot's name."""
_PROGRAM: Final = "from coordinator.jobs.workers.drawing import draw; draw()"


class Pictures:
    """The pictures of all stored results."""

    def __init__(self, results: Results) -> None:
        self._results = results
        self._one_at_a_time = asyncio.Lock()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._failed: set[str] = set()

    async def path(self, job_id: str, name: str) -> Path:
        """The file NAME.svg or NAME.png. Raises UnknownPart, PlotNotDrawn, DrawingBusy."""
        document = await asyncio.to_thread(self._results.document, job_id)
        plot, ending = os.path.splitext(name)
        if plot not in document["plots"] or ending not in KINDS:
            raise UnknownPart
        file = self._results.directory / job_id / "plots" / name
        if not await asyncio.to_thread(file.is_file):
            await self._drawn(job_id, document)
        return file

    async def _drawn(self, job_id: str, document: dict[str, Any]) -> None:
        if not can_draw():
            raise PlotNotDrawn("the coordinator runs without matplotlib (extra `plots`)")
        if job_id in self._failed:
            raise PlotNotDrawn("drawing failed; its values are in the archive")
        task = self._tasks.get(job_id)
        if task is None:
            if len(self._tasks) >= MOST_WAITING:
                raise DrawingBusy
            task = asyncio.create_task(self._draw(job_id, document))
            self._tasks[job_id] = task
            task.add_done_callback(partial(self._ended, job_id))
        await asyncio.shield(task)  # who goes away does not end it for the others

    def _ended(self, job_id: str, task: asyncio.Task[None]) -> None:
        self._tasks.pop(job_id)
        if not task.cancelled():
            task.exception()  # reported to those who wait, if any still do

    async def _draw(self, job_id: str, document: dict[str, Any]) -> None:
        async with self._one_at_a_time:
            place = self._results.directory / job_id / "plots"
            try:
                request = await asyncio.to_thread(_request, place, document)
                if request is None:  # another drawing ended meanwhile
                    return
                pictures = await asyncio.wait_for(_answer(request), DRAWING_S)
                await asyncio.to_thread(_keep, place, pictures)
            except (OSError, ValueError, TimeoutError, zipfile.BadZipFile) as error:
                if not isinstance(error, OSError) or isinstance(error, TimeoutError):
                    self._failed.add(job_id)  # until the service starts again
                log.error("plots_not_drawn", job=job_id, **describe(error))
                raise PlotNotDrawn("drawing failed; its values are in the archive") from None

    async def close(self) -> None:
        """End the drawing in progress."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _request(place: Path, document: dict[str, Any]) -> bytes | None:
    """What is to be drawn; None if all of it was."""
    names = document["plots"]
    if all((place / f"{name}{ending}").is_file() for name in names for ending in KINDS):
        return None
    plots = {name: json.loads((place / f"{name}.json").read_bytes()) for name in names}
    return json.dumps({"algorithm": document["algorithm"], "plots": plots}).encode()


async def _answer(request: bytes) -> bytes:
    """The zip of a new process. Raises OSError, ValueError if it draws nothing."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-c", _PROGRAM, str(os.getpid())),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={
            name: value
            for name, value in one_thread_environment().items()
            if not name.startswith("TACIT_")
        },
    )
    try:
        pictures, _ = await process.communicate(request)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if process.returncode:
        raise ValueError("the process that draws ended without a picture")
    return pictures


def _keep(place: Path, pictures: bytes) -> None:
    """Move each picture into its place when it is whole."""
    with zipfile.ZipFile(io.BytesIO(pictures)) as archive:
        for name in archive.namelist():
            draft = place / f"draft-{uuid4().hex}"
            try:
                draft.write_bytes(archive.read(name))
                draft.rename(place / name)
            finally:
                draft.unlink(missing_ok=True)
