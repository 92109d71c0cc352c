"""PostgreSQL by asyncpg, with a pool of connections and prepared statements.

What a statement costs here is its messages, each of which wakes the service. A transaction sends
BEGIN with its first statement, one that sent nothing ends without a message, and a reading of one
statement (`Database.read`) has no other. Statements that were seen before go to the driver
itself (`common.store.prepared`), the others through SQLAlchemy, whose connections are in its
autocommit: it sends no BEGIN of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import asyncpg
from sqlalchemy import URL, Connection, CursorResult, Dialect, Executable, text
from sqlalchemy.exc import DBAPIError, PendingRollbackError
from sqlalchemy.exc import TimeoutError as WaitedTooLong
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from common.store.prepared import Statements
from common.store.transactions import (
    Counts,
    Database,
    OneStatement,
    Parameters,
    Result,
    Transaction,
)

IDLE_S: Final = 2.0
"""A connection that was idle this long is asked first whether it still answers: the server may have
restarted, and the question would cost more than most transactions."""
ANSWER_S: Final = 10.0
LIFETIME_S: Final = 1800.0
PREPARED: Final = 1000
"""Statements that a connection keeps prepared: more than there are in any service."""
_WRITE: Final = "BEGIN"
_READ: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_VERSION: Final = "SELECT CAST(pg_current_snapshot() AS text)"
_CHANGED: Final = re.compile(r"(?:UPDATE|DELETE|INSERT \d+) (\d+)")


@dataclass(slots=True)
class _Opened:
    """A connection, and the driver's below it. Times are monotonic."""

    connection: AsyncConnection
    driver: asyncpg.Connection
    since: float
    used: float


class PostgresqlTransaction(Transaction):
    """A transaction, which `begin` begins; without it each statement is a transaction itself."""

    def __init__(
        self, opened: _Opened, counts: Counts, statements: Statements, begin: str | None
    ) -> None:
        self._opened, self._counts, self._statements = opened, counts, statements
        self._begin = begin
        self.begun = False

    @property
    def dialect(self) -> Dialect:
        """PostgreSQL's."""
        return self._opened.connection.dialect

    async def execute(
        self,
        statement: Executable,
        parameters: Parameters = None,
        /,
        *,
        large: bool = False,  # noqa: ARG002
    ) -> CursorResult[*tuple[Any, ...]]:
        """The rows, all of them fetched, or the count of a statement."""
        self._counts.statements += 1
        await self._started()
        bound = self._statements.known(statement, parameters)
        if bound is None:
            result = await self._opened.connection.execute(statement, parameters)
            self._statements.note(statement, parameters, result)
            return result
        prepared, sql, values = bound
        driver, rows, changed = self._opened.driver, [], -1
        with self._as_sqlalchemy(sql):
            if len(values) > 1:
                await driver.executemany(sql, values)
            elif prepared.returns:
                rows = [tuple(row) for row in await driver.fetch(sql, *values[0])]
                changed = len(rows)
            elif counted := _CHANGED.match(await driver.execute(sql, *values[0])):
                changed = int(counted[1])
        found: CursorResult[*tuple[Any, ...]] = prepared.result(rows, changed)
        return found

    async def on_driver(self, work: Callable[[Any], Any], /) -> Any:
        """What the awaitable that `work` returns for the `asyncpg.Connection` gives."""
        self._counts.statements += 1
        await self._started()
        return await work(self._opened.driver)

    async def run_sync(self, work: Callable[[Connection], Result], /) -> Result:
        """What `work` returns for SQLAlchemy's synchronous connection."""
        await self._started()
        return await self._opened.connection.run_sync(work)

    async def _started(self) -> None:
        if self._begin is not None and not self.begun:
            with self._as_sqlalchemy(self._begin):
                await self._opened.driver.execute(self._begin)
            self.begun = True

    async def version(self) -> str:
        """Which transactions of the server have ended; it is no statement that counts."""
        with self._as_sqlalchemy(_VERSION):
            return str(await self._opened.driver.fetchval(_VERSION))

    async def commit(self) -> None:
        """Make it durable. Raises PendingRollbackError where the server did not: an error of a
        statement was passed over."""
        if self.begun:
            with self._as_sqlalchemy("COMMIT"):
                done = await self._opened.driver.execute("COMMIT")
            if done != "COMMIT":
                raise PendingRollbackError("a statement of the transaction failed")

    async def rollback(self) -> None:
        """End it without a trace."""
        if self.begun:
            with self._as_sqlalchemy("ROLLBACK"):
                await self._opened.driver.execute("ROLLBACK")

    @contextlib.contextmanager
    def _as_sqlalchemy(self, statement: str) -> Any:
        """An error of the driver is raised as SQLAlchemy raises it."""
        try:
            yield
        except (
            asyncpg.PostgresError,
            asyncpg.InterfaceError,
            asyncpg.InternalClientError,
        ) as error:
            dbapi: Any = self.dialect.loaded_dbapi
            if isinstance(error, asyncpg.IntegrityConstraintViolationError):
                kind = dbapi.IntegrityError
            elif isinstance(error, asyncpg.SyntaxOrAccessError):
                kind = dbapi.ProgrammingError
            elif isinstance(error, asyncpg.InterfaceError):
                kind = dbapi.InterfaceError
            else:
                kind = dbapi.Error
            raise DBAPIError.instance(
                statement,
                None,
                kind(error.args[0], error),  # its own text has the row's values as well
                dbapi.Error,
                hide_parameters=True,
                connection_invalidated=self._opened.driver.is_closed(),
            ) from error


class PostgresqlDatabase(Database):
    """A database of a server. `engine`: for sessions outside the pool, each a new connection."""

    def __init__(
        self, engine: AsyncEngine, pool_size: int, max_overflow: int, pool_timeout_s: float
    ) -> None:
        self.engine, self.counts = engine, Counts()
        self._statements = Statements(engine.dialect)
        self._connecting = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._lasting, self._timeout_s = pool_size, pool_timeout_s
        self._free = asyncio.Semaphore(pool_size + max_overflow)
        self._idle: list[_Opened] = []

    @property
    def dialect(self) -> Dialect:
        """PostgreSQL's."""
        return self.engine.dialect

    @asynccontextmanager
    async def begin(self, *, large: bool = False) -> AsyncIterator[PostgresqlTransaction]:  # noqa: ARG002
        """A transaction that may write; `large` makes no difference to a server."""
        self.counts.writing += 1
        with self._noting():
            async with self._ended(_WRITE) as transaction:
                yield transaction
                await transaction.commit()

    @asynccontextmanager
    async def reading(self, *, large: bool = False) -> AsyncIterator[PostgresqlTransaction]:  # noqa: ARG002
        """A transaction that only reads; `large` makes no difference to a server."""
        self.counts.reading += 1
        async with self._ended(_READ) as transaction:
            yield transaction
            await transaction.rollback()

    @asynccontextmanager
    async def _reading_one(self) -> AsyncIterator[OneStatement]:
        """One statement, which is a transaction itself."""
        self.counts.reading += 1
        async with self._ended(None) as transaction:
            yield OneStatement(transaction)

    async def version(self) -> Hashable:
        """Which transactions have ended: those of other databases of the server count as well."""
        async with self._ended(None) as transaction:
            return await transaction.version()

    async def change_schema(self, work: Callable[[Connection], None]) -> None:
        """Run `work` in a transaction without time limits; PostgreSQL checks foreign keys."""
        async with self.engine.begin() as connection:
            await connection.execute(text("SET LOCAL lock_timeout = 0"))
            await connection.execute(text("SET LOCAL statement_timeout = 0"))
            await connection.run_sync(work)

    async def dispose(self) -> None:
        """Close the connections that nobody uses."""
        while self._idle:
            await self._idle.pop().connection.close()
        await self.engine.dispose()

    @asynccontextmanager
    async def _ended(self, begin: str | None) -> AsyncIterator[PostgresqlTransaction]:
        """A transaction on a connection of the pool, which goes back once it has none."""
        await self._my_turn()
        try:
            opened = await self._take()
            transaction = PostgresqlTransaction(opened, self.counts, self._statements, begin)
            try:
                yield transaction
            except Exception:
                with contextlib.suppress(Exception):  # what failed first is raised
                    await transaction.rollback()
                await self._give_back(opened)
                raise
            except BaseException:  # cancelled: nobody knows what is on the wire
                await _terminate(opened)
                raise
            await self._give_back(opened)
        finally:
            self._free.release()

    async def _my_turn(self) -> None:
        if not self._free.locked():
            await self._free.acquire()
            return
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._free.acquire()
        except TimeoutError:
            raise WaitedTooLong("all connections are in use") from None

    async def _take(self) -> _Opened:
        while self._idle:
            opened, now = self._idle.pop(), time.monotonic()
            fresh = now - opened.since < LIFETIME_S and not opened.driver.is_closed()
            if fresh and (now - opened.used < IDLE_S or await _answers(opened)):
                return opened
            await _terminate(opened)
        connection = await self._connecting.connect()
        raw = await connection.get_raw_connection()
        driver = raw.driver_connection
        assert isinstance(driver, asyncpg.Connection)
        now = time.monotonic()
        return _Opened(connection, driver, now, now)

    async def _give_back(self, opened: _Opened) -> None:
        if opened.driver.is_closed() or opened.driver.is_in_transaction():
            await _terminate(opened)
            return
        if opened.connection.in_transaction():  # SQLAlchemy's own notion: nothing is sent
            await opened.connection.rollback()
        if len(self._idle) >= self._lasting:
            await opened.connection.close()
            return
        opened.used = time.monotonic()
        self._idle.append(opened)


async def _answers(opened: _Opened) -> bool:
    try:
        await opened.driver.fetchrow(";", timeout=ANSWER_S)
    except Exception:
        return False
    except BaseException:  # cancelled
        await _terminate(opened)
        raise
    return True


async def _terminate(opened: _Opened) -> None:
    """Drop a connection without a word to the server."""
    opened.driver.terminate()
    with contextlib.suppress(Exception):
        await opened.connection.invalidate()
        await opened.connection.close()


def open_postgresql(
    url: URL, *, pool_size: int = 5, max_overflow: int = 5, pool_timeout_s: float = 10.0
) -> PostgresqlDatabase:
    """The database behind `url`; nothing is connected yet."""
    engine = create_async_engine(
        url.set(drivername="postgresql+asyncpg"),
        hide_parameters=True,
        poolclass=NullPool,
        connect_args={
            "timeout": 10,
            "prepared_statement_cache_size": PREPARED,
            "statement_cache_size": PREPARED,
            "max_cached_statement_lifetime": 0,
            "server_settings": {
                "application_name": "tacit",
                "timezone": "UTC",
                "lock_timeout": "30s",
                "statement_timeout": "120s",
                "idle_in_transaction_session_timeout": "60s",
            },
        },
    )
    return PostgresqlDatabase(engine, pool_size, max_overflow, pool_timeout_s)
