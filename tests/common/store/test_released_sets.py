"""Released sets: which earlier ones a new set is compared with."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
from sqlalchemy import BigInteger, Column, Integer, LargeBinary, MetaData, String, Table

from common.store.columns import Instant
from common.store.released_sets import ReleasedSets
from common.store.transactions import Database
from tacit import sets
from tacit.protocol.differencing import DifferenceRefused, Release
from tacit.query.fields import Window

metadata = MetaData()
table = Table(
    "kept",
    metadata,
    Column("family", String(200), primary_key=True),
    Column("which", String(36), primary_key=True),
    Column("window_start", Instant, nullable=False),
    Column("window_end", Instant, nullable=False),
    Column("minimum", Integer, nullable=False),
    Column("job", String(128), nullable=True),
    Column("size", BigInteger, nullable=False),
    Column("members", LargeBinary, nullable=False),
)
KEPT = ReleasedSets(table, table.c.which)
SIZE, NOON, HOUR = 20, datetime(2026, 1, 5, 12, tzinfo=UTC), timedelta(hours=1)


def window(start: int, end: int) -> Window:
    return Window(start=NOON + start * HOUR, end=NOON + end * HOUR)


def release(name: str, curators: int, minimum: int = 3) -> Release:
    """A round over the first curators."""
    return Release(name, sets.pack(np.arange(SIZE) < curators), minimum, None)


async def keep(store: Database, new: Release, over: Window, scope: str = "energy") -> None:
    async with store.begin() as transaction:
        await KEPT.add(transaction, {scope: new}, over, SIZE)


async def refused(
    store: Database,
    new: Release,
    over: Window,
    scope: str = "energy",
    kept: ReleasedSets = KEPT,
) -> list[str]:
    """The earlier rounds that a new set is refused for."""
    async with store.reading() as transaction:
        try:
            await kept.check(transaction, {"other": new, scope: new}, over)
        except DifferenceRefused as error:
            return list(error.extra["rounds"])
    return []


async def test_sets_are_compared_over_windows_of_one_scope_that_meet(store: Database) -> None:
    await keep(store, release("first", 10), window(2, 4))
    near = release("new", 9)
    assert await refused(store, near, window(0, 3)) == ["first"]
    assert await refused(store, near, window(3, 9)) == ["first"]
    assert await refused(store, near, window(0, 2)) == []
    assert await refused(store, near, window(4, 9)) == []
    assert await refused(store, near, window(0, 9), scope="heat") == []
    assert await refused(store, release("new", 3), window(0, 9)) == []


async def test_protection_is_asked_for_by_either_set(store: Database) -> None:
    await keep(store, release("open", 10, minimum=1), window(0, 1))
    await keep(store, release("guarded", 10, minimum=3), window(1, 2))
    free, guarded = release("new", 9, minimum=1), release("new", 9, minimum=3)
    assert await refused(store, free, window(0, 1)) == []
    assert await refused(store, guarded, window(0, 1)) == ["open"]
    assert await refused(store, free, window(1, 2)) == ["guarded"]


async def test_rows_that_do_not_count_are_not_compared(store: Database) -> None:
    await keep(store, release("first", 10), window(0, 1))
    counted = ReleasedSets(table, table.c.which, (table.c.which != "first",))
    assert await refused(store, release("new", 9), window(0, 1)) == ["first"]
    assert await refused(store, release("new", 9), window(0, 1), kept=counted) == []


async def test_equal_sets_are_one_with_the_largest_minimum(store: Database) -> None:
    for name, minimum in (("a", 1), ("b", 3), ("c", 1)):
        await keep(store, release(name, 10, minimum), window(0, 1))
    assert await refused(store, release("new", 9, minimum=1), window(0, 1)) == ["a"]
    assert await refused(store, release("new", 7, minimum=1), window(0, 1)) == []


async def test_a_rounds_own_set_hides_no_equal_one(store: Database) -> None:
    for name in ("a", "b"):
        await keep(store, release(name, 10), window(0, 1))
    assert await refused(store, release("a", 9), window(0, 1)) == ["b"]
