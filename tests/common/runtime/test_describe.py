"""What is logged of an exception: its type, its place, the code of a database's error."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import IntegrityError, OperationalError

from common.runtime.logs import describe


def test_a_locked_database_is_told_from_a_broken_one(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("CREATE TABLE t (name TEXT PRIMARY KEY)")
        other.execute("INSERT INTO t VALUES ('house-4711')")
        engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": 0})
        with engine.connect() as connection, pytest.raises(IntegrityError) as taken:
            connection.execute(text("INSERT INTO t VALUES ('house-4711')"))
        other.execute("BEGIN EXCLUSIVE")
        with engine.connect() as connection, pytest.raises(OperationalError) as locked:
            connection.execute(text("INSERT INTO t VALUES ('house-4712')"))
        engine.dispose()
    assert describe(locked.value)["code"] == "SQLITE_BUSY"
    assert describe(taken.value)["code"] == "SQLITE_CONSTRAINT_PRIMARYKEY"
    assert "4711" not in str(describe(taken.value))


def test_other_errors_have_no_code() -> None:
    assert describe(ValueError("4711")) == {"error": "builtins.ValueError"}
