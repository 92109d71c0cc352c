"""SQLite for asyncio with one visit to the connection's thread per statement.

aiosqlite goes there four times for a SELECT (make a cursor, execute, fetch, close), and with short
statements the visits are most of the cost. Here a statement is executed and fetched in one visit;
making and closing a cursor touches no file and needs none.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any

import aiosqlite
from aiosqlite.context import contextmanager


class Cursor(aiosqlite.Cursor):
    """A cursor whose rows are fetched with the execution."""

    _rows: list[Any]

    def _run(self, sql: str, parameters: Iterable[Any]) -> list[Any]:
        self._cursor.execute(sql, parameters)  # type: ignore[arg-type]
        return self._cursor.fetchall() if self._cursor.description else []

    async def execute(self, sql: str, parameters: Iterable[Any] | None = None) -> Cursor:
        """Execute, and fetch what there is."""
        visit: Any = self._conn._execute
        self._rows = await visit(self._run, sql, parameters or ())
        return self

    async def fetchone(self) -> Any:
        """The next row, or nothing."""
        return self._rows.pop(0) if self._rows else None

    async def fetchmany(self, size: int | None = None) -> list[Any]:
        """The next rows."""
        size = size or self.arraysize
        rows, self._rows = self._rows[:size], self._rows[size:]
        return rows

    async def fetchall(self) -> list[Any]:
        """The rows that are left."""
        rows, self._rows = self._rows, []
        return rows

    async def close(self) -> None:
        """Close it."""
        self._cursor.close()


class Connection(aiosqlite.Connection):
    """A connection with such cursors."""

    @contextmanager
    async def cursor(self) -> aiosqlite.Cursor:
        """A new cursor."""
        return Cursor(self, self._conn.cursor())


def connect(database: str, **options: Any) -> Connection:
    """A connection that opens when it is awaited; `options` are those of sqlite3."""

    def connector() -> sqlite3.Connection:
        # Statements run in the connection's thread; cursors are made and closed in the loop's.
        opened: sqlite3.Connection = sqlite3.connect(
            database, **{**options, "check_same_thread": False}
        )
        return opened

    connection = Connection(connector, 64)
    connection._thread.daemon = True
    return connection
