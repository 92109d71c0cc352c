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
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, nullcontext
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

    rowcount: int


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
    driver takes; `processors`: what makes a value of a row, by its place."""

    compiled: SQLCompiler
    constants: Mapping[str, Any]
    lists: tuple[str, ...]
    binds: Mapping[str, _Processor]
    keys: SimpleResultMetaData
    processors: tuple[tuple[int, Callable[[Any], Any]], ...]
    shapes: dict[tuple[int, ...], _Shape] = field(default_factory=dict)

    def run(self, driver: sqlite3.Connection, sets: Sequence[Mapping[str, Any]]) -> Rows:
        """Execute it with one set of parameters, or with several."""
        cursor = sqlite3.Cursor(driver)
        shape = self.shapes[()] if not self.lists else self._shape(sets[0])
        bound = []
        for parameters in sets:
            values: list[Any] = []
            for name, place, process in shape.values:
                value = self.constants[name] if name in self.constants else parameters[name]
                if place is not None:
                    value = value[place]
                values.append(value if process is None else process(value))
            bound.append(values)
        try:
            if len(sets) > 1:
                cursor.executemany(shape.text, bound)
            else:
                cursor.execute(shape.text, bound[0])
        except sqlite3.Error as error:  # as SQLAlchemy raises it
            raise DBAPIError.instance(
                shape.text, None, error, sqlite3.Error, hide_parameters=True
            ) from error
        rows: list[Any] = cursor.fetchall()
        for number, row in enumerate(rows if self.processors else ()):
            values = list(row)
            for place, process in self.processors:
                values[place] = None if row[place] is None else process(row[place])
            rows[number] = tuple(values)
        result = Rows(self.keys, iter(rows))
        result.rowcount = cursor.rowcount
        return result

    def _shape(self, parameters: Mapping[str, Any]) -> _Shape:
        lengths = tuple([len(parameters[name]) for name in self.lists if name in parameters])
        shape = self.shapes.get(lengths)
        if shape is None:
            if len(self.shapes) >= _SHAPES:
                self.shapes.clear()
            shape = self.shapes[lengths] = self.shape_of(parameters)
        return shape

    def shape_of(self, parameters: Mapping[str, Any]) -> _Shape:
        """The shape for lists as long as in these parameters."""
        state = self.compiled.construct_expanded_state(dict(parameters))
        parts = {
            part: (name, place)
            for name in self.lists
            for place, part in enumerate(state.parameter_expansion[name])
        }
        places = [parts.get(name, (name, None)) for name in state.positiontup or ()]
        values = [(name, place, self.binds[name]) for name, place in places]
        return _Shape(state.statement, tuple(values))


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
        several = isinstance(parameters, list | tuple)
        sets = cast("Sequence[Mapping[str, Any]]", parameters if several else (parameters or {},))
        if not sets:
            return connection.execute(statement, parameters)
        use = frozenset(sets[0]), len(sets) > 1
        uses = self._known.get(statement) or {}
        prepared = uses.get(use)
        if prepared is None:
            result = connection.execute(statement, parameters)
            if use not in uses and isinstance(statement, _Known):
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
        processors = [
            column.type.dialect_impl(self._dialect).result_processor(self._dialect, None)
            for column in columns
        ]
        prepared = _Prepared(
            compiled,
            {name: bind.value for name, bind in binds.items() if name not in names},
            lists,
            {
                name: bind.type.dialect_impl(self._dialect).bind_processor(self._dialect)
                for name, bind in binds.items()
            },
            SimpleResultMetaData(keys),
            tuple(
                (place, processor)
                for place, processor in enumerate(processors)
                if processor is not None
            ),
        )
        if not lists:
            prepared.shapes[()] = prepared.shape_of(dict.fromkeys(names))
        return prepared


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


@dataclass(frozen=True, slots=True, eq=False)
class SqliteTransaction(Transaction):
    """A transaction."""

    _opened: _Opened
    _threads: ThreadPoolExecutor
    _counts: Counts
    _statements: Statements
    _large: bool

    @property
    def dialect(self) -> Dialect:
        """SQLite's."""
        return self._opened.connection.dialect

    async def execute(
        self, statement: Executable, parameters: Parameters = None, /, *, large: bool = False
    ) -> CursorResult[*tuple[Any, ...]]:
        """The rows, all of them fetched, or the count of a statement."""
        self._counts.statements += 1
        execute, opened = self._statements.execute, self._opened
        if not (large or self._large):
            return execute(opened.connection, opened.driver, statement, parameters)
        return await _finished(
            self._threads,
            partial(execute, opened.connection, opened.driver, statement, parameters),
        )

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
