"""Bulk insert of readings: scalar ones, and the amounts that follow from totals of counters.

Those of an instant with many go into blocks, the rest are rows. An insert never replaces: what is
stored already, in either form, is compared and stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import bindparam, select, text

from common.arrays import batches
from common.store.database import exclusive
from common.store.transactions import Transaction
from curator.store import blocks
from curator.store.blocks import Columns, Ints
from curator.store.readings import Row, insert_readings
from curator.store.tables import readings

Bits = NDArray[np.bool_]
_DEVICES: Final = 500
_HERE = (readings.c.register == bindparam("of_register"), readings.c.time == bindparam("at"))
_IN_SPAN = (
    select(readings.c.device)
    .where(
        readings.c.register == bindparam("of_register"),
        readings.c.time >= bindparam("start"),
        readings.c.time <= bindparam("last"),
    )
    .limit(1)
)
_ANY = (
    select(readings.c.device)
    .where(*_HERE, readings.c.device >= bindparam("first"), readings.c.device <= bindparam("last"))
    .limit(1)
)
_AMONG = select(
    readings.c.device, readings.c.quantity, readings.c.vector.is_(None).label("scalar")
).where(*_HERE, readings.c.device.in_(bindparam("devices", expanding=True)))


@dataclass(frozen=True)
class Outcome:
    """The outcomes of readings, in their order: `stored` those that are new, of the others `same`
    those whose place has this content already."""

    stored: Bits
    same: Bits


@dataclass(frozen=True)
class Stored:
    """Readings of an instant that are stored: their devices, each once; what they read; and which
    are numbers, no vectors."""

    devices: Ints
    quantities: Ints
    scalar: Bits

    @classmethod
    def joined(cls, parts: Sequence[Stored]) -> Stored:
        """All of some parts."""
        nothing = np.zeros(0, np.int64)
        return cls(
            np.concatenate([nothing, *(part.devices for part in parts)]),
            np.concatenate([nothing, *(part.quantities for part in parts)]),
            np.concatenate([np.zeros(0, np.bool_), *(part.scalar for part in parts)]),
        )


async def insert_columns(transaction: Transaction, register: int, columns: Columns) -> Outcome:
    """Store readings of one register, sorted by time and device."""
    await exclusive(transaction, "readings")  # see `insert_readings`
    size = columns.times.size
    outcome = Outcome(np.zeros(size, np.bool_), np.zeros(size, np.bool_))
    _, starts, counts = np.unique(columns.times, return_index=True, return_counts=True)
    many = counts >= blocks.LEAST
    instants = [
        slice(start, start + n) for start, n in zip(starts[many], counts[many], strict=True)
    ]
    added = []
    for here, there in zip(
        instants, await _stored(transaction, register, columns, instants), strict=True
    ):
        outcome.stored[here], outcome.same[here] = compared(columns[here], there)
        if outcome.stored[here].sum() >= blocks.LEAST:
            added.append(columns[here][outcome.stored[here]])
        else:  # too few are new
            many[np.searchsorted(starts, here.start)] = False
    await blocks.add(transaction, register, added)
    few = np.flatnonzero(~np.repeat(many, counts))
    if few.size:
        outcome.stored[few], outcome.same[few] = True, False
        rows = _rows(register, columns[few])
        for index, same in await insert_readings(transaction, rows):
            outcome.stored[few[index]], outcome.same[few[index]] = False, same
    return outcome


def compared(columns: Columns, there: Stored) -> tuple[Bits, Bits]:
    """Of readings of one instant, by ascending device: which are new, and which of the others are
    the same as what is stored there, or as the first of their device."""
    devices, quantities = columns.devices, columns.quantities
    first = _first(devices)
    places = np.flatnonzero(first)
    kept, unlike, unchanged = quantities.copy(), np.zeros(devices.size, np.bool_), ~first
    at = places[np.searchsorted(devices[first], there.devices)]
    unchanged[at], kept[at], unlike[at] = True, there.quantities, ~there.scalar
    origin = np.maximum.accumulate(np.where(first, np.arange(devices.size), 0))
    return ~unchanged, unchanged & (kept[origin] == quantities) & ~unlike[origin]


async def _stored(
    transaction: Transaction, register: int, columns: Columns, instants: Sequence[slice]
) -> list[Stored]:
    """What is stored for the devices of each instant, in blocks and in rows."""
    wanted = {int(columns.times[here.start]): np.unique(columns.devices[here]) for here in instants}
    stored: dict[int, list[Stored]] = {time: [] for time in wanted}
    for time, there, values in await blocks.at_instants(transaction, register, wanted):
        stored[time].append(Stored(there, values, np.ones(there.size, np.bool_)))
    if wanted:
        span = {"of_register": register, "start": min(wanted), "last": max(wanted)}
        if (await transaction.execute(_IN_SPAN, span)).first() is not None:
            for time, devices in wanted.items():
                stored[time] += await _in_rows(transaction, register, time, devices)
    return [Stored.joined(total) for total in stored.values()]


async def _in_rows(
    transaction: Transaction, register: int, time: int, devices: Ints
) -> list[Stored]:
    here = {"of_register": register, "at": time}
    bounds = {"first": int(devices[0]), "last": int(devices[-1])}
    if (await transaction.execute(_ANY, {**here, **bounds})).first() is None:
        return []
    stored = []
    for some in batches(devices.tolist(), lambda _: 1, _DEVICES):
        rows = (await transaction.execute(_AMONG, {**here, "devices": some})).all()
        if rows:
            there, values, scalar = zip(*rows, strict=True)
            stored.append(
                Stored(
                    np.array(there, np.int64),
                    np.array(values, np.int64),
                    np.array(scalar, np.bool_),
                )
            )
    return stored


def _first(devices: Ints) -> Bits:
    """Of devices in ascending order, the first of each."""
    return np.concatenate(([True], devices[1:] != devices[:-1]))


def _rows(register: int, columns: Columns) -> list[Row]:
    return [
        (register, time, device, curator, quantity, random, None)
        for time, device, curator, quantity, random in zip(
            columns.times.tolist(),
            columns.devices.tolist(),
            columns.curators.tolist(),
            columns.quantities.tolist(),
            columns.randoms.tolist(),
            strict=True,
        )
    ]


# Totals of counters, and the amounts that follow from them: read and written many at a time.

Total = tuple[int, int, int | None]
"""time, total, rollover."""
Meter = tuple[int, int]
"""device, register."""

_AROUND = text(
    "SELECT time, total, rollover FROM counter WHERE device = :device AND register = :register "
    "AND time >= COALESCE((SELECT MAX(time) FROM counter WHERE device = :device "
    "AND register = :register AND time < :first), :first) "
    "AND time <= COALESCE((SELECT MIN(time) FROM counter WHERE device = :device "
    "AND register = :register AND time > :last), :last)"
)
_HIGHEST = text(
    "SELECT COALESCE(MAX(total), 0) AS highest FROM counter WHERE device = :device "
    "AND register = :register AND time >= :first AND time < :last"
)
_PUT_TOTAL = text(
    "INSERT INTO counter (device, register, time, total, rollover) "
    "VALUES (:device, :register, :time, :total, :rollover) "
    "ON CONFLICT (device, register, time) "
    "DO UPDATE SET total = excluded.total, rollover = excluded.rollover"
)
_PUT_READING = text(
    "INSERT INTO reading (register, time, device, curator, quantity, random, vector) "
    "VALUES (:register, :time, :device, :curator, :quantity, :random, :vector) "
    "ON CONFLICT (register, time, device) "
    "DO UPDATE SET quantity = excluded.quantity, vector = excluded.vector"
)


async def around(transaction: Transaction, meter: Meter, first: int, last: int) -> list[Total]:
    """The totals of a counter from `first` to `last`, and its neighbours on both sides."""
    values = {"device": meter[0], "register": meter[1], "first": first, "last": last}
    rows = (await transaction.execute(_AROUND, values)).all()
    return [(row.time, row.total, row.rollover) for row in rows]


async def highest(transaction: Transaction, meter: Meter, first: int, last: int) -> int:
    """The highest total of a counter from `first` to before `last`; 0 if there is none."""
    values = {"device": meter[0], "register": meter[1], "first": first, "last": last}
    found: int = (await transaction.execute(_HIGHEST, values)).scalar_one()
    return found


async def put_totals(transaction: Transaction, totals: Sequence[tuple[Meter, Total]]) -> None:
    """Store totals, in place of others of the same times."""
    if totals:
        rows = [
            {"device": device, "register": register, "time": time, "total": total, "rollover": end}
            for (device, register), (time, total, end) in totals
        ]
        await transaction.execute(_PUT_TOTAL, rows)


async def put_readings(transaction: Transaction, rows: Sequence[Row]) -> None:
    """Store derived readings, replacing earlier ones; the random id, so the order, stays."""
    if rows:
        await blocks.take_out(transaction, [row[:3] for row in rows])
        names = ("register", "time", "device", "curator", "quantity", "random", "vector")
        values = [dict(zip(names, row, strict=True)) for row in rows]
        await transaction.execute(_PUT_READING, values)
