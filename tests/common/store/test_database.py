"""The store: pragmas and file modes, transactions, migrations on both databases."""

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from sqlalchemy import Column, Integer, MetaData, Table, inspect, text
from sqlalchemy.exc import DBAPIError, IntegrityError, PendingRollbackError

from common.store.database import check, migrate, open_database, pending_migrations
from common.store.migration import drift
from common.store.tokens import token_table
from common.store.transactions import Database, SecondStatement, Transaction
from common.web.idempotency import idempotency_table

ENV = """
from sqlalchemy import MetaData
from common.store.migration import run_migrations
run_migrations(MetaData())
"""
FIRST = """
import sqlalchemy as sa
from alembic import op
revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

def upgrade():
    op.create_table("parent", sa.Column("id", sa.Integer, primary_key=True))
    op.create_table(
        "child",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column(
            "parent", sa.Integer, sa.ForeignKey("parent.id", ondelete="CASCADE"), nullable=False
        ),
    )
    op.execute("INSERT INTO parent (id) VALUES (1)")
    op.execute("INSERT INTO child (id, parent) VALUES (1, 1)")
"""
SECOND = """
import sqlalchemy as sa
from alembic import op
revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

def upgrade():
    with op.batch_alter_table("parent", recreate="auto") as batch:
        batch.add_column(sa.Column("n", sa.Integer, nullable=False, server_default="7"))
        batch.create_check_constraint("n_positive", "n > 0")
"""
FAILING = """
import sqlalchemy as sa
from alembic import op
revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

def upgrade():
    op.create_table("half", sa.Column("id", sa.Integer, primary_key=True))
    op.execute("INSERT INTO nowhere VALUES (1)")
"""


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    folder = tmp_path / "100% migrations"
    (folder / "versions").mkdir(parents=True)
    (folder / "env.py").write_text(ENV)
    (folder / "versions" / "0001_first.py").write_text(FIRST)
    return folder


async def tables(database: Database) -> set[str]:
    async with database.reading() as transaction:
        return set(await transaction.run_sync(lambda sync: inspect(sync).get_table_names()))


async def test_migrations_twice_are_a_no_op(database: Database, scripts: Path) -> None:
    assert await pending_migrations(database, scripts) == ("0001",)
    await migrate(database, scripts)
    assert await tables(database) == {"alembic_version", "parent", "child"}
    assert await pending_migrations(database, scripts) == ()
    await migrate(database, scripts)
    async with database.reading() as transaction:
        count = await transaction.execute(text("SELECT count(*) FROM parent"))
        assert count.scalar_one() == 1


@pytest.mark.parametrize("service", ["aggregator", "coordinator", "curator"])
async def test_files_of_revisions_are_numbered_in_their_order(service: str, tmp_path: Path) -> None:
    found = find_spec(service)
    assert found is not None
    assert found.origin is not None
    folder = Path(found.origin).parent / "migrations"
    database = open_database(f"sqlite:///{tmp_path / 'empty.db'}")
    revisions = await pending_migrations(database, folder)
    await database.dispose()
    files = sorted(path.name for path in (folder / "versions").glob("[0-9]*.py"))
    assert tuple(name.partition("_")[0] for name in files) == revisions


async def test_changing_a_table_keeps_what_refers_to_it(database: Database, scripts: Path) -> None:
    await migrate(database, scripts)
    (scripts / "versions" / "0002_second.py").write_text(SECOND)
    await migrate(database, scripts)
    async with database.reading() as transaction:
        found = await transaction.execute(
            text("SELECT parent.n FROM child JOIN parent ON parent.id = child.parent")
        )
        assert found.scalar_one() == 7
    with pytest.raises(IntegrityError):
        async with database.begin() as transaction:
            await transaction.execute(text("INSERT INTO child (id, parent) VALUES (2, 99)"))


async def test_a_failing_migration_leaves_nothing(database: Database, scripts: Path) -> None:
    (scripts / "versions" / "0002_second.py").write_text(SECOND)
    await migrate(database, scripts)
    (scripts / "versions" / "0003_failing.py").write_text(FAILING)
    with pytest.raises(DBAPIError):
        await migrate(database, scripts)
    assert await tables(database) == {"alembic_version", "parent", "child"}
    assert await pending_migrations(database, scripts) == ("0003",)


async def test_replicas_that_start_at_once_on_a_server(database_url: str, scripts: Path) -> None:
    databases = [open_database(database_url) for _ in range(3)]
    await asyncio.gather(*(migrate(database, scripts) for database in databases))
    for database in databases:
        assert await pending_migrations(database, scripts) == ()
        assert await check(database) is None
        await database.dispose()


REPLICA = """
import asyncio, sys
from pathlib import Path
from common.store.database import migrate, open_database

async def run():
    engine = open_database(sys.argv[1])
    await migrate(engine, Path(sys.argv[2]))
    await engine.dispose()
    print('alembic' in sys.modules)

asyncio.run(run())
"""


@pytest.mark.slow
async def test_processes_that_start_at_once_and_a_later_one_without_alembic(
    tmp_path: Path, scripts: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    told = []
    for count in (2, 1):
        processes = [
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", REPLICA, url, str(scripts)), stdout=asyncio.subprocess.PIPE
            )
            for _ in range(count)
        ]
        for process in processes:
            told.append((await process.communicate())[0].decode().strip())
            assert process.returncode == 0
    assert told[2] == "False"


async def test_drift(database: Database) -> None:
    metadata = MetaData()
    token_table(metadata)
    idempotency_table(metadata)
    async with database.begin() as transaction:
        await transaction.run_sync(metadata.create_all)
    assert await drift(database, metadata) == []
    Table("further", metadata, Column("id", Integer))
    assert "further" in str(await drift(database, metadata))


async def test_writers_wait_for_each_other(database: Database) -> None:
    async with database.begin() as transaction:
        await transaction.execute(text("CREATE TABLE counter (id INTEGER PRIMARY KEY, n INTEGER)"))
        await transaction.execute(text("INSERT INTO counter VALUES (1, 0)"))

    lock = " FOR UPDATE" if database.dialect.name == "postgresql" else ""

    async def add() -> None:
        async with database.begin() as transaction:
            read = await transaction.execute(text(f"SELECT n FROM counter WHERE id = 1{lock}"))
            n = read.scalar_one()
            await asyncio.sleep(0.001)
            await transaction.execute(text("UPDATE counter SET n = :n"), {"n": n + 1})

    await asyncio.gather(*(add() for _ in range(20)))
    async with database.reading() as transaction:
        assert (await transaction.execute(text("SELECT n FROM counter"))).scalar_one() == 20


async def test_a_reader_sees_one_moment_and_stops_nobody(database: Database) -> None:
    async with database.begin() as transaction:
        await transaction.execute(text("CREATE TABLE t (n INTEGER)"))
    async with database.reading() as reader:
        query = text("SELECT count(*) FROM t")
        assert (await reader.execute(query)).scalar_one() == 0
        async with database.begin() as writer:
            await writer.execute(text("INSERT INTO t VALUES (1)"))
        assert (await reader.execute(query)).scalar_one() == 0
    async with database.reading() as reader:
        assert (await reader.execute(query)).scalar_one() == 1


@pytest.fixture
async def single(database_url: str) -> AsyncIterator[Database]:
    """A database with one connection, and a table."""
    opened = open_database(database_url, pool_size=1, max_overflow=0)
    async with opened.begin() as transaction:
        await transaction.execute(text("CREATE TABLE t (n INTEGER)"))
    yield opened
    await opened.dispose()


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_one_connection_serves_every_kind_of_transaction(single: Database) -> None:
    """What one kind sets of its connection, the next does not find."""
    insert, query = text("INSERT INTO t VALUES (1)"), text("SELECT count(*) FROM t")

    async def fail() -> None:
        async with single.begin() as transaction:
            await transaction.execute(insert)
            raise KeyError

    async def write_while_reading() -> None:
        async with single.reading() as transaction:
            await transaction.execute(insert)

    for _ in range(2):
        await single.version()
        with pytest.raises(DBAPIError, match="read-only transaction"):
            await write_while_reading()
        await single.version()
        with pytest.raises(KeyError):
            await fail()
        async with single.reading() as transaction:
            assert (await transaction.execute(query)).scalar_one() == 0


async def test_a_read_of_several_statements_sees_one_moment(database: Database) -> None:
    """Also where another transaction ends between its first statement and its second, and where the
    work itself passes over that it was refused the second."""
    query = text("SELECT count(*) FROM t")
    async with database.begin() as transaction:
        await transaction.execute(text("CREATE TABLE t (n INTEGER)"))

    async def insert() -> None:
        async with database.begin() as transaction:
            await transaction.execute(text("INSERT INTO t VALUES (1)"))

    def counting(statements: int, passed_over: type[Exception] = KeyError) -> Any:
        async def count(transaction: Transaction) -> list[int]:
            found = []
            for _ in range(statements):
                with suppress(passed_over):
                    found.append((await transaction.execute(query)).scalar_one())
                await insert()
            return found

        return count

    async def failing(_: Transaction) -> None:
        raise ZeroDivisionError

    before = database.counts.reading
    assert await database.read(counting(1)) == [0]
    assert database.counts.reading == before + 1
    assert await database.read(counting(2)) == [2, 2]
    assert await database.read(counting(2, SecondStatement)) == [6, 6]
    assert await database.read(lambda one: one.run_sync(lambda found: found.dialect.name))
    with pytest.raises(ZeroDivisionError):
        await database.read(failing)
    assert await database.read(counting(1)) == [8]


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_a_failed_statement_that_is_passed_over_is_not_acknowledged(
    single: Database,
) -> None:
    """PostgreSQL answers COMMIT of such a transaction with ROLLBACK, and no error."""

    async def pass_over() -> None:
        async with single.begin() as transaction:
            await transaction.execute(text("INSERT INTO t VALUES (1)"))
            with suppress(DBAPIError):
                await transaction.execute(text("SELECT nothing"))

    with pytest.raises(PendingRollbackError):
        await pass_over()
    async with single.reading() as reader:
        assert (await reader.execute(text("SELECT count(*) FROM t"))).scalar_one() == 0


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_who_is_cancelled_leaves_the_pool_whole(single: Database) -> None:
    """In a statement, between two, and while it waits for a connection: one connection serves all
    that follows, and nothing of what was cancelled is there."""
    written = asyncio.Event()

    async def stay(statement: str | None) -> None:
        async with single.begin() as transaction:
            await transaction.execute(text("INSERT INTO t VALUES (1)"))
            written.set()
            if statement is not None:
                await transaction.execute(text(statement))
            await asyncio.Event().wait()

    for statement in ("SELECT pg_sleep(60)", None):
        written.clear()
        first = asyncio.create_task(stay(statement))
        await written.wait()
        second = asyncio.create_task(stay(None))
        for _ in range(3):
            await asyncio.sleep(0)
        for task in (second, first):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        async with single.reading() as reader:
            assert (await reader.execute(text("SELECT count(*) FROM t"))).scalar_one() == 0


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_a_connection_that_the_server_ended_is_not_used_again(
    single: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def end() -> None:
        found = await single.read(lambda one: one.execute(text("SELECT pg_backend_pid()")))
        other = await asyncpg.connect(database_url.replace("+asyncpg", ""))
        await other.execute("SELECT pg_terminate_backend($1, 10000)", found.scalar_one())
        await other.close()

    await end()
    await check(single)  # the end may not have arrived: it would be found by this statement
    assert await check(single) is None
    monkeypatch.setattr("common.store.postgresql.IDLE_S", 0)
    await end()
    assert await check(single) is None


async def test_check_of_an_absent_server() -> None:
    database = open_database("postgresql://nobody@127.0.0.1:1/none")
    reason = await check(database)
    assert reason is not None
    assert "does not answer" in reason
    await database.dispose()


async def test_errors_hide_parameters(database: Database) -> None:
    async with database.begin() as transaction:
        await transaction.execute(text("CREATE TABLE t (n INTEGER PRIMARY KEY)"))
        await transaction.execute(text("INSERT INTO t VALUES (4711)"))
    with pytest.raises(DBAPIError) as failed:
        async with database.begin() as transaction:
            await transaction.execute(text("INSERT INTO nothing VALUES (:n)"), {"n": 4711})
    assert "4711" not in str(failed.value)


async def test_sqlite_is_set_up(tmp_path: Path) -> None:
    path = tmp_path / "new" / "data" / "service.db"
    database = open_database(f"sqlite:///{path}")
    async with database.begin() as transaction:
        await transaction.execute(text("CREATE TABLE t (n INTEGER)"))
        expected = {
            "journal_mode": "wal",
            "synchronous": 2,
            "page_size": 16384,
            "foreign_keys": 1,
            "busy_timeout": 10,
            "wal_autocheckpoint": 4096,
        }
        for pragma, value in expected.items():
            assert (await transaction.execute(text(f"PRAGMA {pragma}"))).scalar_one() == value
    for file in path.parent.iterdir():
        assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    assert {file.name for file in path.parent.iterdir()} >= {"service.db", "service.db-wal"}
    assert stat.S_IMODE(os.stat(path.parent).st_mode) == 0o700
    await database.dispose()


async def test_the_version_changes_with_each_commit_and_not_without(
    database: Database, database_url: str
) -> None:
    """Also with one of another process, which another opening of the same database stands for."""
    async with database.begin() as transaction:
        await transaction.execute(text("CREATE TABLE seen (n INTEGER)"))
    first = await database.version()
    async with database.reading() as transaction:
        await transaction.execute(text("SELECT n FROM seen"))
    if database.dialect.name == "sqlite":  # a server counts what others do in their databases
        assert await database.version() == first
    async with database.begin() as transaction:
        await transaction.execute(text("INSERT INTO seen VALUES (1)"))
    second = await database.version()
    assert second != first
    other = open_database(database_url)
    async with other.begin() as transaction:
        await transaction.execute(text("INSERT INTO seen VALUES (2)"))
        written = await database.version()
    assert await database.version() != written
    await other.dispose()
