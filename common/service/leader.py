"""One process at a time does what must not be done by two: a lock that ends with its holder.

On PostgreSQL it is an advisory lock of a session of its own: when the process dies or loses the
database, the server gives the lock to whoever asks next, with no time to wait out. SQLite belongs
to one process, which leads. It saves work and quiets logs; what is right rests on transactions,
because a leader that has lost its session learns so only at its next look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from common.service.database import lock_key
from common.service.logs import describe, get_logger

LOOK_S: Final = 1.0
_logger = get_logger("tacit.leader")
Step = Callable[[], Awaitable[None]]


class Leader:
    """Runs a part of a service while this process leads for `purpose`."""

    def __init__(
        self, engine: AsyncEngine, purpose: str, begin: Step, end: Step, look_s: float = LOOK_S
    ) -> None:
        """`begin` starts the part, `end` stops it; neither waits for the part's work."""
        self._engine, self._purpose = engine, purpose
        self._begin, self._end, self._look_s = begin, end, look_s
        self._task: asyncio.Task[None] | None = None
        self.leads = False

    async def start(self) -> None:
        """Lead at once where there is nobody else to ask, else ask until this process does."""
        if self._engine.dialect.name != "postgresql":
            await self._lead()
            return
        self._task = asyncio.create_task(self._ask(), name=f"leader {self._purpose}")

    async def stop(self) -> None:
        """Stop the part and give the lock back."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._follow()

    async def _ask(self) -> None:
        while True:
            try:
                async with self._engine.connect() as connection:
                    await connection.execution_options(isolation_level="AUTOCOMMIT")
                    await self._hold(connection)
            except Exception as error:
                _logger.warning("leader_session_lost", purpose=self._purpose, **describe(error))
            finally:
                await self._follow()
            await asyncio.sleep(self._look_s)

    async def _hold(self, connection: AsyncConnection) -> None:
        """Wait for the lock, lead while the session lasts, and unlock whatever happens."""
        key = {"key": lock_key(f"leader {self._purpose}")}
        attempt, release = (
            text(f"SELECT pg_{word}(:key)") for word in ("try_advisory_lock", "advisory_unlock")
        )
        while not (await connection.execute(attempt, key)).scalar_one():
            await asyncio.sleep(self._look_s)
        try:
            await self._lead()
            while True:
                await asyncio.sleep(self._look_s)
                await connection.execute(text("SELECT 1"))
        finally:
            await self._follow()
            with suppress(Exception):  # a session that is lost has lost its lock too
                await connection.execute(release, key)

    async def _lead(self) -> None:
        if not self.leads:
            self.leads = True
            await self._begin()

    async def _follow(self) -> None:
        if self.leads:
            self.leads = False
            await self._end()
