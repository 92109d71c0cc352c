"""Bulk insert of scalar readings: those of an instant with many go into blocks, the rest are rows.

An insert never replaces: what is stored already, in either form, is compared and stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import bindparam, select

from common.batches import batches
from common.store.database import exclusive
from common.store.transactions import Transaction
from curator.store import blocks
from curator.store.blocks import Columns, Ints
from curator.store.readings import Row, insert_readings
from curator.store.tables import readings

Bits = NDArray[np.bool_]
_DEVICES: Final = 500
_HERE = (readings.c.register == bindparam("of_register"), readings.c.time == bindparam("at"))
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
    """What became of readings, in their order: `stored` those that are new, of the others `same`
    those whose place has this content already."""

    stored: Bits
    same: Bits


async def insert_columns(transaction: Transaction, register: int, columns: Columns) -> Outcome:
    """Store readings of one register, sorted by time and device."""
    await exclusive(transaction, "readings")  # see `insert_readings`
    outcome = Outcome(
        np.zeros(columns.times.size, np.bool_), np.zeros(columns.times.size, np.bool_)
    )
    _, starts, counts = np.unique(columns.times, return_index=True, return_counts=True)
    many = counts >= blocks.LEAST
    for start, count in zip(starts[many].tolist(), counts[many].tolist(), strict=True):
        here = slice(start, start + count)
        outcome.stored[here], outcome.same[here] = await _instant(
            transaction, register, columns[here]
        )
    few = np.flatnonzero(~np.repeat(many, counts))
    if few.size:
        rows = _rows(register, columns[few])
        outcome.stored[few] = True
        for index, same in await insert_readings(transaction, rows):
            outcome.stored[few[index]], outcome.same[few[index]] = False, same
    return outcome


async def _instant(transaction: Transaction, register: int, columns: Columns) -> tuple[Bits, Bits]:
    """Store readings of one instant, by ascending device; which are new, and which of the others
    are the same as what is stored."""
    devices, quantities = columns.devices, columns.quantities
    first = np.concatenate(([True], devices[1:] != devices[:-1]))
    unlike = np.zeros(devices.size, np.bool_)
    kept = quantities.copy()
    known = ~first
    for there, values, scalar in await _stored(transaction, register, columns[first]):
        at = np.searchsorted(devices, there)
        known[at], kept[at], unlike[at] = True, values, ~scalar
    # One device twice: the later is compared with what is stored for the first.
    origin = np.maximum.accumulate(np.where(first, np.arange(devices.size), 0))
    same = known & (kept[origin] == quantities) & ~unlike[origin]
    new = columns[~known]
    if new.times.size >= blocks.LEAST:
        await blocks.add(transaction, register, new)
    elif new.times.size:
        await insert_readings(transaction, _rows(register, new))
    return ~known, same


async def _stored(
    transaction: Transaction, register: int, columns: Columns
) -> list[tuple[Ints, Ints, Bits]]:
    """Which of these devices have a reading at this instant: devices, quantities, and whether each
    is a number, no vector."""
    time, devices = int(columns.times[0]), columns.devices.tolist()
    found = [
        (there, values, np.ones(there.size, np.bool_))
        for _, there, values in await blocks.at_instants(
            transaction, register, {time: columns.devices}
        )
    ]
    here = {"of_register": register, "at": time}
    bounds = {"first": devices[0], "last": devices[-1]}
    if (await transaction.execute(_ANY, {**here, **bounds})).first() is None:
        return found
    for some in batches(devices, lambda _: 1, _DEVICES):
        rows = (await transaction.execute(_AMONG, {**here, "devices": some})).all()
        if rows:
            there, values, scalar = zip(*rows, strict=True)
            found.append((np.array(there), np.array(values, np.int64), np.array(scalar, np.bool_)))
    return found


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
