"""Notifies long polls when a round changes or a job starts collecting, across processes on one
database.

One query per second serves all waiting clients.
"""

from __future__ import annotations

import asyncio
from typing import Any

from common.runtime.logs import get_logger
from common.runtime.tasks import Notice, Repeating
from common.store.transactions import Database
from coordinator.store import jobs
from coordinator.store import rounds as store

LOOK_S = 1.0


def ended(round_id: str) -> str:
    """The key for waiting only for a round's end, not for its steps."""
    return f"{round_id} ended"


_logger = get_logger("tacit.changes")


class Changes(Notice, Repeating):
    """The change notification for long polls. Its loop, one in every coordinator process, watches
    what other processes change."""

    def __init__(self, database: Database) -> None:
        Notice.__init__(self)
        Repeating.__init__(self, "look", _logger, LOOK_S, first_s=LOOK_S, version=database.version)
        self._database = database
        self._waiting = 0
        self._pulse: tuple[Any, ...] | None = None

    async def stop(self) -> None:
        """Stop watching, and release all waiting polls."""
        await super().stop()
        self.end()

    async def wait(self, ticket: asyncio.Event, seconds: float) -> None:
        """Wait until something changed since the ticket was taken, or the time is over."""
        self._waiting += 1
        try:
            await super().wait(ticket, seconds)
        finally:
            self._waiting -= 1

    async def look(self) -> bool:
        """Notify if anything changed; without a waiting poll, query nothing."""
        if not self._waiting:
            self._pulse = None  # the next poll queries for itself first
            return True
        async with self._database.reading() as transaction:
            pulse = (await store.pulse(transaction), await jobs.pulse_of_jobs(transaction))
        if pulse != self._pulse:
            self._pulse = pulse
            self.notify()
        return True
