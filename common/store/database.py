"""The store: SQLite in WAL mode by default, PostgreSQL by URL; migrations at start.

A writing transaction of SQLite starts with BEGIN IMMEDIATE, so two writers wait for each other
instead of failing when a reader becomes a writer; one that only reads blocks no other. An
acknowledged commit is on the disk (`synchronous=FULL`). Parameters never appear in errors.
Transactions and statements are counted as metrics.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, TextClause, inspect, text
from sqlalchemy.engine import make_url

from common.runtime.settings import ServiceSettings
from common.store.failures import Cause, cause, code_of
from common.store.sqlite import open_sqlite
from common.store.transactions import Database, Home, Transaction
from tacit.errors import StartRefused

if TYPE_CHECKING:
    from alembic.config import Config
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from common.runtime.telemetry import ServiceMetrics
from common.store.transactions import Counts

CHECK_S: Final = 5.0
WRITE_S: Final = 1.0
RECENT_S: Final = 10.0
"""How long a failed write keeps the service from being ready."""
PATIENCE_S: Final = 30.0
"""How long a start waits for a database that is started at the same time."""

_VERSIONS: Final = "alembic_version"
_WRITE: Final = text(f"UPDATE {_VERSIONS} SET version_num = version_num")  # noqa: S608
"""A real write of a row that every service has, and that changes nothing."""
_CREATE_VERSIONS: Final = (
    f"CREATE TABLE {_VERSIONS} (version_num VARCHAR(32) NOT NULL, "
    f"CONSTRAINT {_VERSIONS}_pkc PRIMARY KEY (version_num))"
)
"""As Alembic makes it."""
_STAMP: Final = text(f"INSERT INTO {_VERSIONS} (version_num) VALUES (:revision)")  # noqa: S608
_alembic = threading.Lock()


class DatabaseUnreachable(StartRefused):
    """The database does not answer; the message names no address."""


def open_database(
    url: str, *, pool_size: int = 5, max_overflow: int = 5, pool_timeout_s: float = 10.0
) -> Database:
    """The database behind `url`; nothing is connected yet, but a SQLite file is created with mode
    0600.

    PostgreSQL has `pool_size` lasting connections and `max_overflow` more; waiting longer than
    `pool_timeout_s` for one raises an error that may pass (`failures.cause`).
    """
    parsed = make_url(url)
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        return open_sqlite(parsed)
    if backend in ("postgresql", "postgres"):
        from common.store.postgresql import open_postgresql  # with SQLAlchemy's own event loop

        return open_postgresql(
            parsed, pool_size=pool_size, max_overflow=max_overflow, pool_timeout_s=pool_timeout_s
        )
    raise ValueError("the database must be SQLite or PostgreSQL")


def open_store(settings: ServiceSettings, *kept: Path) -> Database:
    """A service's own database, with the pool that its settings ask for.

    `kept`: the files and directories that the service makes next to it. Raises StoreLost.
    """
    home = Home.of(settings, *kept)
    database = open_database(
        settings.database(),
        pool_size=settings.database_pool_size,
        max_overflow=settings.database_pool_overflow,
        pool_timeout_s=settings.database_pool_timeout_s,
    )
    database.home = home
    return database


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
    database: Database,
    script_location: Path,
    create: Callable[[Connection], object] | None = None,
    patience_s: float = PATIENCE_S,
) -> None:
    """Bring the schema to the newest revision, in one transaction; safe with several replicas.

    `create` makes all tables of the newest revision with their first rows, in an empty database;
    without it an empty database goes through every revision, as one with tables does. Waits for
    a database that does not answer yet. Raises DatabaseUnreachable; for a damaged one its own
    error; StoreLost for an empty one in a directory that is in use.
    """
    await _answering(database, patience_s)
    revision = await _revision(database)
    if revision is None and database.home is not None:
        database.home.refuse_empty()
    if revision != _newest(script_location):
        await _upgraded(database, script_location, create)
    if database.home is not None:
        database.home.mark()


async def _upgraded(
    database: Database, script_location: Path, create: Callable[[Connection], object] | None
) -> None:

    def upgrade(connection: Connection) -> None:
        if connection.dialect.name == "postgresql":
            connection.execute(
                text("SELECT pg_advisory_xact_lock(:key)"), {"key": lock_key("migrate")}
            )
        if create is None or inspect(connection).has_table(_VERSIONS):
            _upgrade(connection, script_location)
            return
        create(connection)
        connection.execute(text(_CREATE_VERSIONS))
        connection.execute(_STAMP, {"revision": _newest(script_location)})

    async with _alone_in_process():
        await database.change_schema(upgrade)


def _newest(script_location: Path) -> str | None:
    """The newest revision, without Alembic, which takes 12 MB and a second. Files of revisions are
    numbered in their order: `0001_initial.py`."""
    names = (script_location / "versions").glob("[0-9]*.py")
    return max((path.name.partition("_")[0] for path in names), default=None)


async def _revision(database: Database) -> str | None:
    """The revision of the schema; None for a database without tables of ours."""
    async with database.reading() as transaction:
        if not await transaction.run_sync(lambda known: inspect(known).has_table(_VERSIONS)):
            return None
        current = await transaction.execute(text(f"SELECT version_num FROM {_VERSIONS}"))  # noqa: S608
        return current.scalar()


async def _answering(database: Database, patience_s: float) -> None:
    end = time.monotonic() + patience_s
    while (error := await _failure(database)) is not None:
        if cause(error) is Cause.DAMAGED:
            raise error
        if time.monotonic() > end:
            raise DatabaseUnreachable(f"{_why(error, 'does not answer')}, after {patience_s:.0f} s")
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
    """None when the database answers, else why not; writes nothing."""
    error = await _failure(database)
    return None if error is None else _why(error, "does not answer")


class Readiness:
    """The check for `/readyz`: the database accepts a write, and no write failed a moment ago.

    A write to another table can fail although this one succeeds, and a failure without a request
    would not be noticed: hence both. At most one write in `WRITE_S`, however often it is asked.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._asked = asyncio.Lock()
        self._written = -math.inf

    async def check(self) -> str | None:
        """None when it takes writes, else why not."""
        async with self._asked:
            if time.monotonic() - self._written >= WRITE_S:
                error = await _failure(self._database, _WRITE)
                if error is not None:
                    return _why(error, "takes no writes")
                self._written = time.monotonic()
        failed = self._database.failed
        if failed is not None and time.monotonic() - failed.at < RECENT_S:
            return f"a write failed ({failed.code})"
        return None


async def _failure(database: Database, statement: TextClause | None = None) -> Exception | None:
    try:
        async with asyncio.timeout(CHECK_S):
            if statement is None:
                async with database.reading() as transaction:
                    await transaction.execute(text("SELECT 1"))
            else:
                async with database.begin() as transaction:
                    await transaction.execute(statement)
    except Exception as error:
        return error
    return None


def _why(error: Exception, otherwise: str) -> str:
    state = "is damaged" if cause(error) is Cause.DAMAGED else otherwise
    return f"the database {state} ({code_of(error)})"


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


class _StoreCollector(Collector):
    """Reads the counts at each scrape; a statement pays for no metric."""

    def __init__(self, prefix: str, counts: Counts) -> None:
        self._prefix, self._counts = prefix, counts

    def collect(self) -> Iterator[CounterMetricFamily]:
        """The counts of this moment."""
        transactions = CounterMetricFamily(
            f"{self._prefix}_transactions", "Transactions begun, by kind.", labels=("kind",)
        )
        transactions.add_metric(("reading",), self._counts.reading)
        transactions.add_metric(("writing",), self._counts.writing)
        yield transactions
        yield CounterMetricFamily(
            f"{self._prefix}_statements", "Statements executed.", self._counts.statements
        )


def add_store_meters(metrics: ServiceMetrics, database: Database) -> None:
    """Add the transactions and statements of a service's database to its metrics."""
    metrics.registry.register(_StoreCollector(f"tacit_{metrics.service}_store", database.counts))
