"""A consistent copy of a database in use, and its return: SQLite here, PostgreSQL by its own tools.

What opens an aggregator's seal keys lies in `TACIT_KEY_DIR` and does not travel.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Final

from sqlalchemy import text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from cli.archives.envelope import BackupRefused
from common.store.postgresql import open_postgresql

_ASIDE: Final = "replaced_"
_IN_USE: Final = "the service still uses its database: stop all its processes first"


def sqlite_path(url: str) -> Path | None:
    """The database's file; None for PostgreSQL."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return None
    if not parsed.database or parsed.database == ":memory:":
        raise BackupRefused("the database is no file")
    return Path(parsed.database)


def known_revisions(migrations: Path) -> frozenset[str]:
    """Every revision that this version of a service has."""
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    scripts = ScriptDirectory.from_config(config)
    return frozenset(each.revision for each in scripts.walk_revisions())


# --- SQLite --------------------------------------------------------------------------------------


def copy_sqlite(service: str, source: Path, target: Path) -> str:
    """Copy a database that may be in use, in one consistent view; its schema's revision."""
    if not source.exists():
        raise BackupRefused(f"there is no database at {source}")
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    with (
        closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=rw", uri=True)) as original,
        closing(sqlite3.connect(target, isolation_level=None)) as copy,
    ):
        try:
            original.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")
            (revision,) = copy.execute("SELECT version_num FROM alembic_version").fetchone()
        except (sqlite3.DatabaseError, TypeError):
            raise BackupRefused(f"{source} is no database of a {service}") from None
    return str(revision)


def idle_sqlite(path: Path) -> None:
    """Raise BackupRefused if any process has the database open."""
    if not path.exists():
        return
    with closing(sqlite3.connect(path, timeout=0.5, isolation_level=None)) as connection:
        try:
            connection.execute("PRAGMA locking_mode=EXCLUSIVE")
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("ROLLBACK")
        except sqlite3.OperationalError:
            raise BackupRefused(_IN_USE) from None
        except sqlite3.DatabaseError:
            return  # what stands there is no database, and --replace keeps it all the same


# --- PostgreSQL ----------------------------------------------------------------------------------


async def copy_postgres(service: str, url: str, target: Path) -> str:
    """pg_dump of a database that may be in use; its schema's revision."""
    async with _connection(url) as connection:
        try:
            found = await connection.execute(text("SELECT version_num FROM alembic_version"))
            revision = str(found.scalar_one())
        except DBAPIError:
            raise BackupRefused(f"the database is not one of a {service}") from None
    target.touch(0o600)
    options = [f"--exclude-schema={_ASIDE}*", f"--file={target}"]
    _run("pg_dump", url, "--format=custom", "--no-owner", "--no-privileges", *options)
    return revision


async def idle_postgres(url: str) -> bool:
    """Whether the database holds tables. Raises BackupRefused if a service is connected to it."""
    async with _connection(url) as connection:
        others = await connection.execute(
            text(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                "AND application_name = 'tacit' AND pid <> pg_backend_pid()"
            )
        )
        if others.scalar_one():
            raise BackupRefused(_IN_USE)
        tables = await connection.execute(
            text("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
        )
        return bool(tables.scalar_one())


async def put_back_postgres(url: str, dump: Path, stamp: str, *, replace: bool) -> str | None:
    """pg_restore in one transaction. What was there is kept in a schema of its own, whose name is
    given back; it returns to its place if anything fails."""
    aside = f"{_ASIDE}{stamp.lower()}"
    if replace:
        await _execute(url, f"ALTER SCHEMA public RENAME TO {aside}", "CREATE SCHEMA public")
    try:
        _run("pg_restore", url, "--single-transaction", "--no-owner", "--no-privileges", str(dump))
    except BaseException:
        if replace:
            await _execute(
                url, "DROP SCHEMA public CASCADE", f"ALTER SCHEMA {aside} RENAME TO public"
            )
        raise
    return aside if replace else None


async def _execute(url: str, *statements: str) -> None:
    async with _connection(url) as connection:
        try:
            for statement in statements:
                await connection.execute(text(statement))
            await connection.commit()
        except DBAPIError as error:
            raise BackupRefused(f"PostgreSQL refused: {_last_line(str(error.orig))}") from None


@asynccontextmanager
async def _connection(url: str) -> AsyncIterator[AsyncConnection]:
    engine = open_postgresql(make_url(url), pool_size=1).engine
    try:
        try:
            connection = await engine.connect()
        except (OSError, DBAPIError, TimeoutError):
            raise BackupRefused("the database does not answer") from None
        try:
            yield connection
        finally:
            await connection.close()
    finally:
        await engine.dispose()


def _run(program: str, url: str, *arguments: str) -> None:
    """One of PostgreSQL's programs; the password goes by the environment, which others cannot see
    in the list of processes."""
    parsed = make_url(url)
    plain = URL.create("postgresql", host=parsed.host, port=parsed.port, database=parsed.database)
    plain = plain.set(username=parsed.username, query=parsed.query)
    environment = dict(os.environ)
    if parsed.password:
        environment["PGPASSWORD"] = str(parsed.password)
    command = [program, f"--dbname={plain.render_as_string()}", *arguments]
    with ExitStack() as stack:
        try:
            done = stack.enter_context(
                subprocess.Popen(
                    command,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        except FileNotFoundError:
            raise BackupRefused(
                f"{program} is not installed here: it belongs to PostgreSQL's client programs"
            ) from None
        _, said = done.communicate()
    if done.returncode:
        raise BackupRefused(_last_line(said) or f"{program} failed")


def _last_line(said: str) -> str:
    lines = [line for line in said.strip().splitlines() if "error" in line.lower()]
    return lines[0][:300] if lines else said.strip()[:300]
