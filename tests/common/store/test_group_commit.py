"""Group commit: order, answers after the commit only, failures, back-pressure."""

import asyncio
import errno
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Column, Integer, MetaData, Table, insert, select
from sqlalchemy.exc import IntegrityError

from common.store.group_commit import (
    BATCH_ITEMS,
    GroupCommit,
    QueueFull,
    WriterStopped,
    in_transaction,
)
from common.store.transactions import Database, Transaction
from tacit.errors import Conflict
from tests.property_examples import examples

metadata = MetaData()
rows = Table("entry", metadata, Column("position", Integer, primary_key=True), Column("n", Integer))


class Double:
    """An engine whose transactions commit when the test lets them, and remember their batches."""

    def __init__(self, *, held: bool = False) -> None:
        self.gate = asyncio.Event()
        if not held:
            self.gate.set()
        self.batches: list[list[int]] = []
        self.committed = 0
        self.rolled_back = 0
        self.fail_commit = False

    @asynccontextmanager
    async def begin(self, *, large: bool = False) -> AsyncIterator[Transaction]:
        try:
            yield cast(Transaction, None)
        except BaseException:
            self.rolled_back += 1
            raise
        await self.gate.wait()
        if self.fail_commit:
            raise OSError(errno.ENOSPC, "the disk is full of 4711")
        self.committed += 1

    async def apply(self, _: Transaction, items: Sequence[int]) -> list[int | Exception]:
        self.batches.append(list(items))
        return [Conflict(str(item)) if item < 0 else item * 10 for item in items]


def writer_on(double: Double, **options: Any) -> GroupCommit[int, int]:
    return GroupCommit(in_transaction(double.begin, double.apply), abandoned=True, **options)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_no_answer_before_the_commit() -> None:
    double = Double(held=True)
    writer = writer_on(double, max_items=4)
    first = asyncio.create_task(writer.submit(1))
    await settle()
    assert double.batches == [[1]]
    assert not first.done()
    others = [asyncio.create_task(writer.submit(n)) for n in (2, 3, 4)]
    await settle()
    assert double.batches == [[1]]
    assert not any(each.done() for each in (first, *others))
    with pytest.raises(QueueFull):
        await writer.submit(5)
    double.gate.set()
    assert await asyncio.gather(first, *others) == [10, 20, 30, 40]
    assert double.batches == [[1], [2, 3, 4]]
    assert await asyncio.gather(*(writer.submit(n) for n in (5, 6, 7, 8))) == [50, 60, 70, 80]
    await writer.stop()


async def test_several_items_wait_together_each_with_an_answer_of_its_own() -> None:
    """What is refused, or finds no room, spoils no other; nothing is answered before the commit."""
    double = Double(held=True)
    writer = writer_on(double, max_items=4)
    several = asyncio.create_task(writer.submit_all([1, -2, 3, 4, 5]))
    await settle()
    assert (double.batches, several.done()) == ([[1, -2, 3, 4]], False)
    double.gate.set()
    first, refused, third, fourth, full = await several
    assert (first, third, fourth) == (10, 30, 40)
    assert isinstance(refused, Conflict)
    assert isinstance(full, QueueFull)
    assert await writer.submit_all([]) == []
    double.fail_commit = True
    assert [type(each) for each in await writer.submit_all([6, 7])] == [OSError] * 2
    await writer.stop()
    assert [type(each) for each in await writer.submit_all([8])] == [WriterStopped]


async def test_an_item_that_breaks_the_transaction_fails_alone() -> None:
    double = Double()

    async def brittle(transaction: Transaction, items: Sequence[int]) -> Sequence[int | Exception]:
        if 13 in items:
            raise ValueError
        return await double.apply(transaction, items)

    writer = GroupCommit(in_transaction(double.begin, brittle))
    asked = (writer.submit(n) for n in (1, 13, 3))
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert answers[::2] == [10, 30]
    assert isinstance(answers[1], ValueError)
    assert (double.batches, double.committed) == ([[1], [3]], 2)
    await writer.stop()


async def test_a_failing_commit_fails_all_and_the_writer_lives() -> None:
    double = Double()
    double.fail_commit = True
    writer = writer_on(double)
    answers = await asyncio.gather(*(writer.submit(n) for n in (1, 2)), return_exceptions=True)
    assert all(isinstance(answer, OSError) for answer in answers)
    double.fail_commit = False
    assert await writer.submit(5) == 50
    await writer.stop()


async def test_back_pressure_by_items_and_bytes() -> None:
    double = Double(held=True)
    writer = writer_on(double, max_items=3, max_size=100, size_of=lambda n: n)
    kept = [asyncio.create_task(writer.submit(n)) for n in (10, 10, 10)]
    await settle()
    with pytest.raises(QueueFull) as full:
        await writer.submit(1)
    assert full.value.retryable
    assert full.value.retry_after_s == 1
    double.gate.set()
    await asyncio.gather(*kept)
    double.gate.clear()
    large = asyncio.create_task(writer.submit(101))  # alone, even a large one gets through
    await settle()
    with pytest.raises(QueueFull):
        await writer.submit(1)
    double.gate.set()
    assert await large == 1010
    assert await writer.submit(1) == 10
    await writer.stop()


async def test_stop_drains_and_refuses() -> None:
    double = Double(held=True)
    writer = writer_on(double)
    first = asyncio.create_task(writer.submit(1))
    await settle()
    second = asyncio.create_task(writer.submit(2))
    await settle()
    stopping = asyncio.create_task(writer.stop())
    await settle()
    with pytest.raises(WriterStopped):
        await writer.submit(3)
    double.gate.set()
    await stopping
    assert (await first, await second) == (10, 20)
    await writer.stop()


async def test_a_sender_that_left_changes_nothing() -> None:
    double = Double(held=True)
    writer = writer_on(double)
    tasks = [asyncio.create_task(writer.submit(n)) for n in (1, 2, 3)]
    await settle()
    gone = asyncio.create_task(writer.submit(4))
    stays = asyncio.create_task(writer.submit(5))
    await settle()
    gone.cancel()
    double.gate.set()
    assert await asyncio.gather(*tasks, stays) == [10, 20, 30, 50]
    assert double.batches[-1] == [4, 5]
    await writer.stop()


@examples(40)
@given(st.lists(st.tuples(st.integers(-50, 50), st.booleans()), max_size=60))
def test_order_is_kept_whatever_the_batches(plan: list[tuple[int, bool]]) -> None:
    async def run() -> None:
        double = Double()
        writer = writer_on(double)
        tasks = []
        for item, pause in plan:
            tasks.append(asyncio.create_task(writer.submit(item)))
            if pause:
                await asyncio.sleep(0)
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        await writer.stop()
        items = [item for item, _ in plan]
        assert [item for batch in double.batches for item in batch] == items
        for item, answer in zip(items, answers, strict=True):
            assert isinstance(answer, Conflict) if item < 0 else answer == item * 10

    asyncio.run(run())


async def test_on_a_real_database(database: Database) -> None:
    async with database.begin() as transaction:
        await transaction.run_sync(metadata.create_all)
    batches: list[int] = []

    async def apply(
        transaction: Transaction, items: Sequence[tuple[int, int]]
    ) -> list[int | Exception]:
        batches.append(len(items))
        values = [{"position": position, "n": n} for position, n in items]
        await transaction.execute(insert(rows), values)
        return [n for _, n in items]

    writer = GroupCommit(in_transaction(database.begin, apply))

    async def one(position: int) -> None:
        assert await writer.submit((position, position * 2)) == position * 2
        async with database.reading() as transaction:
            query = select(rows.c.n).where(rows.c.position == position)
            assert (await transaction.execute(query)).scalar_one() == position * 2

    await asyncio.gather(*(one(position) for position in range(100)))
    asked = map(writer.submit, ((100, 7), (0, 1), (101, 8)))
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert answers[::2] == [7, 8]
    assert isinstance(answers[1], IntegrityError)
    await writer.stop()
    async with database.reading() as transaction:
        kept = (await transaction.execute(select(rows).order_by(rows.c.position))).all()
    assert kept == [*((n, 2 * n) for n in range(100)), (100, 7), (101, 8)]
    assert len(batches) < 100


async def test_who_goes_away_stops_nothing_for_others() -> None:
    """Neither in a transaction nor before: unless `abandoned`, its item is not begun any more."""
    double = Double(held=True)
    queue = GroupCommit(in_transaction(double.begin, double.apply))
    under_way = asyncio.create_task(queue.submit(1))
    await settle()
    waiting = [asyncio.create_task(queue.submit(item)) for item in (2, 3)]
    await settle()
    under_way.cancel()
    waiting[0].cancel()
    await settle()
    double.gate.set()
    assert await waiting[1] == 30
    assert under_way.cancelled()
    assert double.batches == [[1], [3]]
    await asyncio.gather(*map(queue.submit, range(BATCH_ITEMS)))
    assert double.batches[2:] == [[*range(BATCH_ITEMS)]]
    await queue.stop()


async def test_what_waits_when_a_queue_is_cancelled_hears_of_it() -> None:
    double = Double(held=True)
    queue = writer_on(double, batch_items=1)
    tasks = [asyncio.create_task(queue.submit(item)) for item in (1, 2)]
    await settle()
    await queue.cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(answer) for answer in answers] == [WriterStopped] * 2
    assert (double.batches, double.committed) == ([[1]], 0)
    with pytest.raises(WriterStopped):
        await queue.submit(3)
