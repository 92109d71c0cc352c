"""Pictures of plots, drawn when one is first requested, and then kept beside the result.

A result is stored with the published values of each plot and nothing else to draw it from. All
plots of a job are drawn together in a separate process, which gets these values and has neither
data nor keys: the service never loads matplotlib. One job is drawn at a time; all who request a
plot of it meanwhile wait for the same drawing. Nothing is charged.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from contextvars import Context
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from algorithms.drawing import all_drawn, can_draw
from common.runtime.compute_processes import Apart
from common.runtime.logs import describe, get_logger
from coordinator.errors import DrawingBusy, PlotNotDrawn, UnknownPart
from coordinator.jobs.results import Results

log = get_logger("tacit.jobs")

MOST_WAITING: Final = 32
"""Jobs whose plots wait to be drawn."""
KINDS: Final = {".svg": "image/svg+xml", ".png": "image/png"}
"""Media types by the end of a plot's name."""


class Pictures:
    """The pictures of all stored results."""

    def __init__(self, results: Results) -> None:
        self._results, self._apart = results, Apart(processes=1)
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
            task = asyncio.create_task(
                self._draw(job_id, document),
                context=Context(),  # it is for all who wait, not for this request
            )
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
                plots = await asyncio.to_thread(_values, place, document["plots"])
                if plots is None:  # another drawing ended meanwhile
                    return
                pictures = await self._apart.run(all_drawn, document["algorithm"], plots)
                await asyncio.to_thread(_keep, place, pictures)
            except Exception as error:
                if not isinstance(error, OSError):
                    self._failed.add(job_id)  # until the service starts again
                log.error("plots_not_drawn", job=job_id, **describe(error))
                raise PlotNotDrawn("drawing failed; its values are in the archive") from None

    async def close(self) -> None:
        """End the drawing in progress."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._apart.close()


def _values(place: Path, names: list[str]) -> dict[str, Any] | None:
    """What the plots show, by name; None if all of them were drawn."""
    if all((place / f"{name}{ending}").is_file() for name in names for ending in KINDS):
        return None
    return {name: json.loads((place / f"{name}.json").read_bytes()) for name in names}


def _keep(place: Path, pictures: Mapping[str, bytes]) -> None:
    """Move each picture into its place when it is whole."""
    for name, content in pictures.items():
        draft = place / f"draft-{uuid4().hex}"
        try:
            draft.write_bytes(content)
            draft.rename(place / name)
        finally:
            draft.unlink(missing_ok=True)
