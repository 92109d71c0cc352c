"""The store: one async engine, SQLite in WAL mode by default, PostgreSQL by URL.

Every transaction of SQLite starts with BEGIN IMMEDIATE, so two writers wait for each other instead
of failing when a reader becomes a writer; `reading` starts a plain one that blocks nobody.
An acknowledged commit is on the disk (`synchronous=FULL`). Parameters never appear in errors.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from common.errors import StartRefused
from common.service import sqlite_driver
from common.service.settings import ServiceSettings

if TYPE_CHECKING:
    from alembic.config import Config

PAGE_BYTES: Final = 16384
WAL_BYTES: Final = 64 * 1024 * 1024
BUSY_MS: Final = 10_000
CHECK_S: Final = 5.0
PATIENCE_S: Final = 30.0
"""How long a start waits for a database that is started at the same time."""

_DRIVERS: Final = {
    "sqlite": "sqlite+aiosqlite",
    "postgresql": "postgresql+asyncpg",
    "postgres": "postgresql+asyncpg",
}
_BUSY_STATES: Final = ("08", "40001", "40P01", "53", "55P03", "57014", "57P0")
"""PostgreSQL: connection, serialisation, deadlock, resources, a lock or statement that took too
long, a server that starts or stops. The same request may succeed later."""
_READS: Final = "tacit_reads"
_VERSIONS: Final = "alembic_version"
_alembic = threading.Lock()


class DatabaseUnreachable(StartRefused):
    """The database does not answer; the message names no address."""


def open_database(
    url: str, *, pool_size: int = 5, max_overflow: int = 5, pool_timeout_s: float = 10.0
) -> AsyncEngine:
    """An engine for `url`; nothing is connected yet, but a SQLite file is made with mode 0600.

    PostgreSQL gets `pool_size` lasting connections and `max_overflow` more; who waits longer than
    `pool_timeout_s` for one has an error that `store_unavailable` knows.
    """
    parsed = make_url(url)
    parsed = parsed.set(drivername=_DRIVERS.get(parsed.drivername, parsed.drivername))
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        return _open_sqlite(parsed)
    if backend == "postgresql":
        return _open_postgresql(parsed, pool_size, max_overflow, pool_timeout_s)
    raise ValueError("the database must be SQLite or PostgreSQL")


def open_store(settings: ServiceSettings) -> AsyncEngine:
    """The engine of a service's own database, with the pool that its settings ask for."""
    return open_database(
        settings.database(),
        pool_size=settings.database_pool_size,
        max_overflow=settings.database_pool_overflow,
        pool_timeout_s=settings.database_pool_timeout_s,
    )


def make_private_directory(path: Path) -> None:
    """Make a directory of mode 0700 with its parents; one that exists is left as it is."""
    missing = [part for part in (path, *path.parents) if not part.exists()]
    for part in reversed(missing):
        part.mkdir(mode=0o700, exist_ok=True)


@asynccontextmanager
async def reading(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A transaction that only reads: one consistent view, and no writer waits for it."""
    async with engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            await connection.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
        else:
            await connection.execution_options(**{_READS: True})
        yield connection


async def exclusive(connection: AsyncConnection, purpose: str) -> None:
    """Hold others with the same purpose out until this transaction ends, in any process."""
    if connection.dialect.name == "postgresql":
        await connection.execute(
            text("SELECT pg_advisory_xact_lock(:key)"), {"key": lock_key(purpose)}
        )


def lock_key(purpose: str) -> int:
    """The signed 64-bit number by which PostgreSQL knows an advisory lock."""
    digest = hashlib.sha256(b"tacit lock " + purpose.encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


async def migrate(
    engine: AsyncEngine, script_location: Path, patience_s: float = PATIENCE_S
) -> None:
    """Bring the schema to the newest revision, in one transaction; safe with several replicas.

    A database that does not answer yet is waited for. Raises DatabaseUnreachable.
    """
    await _answering(engine, patience_s)
    if await _newest(engine, script_location):
        return
    async with _alone_in_process(), engine.connect() as connection:
        await _defer_foreign_keys(connection)
        try:
            async with connection.begin():
                if connection.dialect.name == "postgresql":
                    await connection.execute(text("SET LOCAL lock_timeout = 0"))
                    await connection.execute(text("SET LOCAL statement_timeout = 0"))
                await exclusive(connection, "migrate")
                await connection.run_sync(_upgrade, script_location)
                await _check_foreign_keys(connection)
        finally:
            if connection.dialect.name == "sqlite":
                await connection.invalidate()


async def _newest(engine: AsyncEngine, script_location: Path) -> bool:
    """Whether the schema is at the newest revision, told without Alembic, which takes 12 MB and a
    second. Files of revisions are numbered in their order: `0001_initial.py`."""
    names = (script_location / "versions").glob("[0-9]*.py")
    newest = max((path.name.partition("_")[0] for path in names), default=None)
    async with reading(engine) as connection:
        if not await connection.run_sync(lambda known: inspect(known).has_table(_VERSIONS)):
            return False
        present = await connection.execute(text(f"SELECT version_num FROM {_VERSIONS}"))  # noqa: S608
        return list(present.scalars()) == [newest]


async def _answering(engine: AsyncEngine, patience_s: float) -> None:
    end = time.monotonic() + patience_s
    while (why := await check(engine)) is not None:
        if time.monotonic() > end:
            raise DatabaseUnreachable(f"{why}, after {patience_s:.0f} s")
        await asyncio.sleep(0.5)


@asynccontextmanager
async def _alone_in_process() -> AsyncIterator[None]:
    """Alembic keeps its context in module globals: one migration at a time, in any loop."""
    while not _alembic.acquire(blocking=False):
        await asyncio.sleep(0.01)
    try:
        yield
    finally:
        _alembic.release()


async def pending_migrations(engine: AsyncEngine, script_location: Path) -> tuple[str, ...]:
    """The revisions that `migrate` would apply, oldest first; changes nothing."""
    async with reading(engine) as connection:
        return await connection.run_sync(_pending, script_location)


async def check(engine: AsyncEngine) -> str | None:
    """For readiness: nothing when the database answers, else why not."""
    try:
        async with asyncio.timeout(CHECK_S), reading(engine) as connection:
            await connection.execute(text("SELECT 1"))
    except Exception as error:
        return f"the database does not answer ({type(error).__name__})"
    return None


def store_unavailable(error: Exception) -> bool:
    """Whether an exception means that the store could not be reached or was too busy."""
    if isinstance(error, PoolTimeout):
        return True
    if isinstance(error, OperationalError) and "locked" in str(error.orig):
        return True
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return True
    state = getattr(error.orig if isinstance(error, DBAPIError) else error, "sqlstate", None)
    if isinstance(state, str) and state.startswith(_BUSY_STATES):
        return True
    return isinstance(error, ConnectionError)


def _open_sqlite(url: URL) -> AsyncEngine:
    path = url.database
    if path and path != ":memory:" and not path.startswith("file:"):
        make_private_directory(Path(path).absolute().parent)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    engine = create_async_engine(
        url,
        hide_parameters=True,
        pool_use_lifo=True,  # few warm connections: each keeps pages and what was bound last
        connect_args={"async_creator_fn": sqlite_driver.connect},
    )

    @event.listens_for(engine.sync_engine, "connect")
    def prepare(connection: Any, _: Any) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={BUSY_MS}")
        cursor.execute(f"PRAGMA page_size={PAGE_BYTES}")
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.execute("PRAGMA secure_delete=ON")
        cursor.execute("PRAGMA page_size")
        page = int(cursor.fetchone()[0])
        cursor.execute(f"PRAGMA wal_autocheckpoint={WAL_BYTES // page}")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def begin(connection: Connection) -> None:
        if connection.get_execution_options().get(_READS):
            driver: sqlite_driver.Connection = connection.connection.driver_connection  # type: ignore[assignment]
            driver.begin_with_next("BEGIN DEFERRED")
        else:
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _open_postgresql(
    url: URL, pool_size: int, max_overflow: int, pool_timeout_s: float
) -> AsyncEngine:
    return create_async_engine(
        url,
        hide_parameters=True,
        pool_size=pool_size,
        max_overflow=max_overflow,
        pool_timeout=pool_timeout_s,
        pool_recycle=1800,
        pool_pre_ping=True,
        connect_args={
            "timeout": 10,
            "server_settings": {
                "application_name": "tacit",
                "timezone": "UTC",
                "lock_timeout": "30s",
                "statement_timeout": "120s",
                "idle_in_transaction_session_timeout": "60s",
            },
        },
    )


# Alembic is imported where a schema is looked at: most commands open no database, and wait for it.


def _config(script_location: Path, connection: Connection) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(script_location).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _upgrade(connection: Connection, script_location: Path) -> None:
    from alembic import command

    command.upgrade(_config(script_location, connection), "head")


def _pending(connection: Connection, script_location: Path) -> tuple[str, ...]:
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory.from_config(_config(script_location, connection))
    present = MigrationContext.configure(connection).get_current_heads()
    revisions = scripts.iterate_revisions("heads", present or "base")
    return tuple(revision.revision for revision in revisions)[::-1]


async def _defer_foreign_keys(connection: AsyncConnection) -> None:
    """SQLite changes a table by copying it, which must not cascade; the keys are checked after."""
    if connection.dialect.name == "sqlite":
        raw = await connection.get_raw_connection()
        driver: Any = raw.driver_connection
        await driver.execute("PRAGMA foreign_keys=OFF")


async def _check_foreign_keys(connection: AsyncConnection) -> None:
    if connection.dialect.name == "sqlite":
        broken = await connection.execute(text("PRAGMA foreign_key_check"))
        if broken.first() is not None:
            raise RuntimeError("the migration would leave broken references")
