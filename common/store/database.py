"""The store: SQLite in WAL mode by default, PostgreSQL by URL; migrations at start.

A writing transaction of SQLite starts with BEGIN IMMEDIATE, so two writers wait for each other
instead of failing when a reader becomes a writer; one that only reads blocks no other. An
acknowledged commit is on the disk (`synchronous=FULL`). Parameters never appear in errors.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, inspect, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from common.runtime.settings import ServiceSettings
from common.store.postgresql import open_postgresql
from common.store.sqlite import open_sqlite
from common.store.transactions import Database, Transaction
from tacit.errors import StartRefused

if TYPE_CHECKING:
    from alembic.config import Config

CHECK_S: Final = 5.0
PATIENCE_S: Final = 30.0
"""How long a start waits for a database that is started at the same time."""

_BUSY_STATES: Final = ("08", "40001", "40P01", "53", "55P03", "57014", "57P0")
"""PostgreSQL: connection, serialisation, deadlock, resources, a lock or statement that took too
long, a server that starts or stops. The same request may succeed later."""
_VERSIONS: Final = "alembic_version"
_alembic = threading.Lock()


class DatabaseUnreachable(StartRefused):
    """The database does not answer; the message names no address."""


def open_database(
    url: str, *, pool_size: int = 5, max_overflow: int = 5, pool_timeout_s: float = 10.0
) -> Database:
    """The database behind `url`; nothing is connected yet, but a SQLite file is made with mode
    0600.

    PostgreSQL gets `pool_size` lasting connections and `max_overflow` more; waiting longer than
    `pool_timeout_s` for one raises an error that `store_unavailable` recognises.
    """
    parsed = make_url(url)
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        return open_sqlite(parsed)
    if backend in ("postgresql", "postgres"):
        return open_postgresql(
            parsed, pool_size=pool_size, max_overflow=max_overflow, pool_timeout_s=pool_timeout_s
        )
    raise ValueError("the database must be SQLite or PostgreSQL")


def open_store(settings: ServiceSettings) -> Database:
    """A service's own database, with the pool that its settings ask for."""
    return open_database(
        settings.database(),
        pool_size=settings.database_pool_size,
        max_overflow=settings.database_pool_overflow,
        pool_timeout_s=settings.database_pool_timeout_s,
    )


async def exclusive(transaction: Transaction, purpose: str) -> None:
    """Lock out transactions with the same purpose, in any process, until this one ends."""
    if transaction.dialect.name == "postgresql":
        await transaction.execute(
            text("SELECT pg_advisory_xact_lock(:key)"), {"key": lock_key(purpose)}
        )


def lock_key(purpose: str) -> int:
    """The signed 64-bit number by which PostgreSQL knows an advisory lock."""
    digest = hashlib.sha256(b"tacit lock " + purpose.encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


async def migrate(
    database: Database, script_location: Path, patience_s: float = PATIENCE_S
) -> None:
    """Bring the schema to the newest revision, in one transaction; safe with several replicas.

    A database that does not answer yet is waited for. Raises DatabaseUnreachable.
    """
    await _answering(database, patience_s)
    if await _newest(database, script_location):
        return

    def upgrade(connection: Connection) -> None:
        if connection.dialect.name == "postgresql":
            connection.execute(
                text("SELECT pg_advisory_xact_lock(:key)"), {"key": lock_key("migrate")}
            )
        _upgrade(connection, script_location)

    async with _alone_in_process():
        await database.change_schema(upgrade)


async def _newest(database: Database, script_location: Path) -> bool:
    """Whether the schema is at the newest revision, without Alembic, which takes 12 MB and a
    second. Files of revisions are numbered in their order: `0001_initial.py`."""
    names = (script_location / "versions").glob("[0-9]*.py")
    newest = max((path.name.partition("_")[0] for path in names), default=None)
    async with database.reading() as transaction:
        if not await transaction.run_sync(lambda known: inspect(known).has_table(_VERSIONS)):
            return False
        current = await transaction.execute(text(f"SELECT version_num FROM {_VERSIONS}"))  # noqa: S608
        return list(current.scalars()) == [newest]


async def _answering(database: Database, patience_s: float) -> None:
    end = time.monotonic() + patience_s
    while (why := await check(database)) is not None:
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


async def pending_migrations(database: Database, script_location: Path) -> tuple[str, ...]:
    """The revisions that `migrate` would apply, oldest first; changes nothing."""
    async with database.reading() as transaction:
        return await transaction.run_sync(lambda known: _pending(known, script_location))


async def check(database: Database) -> str | None:
    """For readiness: None when the database answers, else why not."""
    try:
        async with asyncio.timeout(CHECK_S), database.reading() as transaction:
            await transaction.execute(text("SELECT 1"))
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


# Alembic is imported where a schema is checked: its import is slow, and most commands open no
# database.


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
