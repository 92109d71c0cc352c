"""Readings and counters: bulk inserts and range scans on the raw driver.

Rows go straight between the driver and numpy: the toolkit's row objects would cost more than the
database. An insert never replaces; what was there before is told apart by its random id.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import delete, func, insert, literal, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from common.service.database import exclusive
from curator.store.tables import devices, readings, registers

Ints = NDArray[np.int64]
Row = tuple[int, int, int, int, int, int, bytes | None]
"""register, time, device, curator, quantity, random, vector."""

_PAGE = 50_000
_COLUMNS = ("register", "time", "device", "curator", "quantity", "random", "vector")
_INSERT = (
    "INSERT INTO reading (register, time, device, curator, quantity, random, vector) "
    "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)


async def _driver(connection: AsyncConnection) -> Any:
    # The adapter begins a transaction with its first statement only.
    await connection.execute(text("SELECT 1"))
    raw = await connection.get_raw_connection()
    return raw.driver_connection


# --- names ---------------------------------------------------------------------------------------


async def register_keys(
    connection: AsyncConnection, wanted: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], int]:
    """Key of each (register, base unit), made where it is new."""
    await exclusive(connection, "register keys")
    rows = await connection.execute(select(registers))
    known = {(row.name, row.base): row.key for row in rows}
    for pair in wanted:
        if pair not in known:
            known[pair] = len(known)
            await connection.execute(
                insert(registers).values(key=known[pair], name=pair[0], base=pair[1])
            )
    return known


async def register_key(connection: AsyncConnection, name: str, base: str) -> int | None:
    """Key of a register, or nothing if no reading ever named it."""
    found = await connection.execute(
        select(registers.c.key).where(registers.c.name == name, registers.c.base == base)
    )
    key: int | None = found.scalar_one_or_none()
    return key


async def device_names(
    connection: AsyncConnection, after: int
) -> AsyncIterator[tuple[list[int], list[int], list[str]]]:
    """Keys from `after` on, curator keys and ids of the known devices, some at a time."""
    while True:
        chosen = select(devices).where(devices.c.key >= after).order_by(devices.c.key)
        rows = (await connection.execute(chosen.limit(_PAGE))).all()
        if not rows:
            return
        yield [row.key for row in rows], [row.curator for row in rows], [row.id for row in rows]
        after = rows[-1].key + 1


async def add_devices(
    connection: AsyncConnection, wanted: Sequence[tuple[int, str]]
) -> dict[tuple[int, str], int]:
    """Keys of these devices, made where they are new."""
    await exclusive(connection, "device keys")
    found = await connection.execute(select(func.max(devices.c.key)))
    highest: int | None = found.scalar_one()
    key = 0 if highest is None else highest + 1
    known: dict[tuple[int, str], int] = {}
    owners = list({curator for curator, _ in wanted})
    for start in range(0, len(owners), 500):
        rows = await connection.execute(
            select(devices).where(devices.c.curator.in_(owners[start : start + 500]))
        )
        known |= {(row.curator, row.id): row.key for row in rows}
    result: dict[tuple[int, str], int] = {}
    fresh = []
    for pair in dict.fromkeys(wanted):
        if pair not in known:
            known[pair], key = key, key + 1
            fresh.append({"key": known[pair], "curator": pair[0], "id": pair[1]})
        result[pair] = known[pair]
    if fresh:
        await connection.execute(insert(devices), fresh)
    return result


# --- readings ------------------------------------------------------------------------------------


async def insert_readings(
    connection: AsyncConnection, rows: Sequence[Row]
) -> list[tuple[int, bool]]:
    """Store rows; answers (index, same content) of those whose key was taken, the rest is new."""
    if connection.dialect.name == "postgresql":
        return await _insert_postgresql(connection, rows)
    driver = await _driver(connection)
    cursor = await driver.executemany(_INSERT, rows)
    inserted = cursor.rowcount
    await cursor.close()
    return [] if inserted == len(rows) else await _taken(connection, rows)


async def _taken(connection: AsyncConnection, rows: Sequence[Row]) -> list[tuple[int, bool]]:
    driver = await _driver(connection)
    await driver.execute(
        "CREATE TEMP TABLE IF NOT EXISTS incoming "
        "(i INTEGER PRIMARY KEY, register, time, device, quantity, random, vector)"
    )
    await driver.execute("DELETE FROM incoming")
    await driver.executemany(
        "INSERT INTO incoming VALUES (?, ?, ?, ?, ?, ?, ?)",
        [(i, r[0], r[1], r[2], r[4], r[5], r[6]) for i, r in enumerate(rows)],
    )
    found = await driver.execute_fetchall(
        "SELECT n.i, n.quantity = r.quantity AND n.vector IS r.vector FROM incoming n "
        "CROSS JOIN reading r ON r.register = n.register AND r.time = n.time "
        "AND r.device = n.device WHERE r.random <> n.random"
    )
    await driver.execute("DELETE FROM incoming")
    return [(int(i), bool(same)) for i, same in found]


async def _insert_postgresql(
    connection: AsyncConnection, rows: Sequence[Row]
) -> list[tuple[int, bool]]:
    driver = await _driver(connection)
    await driver.execute(
        "CREATE TEMP TABLE IF NOT EXISTS incoming (i integer, register integer, time bigint, "
        "device integer, curator integer, quantity bigint, random bigint, vector bytea) "
        "ON COMMIT DELETE ROWS"
    )
    await driver.execute("DELETE FROM incoming")
    await driver.copy_records_to_table(
        "incoming",
        records=[(i, *row) for i, row in enumerate(rows)],
        columns=["i", *_COLUMNS],
    )
    names = ", ".join(_COLUMNS)
    await driver.execute(
        f"INSERT INTO reading ({names}) SELECT {names} FROM incoming ORDER BY i "  # noqa: S608
        "ON CONFLICT DO NOTHING"
    )
    found = await driver.fetch(
        "SELECT n.i, n.quantity = r.quantity AND n.vector IS NOT DISTINCT FROM r.vector "
        "FROM incoming n JOIN reading r ON r.register = n.register AND r.time = n.time "
        "AND r.device = n.device WHERE r.random <> n.random ORDER BY n.i"
    )
    return [(int(row[0]), bool(row[1])) for row in found]


async def replace_reading(connection: AsyncConnection, row: Row) -> None:
    """Give a stored reading another content; its random id, hence its order, stays."""
    await connection.execute(
        update(readings)
        .where(
            readings.c.register == row[0], readings.c.time == row[1], readings.c.device == row[2]
        )
        .values(quantity=row[4], vector=row[6])
    )


async def remove_reading(
    connection: AsyncConnection, register: int, time: int, device: int
) -> None:
    """Drop a derived reading."""
    await connection.execute(
        delete(readings).where(
            readings.c.register == register,
            readings.c.time == time,
            readings.c.device == device,
        )
    )


_RANGE = "register = ? AND time >= ? AND time < ? AND curator >= ? AND curator < ?"


async def fewer_than(
    connection: AsyncConnection, register: int, start: int, end: int, limit: int
) -> bool:
    """Whether a window has fewer readings than `limit`; looks at no more than that."""
    found = (
        select(literal(1))
        .select_from(readings)
        .where(readings.c.register == register, readings.c.time >= start, readings.c.time < end)
        .limit(limit)
        .subquery()
    )
    count: int = (await connection.execute(select(func.count()).select_from(found))).scalar_one()
    return count < limit


async def window(
    connection: AsyncConnection,
    register: int,
    start: int,
    end: int,
    curators: tuple[int, int],
    *,
    timed: bool,
) -> Ints:
    """(rows, 2) curator and quantity of a window's readings, in any order; `timed` adds time and
    random id. `curators`: half-open range of keys."""
    names = ("curator", "quantity", "time", "random") if timed else ("curator", "quantity")
    where = (register, start, end, *curators)
    if connection.dialect.name == "postgresql":
        rows = await _scan(connection, ", ".join(names), "vector IS NULL", where)
        flat = np.fromiter(chain.from_iterable(rows), np.int64, len(names) * len(rows))
        return flat.reshape(-1, len(names))
    return await _columns(connection, names, where)


async def _columns(
    connection: AsyncConnection, names: tuple[str, ...], where: tuple[int, ...]
) -> Ints:
    """Scalar readings of a window from SQLite: each column as one text, which takes half the time
    and a tenth of the memory of a Python tuple per row."""
    texts = ", ".join(f"group_concat({name}, ' ')" for name in names)
    scan = f"SELECT {', '.join(names)} FROM reading WHERE vector IS NULL AND {_RANGE}"  # noqa: S608
    driver = await _driver(connection)
    (row,) = await driver.execute_fetchall(f"SELECT {texts} FROM ({scan})", where)  # noqa: S608
    if row[0] is None:
        return np.zeros((0, len(names)), np.int64)
    left = list(reversed(row))
    del row
    first = np.fromstring(left.pop(), np.int64, sep=" ")
    columns = np.empty((len(names), first.size), np.int64)
    columns[0] = first
    for place in range(1, len(names)):  # each text is free before the next is read
        columns[place] = np.fromstring(left.pop(), np.int64, sep=" ")
    return columns.T


async def vectors(
    connection: AsyncConnection, register: int, start: int, end: int, curators: tuple[int, int]
) -> list[tuple[int, int, int, bytes]]:
    """Curator, time, random id and vector of a window's vector readings."""
    names = "curator, time, random, vector"
    rows = await _scan(connection, names, "vector IS NOT NULL", (register, start, end, *curators))
    return [(row[0], row[1], row[2], bytes(row[3])) for row in rows]


async def _scan(
    connection: AsyncConnection, names: str, condition: str, values: tuple[int, ...]
) -> Any:
    # Names and condition are ours, the values are bound.
    head = f"SELECT {names} FROM reading WHERE {condition} AND "  # noqa: S608
    driver = await _driver(connection)
    if connection.dialect.name == "postgresql":
        where = "register = $1 AND time >= $2 AND time < $3 AND curator >= $4 AND curator < $5"
        return await driver.fetch(f"{head}{where} ORDER BY time", *values)
    return await driver.execute_fetchall(f"{head}{_RANGE} ORDER BY time", values)
