"""Readings: bulk inserts and range scans of rows on the raw driver, and those in blocks with them.

Rows go straight between the driver and numpy: the toolkit's row objects would cost more than the
database. An insert never replaces; an earlier row is recognised by its random id.

Writers on PostgreSQL (spec: hot-path, section 2; SQLite has one at a time): what a writer reads and
then changes, or finds absent and adds, belongs to its curators, down to its part of the hourly
counts. A transaction locks the shards of all its curators at its start (`lock_curators`), so the
second of two writers of one curator waits there. All locks are taken in one order,

    shards, ascending < keys of new registers < keys of new devices < cuts of blocks

each until the transaction ends. Who waits holds only lower ones, so no writers wait in a circle.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import (
    BigInteger,
    Select,
    bindparam,
    case,
    func,
    insert,
    literal,
    select,
    text,
    update,
)
from sqlalchemy import Row as RowOf

from common.store.database import exclusive, lock_key
from common.store.transactions import Transaction
from curator.store import blocks
from curator.store.tables import (
    PAGE,
    columns,
    curators,
    devices,
    readings,
    registers,
)
from tacit.units import register_of

Ints = NDArray[np.int64]
Row = tuple[int, int, int, int, int, int, bytes | None]
"""register, time, device, curator, quantity, random, vector."""

WINDOW_PAGE = 1 << 17
DEVICES = (1 << 31) - 1
"""No device has a key this large."""
_COLUMNS = ("register", "time", "device", "curator", "quantity", "random", "vector")
_INSERT = (
    "INSERT INTO reading (register, time, device, curator, quantity, random, vector) "
    "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)


SHARDS = 256
"""Curators are spread over this many, by key."""
_LOCK = text(
    "SELECT pg_advisory_xact_lock(:readings, shard) "
    "FROM unnest(CAST(:shards AS integer[])) AS shard"
)
"""In the order of the list. Locks of two numbers are apart from those of one (`exclusive`)."""
_READINGS = lock_key("readings") >> 32


async def lock_curators(transaction: Transaction, curators: Iterable[int] | Ints) -> int:
    """Lock out other writers of these curators' readings until the transaction ends: before the
    first statement that reads or writes any. `curators`: keys, in any order.

    Answers the lowest of their shards, 0 for none: a number that the transaction has for itself.
    """
    if transaction.dialect.name != "postgresql":
        return 0
    keys = np.fromiter(curators, np.int64)
    shards: list[int] = np.unique(keys % SHARDS).tolist() or [0]
    await transaction.execute(_LOCK, {"readings": _READINGS, "shards": shards})
    return shards[0]


_ARRAYS = {
    "register": "integer",
    "time": "bigint",
    "device": "integer",
    "curator": "integer",
    "quantity": "bigint",
    "random": "bigint",
    "vector": "bytea",
}


def _sent(names: Sequence[str]) -> str:
    arrays = ", ".join(f"CAST(:{name} AS {_ARRAYS[name]}[])" for name in names)
    return f"unnest({arrays}) WITH ORDINALITY AS sent ({', '.join(names)}, place)"


_ADD_SENT = text(
    f"INSERT INTO reading ({', '.join(_COLUMNS)}) SELECT {', '.join(_COLUMNS)} "  # noqa: S608
    f"FROM {_sent(_COLUMNS)} ORDER BY place ON CONFLICT DO NOTHING"
)
_SENT_TWICE = text(
    "SELECT sent.place - 1, sent.quantity = kept.quantity "  # noqa: S608
    "AND sent.vector IS NOT DISTINCT FROM kept.vector "
    f"FROM {_sent([name for name in _COLUMNS if name != 'curator'])} "
    "JOIN reading AS kept ON kept.register = sent.register AND kept.time = sent.time "
    "AND kept.device = sent.device WHERE kept.random <> sent.random ORDER BY sent.place"
)


# --- names ---------------------------------------------------------------------------------------


# Asked for every party of a round: made once, and so compiled once.
_REGISTERS = select(registers).order_by(registers.c.key)
_REGISTER = select(registers.c.key).where(
    registers.c.name == bindparam("name"), registers.c.base == bindparam("base")
)
_DEVICES_OF = select(devices.c.key, devices.c.curator, devices.c.id).where(
    devices.c.curator.in_(bindparam("owners", expanding=True))
)
_PLACES = (
    select(readings.c.time, readings.c.device)
    .where(readings.c.register == bindparam("of_register"))
    .order_by(readings.c.time, readings.c.device)
    .offset(bindparam("page", type_=BigInteger()))
    .limit(1)
)
_AFTER_TIMES = _PLACES.where(
    readings.c.time >= bindparam("start"), readings.c.time < bindparam("end")
)
_AFTER_DEVICES = _PLACES.where(
    readings.c.time == bindparam("at"), readings.c.device >= bindparam("first")
)

_REPLACE = (
    update(readings)
    .where(
        readings.c.register == bindparam("of_register"),
        readings.c.time == bindparam("at"),
        readings.c.device == bindparam("of_device"),
    )
    .values(quantity=bindparam("quantity"), vector=bindparam("vector"))
)


@dataclass(frozen=True)
class KeptRegister:
    """A register of the store: its key, and the base unit in which it is stored."""

    key: int
    base: str


async def kept_registers(
    transaction: Transaction, names: Sequence[tuple[str, str]]
) -> dict[str, KeptRegister]:
    """Registers by name, created if new; each requested with its readings' base unit.

    The catalogue defines the base unit of a register. For a name outside it, the stored one is
    used, or else the first requested one.
    """
    kept, added = _kept(names, (await transaction.execute(_REGISTERS)).all())
    if added:
        await exclusive(transaction, "register keys")
        kept, added = _kept(names, (await transaction.execute(_REGISTERS)).all())
    if added:  # no other transaction did meanwhile
        await transaction.execute(insert(registers), added)
    return kept


def _kept(
    names: Sequence[tuple[str, str]], rows: Sequence[RowOf[Any]]
) -> tuple[dict[str, KeptRegister], list[dict[str, Any]]]:
    """Registers by name, and the rows of those that are new."""
    keys = {(row.name, row.base): row.key for row in rows}
    first = {row.name: row.base for row in reversed(rows)}
    kept: dict[str, KeptRegister] = {}
    added = []
    for name, register in names:
        if name in kept:
            continue
        standard = register_of(name)
        base = first.get(name, register) if standard is None else standard.base
        if (name, base) not in keys:
            keys[name, base] = len(keys)
            added.append({"key": keys[name, base], "name": name, "base": base})
        kept[name] = KeptRegister(keys[name, base], base)
    return kept, added


async def register_bases(transaction: Transaction, name: str) -> list[str]:
    """In which base units readings of a register are stored (several: since before the
    catalogue)."""
    bases = select(registers.c.base).where(registers.c.name == name).order_by(registers.c.key)
    return [row.base for row in await transaction.execute(bases)]


async def register_key(transaction: Transaction, name: str, base: str) -> int | None:
    """Key of a register, or None if no reading ever named it in this base unit."""
    result = await transaction.execute(_REGISTER, {"name": name, "base": base})
    key: int | None = result.scalar_one_or_none()
    return key


async def device_names(
    transaction: Transaction, after: int
) -> AsyncIterator[tuple[list[int], list[int], list[str | None]]]:
    """Keys from `after` on, curator keys and ids of the known devices, some at a time; no id where
    a device is named as its curator."""
    name = case((devices.c.id != curators.c.id, devices.c.id))
    owned = devices.join(curators, curators.c.key == devices.c.curator)
    while True:
        page = select(devices.c.key, devices.c.curator, name.label("name")).select_from(owned)
        page = page.where(devices.c.key >= after).order_by(devices.c.key).limit(PAGE)
        keys, owners, names = await columns(transaction, page)
        if not keys:
            return
        yield keys, owners, names
        after = max(keys) + 1


async def add_devices(
    transaction: Transaction, pairs: Sequence[tuple[int, str]]
) -> dict[tuple[int, str], int]:
    """Keys of these devices, made where they are new."""
    await exclusive(transaction, "device keys")
    found = await transaction.execute(select(func.max(devices.c.key)))
    highest: int | None = found.scalar_one()
    key = 0 if highest is None else highest + 1
    keys: dict[tuple[int, str], int] = {}
    owners = list({curator for curator, _ in pairs})
    for start in range(0, len(owners), 500):
        some = {"owners": owners[start : start + 500]}
        rows = (await transaction.execute(_DEVICES_OF, some)).all()
        keys |= {(curator, name): number for number, curator, name in rows}
    result: dict[tuple[int, str], int] = {}
    fresh = []
    for pair in dict.fromkeys(pairs):
        if pair not in keys:
            keys[pair], key = key, key + 1
            fresh.append((keys[pair], *pair))
        result[pair] = keys[pair]
    if fresh:
        put = _put_postgresql if transaction.dialect.name == "postgresql" else _put_sqlite
        await transaction.on_driver(partial(put, rows=fresh))
    return result


def _put_sqlite(driver: sqlite3.Connection, rows: Sequence[tuple[int, int, str]]) -> None:
    driver.executemany("INSERT INTO device (key, curator, id) VALUES (?, ?, ?)", rows)


async def _put_postgresql(driver: Any, rows: Sequence[tuple[int, int, str]]) -> None:
    await driver.copy_records_to_table("device", records=rows, columns=["key", "curator", "id"])


# --- readings ------------------------------------------------------------------------------------


async def insert_readings(transaction: Transaction, rows: Sequence[Row]) -> list[tuple[int, bool]]:
    """Store rows; returns (index, same content) of those whose key was taken, the rest is new.

    The transaction has locked their curators (`lock_curators`): no key of the database spans
    rows and blocks.
    """
    quantity_of = await blocks.quantities(transaction, [row[:3] for row in rows])
    free = (
        [i for i, row in enumerate(rows) if row[:3] not in quantity_of]
        if quantity_of
        else range(len(rows))
    )
    answers = [
        (i, row[6] is None and quantity_of[row[:3]] == row[4])
        for i, row in enumerate(rows)
        if row[:3] in quantity_of
    ]
    if free:
        new = [rows[i] for i in free] if quantity_of else rows
        if transaction.dialect.name == "postgresql":
            conflicts = await _insert_postgresql(transaction, new)
        else:
            conflicts = await transaction.on_driver(partial(_insert_sqlite, rows=new))
        answers += [(free[int(i)], bool(same)) for i, same in conflicts]
    return sorted(answers)


def _insert_sqlite(driver: sqlite3.Connection, rows: Sequence[Row]) -> list[tuple[Any, Any]]:
    if driver.executemany(_INSERT, rows).rowcount == len(rows):
        return []
    driver.execute(
        "CREATE TEMP TABLE IF NOT EXISTS incoming "
        "(i INTEGER PRIMARY KEY, register, time, device, quantity, random, vector)"
    )
    driver.execute("DELETE FROM incoming")
    driver.executemany(
        "INSERT INTO incoming VALUES (?, ?, ?, ?, ?, ?, ?)",
        [(i, r[0], r[1], r[2], r[4], r[5], r[6]) for i, r in enumerate(rows)],
    )
    rows_inserted = driver.execute(
        "SELECT n.i, n.quantity = r.quantity AND n.vector IS r.vector FROM incoming n "
        "CROSS JOIN reading r ON r.register = n.register AND r.time = n.time "
        "AND r.device = n.device WHERE r.random <> n.random"
    ).fetchall()
    driver.execute("DELETE FROM incoming")
    return rows_inserted


async def _insert_postgresql(
    transaction: Transaction, rows: Sequence[Row]
) -> list[tuple[Any, Any]]:
    """By columns, as arrays: a temporary table would be emptied on the disk at each commit."""
    sent = dict(zip(_COLUMNS, map(list, zip(*rows, strict=True)), strict=True))
    if (await transaction.execute(_ADD_SENT, sent)).rowcount == len(rows):
        return []
    del sent["curator"]
    return [tuple(row) for row in await transaction.execute(_SENT_TWICE, sent)]


async def replace_readings(transaction: Transaction, rows: Sequence[Row]) -> None:
    """Give stored readings other contents, one after the other; their random ids, hence their
    order, stay."""
    if not rows:
        return
    await blocks.take_out(transaction, [row[:3] for row in rows])
    await transaction.execute(
        _REPLACE,
        [
            {
                "of_register": row[0],
                "at": row[1],
                "of_device": row[2],
                "quantity": row[4],
                "vector": row[6],
            }
            for row in rows
        ],
    )


@dataclass(frozen=True)
class WindowPage:
    """Readings of a register from `start` until `end` (exclusive); of an instant with many, only
    those of some `devices`, a half-open range.

    Two plain ranges, not one of (time, device): comparing pairs takes three times as long a row.
    """

    start: int
    end: int
    devices: tuple[int, int] | None = None

    def condition(self) -> tuple[str, tuple[int, ...]]:
        """Where its rows are, and the values of the question marks."""
        if self.devices is None:
            return "time >= ? AND time < ?", (self.start, self.end)
        return "time = ? AND device >= ? AND device < ?", (self.start, *self.devices)


async def window_pages(
    transaction: Transaction, register: int, start: int, end: int
) -> list[WindowPage]:
    """A window cut into pages of at most `WINDOW_PAGE` rows, of all curators."""
    pages: list[WindowPage] = []
    while start < end:
        inside = {"of_register": register, "start": start, "end": end}
        next_place = await _after_a_page(transaction, _AFTER_TIMES, inside)
        if next_place is None:
            return [*pages, WindowPage(start, end)]
        time, _ = next_place
        if time > start:
            pages.append(WindowPage(start, time))
            start = time
            continue
        device = 0
        while device < DEVICES:
            here = {"of_register": register, "at": start, "first": device}
            next_place = await _after_a_page(transaction, _AFTER_DEVICES, here)
            after = DEVICES if next_place is None else next_place[1]
            pages.append(WindowPage(start, start + 1, (device, after)))
            device = after
        start += 1
    return pages


async def count_rows(transaction: Transaction, register: int, start: int, end: int) -> int:
    """How many readings of a window, of all curators, are rows; all vectors are."""
    inside = (readings.c.register == register, readings.c.time >= start, readings.c.time < end)
    result = await transaction.execute(select(func.count()).where(*inside))
    number: int = result.scalar_one()
    return number


async def lengths(
    transaction: Transaction, register: int, curator: int, start: int, end: int
) -> set[int | None]:
    """The lengths of the vectors of a curator's readings in a window; None for plain numbers."""
    result = await transaction.execute(
        select(func.length(readings.c.vector))
        .distinct()
        .where(
            readings.c.register == register,
            readings.c.time >= start,
            readings.c.time < end,
            readings.c.curator == curator,
        )
    )
    sizes = {None if size is None else size // 8 for size in result.scalars()}
    own = blocks.senders(transaction, register, (start, end), (curator, curator + 1))
    async for _ in own:
        return sizes | {None}
    return sizes


async def _after_a_page(
    transaction: Transaction, places: Select[tuple[int, int]], inside: Mapping[str, int]
) -> tuple[int, int] | None:
    """Time and device of the reading that comes after a page of those at the places inside."""
    row = (await transaction.execute(places, {**inside, "page": WINDOW_PAGE})).first()
    return None if row is None else (row.time, row.device)


async def window(
    transaction: Transaction,
    register: int,
    pages: Sequence[WindowPage],
    curators: tuple[int, int],
    *,
    timed: bool,
) -> tuple[Ints, ...]:
    """Curators and quantities of a window's scalar readings, in any order; `timed` adds times and
    random ids. `pages`: of the window, one after the other; `curators`: half-open range of keys."""
    names = ("curator", "quantity", "time", "random") if timed else ("curator", "quantity")
    page_of = _page_postgresql if transaction.dialect.name == "postgresql" else _page
    columns: list[list[Ints]] = [[np.zeros(0, np.int64)] for _ in names]
    for page in pages:
        where, values = page.condition()
        scan = (
            f"SELECT {', '.join(names)} FROM reading WHERE vector IS NULL AND register = ? "  # noqa: S608
            f"AND {where} AND curator >= ? AND curator < ?"
        )
        columns_of_page = await transaction.on_driver(
            partial(page_of, scan=scan, names=names, values=(register, *values, *curators))
        )
        for column, part in zip(columns, columns_of_page, strict=True):
            column.append(part)
    if pages:
        span = pages[0].start, pages[-1].end
        inside = await blocks.window(transaction, register, span, curators, timed=timed)
        for column, part in zip(columns, inside, strict=True):
            column.append(part)
    columns_joined = []
    for column in columns:  # the parts of one are free before the next is put together
        parts = [part for part in column if part.size] or column[:1]
        columns_joined.append(parts[0] if len(parts) == 1 else np.concatenate(parts))
        column.clear()
        del parts
    return tuple(columns_joined)


def _page(
    driver: sqlite3.Connection, scan: str, names: Sequence[str], values: tuple[int, ...]
) -> list[Ints]:
    """From SQLite: each column as one text, which takes a third of the time and a tenth of the
    memory of a Python tuple per row. Of the texts that SQLite makes, JSON's is the fastest."""
    texts = ", ".join(f"json_group_array({name})" for name in names)
    row = driver.execute(f"SELECT {texts} FROM ({scan})", values).fetchone()  # noqa: S608
    return [np.fromstring(text[1:-1], np.int64, sep=",") for text in row]


async def _page_postgresql(
    driver: Any, scan: str, names: Sequence[str], values: tuple[int, ...]
) -> list[Ints]:
    marks = iter(range(1, len(values) + 1))
    rows = await driver.fetch(re.sub(r"\?", lambda _: f"${next(marks)}", scan), *values)
    flat = np.fromiter(chain.from_iterable(rows), np.int64, len(names) * len(rows))
    return list(np.ascontiguousarray(flat.reshape(-1, len(names)).T))


async def vectors(
    transaction: Transaction, register: int, start: int, end: int, curators: tuple[int, int]
) -> list[tuple[int, int, int, bytes]]:
    """Curator, time, random id and vector of a window's vector readings, by time."""
    result = await transaction.execute(
        select(readings.c.curator, readings.c.time, readings.c.random, readings.c.vector)
        .where(
            readings.c.vector.is_not(None),
            readings.c.register == register,
            readings.c.time >= start,
            readings.c.time < end,
            readings.c.curator >= curators[0],
            readings.c.curator < curators[1],
        )
        .order_by(readings.c.time)
    )
    return [(row[0], row[1], row[2], bytes(row[3])) for row in result]


@dataclass(frozen=True)
class Stored:
    """Readings as they are kept, in one order: `times` in microseconds since 1970, keys of
    `devices`, `quantities` in nano-units of the base, and of a vector how many `places` it has,
    of a number 0."""

    times: Ints
    devices: Ints
    quantities: Ints
    places: Ints


async def of_devices(
    transaction: Transaction,
    register: int,
    owned: Sequence[int],
    span: tuple[int, int],
    instants: int,
) -> tuple[Stored, int | None]:
    """The readings of these devices within a half-open span, the newest first; and from where on
    all are included, if the span has more instants.

    The register's instants are looked up one by one, by the index: a store has no index by
    device, and a page must not read what a million others sent. Readings in blocks are counted
    separately.
    """
    start, end = span

    def newest(before: Any) -> Any:
        inside = (
            readings.c.register == register,
            readings.c.time >= start,
            readings.c.time < before,
        )
        return select(func.max(readings.c.time)).where(*inside).scalar_subquery()

    walk = select(newest(end).label("time"), literal(1).label("number"))
    instant = walk.cte("instant", recursive=True)
    instant = instant.union_all(
        select(newest(instant.c.time), instant.c.number + 1).where(
            instant.c.time.is_not(None), instant.c.number < instants
        )
    )
    there = (
        (readings.c.register == register)
        & (readings.c.time == instant.c.time)
        & readings.c.device.in_(owned)
    )
    places = func.coalesce(func.length(readings.c.vector), 0) // 8
    page = (
        select(instant.c.time, readings.c.device, readings.c.quantity, places.label("places"))
        .select_from(instant.outerjoin(readings, there))
        .where(instant.c.time.is_not(None))
    )
    visited, devices, quantities, lengths = await columns(transaction, page)
    with_device = [place for place, device in enumerate(devices) if device is not None]
    cuts = [min(visited)] if len(set(visited)) == instants else []
    parts = [
        [np.array([column[place] for place in with_device], np.int64)]
        for column in (visited, devices, quantities, lengths)
    ]
    in_blocks, cut = await blocks.of_devices(
        transaction, register, np.unique(np.array(owned, np.int64)), span, instants
    )
    cuts += [] if cut is None else [cut]
    for time, senders, values in in_blocks:
        block = (np.full_like(senders, time), senders, values, np.zeros_like(senders))
        for part, column in zip(parts, block, strict=True):
            part.append(column)
    rows = [np.concatenate(part) for part in parts]
    first = max(cuts, default=None)
    order = np.lexsort((rows[1], -rows[0]))
    order = order if first is None else order[rows[0][order] >= first]
    return Stored(*(column[order] for column in rows)), first
