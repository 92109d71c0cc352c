"""Wakes long polls when a round changed or a job began to collect, in this process or in another on
the same database.

One question a second to the store serves all who wait, however many they are.
"""

from __future__ import annotations

import asyncio
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine

from common.service.database import reading
from common.service.logs import describe, get_logger
from common.service.notice import Notice
from coordinator.background import Pauses, finish
from coordinator.store import job_steps
from coordinator.store import rounds as store

LOOK_S = 1.0
_logger = get_logger("tacit.changes")


class Changes(Notice):
    """What long polls wait for; `start` and `stop` its look at other processes."""

    def __init__(self, engine: AsyncEngine) -> None:
        super().__init__()
        self._engine = engine
        self._waiting = 0
        self._pulse: tuple[Any, ...] | None = None
        self._pauses = Pauses()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look at what other processes change."""
        self._task = asyncio.create_task(self._look(), name="changes")

    async def stop(self) -> None:
        """Stop looking, and let everyone go who waits."""
        self._pauses.end()
        if self._task is not None:
            await finish([self._task])
        self.notify()

    async def wait(self, ticket: asyncio.Event, seconds: float) -> None:
        """Until something changed since the ticket was taken, or the time is over."""
        self._waiting += 1
        try:
            await super().wait(ticket, seconds)
        finally:
            self._waiting -= 1

    async def _look(self) -> None:
        while not self._pauses.ending:
            await self._pauses.pause(LOOK_S)
            if not self._waiting:
                self._pulse = None  # who comes next looks for itself first
                continue
            try:
                async with reading(self._engine) as connection:
                    rounds, jobs = await store.pulse(connection), await job_steps.pulse(connection)
            except Exception as error:
                _logger.error("look_failed", **describe(error))
                continue
            if (rounds, jobs) != self._pulse:
                self._pulse = rounds, jobs
                self.notify()
