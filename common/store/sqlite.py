"""SQLite in the event loop's thread, with prepared statements.

A short statement takes a few microseconds and a visit to another thread fifty, so statements run
where they are asked for. What may take long leaves the loop free: a COMMIT, which waits for the
disk, the statements of a `large` transaction, and the opening of a connection run in threads.

The writers of this process wait for each other in the order in which they came. A lock of another
process (a backup) is tried again every few milliseconds, `BUSY_S` long.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

from sqlalchemy import (
    URL,
    Connection,
    CursorResult,
    Dialect,
    Executable,
    create_engine,
    text,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as WaitedTooLong
from sqlalchemy.pool import NullPool

from common.runtime.process import make_private_directory
from common.store.prepared import Statements
from common.store.transactions import (
    Counts,
    Database,
    OneStatement,
    Parameters,
    Result,
    Transaction,
)

PAGE_BYTES: Final = 16384
WAL_BYTES: Final = 64 * 1024 * 1024
BUSY_S: Final = 10.0
_INLINE_BUSY_MS: Final = 10
"""How long a statement in the loop's thread may wait for a file that another process locks."""
_RETRY_S: Final = 0.005
_THREADS: Final = 5
_LARGE_READERS: Final = 3


class _Cursor(sqlite3.Cursor):
    """A cursor whose rows are fetched with the execution: in its thread, and no statement stays
    open."""

    _rows: Iterator[Any] = iter(())

    def execute(self, sql: str, parameters: Any = (), /) -> _Cursor:
        super().execute(sql, parameters)
        self._rows = iter(super().fetchall() if self.description else ())
        return self

    def executemany(self, sql: str, parameters: Any, /) -> _Cursor:
        super().executemany(sql, parameters)
        self._rows = iter(())
        return self

    def fetchone(self) -> Any:
        return next(self._rows, None)

    def fetchmany(self, size: int | None = 1) -> list[Any]:
        return list(islice(self._rows, size))

    def fetchall(self) -> list[Any]:
        return list(self._rows)


class _Connection(sqlite3.Connection):
    """A connection with such cursors."""

    def cursor(self, _: Any = None) -> _Cursor:  # type: ignore[override]
        return super().cursor(_Cursor)


@dataclass(frozen=True, slots=True)
class _Opened:
    """A connection, and the driver's below it, for which SQLAlchemy would search each time."""

    connection: Connection
    driver: sqlite3.Connection


class SqliteTransaction(Transaction):
    """A transaction."""

    def __init__(
        self,
        opened: _Opened,
        threads: ThreadPoolExecutor,
        counts: Counts,
        statements: Statements,
        large: bool,
    ) -> None:
        self._opened, self._threads, self._counts = opened, threads, counts
        self._statements, self._large = statements, large

    @property
    def dialect(self) -> Dialect:
        """SQLite's."""
        return self._opened.connection.dialect

    async def execute(
        self, statement: Executable, parameters: Parameters = None, /, *, large: bool = False
    ) -> CursorResult[*tuple[Any, ...]]:
        """The rows, all of them fetched, or the count of a statement."""
        self._counts.statements += 1
        if not (large or self._large):
            return self._execute(statement, parameters)
        return await _finished(self._threads, partial(self._execute, statement, parameters))

    def _execute(
        self, statement: Executable, parameters: Parameters
    ) -> CursorResult[*tuple[Any, ...]]:
        bound = self._statements.known(statement, parameters)
        if bound is None:
            result = self._opened.connection.execute(statement, parameters)
            self._statements.note(statement, parameters, result)
            return result
        prepared, sql, values = bound
        cursor = sqlite3.Cursor(self._opened.driver)
        try:
            if len(values) > 1:
                cursor.executemany(sql, values)
            else:
                cursor.execute(sql, values[0])
        except sqlite3.Error as error:  # as SQLAlchemy raises it
            raise DBAPIError.instance(
                sql, None, error, sqlite3.Error, hide_parameters=True
            ) from error
        found: CursorResult[*tuple[Any, ...]]
        found = prepared.result(cursor.fetchall(), cursor.rowcount)
        return found

    async def on_driver(self, work: Callable[[Any], Any], /) -> Any:
        """What `work` returns for the `sqlite3.Connection`."""
        self._counts.statements += 1
        if not self._large:
            return work(self._opened.driver)
        return await _finished(self._threads, partial(work, self._opened.driver))

    async def run_sync(self, work: Callable[[Connection], Result], /) -> Result:
        """What `work` returns for SQLAlchemy's connection, in a thread."""
        return await _finished(self._threads, partial(work, self._opened.connection))


class SqliteDatabase(Database):
    """A database file. It belongs to one event loop at a time."""

    def __init__(self, url: URL) -> None:
        self._engine = create_engine(
            url.set(drivername="sqlite"),
            hide_parameters=True,
            poolclass=NullPool,
            connect_args={"check_same_thread": False, "factory": _Connection, "timeout": BUSY_S},
        )
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="sqlite")
        self._idle: list[_Opened] = []
        self._watching: _Opened | None = None
        """Writes nothing itself: its data version counts what all others commit."""
        self._statements = Statements(self._engine.dialect)
        self._writer = asyncio.Lock()
        self.counts = Counts()
        self._large = asyncio.Semaphore(_LARGE_READERS)

    @property
    def dialect(self) -> Dialect:
        """SQLite's."""
        return self._engine.dialect

    @asynccontextmanager
    async def begin(self, *, large: bool = False) -> AsyncIterator[SqliteTransaction]:
        """A transaction that may write; raises sqlalchemy.exc.TimeoutError after `BUSY_S`."""
        with self._noting():
            await self._my_turn()
            self.counts.writing += 1
            try:
                opened = await self._take()
                driver = opened.driver
                try:
                    await _begin_immediate(driver)
                    before = driver.total_changes
                    yield SqliteTransaction(
                        opened, self._threads, self.counts, self._statements, large
                    )
                    if driver.total_changes != before:
                        await _finished(self._threads, driver.commit)
                    else:
                        driver.commit()
                    opened.connection.commit()
                finally:
                    self._give_back(opened)
            finally:
                self._writer.release()

    @asynccontextmanager
    async def reading(self, *, large: bool = False) -> AsyncIterator[SqliteTransaction]:
        """A transaction that only reads."""
        async with self._large if large else nullcontext():
            opened = await self._take()
            self.counts.reading += 1
            try:
                sqlite3.Cursor(opened.driver).execute("BEGIN DEFERRED")
                yield SqliteTransaction(opened, self._threads, self.counts, self._statements, large)
            finally:
                self._give_back(opened)

    @asynccontextmanager
    async def _reading_one(self) -> AsyncIterator[OneStatement]:
        """One statement, which is a transaction itself."""
        opened = await self._take()
        self.counts.reading += 1
        try:
            yield OneStatement(
                SqliteTransaction(opened, self._threads, self.counts, self._statements, False)
            )
        finally:
            self._give_back(opened)

    async def version(self) -> Hashable:
        """SQLite's own count of the commits of other connections."""
        if self._watching is None:
            connection = await self._take()
            if self._watching is None:
                self._watching = connection
            else:  # counts of two connections cannot be compared
                self._give_back(connection)
        return int(self._watching.driver.execute("PRAGMA data_version").fetchone()[0])

    async def change_schema(self, work: Callable[[Connection], None]) -> None:
        """Run `work` alone, with foreign keys checked at its end."""
        await self._my_turn()
        try:
            await _finished(self._threads, partial(self._change_schema, work))
        finally:
            self._writer.release()

    def _change_schema(self, work: Callable[[Connection], None]) -> None:
        # SQLite changes a table by copying it, which must not cascade.
        opened = self._open()
        connection, driver = opened.connection, opened.driver
        with connection:
            driver.execute(f"PRAGMA busy_timeout={int(BUSY_S * 1000)}")
            driver.execute("PRAGMA foreign_keys=OFF")
            driver.execute("BEGIN IMMEDIATE")
            work(connection)
            if connection.execute(text("PRAGMA foreign_key_check")).first() is not None:
                raise RuntimeError("the migration would leave broken references")
            connection.commit()

    async def checkpoint(self, patience_ms: int) -> bool:
        """Move the log into the database and cut it; whether it is empty now. Writers wait for a
        log that a reader blocks, `patience_ms` long."""

        def emptied() -> bool:
            opened = self._open()
            with opened.connection:
                opened.driver.execute(f"PRAGMA busy_timeout={patience_ms}")
                row = opened.driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                return tuple(row) == (0, 0, 0)

        await self._my_turn()
        try:
            return await _finished(self._threads, emptied)
        finally:
            self._writer.release()

    async def dispose(self) -> None:
        """Close the connections that nobody uses."""
        watching, self._watching = self._watching, None
        for opened in (*self._idle, *filter(None, (watching,))):
            opened.connection.close()
        self._idle.clear()

    async def _my_turn(self) -> None:
        if not self._writer.locked():
            await self._writer.acquire()
            return
        try:
            async with asyncio.timeout(BUSY_S):
                await self._writer.acquire()
        except TimeoutError:
            raise WaitedTooLong("another transaction takes too long") from None

    async def _take(self) -> _Opened:
        if self._idle:
            return self._idle.pop()
        return await _finished(self._threads, self._open)

    def _give_back(self, opened: _Opened) -> None:
        try:
            opened.connection.rollback()
            opened.driver.rollback()
        except Exception:
            opened.connection.close()
            raise
        self._idle.append(opened)

    def _open(self) -> _Opened:
        connection = self._engine.connect()
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        driver.isolation_level = None
        for pragma in (
            f"busy_timeout={int(BUSY_S * 1000)}",
            f"page_size={PAGE_BYTES}",
            "journal_mode=WAL",
            "synchronous=FULL",
            "foreign_keys=ON",
            "secure_delete=ON",
        ):
            driver.execute(f"PRAGMA {pragma}")
        page = int(driver.execute("PRAGMA page_size").fetchone()[0])
        driver.execute(f"PRAGMA wal_autocheckpoint={WAL_BYTES // page}")
        driver.execute(f"PRAGMA busy_timeout={_INLINE_BUSY_MS}")
        return _Opened(connection, driver)


def open_sqlite(url: URL) -> SqliteDatabase:
    """The database of a file, which is made with mode 0600 if it is not there."""
    path = url.database
    if path and not path.startswith("file:"):
        make_private_directory(Path(path).absolute().parent)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    return SqliteDatabase(url)


async def _begin_immediate(driver: sqlite3.Connection) -> None:
    """Take the file's write lock, which another process may hold for a while."""
    loop = asyncio.get_running_loop()
    end = loop.time() + BUSY_S
    while True:
        try:
            sqlite3.Cursor(driver).execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            if loop.time() > end:
                raise WaitedTooLong("another process locks the database") from None
            await asyncio.sleep(_RETRY_S)
        else:
            return


class _Visit:
    """Work in a thread, and who waits for it in the loop."""

    __slots__ = ("_loop", "_work", "done", "error", "result", "waiter")

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Callable[[], Any]) -> None:
        self._loop, self._work = loop, work
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.waiter: asyncio.Future[None] = loop.create_future()

    def run(self) -> None:
        """In the thread."""
        try:
            self.result = self._work()
        except BaseException as error:
            self.error = error
        self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        self.done = True
        if not self.waiter.done():
            self.waiter.set_result(None)


async def _finished(threads: ThreadPoolExecutor, work: Callable[[], Result]) -> Result:
    """What `work` returns in a thread. Who is cancelled waits for its end all the same: a
    connection is never used by two."""
    loop = asyncio.get_running_loop()
    visit = _Visit(loop, work)
    threads.submit(visit.run)
    cancelled: asyncio.CancelledError | None = None
    while not visit.done:
        try:
            await visit.waiter
        except asyncio.CancelledError as error:
            cancelled, visit.waiter = error, loop.create_future()
    if cancelled is not None:
        raise cancelled
    if visit.error is not None:
        raise visit.error
    result: Result = visit.result
    return result
