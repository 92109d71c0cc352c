"""SQLite in the event loop's thread, with prepared statements.

Statements that are made once and asked again and again, on SQLite.

SQLAlchemy spends several times as long on a short statement as SQLite does. What it works out of a
statement (its text, the order of its parameters, the types on both sides) is the same each time. So
a statement that is the same object runs on the driver from its third execution on, with what was
worked out at the second. Statements that are built for one execution are left to SQLAlchemy, as is
whatever needs more of it: defaults made in Python, or rows returned for several sets of parameters.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias, cast
from weakref import WeakSet

from sqlalchemy import (
    URL,
    Connection,
    CursorResult,
    Delete,
    Dialect,
    Executable,
    Insert,
    Select,
    Update,
    create_engine,
    text,
)
from sqlalchemy.engine.result import IteratorResult, SimpleResultMetaData
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as WaitedTooLong
from sqlalchemy.pool import NullPool
from sqlalchemy.sql.compiler import SQLCompiler

from common.runtime.process import make_private_directory
from common.store.transactions import Counts, Database, Parameters, Result, Transaction

_Processor: TypeAlias = Callable[[Any], Any] | None
_Known: TypeAlias = Select[Any] | Insert | Update | Delete
_Use: TypeAlias = tuple[frozenset[str], bool]
"""With which parameters, and whether with several sets of them."""
_SHAPES: Final = 64
"""How many lengths of its lists are kept for one statement."""
_MOST: Final = 1024
"""Statements that are kept: more than there are in any service that made them once."""


class Rows(IteratorResult[Any]):
    """The rows of a statement, and how many it changed."""

    def __init__(self, keys: SimpleResultMetaData, rows: Iterable[Any], rowcount: int) -> None:
        super().__init__(keys, iter(rows))
        self.rowcount = rowcount


@dataclass(frozen=True)
class _Shape:
    """The text for lists of certain lengths, and its values in order: the parameter's name, the
    place in it if it is a list, and what makes of it what the driver takes."""

    text: str
    values: tuple[tuple[str, int | None, _Processor], ...]


@dataclass(frozen=True)
class _Prepared:
    """What is known of a statement. `constants`: the values that are part of it; `lists`: those of
    its values that are lists; `binds`: what makes of a value, or of each in its list, what the
    driver takes; `processors`: what makes the values of a row."""

    compiled: SQLCompiler
    constants: Mapping[str, Any]
    lists: tuple[str, ...]
    binds: Mapping[str, _Processor]
    keys: SimpleResultMetaData
    processors: tuple[_Processor, ...]
    shapes: dict[tuple[int, ...], _Shape] = field(default_factory=dict)

    def run(self, driver: sqlite3.Connection, sets: Sequence[Mapping[str, Any]]) -> Rows:
        """Execute it with one set of parameters, or with several."""
        cursor = driver.cursor()
        shape = self._shape(sets[0])
        try:
            if len(sets) > 1:
                cursor.executemany(shape.text, [self._values(shape, each) for each in sets])
            else:
                cursor.execute(shape.text, self._values(shape, sets[0]))
        except sqlite3.Error as error:  # as SQLAlchemy raises it
            raise DBAPIError.instance(
                shape.text, None, error, sqlite3.Error, hide_parameters=True
            ) from error
        rows: list[Any] = cursor.fetchall()
        if any(self.processors):
            rows = [
                tuple(
                    value if made is None else made(value)
                    for made, value in zip(self.processors, row, strict=True)
                )
                for row in rows
            ]
        return Rows(self.keys, rows, cursor.rowcount)

    def _values(self, shape: _Shape, parameters: Mapping[str, Any]) -> list[Any]:
        found = []
        for name, place, made in shape.values:
            value = self.constants[name] if name in self.constants else parameters[name]
            if place is not None:
                value = value[place]
            found.append(value if made is None else made(value))
        return found

    def _shape(self, parameters: Mapping[str, Any]) -> _Shape:
        lengths = tuple(len(parameters[name]) for name in self.lists if name in parameters)
        known = self.shapes.get(lengths)
        if known is None:
            if len(self.shapes) >= _SHAPES:
                self.shapes.clear()
            known = self.shapes[lengths] = self._shaped(parameters)
        return known

    def _shaped(self, parameters: Mapping[str, Any]) -> _Shape:
        state = self.compiled.construct_expanded_state(dict(parameters))
        parts = {
            part: (name, place)
            for name in self.lists
            for place, part in enumerate(state.parameter_expansion[name])
        }
        places = [parts.get(name, (name, None)) for name in state.positiontup or ()]
        return _Shape(
            state.statement, tuple((name, place, self.binds[name]) for name, place in places)
        )


class Statements:
    """The statements that a database has executed before."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._seen: WeakSet[Executable] = WeakSet()
        self._known: dict[Executable, dict[_Use, _Prepared | None]] = {}

    def execute(
        self,
        connection: Connection,
        driver: sqlite3.Connection,
        statement: Executable,
        parameters: Parameters,
    ) -> CursorResult[*tuple[Any, ...]]:
        """The rows, or the count of a statement. `driver`: the connection below SQLAlchemy's.
        Raises what SQLAlchemy raises."""
        if not isinstance(statement, _Known):
            return connection.execute(statement, parameters)
        sets = [parameters or {}] if not isinstance(parameters, Sequence) else parameters
        if not sets:
            return connection.execute(statement, parameters)
        use = frozenset(sets[0]), len(sets) > 1
        uses = self._known.get(statement, {})
        prepared = uses.get(use)
        if prepared is None:
            result = connection.execute(statement, parameters)
            if use not in uses:
                self._look_at(statement, use, result)
            return result
        return cast("CursorResult[*tuple[Any, ...]]", prepared.run(driver, sets))

    def _look_at(self, statement: _Known, use: _Use, result: CursorResult[Any]) -> None:
        """After an execution: prepare a statement that was seen before. It is kept, and what is
        known of it; one that is seen once is not."""
        if statement not in self._seen:
            self._seen.add(statement)
            return
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known.setdefault(statement, {})[use] = self._prepared(statement, use, result)

    def _prepared(
        self,
        statement: Select[Any] | Insert | Update | Delete,
        use: _Use,
        result: CursorResult[Any],
    ) -> _Prepared | None:
        """What is known of a statement after this result; None where SQLAlchemy is needed."""
        names, several = use
        compiled = statement.compile(dialect=self._dialect, column_keys=sorted(names))
        columns = tuple(statement.exported_columns) if result.returns_rows else ()
        keys = list(result.keys()) if result.returns_rows else []
        if (
            not isinstance(compiled, SQLCompiler)
            or compiled.prefetch
            or compiled.escaped_bind_names
            or compiled.literal_execute_params
            or (several and columns)
            or len(keys) != len(columns)
            or any(bind.callable is not None for bind in compiled.bind_names)
        ):
            return None
        binds = {name: bind for bind, name in compiled.bind_names.items()}
        lists = tuple(sorted(name for name, bind in binds.items() if bind.expanding))
        return _Prepared(
            compiled,
            {name: bind.value for name, bind in binds.items() if name not in names},
            lists,
            {
                name: bind.type.dialect_impl(self._dialect).bind_processor(self._dialect)
                for name, bind in binds.items()
            },
            SimpleResultMetaData(keys),
            tuple(
                column.type.dialect_impl(self._dialect).result_processor(self._dialect, None)
                for column in columns
            ),
        )


# SQLite in the event loop's thread.
#
# A short statement takes a few microseconds and a visit to another thread fifty, so statements run
# where they are asked for. What may take long leaves the loop free: a COMMIT, which waits for the
# disk, the statements of a `large` transaction, and the opening of a connection run in threads.
#
# The writers of this process wait for each other in the order in which they came. A lock of another
# process (a backup) is tried again every few milliseconds, `BUSY_S` long.

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
        *,
        large: bool,
    ) -> None:
        self._opened, self._threads = opened, threads
        self._counts, self._statements, self._large = counts, statements, large

    @property
    def dialect(self) -> Dialect:
        """SQLite's."""
        return self._opened.connection.dialect

    async def execute(
        self, statement: Executable, parameters: Parameters = None, /, *, large: bool = False
    ) -> CursorResult[*tuple[Any, ...]]:
        """The rows, all of them fetched, or the count of a statement."""
        self._counts.statements += 1
        execute = partial(self._statements.execute, self._opened.connection, self._opened.driver)
        return await self._run(partial(execute, statement, parameters), large=large)

    async def on_driver(self, work: Callable[[Any], Any], /) -> Any:
        """What `work` returns for the `sqlite3.Connection`."""
        self._counts.statements += 1
        return await self._run(partial(work, self._opened.driver))

    async def run_sync(self, work: Callable[[Connection], Result], /) -> Result:
        """What `work` returns for SQLAlchemy's connection, in a thread."""
        return await _finished(self._threads, partial(work, self._opened.connection))

    async def _run(self, work: Callable[[], Result], *, large: bool = False) -> Result:
        return await _finished(self._threads, work) if large or self._large else work()


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
                async with self._writing(large=large) as transaction:
                    yield transaction
            finally:
                self._writer.release()

    @asynccontextmanager
    async def _writing(self, *, large: bool) -> AsyncIterator[SqliteTransaction]:
        opened = await self._take()
        driver = opened.driver
        try:
            await _begin_immediate(driver)
            before = driver.total_changes
            yield self._transaction(opened, large=large)
            if driver.total_changes != before:
                await _finished(self._threads, driver.commit)
            else:
                driver.commit()
            opened.connection.commit()
        finally:
            self._give_back(opened)

    @asynccontextmanager
    async def reading(self, *, large: bool = False) -> AsyncIterator[SqliteTransaction]:
        """A transaction that only reads."""
        if large:
            async with self._large, self._view(large=True) as transaction:
                yield transaction
        else:
            async with self._view(large=False) as transaction:
                yield transaction

    @asynccontextmanager
    async def _view(self, *, large: bool) -> AsyncIterator[SqliteTransaction]:
        opened = await self._take()
        self.counts.reading += 1
        try:
            opened.driver.execute("BEGIN DEFERRED")
            yield self._transaction(opened, large=large)
        finally:
            self._give_back(opened)

    def _transaction(self, opened: _Opened, *, large: bool) -> SqliteTransaction:
        return SqliteTransaction(opened, self._threads, self.counts, self._statements, large=large)

    async def version(self) -> Hashable:
        """SQLite's own count of the commits of other connections."""
        if self._watching is None:
            taken = await self._take()
            if self._watching is None:
                self._watching = taken
            else:  # counts of two connections cannot be compared
                self._give_back(taken)
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
            driver.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            if loop.time() > end:
                raise WaitedTooLong("another process locks the database") from None
            await asyncio.sleep(_RETRY_S)
        else:
            return


async def _finished(threads: ThreadPoolExecutor, work: Callable[[], Result]) -> Result:
    """What `work` returns in a thread. Who is cancelled waits for its end all the same: a
    connection is never used by two."""
    running = asyncio.get_running_loop().run_in_executor(threads, work)
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait((running,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return running.result()
