"""One process at a time leads; another takes over when it ends or loses its session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from sqlalchemy import text

from common.store.database import open_database
from common.store.leader import Leader
from common.store.transactions import Database


class Part:
    def __init__(self, database: Database) -> None:
        self.runs = False
        self.leader = Leader(database, "work", self.begin, self.end, look_s=0.02)

    async def begin(self) -> None:
        assert not self.runs
        self.runs = True

    async def end(self) -> None:
        assert self.runs
        self.runs = False


async def until(what: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not what():
            await asyncio.sleep(0.01)


async def test_the_only_process_leads(database: Database) -> None:
    part = Part(database)
    await part.leader.start()
    await until(lambda: part.runs)
    await part.leader.stop()
    assert not part.runs


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_another_takes_over(database_url: str) -> None:
    databases = [open_database(database_url) for _ in range(2)]
    first, second = (Part(database) for database in databases)
    try:
        await first.leader.start()
        await until(lambda: first.runs)
        await second.leader.start()
        await asyncio.sleep(0.2)
        assert first.runs and not second.runs
        # The first one's session is lost, as it is with the process: the other leads, not both.
        async with databases[1].begin() as transaction:
            await transaction.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_locks "
                    "WHERE locktype = 'advisory' AND granted "
                    "AND database = "
                    "(SELECT oid FROM pg_database WHERE datname = current_database())"
                )
            )
        await until(lambda: first.runs != second.runs and (second.runs or first.runs))
        leading, other = (first, second) if first.runs else (second, first)
        await leading.leader.stop()
        await until(lambda: other.runs)
        assert not leading.runs
    finally:
        await first.leader.stop()
        await second.leader.stop()
        for database in databases:
            await database.dispose()
