"""On PostgreSQL, too, statements that run on the driver give what SQLAlchemy gives."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import bindparam, insert, select, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from common.store.database import open_database
from common.store.failures import Cause, cause
from common.store.postgresql import PostgresqlDatabase
from tests.common.store.test_prepared import NOON, TABLE

pytestmark = pytest.mark.parametrize("database_url", ["postgres"], indirect=True)

ADD = insert(TABLE).returning(TABLE.c.key)
ADD_UNASKED = insert(TABLE)
FIND = select(TABLE.c.key, TABLE.c.at, TABLE.c.body, TABLE.c.whole).where(
    TABLE.c.name == bindparam("name")
)
OF = select(TABLE.c.name).where(TABLE.c.name.in_(bindparam("names", expanding=True)))
MOVE = update(TABLE).where(TABLE.c.key == bindparam("k")).values(at=bindparam("new_at"))


async def test_every_execution_gives_the_same(database_url: str) -> None:
    database = open_database(database_url)
    assert isinstance(database, PostgresqlDatabase)
    await database.change_schema(TABLE.metadata.create_all)
    for number in range(6):
        row = {
            "name": f"n{number}",
            "at": NOON + timedelta(microseconds=number),
            "body": bytes([number]),
            "whole": number % 2 == 0,
            "state": "new",
        }
        async with database.begin() as transaction:
            key = (await transaction.execute(ADD, row)).scalar_one()
            await transaction.execute(ADD_UNASKED, {**row, "name": f"p{number}"})
            found = (await transaction.execute(FIND, {"name": row["name"]})).one()
            assert tuple(found) == (key, row["at"], row["body"], row["whole"])
            assert found.at == row["at"]
            moved = await transaction.execute(MOVE, {"k": key, "new_at": None})
            assert moved.rowcount == 1
            assert (await transaction.execute(MOVE, {"k": -1, "new_at": None})).rowcount == 0
            names = {f"n{place}" for place in range(number + 1)}
            of = await transaction.execute(OF, {"names": sorted(names)})
            assert set(of.scalars()) == names
        async with database.reading() as transaction:
            assert (await transaction.execute(FIND, {"name": row["name"]})).one().at is None
            with pytest.raises(DBAPIError) as refused:
                await transaction.execute(MOVE, {"k": key, "new_at": None})
            assert getattr(refused.value.orig, "sqlstate", "") == "25006"  # it only reads
        with pytest.raises(IntegrityError) as taken:
            async with database.begin() as transaction:
                await transaction.execute(ADD, row)
        assert cause(taken.value) is Cause.INPUT
        assert row["name"] not in str(taken.value)
    assert len(database._statements._known) == 5
    await database.dispose()


async def test_a_lost_connection_is_no_fault_of_the_statement(database_url: str) -> None:
    database, other = open_database(database_url), open_database(database_url)
    one = select(bindparam("one", 1))
    for _ in range(3):
        async with database.reading() as transaction:
            await transaction.execute(one)

    async def lose_it() -> None:
        async with database.begin() as transaction:
            own = (await transaction.execute(text("SELECT pg_backend_pid()"))).scalar_one()
            async with other.begin() as killing:
                await killing.execute(text(f"SELECT pg_terminate_backend({own}, 5000)"))
            await transaction.execute(one)

    with pytest.raises(DBAPIError) as lost:
        await lose_it()
    assert cause(lost.value) is Cause.PASSING
    async with database.begin() as transaction:
        assert (await transaction.execute(one)).scalar_one() == 1
    await database.dispose()
    await other.dispose()
