"""A window's pages cover its readings once, and none is longer than it may be."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator

import numpy as np
import pytest

from common.store.database import migrate, open_database
from common.store.transactions import Database
from curator.app import MIGRATIONS
from curator.store import readings as store

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
