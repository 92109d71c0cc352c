"""What waits at the same time shares a transaction; a bad item spoils no other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import text

from common.store.database import open_database
from common.store.group_commit import ITEMS, Together
from common.store.transactions import Transaction


async def write(transaction: Transaction, items: Sequence[int]) -> list[int]:
    for item in items:
        await transaction.execute(text("INSERT INTO entry VALUES (:n)"), {"n": item})
        if item < 0:
            raise ValueError(item)
    return [10 * item for item in items]


async def test_items_share_a_transaction_and_a_bad_one_is_alone(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'a.db'}")
    async with database.begin() as transaction:
        await transaction.execute(text("CREATE TABLE entry (n INTEGER)"))
    writer = Together(database.begin, write)
    before = database.counts.writing
    assert await asyncio.gather(*map(writer.submit, range(ITEMS))) == [
        10 * item for item in range(ITEMS)
    ]
    assert database.counts.writing - before == 1
    answers = await asyncio.gather(*map(writer.submit, (101, -1, 102)), return_exceptions=True)
    assert answers[::2] == [1010, 1020]
    assert isinstance(answers[1], ValueError)
    async with database.reading() as transaction:
        found = list((await transaction.execute(text("SELECT n FROM entry"))).scalars())
    assert found == [*range(ITEMS), 101, 102]
    await database.dispose()


async def test_what_comes_during_a_transaction_goes_with_the_next(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'a.db'}")
    gate, taken = asyncio.Event(), []

    async def work(_: Transaction, items: Sequence[int]) -> Sequence[int]:
        taken.append(list(items))
        await gate.wait()
        return items

    together = Together(database.reading, work)
    first = asyncio.create_task(together.submit(1))
    while not taken:
        await asyncio.sleep(0)
    rest = [asyncio.create_task(together.submit(item)) for item in (2, 3)]
    await asyncio.sleep(0.01)
    rest[0].cancel()
    gate.set()
    assert await asyncio.gather(first, rest[1]) == [1, 3]
    assert taken == [[1], [3]]
    await database.dispose()


async def test_who_waits_learns_that_the_writer_was_cancelled(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'a.db'}")
    gate = asyncio.Event()

    async def work(_: Transaction, items: Sequence[int]) -> Sequence[int]:
        await gate.wait()
        return items

    together = Together(database.reading, work)
    tasks = [asyncio.create_task(together.submit(item)) for item in (1, 2)]
    await asyncio.sleep(0.05)
    tasks[0].cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(answers[0], asyncio.CancelledError)
    assert answers[1] is not None
    assert isinstance(answers[1], Exception)
    gate.set()
    assert await together.submit(3) == 3
    await database.dispose()
