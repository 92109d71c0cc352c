"""What was destroyed leaves the log of SQLite, and what holds it back is noticed."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from common.store import erasure as module
from common.store.database import open_database
from common.store.erasure import Erasure, to_erase
from common.store.sqlite import SqliteDatabase
from common.store.transactions import Database

SECRET = b"a secret of which no byte may stay"


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    """A store that holds a secret."""
    opened = open_database(f"sqlite:///{tmp_path / 'store.db'}")
    async with opened.begin() as transaction:
        await transaction.execute(text("CREATE TABLE t (v BLOB)"))
        await transaction.execute(text("INSERT INTO t VALUES (:v)"), {"v": SECRET})
    yield opened
    await opened.dispose()


async def destroy(database: Database) -> None:
    async with database.begin() as transaction:
        await transaction.execute(text("DELETE FROM t"))
        await to_erase(transaction)


async def mark(database: Database) -> int:
    async with database.reading() as transaction:
        return int((await transaction.execute(text("PRAGMA user_version"))).scalar_one())


def found(folder: Path) -> bool:
    return any(SECRET in path.read_bytes() for path in folder.iterdir())


@contextmanager
def reader(folder: Path) -> Iterator[None]:
    """Someone who reads the store in another process, and goes on."""
    with closing(sqlite3.connect(folder / "store.db")) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM t").fetchone()
        yield


async def test_what_was_destroyed_is_in_no_file_once_it_is_erased(
    database: Database, tmp_path: Path
) -> None:
    erasure = Erasure(database)
    assert await erasure.erase()  # nothing was destroyed yet
    assert found(tmp_path)
    await destroy(database)
    assert found(tmp_path)
    assert await erasure.erase()
    assert not found(tmp_path)
    assert (await mark(database), erasure.since) == (0, None)


async def test_a_reader_holds_it_back_only_where_something_was_destroyed(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with the smallest mark that there is."""
    monkeypatch.setattr(module.secrets, "randbelow", lambda _: 0)
    now = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    erasure = Erasure(database)
    with reader(tmp_path):
        assert await erasure.erase()
        assert erasure.since is None
        await destroy(database)
        assert await mark(database) == 1
        for later in (0.0, 10.0):
            now[0] += later
            assert not await erasure.erase()
            assert erasure.since == 1000.0
        assert (await mark(database), found(tmp_path)) == (1, True)
    assert await erasure.erase()
    assert (erasure.since, found(tmp_path)) == (None, False)


async def test_it_is_overdue_after_more_than_an_hour(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [7200.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    erasure = Erasure(database)
    assert (erasure.overdue, await erasure.readiness()) == (False, None)
    erasure.since = 7200.0
    for passed, overdue in ((0.0, False), (3600.0, False), (3600.5, True)):
        now[0] = 7200.0 + passed
        assert erasure.overdue is overdue
        assert await erasure.readiness() == ("log_not_emptied" if overdue else None)


async def test_what_is_destroyed_meanwhile_is_not_forgotten(
    database: SqliteDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    emptied = database.checkpoint

    async def overtaken(patience_ms: int) -> bool:
        done = await emptied(patience_ms)
        async with database.begin() as transaction:
            await to_erase(transaction)
        return done

    monkeypatch.setattr(database, "checkpoint", overtaken)
    await destroy(database)
    assert not await Erasure(database).erase()
    monkeypatch.undo()
    assert await mark(database) != 0
    assert await Erasure(database).erase()
    assert await mark(database) == 0


async def test_a_mark_is_any_positive_number_of_the_header(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The header holds 32 bits with a sign; 0 says that nothing was destroyed."""
    for chosen, wanted in ((lambda _: 0, 1), (lambda bound: bound - 1, 2**31 - 1)):
        monkeypatch.setattr(module.secrets, "randbelow", chosen)
        await destroy(database)
        assert await mark(database) == wanted


async def test_a_store_without_such_a_log_has_nothing_to_erase() -> None:
    server = create_async_engine("postgresql+asyncpg://nobody@nowhere.invalid/none")
    assert await Erasure(server).erase()
    await server.dispose()
