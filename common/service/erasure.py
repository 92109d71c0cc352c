"""What a transaction destroys leaves SQLite's files: free pages at once, the log a little later.

SQLite overwrites what it frees (`secure_delete`, set for every connection), but the write-ahead log
keeps older versions of its pages until it is moved into the database and cut. A transaction that
destroys something says so by `to_erase`, in a number of the database's own header (`user_version`,
which nothing else uses), so that it is known after a crash; `erase` is repeated until the log was
really emptied: a reader that stays open holds it back. Spec: keys, section 6.4.

PostgreSQL keeps dead rows until it vacuums, and archives of its log: nothing here can help there.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from common.service.database import BUSY_MS, reading

OVERDUE_S: Final = 3600.0
_PATIENCE_MS: Final = 500
"""How long writers may wait for a log that a reader holds back; there is another attempt soon."""


async def to_erase(connection: AsyncConnection) -> None:
    """In the transaction that destroys something: have the log emptied."""
    if connection.dialect.name == "sqlite":
        mark = 1 + secrets.randbelow(2**31 - 1)
        await connection.execute(text(f"PRAGMA user_version={mark}"))


@dataclass
class Erasure:
    """Empties the log of one database; `since`: the first attempt that found it held back."""

    engine: AsyncEngine
    since: float | None = field(default=None)

    async def erase(self) -> bool:
        """Empty the log if something was destroyed; whether nothing is left to erase."""
        if self.engine.dialect.name != "sqlite":
            return True
        async with reading(self.engine) as connection:
            mark = await _mark(connection)
        if mark == 0 or (await self._emptied() and await self._unmark(mark)):
            self.since = None
            return True
        self.since = self.since if self.since is not None else time.monotonic()
        return False

    @property
    def overdue(self) -> bool:
        """Whether the log has been held back for an hour."""
        return self.since is not None and time.monotonic() - self.since > OVERDUE_S

    async def readiness(self) -> str | None:
        """What `/readyz` says of it."""
        return "log_not_emptied" if self.overdue else None

    async def _emptied(self) -> bool:
        async with self.engine.connect() as connection:
            driver: Any = (await connection.get_raw_connection()).driver_connection
            await driver.execute(f"PRAGMA busy_timeout={_PATIENCE_MS}")
            try:
                cursor = await driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                row = await cursor.fetchone()
            finally:
                await driver.execute(f"PRAGMA busy_timeout={BUSY_MS}")
        return tuple(row) == (0, 0, 0)

    async def _unmark(self, mark: int) -> bool:
        """Whether nothing was destroyed since the log was emptied."""
        async with self.engine.begin() as connection:
            if await _mark(connection) != mark:
                return False
            await connection.execute(text("PRAGMA user_version=0"))
            return True


async def _mark(connection: AsyncConnection) -> int:
    return int((await connection.execute(text("PRAGMA user_version"))).scalar_one())
