"""Leader election: one process at a time does the background work; the lock ends with its holder.

On PostgreSQL it is an advisory lock of a separate session: when the process dies or loses the
database, the server gives the lock to the next process that requests it, without a timeout. SQLite
belongs to one process, which leads. The lock saves work and log lines; correctness rests on
transactions, because a leader that has lost its session notices only at its next check.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from sqlalchemy import text

from common.runtime.logs import describe, get_logger
from common.store.database import lock_key
from common.store.transactions import Database

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

LOOK_S: Final = 1.0
_logger = get_logger("tacit.leader")
Step = Callable[[], Awaitable[None]]


class Leader:
    """Runs a part of a service while this process leads for `purpose`."""

    def __init__(
        self, database: Database, purpose: str, begin: Step, end: Step, look_s: float = LOOK_S
    ) -> None:
        """`begin` starts the part, `end` stops it; neither waits for the part's work."""
        self._database, self._purpose = database, purpose
        self._begin, self._end, self._look_s = begin, end, look_s
        self._task: asyncio.Task[None] | None = None
        self.leads = False

    async def start(self) -> None:
        """Lead immediately if there is only one process, else try until this process leads."""
        if self._database.dialect.name != "postgresql":
            await self._lead()
            return
        from common.store.postgresql import PostgresqlDatabase

        assert isinstance(self._database, PostgresqlDatabase)
        sessions = self._ask(self._database.engine)
        self._task = asyncio.create_task(sessions, name=f"leader {self._purpose}")

    async def stop(self) -> None:
        """Stop the part and give the lock back."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._follow()

    async def _ask(self, engine: AsyncEngine) -> None:
        while True:
            try:
                async with engine.connect() as session:
                    await session.execution_options(isolation_level="AUTOCOMMIT")
                    await self._hold(session)
            except Exception as error:
                _logger.warning("leader_session_lost", purpose=self._purpose, **describe(error))
            finally:
                await self._follow()
            await asyncio.sleep(self._look_s)

    async def _hold(self, session: AsyncConnection) -> None:
        """Wait for the lock, lead while the session lasts, and unlock whatever happens."""
        key = {"key": lock_key(f"leader {self._purpose}")}
        attempt, release = (
            text(f"SELECT pg_{word}(:key)") for word in ("try_advisory_lock", "advisory_unlock")
        )
        while not (await session.execute(attempt, key)).scalar_one():
            await asyncio.sleep(self._look_s)
        try:
            await self._lead()
            while True:
                await asyncio.sleep(self._look_s)
                await session.execute(text("SELECT 1"))
        finally:
            await self._follow()
            with suppress(Exception):  # a session that is lost has lost its lock too
                await session.execute(release, key)

    async def _lead(self) -> None:
        if not self.leads:
            self.leads = True
            await self._begin()

    async def _follow(self) -> None:
        if self.leads:
            self.leads = False
            await self._end()
