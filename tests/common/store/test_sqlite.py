"""SQLite in the loop's thread: rows, threads, waiting writers, other processes, cancellation."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.exc import TimeoutError as WaitedTooLong

from common.store import sqlite as module
from common.store.database import open_database
from common.store.failures import Cause, cause
from common.store.transactions import Database

LONG = text(
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000000) "
    "SELECT sum(i) FROM n"
)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    """A database with a table."""
    opened = open_database(f"sqlite:///{tmp_path / 'store.db'}")
    async with opened.begin() as transaction:
        await transaction.execute(text("CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT)"))
    yield opened
    await opened.dispose()


async def add(database: Database, k: int) -> None:
    async with database.begin() as transaction:
        await transaction.execute(text("INSERT INTO t (k) VALUES (:k)"), {"k": k})


async def keys(database: Database) -> list[int]:
    async with database.reading() as transaction:
        return list((await transaction.execute(text("SELECT k FROM t ORDER BY k"))).scalars())


@pytest.mark.parametrize("large", [False, True])
async def test_rows_counts_and_errors(database: Database, large: bool) -> None:
    async with database.begin(large=large) as transaction:
        rows = [{"k": k, "v": str(k)} for k in range(500)]
        done = await transaction.execute(text("INSERT INTO t VALUES (:k, :v)"), rows)
        assert done.rowcount == 500
        found = await transaction.execute(text("UPDATE t SET v = 'x' WHERE k < 7 RETURNING k"))
        assert sorted(found.scalars()) == list(range(7))
        assert (await transaction.execute(text("SELECT v FROM t WHERE k = 900"))).first() is None
        with pytest.raises(IntegrityError):
            await transaction.execute(text("INSERT INTO t VALUES (1, 'again')"))
        with pytest.raises(OperationalError):
            await transaction.execute(text("SELECT nothing FROM t"))
        written = await transaction.on_driver(
            lambda driver: driver.executemany("UPDATE t SET v = ? WHERE k = ?", [("y", 8)]).rowcount
        )
        assert written == 1
    async with database.reading(large=large) as transaction:
        found = await transaction.execute(text("SELECT k, v FROM t ORDER BY k"))
        assert found.fetchmany(3)[2].v == "x"
        assert found.fetchone() == (3, "x")
    assert len(found.all()) == 496  # they were fetched, so they outlive the transaction


async def test_a_transaction_without_statements_leaves_no_trace(database: Database) -> None:
    async with database.reading(), database.begin():
        pass
    await add(database, 1)
    async with database.reading() as one, database.reading() as other:
        count = text("SELECT count(*) FROM t")
        assert (await one.execute(count)).scalar_one() == 1
        await add(database, 2)
        assert (await one.execute(count)).scalar_one() == 1
        assert (await other.execute(count)).scalar_one() == 2


async def test_an_error_undoes_all(database: Database) -> None:
    async def fail() -> None:
        async with database.begin() as transaction:
            await transaction.execute(text("INSERT INTO t (k) VALUES (1)"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert await keys(database) == []
    await add(database, 1)
    assert await keys(database) == [1]


async def test_writers_come_in_their_order(database: Database) -> None:
    order: list[int] = []

    async def write(number: int) -> None:
        async with database.begin() as transaction:
            await transaction.execute(text("INSERT INTO t (k) VALUES (:k)"), {"k": number})
            await asyncio.sleep(0)
            order.append(number)

    await asyncio.gather(*map(write, range(50)))
    assert order == list(range(50))
    assert await keys(database) == order


async def test_a_writer_that_waits_too_long_may_try_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BUSY_S", 0.05)
    async with database.begin():
        with pytest.raises(WaitedTooLong) as refused:
            await add(database, 1)
        assert cause(refused.value) is Cause.PASSING
    await add(database, 1)
    assert await keys(database) == [1]


async def test_a_lock_of_another_process_is_waited_for(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.create_task(add(database, 1))
        await asyncio.sleep(0.05)
        assert await keys(database) == []  # readers and the loop go on
        assert not waiting.done()
        other.execute("COMMIT")
        await waiting
        other.execute("BEGIN IMMEDIATE")
        monkeypatch.setattr(module, "BUSY_S", 0.05)
        with pytest.raises(WaitedTooLong) as refused:
            await add(database, 2)
        assert cause(refused.value) is Cause.PASSING
        other.execute("ROLLBACK")
        await add(database, 3)
    assert await keys(database) == [1, 3]


async def test_a_cancelled_statement_leaves_the_database_usable(database: Database) -> None:
    async def work() -> None:
        async with database.begin(large=True) as transaction:
            await transaction.execute(text("INSERT INTO t (k) VALUES (1)"))
            await transaction.execute(LONG)

    task = asyncio.create_task(work())
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await keys(database) == []
    await add(database, 2)
    assert await keys(database) == [2]


async def test_who_is_cancelled_waits_for_the_thread(database: Database) -> None:
    entered, leave = threading.Event(), threading.Event()

    def wait(_: Any) -> None:
        entered.set()
        leave.wait(10)

    async def work() -> None:
        async with database.reading(large=True) as transaction:
            await transaction.on_driver(wait)

    task = asyncio.create_task(work())
    while not entered.is_set():
        await asyncio.sleep(0.001)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0.01)
        assert not task.done()
    leave.set()
    with pytest.raises(asyncio.CancelledError):
        await task
