"""Removes destroyed data from SQLite's files: from free pages immediately, from the log soon after.

SQLite overwrites what it frees (`secure_delete`, set for every connection), but the write-ahead log
keeps older versions of its pages until it is moved into the database and cut. A transaction that
destroys something marks this with `to_erase`, in a number of the database's header (`user_version`,
which nothing else uses), so that the mark survives a crash; `erase` is repeated until the log is
empty: a reader that stays open delays it. Spec: keys, section 6.4.

PostgreSQL keeps dead rows until it vacuums, and archives of its log: this module does not erase
there.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import text

from common.store.sqlite import SqliteDatabase
from common.store.transactions import Database, Transaction

OVERDUE_S: Final = 3600.0
_PATIENCE_MS: Final = 500
"""How long writers may wait for a log that a reader blocks; another attempt follows soon."""


async def to_erase(transaction: Transaction) -> None:
    """Request that the log be emptied; call it in the transaction that destroys something."""
    if transaction.dialect.name == "sqlite":
        mark = 1 + secrets.randbelow(2**31 - 1)
        await transaction.on_driver(lambda driver: driver.execute(f"PRAGMA user_version={mark}"))


@dataclass
class Erasure:
    """Empties the log of one database; `since`: the first attempt that found it blocked."""

    database: Database
    since: float | None = field(default=None)

    async def erase(self) -> bool:
        """Empty the log if something was destroyed; whether nothing is left to erase."""
        if not isinstance(self.database, SqliteDatabase):
            return True
        async with self.database.reading() as transaction:
            mark = await _mark(transaction)
        if mark == 0 or (await self.database.checkpoint(_PATIENCE_MS) and await self._unmark(mark)):
            self.since = None
            return True
        self.since = self.since if self.since is not None else time.monotonic()
        return False

    @property
    def overdue(self) -> bool:
        """Whether the log has been blocked for an hour."""
        return self.since is not None and time.monotonic() - self.since > OVERDUE_S

    async def readiness(self) -> str | None:
        """The readiness check for `/readyz`."""
        return "log_not_emptied" if self.overdue else None

    async def _unmark(self, mark: int) -> bool:
        """Whether nothing was destroyed since the log was emptied."""
        async with self.database.begin() as transaction:
            if await _mark(transaction) != mark:
                return False
            await transaction.execute(text("PRAGMA user_version=0"))
            return True


async def _mark(transaction: Transaction) -> int:
    return int((await transaction.execute(text("PRAGMA user_version"))).scalar_one())
