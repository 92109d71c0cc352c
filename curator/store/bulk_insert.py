"""Bulk insert of readings: scalar ones, and the amounts that follow from totals of counters.

Those of an instant with many go into blocks, the rest are rows. An insert never replaces: what is
stored already, in either form, is compared and stays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import bindparam, select, text

from common.arrays import batches
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
    """The outcomes of readings, in their order: `stored` for new ones; of the others `same` if
    their place already has this content."""

    stored: Bits
    same: Bits


@dataclass(frozen=True)
class Stored:
    """Stored readings of an instant: their devices, each once; their values; and which are
    numbers, not vectors."""

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
    """Store readings of one register, sorted by time and device. The transaction has locked their
    curators (`readings.lock_curators`)."""
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
    quantities_stored, unlike, unchanged = (
        quantities.copy(),
        np.zeros(devices.size, np.bool_),
        ~first,
    )
    at = places[np.searchsorted(devices[first], there.devices)]
    unchanged[at], quantities_stored[at], unlike[at] = True, there.quantities, ~there.scalar
    origin = np.maximum.accumulate(np.where(first, np.arange(devices.size), 0))
    return ~unchanged, unchanged & (quantities_stored[origin] == quantities) & ~unlike[origin]


async def _stored(
    transaction: Transaction, register: int, columns: Columns, instants: Sequence[slice]
) -> list[Stored]:
    """What is stored for the devices of each instant, in blocks and in rows."""
    devices_at = {
        int(columns.times[here.start]): np.unique(columns.devices[here]) for here in instants
    }
    stored: dict[int, list[Stored]] = {time: [] for time in devices_at}
    for time, there, values in await blocks.at_instants(transaction, register, devices_at):
        stored[time].append(Stored(there, values, np.ones(there.size, np.bool_)))
    if devices_at:
        span = {"of_register": register, "start": min(devices_at), "last": max(devices_at)}
        if (await transaction.execute(_IN_SPAN, span)).first() is not None:
            for time, devices in devices_at.items():
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

_SPANS: Final = {
    "sqlite": "(SELECT key AS place, json_extract(value, '$[0]') AS device, "
    "json_extract(value, '$[1]') AS first, json_extract(value, '$[2]') AS last "
    "FROM json_each(:spans))",
    "postgresql": "(SELECT number - 1 AS place, CAST(value->>0 AS integer) AS device, "
    "CAST(value->>1 AS bigint) AS first, CAST(value->>2 AS bigint) AS last "
    "FROM json_array_elements(CAST(:spans AS json)) WITH ORDINALITY AS listed (value, number))",
}
"""Spans of many counters, as one parameter: a statement each would take longer than the rest."""
_OF = "counter WHERE device = span.device AND register = :register AND time"
_AROUND: Final = {
    name: text(
        "SELECT span.place, there.time, there.total, there.rollover "  # noqa: S608
        f"FROM {spans} AS span CROSS JOIN counter AS there "
        "WHERE there.device = span.device AND there.register = :register AND there.time "
        f"BETWEEN COALESCE((SELECT MAX(time) FROM {_OF} < span.first), span.first) "
        f"AND COALESCE((SELECT MIN(time) FROM {_OF} > span.last), span.last)"
    )
    for name, spans in _SPANS.items()
}
_HIGHEST: Final = {
    name: text(
        "SELECT span.place, "  # noqa: S608
        f"(SELECT MAX(total) FROM {_OF} >= span.first AND time < span.last) AS highest "
        f"FROM {spans} AS span"
    )
    for name, spans in _SPANS.items()
}
_PUT_TOTAL = (
    "INSERT INTO counter (device, register, time, total, rollover) VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT (device, register, time) "
    "DO UPDATE SET total = excluded.total, rollover = excluded.rollover"
)
_PUT_READING = (
    "INSERT INTO reading (register, time, device, curator, quantity, random, vector) "
    "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (register, time, device) "
    "DO UPDATE SET quantity = excluded.quantity, vector = excluded.vector"
)
Span = tuple[int, int, int]
"""device, first and last time."""


async def around(
    transaction: Transaction, register: int, spans: Sequence[Span]
) -> list[tuple[int, int, int, int | None]]:
    """The totals of counters in their spans, and the neighbours on both sides: place of the span,
    time, total, rollover."""
    values = {"register": register, "spans": json.dumps(spans)}
    rows = await transaction.execute(_AROUND[transaction.dialect.name], values)
    return [(row[0], row[1], row[2], row[3]) for row in rows]


async def highest(transaction: Transaction, register: int, spans: Sequence[Span]) -> list[int]:
    """The highest total of each counter in its span, without its last time; 0 if there is none."""
    values = {"register": register, "spans": json.dumps(spans)}
    rows = await transaction.execute(_HIGHEST[transaction.dialect.name], values)
    totals = {row.place: row.highest for row in rows}
    return [totals[place] or 0 for place in range(len(spans))]


async def put_totals(
    transaction: Transaction, rows: Sequence[tuple[int, int, int, int, int | None]]
) -> None:
    """Store totals (device, register, time, total, rollover); they replace others of the same
    times."""
    await _put(transaction, _PUT_TOTAL, rows)


async def put_readings(transaction: Transaction, rows: Sequence[Row]) -> None:
    """Store derived readings, replacing earlier ones; the random id, so the order, stays."""
    await blocks.take_out(transaction, [row[:3] for row in rows])
    await _put(transaction, _PUT_READING, rows)


async def _put(transaction: Transaction, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
    if not rows:
        return
    if transaction.dialect.name == "postgresql":
        marks = iter(range(1, statement.count("?") + 1))
        statement = re.sub(r"\?", lambda _: f"${next(marks)}", statement)
    await transaction.on_driver(lambda driver: driver.executemany(statement, rows))
