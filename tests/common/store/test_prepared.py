"""Statements that run on the driver from their third execution on give what SQLAlchemy gives."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Executable,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    bindparam,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError, InvalidRequestError, StatementError

from common.store import prepared as module
from common.store.columns import Instant
from common.store.database import open_database
from common.store.failures import Cause, cause
from common.store.prepared import Statements
from common.store.transactions import Database, Parameters, Transaction

TABLE = Table(
    "sample",
    MetaData(),
    Column("key", Integer, primary_key=True),
    Column("name", String, unique=True),
    Column("at", Instant, nullable=True),
    Column("body", LargeBinary, nullable=True),
    Column("whole", Boolean, nullable=True),
    Column("share", Float, nullable=True),
    Column("state", String, nullable=False, default="new"),
)
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """A database with a table of 40 rows."""
    opened = open_database(database_url)
    await opened.change_schema(TABLE.metadata.create_all)
    rows = [
        {
            "name": f"n{key}",
            "at": None if key % 7 == 0 else NOON + timedelta(microseconds=key),
            "body": bytes([key]),
            "whole": key % 2 == 0,
            "share": None if key % 5 == 0 else key / 8,
            "state": "old",
        }
        for key in range(40)
    ]
    async with opened.begin() as transaction:
        await transaction.execute(insert(TABLE), rows)
    yield opened
    await opened.dispose()


def prepared(database: Database, statement: Executable) -> bool:
    """Whether a statement now runs on the driver."""
    uses = database._statements._known.get(statement, {})
    return any(use is not None for use in uses.values())


async def rows(
    transaction: Transaction, statement: Executable, asked: Parameters
) -> list[dict[str, Any]]:
    """The rows of one execution, by their keys."""
    return [dict(row) for row in (await transaction.execute(statement, asked)).mappings()]


READS = [
    (select(TABLE).where(TABLE.c.key == bindparam("k")), [{"k": k} for k in (7, 8, 99)]),
    (
        select(TABLE.c.key, TABLE.c.at, func.count().over().label("n"), func.max(TABLE.c.key))
        .where(TABLE.c.key.in_(bindparam("ks", expanding=True)), TABLE.c.state == "old")
        .group_by(TABLE.c.key)
        .order_by(TABLE.c.key),
        [{"ks": list(range(n))} for n in (0, 1, 3, 40, 0, 2)],
    ),
    (
        select(TABLE.c.name)
        .where(TABLE.c.at >= bindparam("since"), TABLE.c.whole.is_(True))
        .where(TABLE.c.at.in_(bindparam("ats", expanding=True)))
        .order_by(TABLE.c.key.desc())
        .limit(bindparam("most")),
        [
            {"since": NOON, "ats": [NOON + timedelta(microseconds=k) for k in ks], "most": most}
            for ks, most in (((2, 4), 9), ((1, 3), 9), (range(40), 5))
        ],
    ),
    (  # lists that are part of it, one of them empty, and one that is given
        select(TABLE.c.key)
        .where(TABLE.c.name.in_(["n3", "n5", "n9"]), TABLE.c.state.not_in([]))
        .where(TABLE.c.key.in_(bindparam("ks", expanding=True)), TABLE.c.at > bindparam("since"))
        .order_by(TABLE.c.key),
        [{"ks": list(range(n)), "since": NOON} for n in (0, 7, 40, 7, 11)],
    ),
]


@pytest.mark.parametrize(("statement", "asked"), READS)
async def test_rows_are_the_same(
    database: Database, statement: Any, asked: list[dict[str, Any]]
) -> None:
    async with database.reading() as transaction:

        def without(connection: Connection, parameters: Any) -> tuple[list[str], list[Any]]:
            result = connection.execute(statement, parameters)
            return list(result.keys()), [dict(row) for row in result.mappings()]

        for _ in range(3):
            for parameters in asked:
                _, wanted = await transaction.run_sync(partial(without, parameters=parameters))
                found = await rows(transaction, statement, parameters)
                assert found == wanted
                assert [*map(type, found)] == [*map(type, wanted)]
        assert prepared(database, statement)
        result = await transaction.execute(statement, asked[-1])
        keys, _ = await transaction.run_sync(partial(without, parameters=asked[-1]))
        assert list(result.keys()) == keys


async def test_changes_are_the_same_and_their_rows_are_counted(database: Database) -> None:
    change = (
        update(TABLE)
        .where(TABLE.c.key == bindparam("k"), TABLE.c.state == "old")
        .values(at=bindparam("new_at"), body=b"fixed", whole=bindparam("new_whole"))
    )
    remove = delete(TABLE).where(TABLE.c.key == bindparam("k"))
    add = insert(TABLE).returning(TABLE.c.key, TABLE.c.at)
    async with database.begin() as transaction:
        for k in range(1, 9):
            values = {"k": k, "new_at": NOON, "new_whole": k == 3}
            assert (await transaction.execute(change, values)).rowcount == 1
            row = (await transaction.execute(select(TABLE).where(TABLE.c.key == k))).one()
            assert (row.at, row.body, row.whole, row.name) == (NOON, b"fixed", k == 3, f"n{k - 1}")
        assert (
            await transaction.execute(change, {"k": 99, "new_at": None, "new_whole": None})
        ).rowcount == 0
        for k in range(1, 6):
            assert (await transaction.execute(remove, {"k": k})).rowcount == 1
            assert (await transaction.execute(remove, {"k": k})).rowcount == 0
        for number in range(5):
            asked = {"name": f"m{number}", "at": NOON, "state": "mine"}
            assert (await transaction.execute(add, asked)).one() == (41 + number, NOON)
        assert prepared(database, change) and prepared(database, remove) and prepared(database, add)
        for name in "xyz":  # rows of several sets are SQLAlchemy's work
            both = [{"name": f"{name}{n}", "at": NOON, "state": "mine"} for n in range(2)]
            assert len((await transaction.execute(add, both)).all()) == 2
        several = [{"k": k, "new_at": None, "new_whole": True} for k in (6, 7, 8, 99)]
        for _ in range(4):
            changed = (await transaction.execute(change, several)).rowcount
            assert changed == (
                3 if database.dialect.name == "sqlite" else -1
            )  # asyncpg counts none


async def test_what_needs_more_is_left_to_sqlalchemy(database: Database) -> None:
    """A default made in Python is made each time; other parameters are another use."""
    add = insert(TABLE)
    async with database.begin() as transaction:
        for number in range(4):
            await transaction.execute(add, {"name": f"a{number}"})
        assert not prepared(database, add)
        for number in range(4):
            await transaction.execute(add, {"name": f"b{number}", "state": "given"})
        assert prepared(database, add)
        for number in range(4):
            await transaction.execute(add, {"name": f"c{number}", "state": "x", "at": NOON})
            await transaction.execute(add, [{"name": f"{d}{number}", "state": "y"} for d in "de"])
        found = select(TABLE.c.name, TABLE.c.state, TABLE.c.at).where(TABLE.c.key > 40)
        states = {row.name: (row.state, row.at) for row in await transaction.execute(found)}
    given = {"a": ("new", None), "b": ("given", None), "c": ("x", NOON)}
    given |= {"d": ("y", None), "e": ("y", None)}
    assert states == {f"{name}{n}": given[name] for name in given for n in range(4)}


async def test_errors_are_those_of_sqlalchemy_and_name_no_value(database: Database) -> None:
    add = insert(TABLE)
    find = select(TABLE.c.key).where(TABLE.c.name == bindparam("name"))
    moment = update(TABLE).where(TABLE.c.key == bindparam("k")).values(at=bindparam("new_at"))
    async with database.begin() as transaction:
        for number in range(4):
            await transaction.execute(add, {"name": f"secret{number}", "state": "s"})
            await transaction.execute(find, {"name": "n1"})
            await transaction.execute(moment, {"k": 1, "new_at": NOON})
        for missing in ({}, {"other": "n1"}):
            with pytest.raises((InvalidRequestError, StatementError)):
                await transaction.execute(find, missing)
        for _ in range(4):
            several = [{"k": 1, "new_at": NOON}, {"k": 2, "new_at": NOON}]
            changed = (await transaction.execute(moment, several)).rowcount
            assert changed == (2 if database.dialect.name == "sqlite" else -1)
        with pytest.raises((StatementError, KeyError)):  # nothing is taken for null
            await transaction.execute(moment, [{"k": 1, "new_at": NOON}, {"k": 2}])
        with pytest.raises(Exception, match="without a zone"):
            await transaction.execute(moment, {"k": 1, "new_at": datetime(2026, 1, 1)})  # noqa: DTZ001
        assert (await transaction.execute(find, {"name": "n1"})).scalar_one() == 2

    async def add_again() -> None:
        async with database.begin() as transaction:
            await transaction.execute(add, {"name": "secret1", "state": "s"})

    with pytest.raises(IntegrityError) as taken:
        await add_again()
    assert "secret1" not in str(taken.value)
    assert cause(taken.value) is Cause.INPUT


async def test_statements_that_are_built_for_one_execution_are_not_kept(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST", 8)
    statements = database._statements = Statements(database.dialect)  # not the shared ones
    async with database.reading() as transaction:
        for number in range(20):
            await transaction.execute(select(TABLE.c.key).where(TABLE.c.key == number))
        gc.collect()
        assert not statements._known
        assert len(statements._seen) <= 2  # SQLAlchemy keeps one of each kind
        built = [select(TABLE.c.key).where(TABLE.c.key == number) for number in range(1, 21)]
        for _ in range(3):
            for number, statement in enumerate(built, 1):
                assert (await transaction.execute(statement)).scalar_one() == number
                assert len(statements._known) <= 8
