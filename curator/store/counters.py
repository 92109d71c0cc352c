"""Totals of counters, and the amounts that follow from them: read and written many at a time."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import text

from common.store.transactions import Transaction
from curator.store import blocks
from curator.store.readings import Row

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
    found = (await transaction.execute(_AROUND, values)).all()
    return [(row.time, row.total, row.rollover) for row in found]


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
        found = [dict(zip(names, row, strict=True)) for row in rows]
        await transaction.execute(_PUT_READING, found)
