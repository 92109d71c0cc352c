"""PostgreSQL by asyncpg, with a pool of connections."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from typing import Any, Final

from sqlalchemy import URL, Connection, CursorResult, Dialect, Executable, event, text
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from common.store.transactions import Counts, Database, Parameters, Result, Transaction

IDLE_S: Final = 2.0
PREPARED: Final = 1000
"""Statements that a connection keeps prepared: more than there are in any service."""
_RETURNED: Final = "returned"
_VERSION: Final = text("SELECT CAST(pg_current_snapshot() AS text)")


class PostgresqlTransaction(Transaction):
    """A transaction."""

    def __init__(self, connection: AsyncConnection, counts: Counts) -> None:
        self._connection, self._counts = connection, counts
        self._begun = False

    @property
    def dialect(self) -> Dialect:
        """PostgreSQL's."""
        return self._connection.dialect

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
        self._begun = True
        return await self._connection.execute(statement, parameters)

    async def on_driver(self, work: Callable[[Any], Any], /) -> Any:
        """What the awaitable that `work` returns for the `asyncpg.Connection` gives."""
        self._counts.statements += 1
        if not self._begun:  # the adapter begins with its first statement, and knows none of `work`
            await self._connection.execute(text("SELECT 1"))
            self._begun = True
        raw = await self._connection.get_raw_connection()
        return await work(raw.driver_connection)

    async def run_sync(self, work: Callable[[Connection], Result], /) -> Result:
        """What `work` returns for SQLAlchemy's synchronous connection."""
        return await self._connection.run_sync(work)


class PostgresqlDatabase(Database):
    """A database of a server. `engine`: for sessions outside a transaction."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine, self.counts = engine, Counts()
        # Each has the options of its connections once, instead of at each transaction's start.
        self._reader = engine.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
        self._single = engine.execution_options(isolation_level="AUTOCOMMIT")

    @property
    def dialect(self) -> Dialect:
        """PostgreSQL's."""
        return self.engine.dialect

    @asynccontextmanager
    async def begin(self, *, large: bool = False) -> AsyncIterator[PostgresqlTransaction]:  # noqa: ARG002
        """A transaction that may write; `large` makes no difference to a server."""
        self.counts.writing += 1
        with self._noting():
            async with self.engine.begin() as connection:
                yield PostgresqlTransaction(connection, self.counts)

    @asynccontextmanager
    async def reading(self, *, large: bool = False) -> AsyncIterator[PostgresqlTransaction]:  # noqa: ARG002
        """A transaction that only reads; `large` makes no difference to a server."""
        self.counts.reading += 1
        async with self._reader.connect() as connection:
            yield PostgresqlTransaction(connection, self.counts)

    async def version(self) -> Hashable:
        """Which transactions have ended: those of other databases of the server count as well."""
        async with self._single.connect() as connection:
            result = await connection.execute(_VERSION)
            return str(result.scalar_one())

    async def change_schema(self, work: Callable[[Connection], None]) -> None:
        """Run `work` in a transaction without time limits; PostgreSQL checks foreign keys."""
        async with self.engine.begin() as connection:
            await connection.execute(text("SET LOCAL lock_timeout = 0"))
            await connection.execute(text("SET LOCAL statement_timeout = 0"))
            await connection.run_sync(work)

    async def dispose(self) -> None:
        """Close the pool's connections."""
        await self.engine.dispose()


def open_postgresql(
    url: URL, *, pool_size: int = 5, max_overflow: int = 5, pool_timeout_s: float = 10.0
) -> PostgresqlDatabase:
    """The database behind `url`; nothing is connected yet."""
    engine = create_async_engine(
        url.set(drivername="postgresql+asyncpg"),
        hide_parameters=True,
        pool_size=pool_size,
        max_overflow=max_overflow,
        pool_timeout=pool_timeout_s,
        pool_recycle=1800,
        connect_args={
            "timeout": 10,
            "prepared_statement_cache_size": PREPARED,
            "server_settings": {
                "application_name": "tacit",
                "timezone": "UTC",
                "lock_timeout": "30s",
                "statement_timeout": "120s",
                "idle_in_transaction_session_timeout": "60s",
            },
        },
    )
    event.listen(engine.sync_engine.pool, "checkin", _note_return)
    event.listen(engine.sync_engine.pool, "checkout", _check_idle)
    return PostgresqlDatabase(engine)


def _note_return(_: Any, record: ConnectionPoolEntry) -> None:
    record.info[_RETURNED] = time.monotonic()


def _check_idle(connection: Any, record: ConnectionPoolEntry, _: Any) -> None:
    """Ask the server before a connection is used that was idle: it may have restarted. The three
    messages of each question would cost more than most transactions."""
    if time.monotonic() - record.info.get(_RETURNED, math.inf) < IDLE_S:
        return
    try:
        connection.ping()
    except Exception as error:
        raise DisconnectionError from error
