"""Eight writers of one curator service at once: none waits in a circle, nothing is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from sqlalchemy import func, insert, select, text
from sqlalchemy.exc import DBAPIError

from common.principals import Principal, Scope
from common.runtime.clock import ManualClock, epoch_microseconds
from common.store.database import migrate, open_database
from common.store.transactions import Database
from curator.app import MIGRATIONS
from curator.intake.intake import Intake, Status
from curator.settings import CuratorSettings
from curator.store import intake_counts
from curator.store import readings as store
from curator.store.parties import COUNTS
from curator.store.tables import curators, parties
from tests.curator.store.test_blocks import sizes, twice

pytestmark = pytest.mark.parametrize("database_url", ["postgres"], indirect=True)

WRITERS: Final = 8
HOMES: Final = 12
AT: Final = datetime(2026, 1, 1, tzinfo=UTC)
OPERATOR: Final = Principal("test", frozenset({Scope.OPERATOR}))
PARTY: Final = {
    "id": "gateway",
    "kind": "host",
    "state": "active",
    "deployment": "test",
    "identity": b"",
    "coordinator_url": "http://coordinator.test",
    "first_key": 0,
    "curators": HOMES,
    "created": AT,
}


@pytest.fixture
async def database(database_url: str) -> Any:
    """The tables of a curator service, with a host of twelve homes."""
    opened = open_database(database_url)
    await migrate(opened, MIGRATIONS)
    homes = [
        {"key": key, "id": f"home-{key}", "party": "gateway", **dict.fromkeys(COUNTS, 0)}
        for key in range(HOMES)
    ]
    async with opened.begin() as transaction:
        await transaction.execute(insert(parties), PARTY)
        await transaction.execute(insert(curators), homes)
    yield opened
    await opened.dispose()


async def replica(url: str, folder: Path, clock: ManualClock) -> tuple[Database, Intake]:
    """A process of the service, with connections of its own."""
    database = open_database(url)
    intake = Intake(database, clock, CuratorSettings(data_dir=folder))
    await intake.look()
    return database, intake


def batch(chance: np.random.Generator, kind: str) -> list[dict[str, Any]]:
    """Readings of some homes at some instants, in any order, and one of an unknown home."""
    size = 10
    columns = (chance.integers(0, most, size).tolist() for most in (HOMES, 3, 5))
    items: list[dict[str, Any]] = []
    for home, minute, value in zip(*columns, strict=True):
        item = {
            "curator": f"home-{home}",
            "time": AT.replace(minute=minute).isoformat(),
            "unit": "kWh",
            "value": str(100 * minute + value if kind == "total_increasing" else value),
            "kind": kind,
            "correction": bool(value % 2),
        }
        items.append(item)
    return [*items, {**items[0], "curator": "nobody"}, {**items[0], "unit": "parsec"}]


async def test_eight_writers_store_everything_once(
    database: Database, database_url: str, tmp_path: Path, clock: ManualClock
) -> None:
    clock.advance(timedelta(days=1))
    replicas = [await replica(database_url, tmp_path, clock) for _ in range(WRITERS)]
    outcomes: Counter[Status] = Counter()
    chance = np.random.default_rng(11)
    batches = [
        [batch(chance, kind) for kind in ("delta", "total_increasing", "delta")]
        for _ in range(WRITERS)
    ]

    async def write(intake: Intake, number: int) -> None:
        for place in range(3):
            answers = await intake.take(batches[number][place], OPERATOR)
            outcomes.update(answer.status for answer in answers)
            # All homes at one instant, which becomes blocks: the others' corrections cut them.
            homes = np.arange(HOMES, dtype=np.int64)
            times = np.full(HOMES, epoch_microseconds(AT.replace(minute=place)), np.int64)
            keys = await intake.make_devices([(home, f"home-{home}") for home in range(HOMES)])
            devices = np.array([keys[home, f"home-{home}"] for home in range(HOMES)], np.int64)
            order = np.argsort(devices)
            columns = (times, devices[order], homes[order], homes[order])
            outcomes.update(await intake.store_columns(columns, "energy_import", "kWh"))

    with sizes(3):
        await asyncio.gather(*(write(own, number) for number, (_, own) in enumerate(replicas)))
        async with database.reading() as transaction:
            assert not await twice(transaction)
            hours = await intake_counts.hours(transaction, 0, 1 << 30)
            counts = select(*(func.sum(curators.c[name]) for name in COUNTS))
            of_homes = dict(zip(COUNTS, (await transaction.execute(counts)).one(), strict=True))
    for own, _ in replicas:
        await own.dispose()
    by_outcome = {row.outcome: row.items for row in hours}
    assert sum(by_outcome.values()) == outcomes.total() == WRITERS * 3 * (12 + HOMES)
    for status, name in ((Status.ACCEPTED, "accepted"), (Status.DUPLICATE, "duplicates")):
        assert by_outcome[status.value] == of_homes[name] == outcomes[status] > 0
    assert of_homes["conflicts"] == outcomes[Status.CONFLICT] > 0
    assert of_homes["rejected"] == WRITERS * 3  # those of the unknown home are nobody's


async def test_writers_of_other_curators_do_not_wait(database: Database, database_url: str) -> None:
    """With a lock for all, the second would wait for the first, which waits for the second."""
    other = open_database(database_url)
    async with database.begin() as first:
        assert await store.lock_curators(first, [3, 7]) == 3
        async with other.begin() as second:
            assert await store.lock_curators(second, [4, 8]) == 4
            await intake_counts.note(second, AT, 4, {"accepted": 1}, [(0, 8, 8, 1, 1, 0, 0, 0)])
        await intake_counts.note(first, AT, 3, {"accepted": 2}, [(0, 7, 7, 1, 1, 0, 0, 0)])
    async with database.reading() as transaction:
        (row,) = await intake_counts.hours(transaction, 0, 1 << 30)
        assert (row.outcome, row.items) == ("accepted", 3)
    await other.dispose()


async def lock_soon(database: Database, curators: list[int]) -> None:
    async with database.begin() as transaction:
        await transaction.execute(text("SET LOCAL lock_timeout = '10ms'"))
        await store.lock_curators(transaction, curators)


async def test_writers_of_one_curator_wait(database: Database, database_url: str) -> None:
    other = open_database(database_url)
    async with database.begin() as first:
        await store.lock_curators(first, [7, 3])
        with pytest.raises(DBAPIError, match="lock timeout"):
            await lock_soon(other, [5, 3 + store.SHARDS])
    await other.dispose()
