"""SQLite for asyncio with one visit to the connection's thread per statement.

aiosqlite goes there four times for a SELECT (make a cursor, execute, fetch, close), and with short
statements the visits are most of the cost. Here a statement is executed and fetched in one visit;
making and closing a cursor touches no file and needs none, and a transaction that takes no lock at
its beginning begins in the visit of its first statement.
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
    """A connection with such cursors, and transactions that begin with their first statement."""

    _begin: str | None = None

    def begin_with_next(self, sql: str) -> None:
        """Begin a transaction in the visit of the next statement; `sql` must take no lock."""
        self._begin = sql

    async def _execute(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        begin, self._begin = self._begin, None
        visit: Any = super()._execute
        if begin is None:
            return await visit(fn, *args, **kwargs)

        def both() -> Any:
            self._conn.execute(begin)
            return fn(*args, **kwargs)

        return await visit(both)

    async def commit(self) -> None:
        """End a transaction, if it began."""
        if self._begin is None:
            await super().commit()
        self._begin = None

    async def rollback(self) -> None:
        """Give up a transaction, if it began."""
        if self._begin is None:
            await super().rollback()
        self._begin = None

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
