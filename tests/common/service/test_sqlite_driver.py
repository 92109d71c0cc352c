"""The lean SQLite connection under the toolkit: rows, counts, errors, cancellation."""

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError, OperationalError

from common.service.database import open_database, reading
from common.service.sqlite_driver import Connection


async def test_statements_do_what_they_do_elsewhere(tmp_path: Path) -> None:
    engine = open_database(f"sqlite:///{tmp_path / 'store.db'}")
    async with engine.begin() as connection:
        raw = await connection.get_raw_connection()
        assert isinstance(raw.driver_connection, Connection)
        await connection.execute(text("CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT)"))
        done = await connection.execute(
            text("INSERT INTO t VALUES (:k, :v)"), [{"k": k, "v": str(k)} for k in range(500)]
        )
        assert done.rowcount == 500
        found = await connection.execute(text("UPDATE t SET v = 'x' WHERE k < 7 RETURNING k"))
        assert sorted(found.scalars()) == list(range(7))
        assert (await connection.execute(text("SELECT v FROM t WHERE k = 900"))).first() is None
        with pytest.raises(IntegrityError):
            await connection.execute(text("INSERT INTO t VALUES (1, 'again')"))
        with pytest.raises(OperationalError):
            await connection.execute(text("SELECT nothing FROM t"))
    async with reading(engine) as connection:
        rows = (await connection.execute(text("SELECT k, v FROM t ORDER BY k"))).all()
        assert len(rows) == 500
        assert rows[3].v == "x"
        streamed = [row.k async for row in await connection.stream(text("SELECT k FROM t"))]
        assert sorted(streamed) == list(range(500))
    await engine.dispose()


async def test_a_reader_that_asks_nothing_leaves_no_trace(tmp_path: Path) -> None:
    engine = open_database(f"sqlite:///{tmp_path / 'store.db'}")
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE t (k INTEGER)"))
    async with reading(engine):
        pass  # its connection goes back to the pool, and serves the next
    async with engine.begin() as connection:
        await connection.execute(text("INSERT INTO t VALUES (1)"))
    async with reading(engine) as one, reading(engine) as other:
        assert (await one.execute(text("SELECT count(*) FROM t"))).scalar_one() == 1
        async with engine.begin() as connection:
            await connection.execute(text("INSERT INTO t VALUES (2)"))
        assert (await one.execute(text("SELECT count(*) FROM t"))).scalar_one() == 1
        assert (await other.execute(text("SELECT count(*) FROM t"))).scalar_one() == 2
    await engine.dispose()


async def test_a_cancelled_statement_leaves_the_store_usable(tmp_path: Path) -> None:
    engine = open_database(f"sqlite:///{tmp_path / 'store.db'}")
    long = text(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000000) "
        "SELECT sum(i) FROM n"
    )

    async def work() -> None:
        async with engine.begin() as connection:
            await connection.execute(long)

    task = asyncio.create_task(work())
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE t (k INTEGER)"))
    await engine.dispose()
