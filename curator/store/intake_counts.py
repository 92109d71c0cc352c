"""What came in, by the hour and outcome, and when each device sent last: counts and times, no
values.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import BigInteger, Row, cast, delete, func, select, text

from common.arrays import grown
from common.runtime.clock import epoch_microseconds
from common.store.transactions import Transaction
from curator.store import blocks
from curator.store.tables import (
    curators,
    devices,
    intake_hours,
    newest_readings,
    readings,
    registers,
)

HOUR_US: Final = 3_600 * 10**6
IN_A_FILE: Final = "rejected_in_a_file"
"""The outcome of a file's rows whose errors the import itself lists."""
Newest = tuple[int, int, int, int, int, int, int, int]
"""register, device, curator, earliest and newest time; how many more duplicates, corrections, late
ones."""
_ADD: Final = text(
    "INSERT INTO intake_hour (hour, outcome, shard, count) "
    "VALUES (:hour, :outcome, :shard, :count) "
    "ON CONFLICT (hour, outcome, shard) DO UPDATE SET count = intake_hour.count + excluded.count"
)
COUNTED: Final = ("duplicates", "corrections", "late")
_KEPT: Final = {
    "first": "CASE WHEN new.first < old.first THEN new.first ELSE old.first END",
    "time": "CASE WHEN new.time > old.time THEN new.time ELSE old.time END",
    **{name: f"old.{name} + new.{name}" for name in COUNTED},
}
_NEWER: Final = (
    f"INSERT INTO newest_reading AS old (register, device, curator, {', '.join(_KEPT)}) "  # noqa: S608
    "VALUES ({}) ON CONFLICT (register, device) DO UPDATE SET "
    f"{', '.join(f'{name} = {value}' for name, value in _KEPT.items())} "
    f"WHERE new.time > old.time OR new.first < old.first "
    f"OR {' + '.join(f'new.{name}' for name in COUNTED)} > 0"
).replace("new.", "excluded.")
_NEWER_SQLITE: Final = _NEWER.format(", ".join("?" * 8))
_NEWER_POSTGRESQL: Final = _NEWER.format(", ".join(f"${place}" for place in range(1, 9)))


async def note(
    transaction: Transaction,
    now: datetime,
    shard: int,
    outcomes: Mapping[str, int],
    newest: Iterable[Newest],
) -> None:
    """Add the outcomes of a batch to those of this hour, and store its newest reading and counts
    of each device. `shard`: the answer of `readings.lock_curators`, so that no other writer
    waits."""
    hour = epoch_microseconds(now) // HOUR_US
    counted = [
        {"hour": hour, "outcome": outcome, "shard": shard, "count": count}
        for outcome, count in sorted(outcomes.items())
        if count
    ]
    if counted:
        await transaction.execute(_ADD, counted)
    rows = sorted(newest)
    if rows:
        # On the driver, as readings are: the toolkit would cost more than the database.
        put = _put_postgresql if transaction.dialect.name == "postgresql" else _put_sqlite
        await transaction.on_driver(partial(put, rows=rows))


def _put_sqlite(driver: sqlite3.Connection, rows: Sequence[tuple[int, ...]]) -> None:
    driver.executemany(_NEWER_SQLITE, rows)


async def _put_postgresql(driver: Any, rows: Sequence[tuple[int, ...]]) -> None:
    await driver.executemany(_NEWER_POSTGRESQL, rows)


async def forget_hours(transaction: Transaction, before: datetime) -> None:
    """Drop the outcomes of hours that ended before an instant."""
    hour = epoch_microseconds(before) // HOUR_US
    await transaction.execute(delete(intake_hours).where(intake_hours.c.hour < hour))


async def hours(transaction: Transaction, first: int, end: int) -> list[Row[int, str, int]]:
    """(hour, outcome, items) of the hours first..end-1 since 1970, in order."""
    items = cast(func.sum(intake_hours.c["count"]), BigInteger).label("items")
    result = await transaction.execute(
        select(intake_hours.c.hour, intake_hours.c.outcome, items)
        .where(intake_hours.c.hour >= first, intake_hours.c.hour < end)
        .group_by(intake_hours.c.hour, intake_hours.c.outcome)
        .order_by(intake_hours.c.hour, intake_hours.c.outcome)
    )
    return list(result.all())


async def silent_devices(
    transaction: Transaction,
    before: int,
    curator: int | None,
    after: tuple[int, int, int] | None,
    limit: int,
) -> list[Row[Any]]:
    """Devices whose newest reading of a register is of a time before; the longest silent first.
    `after`: (time, register, device) of the last one of the page before."""
    newest = newest_readings.c
    query = (
        select(
            newest.time,
            newest.register,
            newest.device,
            registers.c.name.label("register_name"),
            curators.c.id.label("curator"),
            devices.c.id.label("id"),
        )
        .join(registers, registers.c.key == newest.register)
        .join(devices, devices.c.key == newest.device)
        .join(curators, curators.c.key == newest.curator)
        .where(newest.time < before)
        .order_by(newest.time, newest.register, newest.device)
        .limit(limit)
    )
    if curator is not None:
        query = query.where(newest.curator == curator)
    if after is not None:
        time, register, device = after
        same = (newest.register > register) | (
            (newest.register == register) & (newest.device > device)
        )
        query = query.where((newest.time > time) | ((newest.time == time) & same))
    return list(await transaction.execute(query))


async def register_rows(transaction: Transaction, curator: int | None) -> list[Row[Any]]:
    """(key, name, base, devices) of the registers that have readings, by name."""
    query = (
        select(
            registers.c.key,
            registers.c.name,
            registers.c.base,
            func.count(newest_readings.c.device).label("devices"),
        )
        .join(newest_readings, newest_readings.c.register == registers.c.key)
        .group_by(registers.c.key, registers.c.name, registers.c.base)
        .order_by(registers.c.name, registers.c.key)
    )
    if curator is not None:
        query = query.where(newest_readings.c.curator == curator)
    return list(await transaction.execute(query))


async def present(
    transaction: Transaction,
    register: int,
    period_us: int,
    span: tuple[int, int],
    curator: int | None,
) -> list[tuple[int, int]]:
    """(period, how many devices have a reading in it) of the periods that have any; a period is
    its number since 1970, `span` in microseconds."""
    period = (readings.c.time // period_us).label("period")
    inside = [
        readings.c.register == register,
        readings.c.time >= span[0],
        readings.c.time < span[1],
    ]
    if curator is not None:
        inside.append(readings.c.curator == curator)
    query = select(period, func.count(readings.c.device.distinct())).where(*inside)
    rows = await transaction.execute(query.group_by(period).order_by(period))
    counts = {int(row[0]): int(row[1]) for row in rows}
    owners = (0, blocks.AFTER_ALL) if curator is None else (curator, curator + 1)
    async for number, there in _in_blocks(transaction, register, period_us, span, owners):
        if number in counts:  # a device may have both
            in_period = (*inside, period == number)
            result = await transaction.execute(
                select(readings.c.device).distinct().where(*in_period)
            )
            there = np.union1d(there, np.array(result.scalars().all(), np.int64))
        counts[number] = there.size
    return sorted(counts.items())


async def _in_blocks(
    transaction: Transaction,
    register: int,
    period_us: int,
    span: tuple[int, int],
    owners: tuple[int, int],
) -> AsyncIterator[tuple[int, NDArray[np.int64]]]:
    """The periods with readings in blocks, and the devices of these."""
    current, there = 0, np.zeros(0, np.bool_)
    async for time, senders in blocks.senders(transaction, register, span, owners):
        number = time // period_us
        if number != current:
            if there.any():
                yield current, np.flatnonzero(there)
            current, there = number, np.zeros_like(there)
        there = grown(there, int(senders[-1]) + 1)
        there[senders] = True
    if there.any():
        yield current, np.flatnonzero(there)


async def newest_of(transaction: Transaction, keys: Sequence[int]) -> dict[int, int]:
    """The time of each device's newest reading, in microseconds since 1970."""
    rows = await transaction.execute(
        select(newest_readings.c.curator, func.max(newest_readings.c.time))
        .where(newest_readings.c.curator.in_(keys))
        .group_by(newest_readings.c.curator)
    )
    return {row[0]: row[1] for row in rows}


async def sent_since(transaction: Transaction, since: int) -> list[int]:
    """The curators with a reading of that time or later, by key."""
    rows = await transaction.execute(
        select(newest_readings.c.curator)
        .where(newest_readings.c.time >= since)
        .group_by(newest_readings.c.curator)
        .order_by(newest_readings.c.curator)
    )
    return list(rows.scalars())


@dataclass(frozen=True)
class Counted:
    """A device with readings of a register: the times of the `first` and of the newest, in
    microseconds since 1970; how many were repeated, corrected, or arrived or changed after their
    window had been contributed."""

    register: int
    register_name: str
    base: str
    device: int
    id: str
    first: int
    time: int
    duplicates: int
    corrections: int
    late: int


async def devices_of(transaction: Transaction, curator: int) -> list[Counted]:
    """The devices of a curator, by register and name."""
    newest = newest_readings.c
    rows = await transaction.execute(
        select(
            newest.register,
            registers.c.name,
            registers.c.base,
            newest.device,
            devices.c.id,
            newest.first,
            newest.time,
            *(newest[name] for name in COUNTED),
        )
        .join(registers, registers.c.key == newest.register)
        .join(devices, devices.c.key == newest.device)
        .where(newest.curator == curator)
        .order_by(newest.register, devices.c.id)
    )
    return [Counted(*row) for row in rows]
