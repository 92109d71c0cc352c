"""A window's pages cover its readings once, and none is longer than it may be."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator

import numpy as np
import pytest
from sqlalchemy import func, select

from common.store.database import migrate, open_database
from common.store.transactions import Database
from curator.app import MIGRATIONS
from curator.store import blocks, bulk_insert
from curator.store import readings as store
from curator.store.tables import reading_blocks

PAGE = 7


@pytest.fixture
async def database(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Database]:
    monkeypatch.setattr(store, "WINDOW_PAGE", PAGE)
    opened = open_database(database_url)
    await migrate(opened, MIGRATIONS)
    yield opened
    await opened.dispose()


def many_instants(chance: np.random.Generator) -> list[tuple[int, int]]:
    return [(int(time), int(time) % 3) for time in range(100, 160)]


def few_instants(chance: np.random.Generator) -> list[tuple[int, int]]:
    return [(time, device) for time in (100, 101, 130) for device in range(0, 50, 2)]


def mixed(chance: np.random.Generator) -> list[tuple[int, int]]:
    sizes = {time: int(chance.choice([0, 1, 3, PAGE, PAGE + 1, 40])) for time in range(100, 130)}
    return [(time, device) for time, size in sizes.items() for device in range(size)]


@pytest.mark.parametrize("made", [many_instants, few_instants, mixed])
async def test_pages_cover_a_window_once(database: Database, made: object) -> None:
    places = made(np.random.default_rng(1))  # type: ignore[operator]
    rows: list[store.Row] = [
        (0, time, device, device, 1000 * time + device, index, None)
        for index, (time, device) in enumerate(places)
    ]
    async with database.begin() as transaction:
        assert await store.insert_readings(transaction, rows) == []
    start, end, last = 101, 140, 30
    wanted = [(device, 1000 * time + device) for time, device in places if start <= time < end]
    async with database.reading() as transaction:
        pages = await store.window_pages(transaction, 0, start, end)
        found = await store.window(transaction, 0, pages, (0, 1 << 30), timed=False)
        some = await store.window(transaction, 0, pages, (5, last), timed=True)
        none = await store.window(transaction, 1, pages, (0, last), timed=True)
        sizes = [
            (await store.window(transaction, 0, [page], (0, 1 << 30), timed=False))[0].size
            for page in pages
        ]
    assert Counter(zip(*(column.tolist() for column in found), strict=True)) == Counter(wanted)
    assert max(sizes) <= PAGE
    inside = [
        (time, device) for time, device in places if start <= time < end and 5 <= device < last
    ]
    assert sorted(zip(some[2].tolist(), some[0].tolist(), strict=True)) == sorted(inside)
    assert [column.size for column in none] == [0, 0, 0, 0]


async def test_an_empty_window_has_no_readings(database: Database) -> None:
    async with database.reading() as transaction:
        pages = await store.window_pages(transaction, 0, 5, 9)
        assert pages == [store.WindowPage(5, 9)]
        assert await store.window_pages(transaction, 0, 9, 9) == []
        assert (await store.window(transaction, 0, (), (0, 9), timed=False))[0].size == 0


async def test_the_readings_of_some_devices_are_found_among_those_of_others(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In rows and in blocks, in pieces of any number of instants, the newest first."""
    monkeypatch.setattr(blocks, "LEAST", 8)
    monkeypatch.setattr(blocks, "MOST", 5)
    chance = np.random.default_rng(2)
    drawn = zip(chance.integers(0, 40, 600), chance.integers(0, 30, 600), strict=True)
    places = sorted({(int(time), int(device)) for time, device in drawn})
    times, devices = (np.array(column, np.int64) for column in zip(*places, strict=True))
    times[times >= 20] *= 1000  # sparse, and with few devices
    keep = (times < 20) | (devices % 5 == 3)
    times, devices = times[keep], devices[keep]
    values = 100 * times + devices
    async with database.begin() as transaction:
        await bulk_insert.insert_columns(
            transaction, 0, blocks.Columns(times, devices, devices, values, values)
        )
        vector = (0, 50, 3, 3, 0, 7, bytes(24))
        assert await store.insert_readings(transaction, [vector]) == []
        used = await transaction.execute(select(func.count()).select_from(reading_blocks))
        assert used.scalar_one() > 10
    expected = [
        (t, d, v, 0)
        for t, d, v in zip(times.tolist(), devices.tolist(), values.tolist(), strict=True)
        if d in (3, 18) and 2 <= t < 39_000
    ]
    expected = sorted([*expected, (50, 3, 0, 3)], key=lambda row: (-row[0], row[1]))
    for instants in (1, 7, 10_000):
        before: int | None = 39_000
        found = []
        async with database.reading() as transaction:
            while before is not None:
                part, before = await store.of_devices(
                    transaction, 0, [18, 3], (2, before), instants
                )
                columns = (part.times, part.devices, part.quantities, part.places)
                found += list(zip(*(column.tolist() for column in columns), strict=True))
        assert found == expected
