"""Readings in blocks and readings in rows: the same answers over any course of what is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from common.store.database import migrate, open_database
from common.store.transactions import Database, Transaction
from curator.app import MIGRATIONS
from curator.store import blocks, bulk_insert, intake_counts
from curator.store import readings as store
from curator.store.tables import metadata
from tests.property_examples import examples

IN_BLOCKS, IN_ROWS = 0, 1
"""Registers: what is sent to one is sent to the other."""
INSTANTS, DEVICES, CURATORS = 5, 24, 6
ALL = (0, 1 << 30)

item = st.tuples(st.integers(0, INSTANTS - 1), st.integers(0, DEVICES - 1), st.integers(-2, 2))
items = st.lists(item, min_size=1, max_size=60)


@dataclass(frozen=True)
class Step:
    """One thing that is sent: by whom, and what."""

    kind: str
    items: list[tuple[int, int, int]]
    vectors: bool = False


steps = st.one_of(
    st.builds(Step, st.just("import"), items),
    st.builds(Step, st.sampled_from(["send", "correct"]), items, st.booleans()),
    st.builds(Step, st.just("derive"), items),
)


@contextmanager
def sizes(least: int, most: int = 5) -> Iterator[None]:
    """From how many readings on there are blocks, and of how many at most."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(blocks, "LEAST", least)
        patched.setattr(blocks, "MOST", most)
        patched.setattr(bulk_insert, "_DEVICES", 3)
        patched.setattr(blocks, "_TOGETHER", 2)
        yield


async def perform(
    transaction: Transaction, register: int, step: Step, first_random: int
) -> list[tuple[bool, bool]]:
    """Do a step; whether each of its readings was new, or the same as what was stored."""
    rows: list[store.Row] = [
        (
            register,
            time,
            device,
            device % CURATORS,
            value,
            first_random + index,
            _vector(step, value),
        )
        for index, (time, device, value) in enumerate(step.items)
    ]
    await store.lock_curators(transaction, (row[3] for row in rows))
    if step.kind == "import":
        rows.sort(key=lambda row: row[:3])
        columns = zip(*(row[1:6] for row in rows), strict=True)
        times, devices, owners, values, randoms = (np.array(each, np.int64) for each in columns)
        found = await bulk_insert.insert_columns(
            transaction, register, blocks.Columns(times, devices, owners, values, randoms)
        )
        return list(zip(found.stored.tolist(), found.same.tolist(), strict=True))
    if step.kind == "derive":
        latest = {row[:3]: row for row in rows}
        await bulk_insert.put_readings(transaction, list(latest.values()))
        return []
    taken = dict(await store.insert_readings(transaction, rows))
    if step.kind == "correct":
        changed = [rows[index] for index, same in sorted(taken.items()) if not same]
        await store.replace_readings(transaction, changed)
    return [(index not in taken, taken.get(index, False)) for index in range(len(rows))]


def _vector(step: Step, value: int) -> bytes | None:
    return np.array([value], "<i8").tobytes() if step.vectors and value else None


async def answers(transaction: Transaction, register: int) -> list[Any]:
    """Whatever is asked of readings."""
    found: list[Any] = []
    for span in ((0, INSTANTS), (1, 2), (2, 2)):
        pages = await store.window_pages(transaction, register, *span)
        for keys in (ALL, (2, 4), (5, 5)):
            for timed in (False, True):
                columns = await store.window(transaction, register, pages, keys, timed=timed)
                found.append(sorted(zip(*(each.tolist() for each in columns), strict=True)))
            found.append(await store.vectors(transaction, register, *span, keys))
        for curator in range(CURATORS):
            found.append(await store.lengths(transaction, register, curator, *span))
        for who in (None, 3):
            found.append(await intake_counts.present(transaction, register, 2, span, who))
        found.append(
            await store.count_rows(transaction, register, *span)
            + await blocks.count(transaction, register, *span)
        )
    return found


async def same_course(database: Database, course: Sequence[Step], least: int) -> int:
    """Send a course to both registers; after each step all answers are equal. How many readings
    were in blocks at the end."""
    for number, step in enumerate(course):
        async with database.begin() as transaction:
            told = []
            for register, own in ((IN_BLOCKS, least), (IN_ROWS, 1 << 30)):
                with sizes(own):
                    told.append(await perform(transaction, register, step, 1000 * number))
        assert told[0] == told[1], step
        async with database.reading() as transaction:
            with sizes(least):
                assert await answers(transaction, IN_BLOCKS) == await answers(transaction, IN_ROWS)
            assert await blocks.count(transaction, IN_ROWS, 0, INSTANTS) == 0
            both = await twice(transaction)
            assert not both, both
    async with database.reading() as transaction:
        return await blocks.count(transaction, IN_BLOCKS, 0, INSTANTS)


async def twice(transaction: Transaction) -> list[tuple[int, ...]]:
    """Places that are in a block and somewhere else, and blocks that say what they are not."""
    rows = await transaction.execute(text("SELECT register, time, device FROM reading"))
    seen = {tuple(row) for row in rows}
    found = []
    for block in (await transaction.execute(text("SELECT * FROM reading_block"))).all():
        devices = np.frombuffer(block.devices, "<i4").tolist()
        owners = np.frombuffer(block.curators, "<i4")
        assert devices == sorted(set(devices))
        assert len(devices) == len(owners) == block.readings > 0
        assert block.first_device <= devices[0] <= devices[-1] <= block.last_device
        assert block.first_curator <= owners.min() <= owners.max() <= block.last_curator
        for device in devices:
            place = (block.register, block.time, device)
            if place in seen:
                found.append(place)
            seen.add(place)
    return found


@examples(60)
@given(st.lists(steps, min_size=1, max_size=6), st.integers(1, 12))
def test_blocks_and_rows_give_the_same_over_any_course(course: list[Step], least: int) -> None:
    async def run(folder: str) -> None:
        database = open_database(f"sqlite:///{Path(folder) / 'store.db'}")
        async with database.begin() as transaction:
            await transaction.run_sync(metadata.create_all)
        await same_course(database, course, least)
        await database.dispose()

    with TemporaryDirectory() as folder:
        asyncio.run(run(folder))


@pytest.fixture
async def database(database_url: str) -> Any:
    opened = open_database(database_url)
    await migrate(opened, MIGRATIONS)
    yield opened
    await opened.dispose()


async def test_both_databases_keep_blocks(database: Database) -> None:
    chance = np.random.default_rng(1)

    def sent(kind: str, size: int, vectors: bool = False) -> Step:
        columns = (chance.integers(0, most, size) for most in (INSTANTS, DEVICES, 5))
        found = list(zip(*(each.tolist() for each in columns), strict=True))
        return Step(kind, [(time, device, value - 2) for time, device, value in found], vectors)

    course = [sent("import", 80), sent("send", 5), sent("correct", 6), sent("import", 60)]
    course += [sent("derive", 4), sent("correct", 3, vectors=True), sent("import", 90)]
    assert await same_course(database, course, 3) > 10


async def test_two_that_cut_one_block_at_once_take_out_both(database: Database) -> None:
    async with database.begin() as transaction:
        with sizes(3, 24):
            await perform(transaction, IN_BLOCKS, Step("import", [(0, d, 1) for d in range(9)]), 0)

    async def derive(device: int) -> None:
        async with database.begin() as transaction:
            await perform(transaction, IN_BLOCKS, Step("derive", [(0, device, 2)]), 100 + device)
            await asyncio.sleep(0.1)  # the other has begun

    await asyncio.gather(derive(2), derive(5))
    async with database.reading() as transaction:
        assert not await twice(transaction)
        assert await blocks.count(transaction, IN_BLOCKS, 0, 1) == 7


async def test_large_values_are_exact(database: Database) -> None:
    values = np.array([-(1 << 62), (1 << 62) - 1, 0, 123456789123456789], np.int64)
    keys = np.arange(4, dtype=np.int64) + (1 << 31) - 5
    columns = blocks.Columns(
        np.full(4, 1 << 50), keys, keys, values, values[::-1] & ((1 << 62) - 1)
    )
    async with database.begin() as transaction:
        with sizes(1):
            found = await bulk_insert.insert_columns(transaction, 0, columns)
        assert found.stored.all()
    async with database.reading() as transaction:
        pages = await store.window_pages(transaction, 0, 1 << 50, (1 << 50) + 1)
        owners, quantities = await store.window(
            transaction, 0, pages, (0, blocks.AFTER_ALL), timed=False
        )
    order = np.argsort(owners)
    assert quantities[order].tolist() == values.tolist()


async def test_two_processes_store_no_reading_twice(database: Database, database_url: str) -> None:
    """One imports what the other sends reading by reading, at the same time."""
    step = Step("import", [(time, device, 1) for time in range(4) for device in range(20)])
    other = open_database(database_url)

    async def write(own: Database, kind: str, number: int) -> int:
        async with own.begin() as transaction:
            sent = Step(kind, step.items)
            found = await perform(transaction, IN_BLOCKS, sent, 1000 * number)
            return sum(new for new, _ in found)

    for number in range(4):
        async with database.begin() as transaction:
            await transaction.execute(text("DELETE FROM reading"))
            await transaction.execute(text("DELETE FROM reading_block"))
        with sizes(3):
            new = await asyncio.gather(
                write(database, "import", 1), write(other, "send", 2), write(other, "import", 3)
            )
        assert sum(new) == len(step.items), number
        async with database.reading() as transaction:
            assert not await twice(transaction)
    await other.dispose()
