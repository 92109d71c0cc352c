"""Readings in blocks: those of many devices at one instant as columns of bytes, in one row.

An import of many parties stores them so: a block has the scalar readings of one register and
instant, by ascending device. Each reading is in one block or a row by itself (`readings`),
never in both; what is to change leaves its block first (`take_out`) and is a row from then on.
Columns are little-endian integers: curators and devices of 4 bytes, quantities and random ids of 8.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import BindParameter, Row, bindparam, delete, func, insert, select, update

from common.arrays import batches
from common.store.database import exclusive
from common.store.transactions import Transaction
from curator.store.tables import reading_blocks as table
from curator.store.tables import readings

Ints = NDArray[np.int64]
Item = TypeVar("Item")
Place = tuple[int, int, int]
"""register, time, device."""

LEAST: Final = 128
"""Readings of one instant that make a block; fewer are rows."""
MOST: Final = 1 << 13
"""Readings of the largest block: 200 kB, which a correction reads and writes."""
AFTER_ALL: Final = (1 << 31) - 1
"""No key of a curator or device is this large."""
_INSTANTS: Final = 500
_TOGETHER: Final = 16
"""Blocks that are read in one statement."""

_KEY: Final[BindParameter[Any]] = bindparam("of_register")
_IDS = table.c.id.in_(bindparam("ids", expanding=True))
_AT = select(table.c.id, table.c.time, table.c.first_device, table.c.last_device).where(
    table.c.register == _KEY, table.c.time.in_(bindparam("times", expanding=True))
)
_SPAN = (
    select(table.c.id)
    .where(
        table.c.register == _KEY,
        table.c.time >= bindparam("start"),
        table.c.time <= bindparam("last"),
    )
    .limit(1)
)
_INSIDE = (
    table.c.register == _KEY,
    table.c.time >= bindparam("start"),
    table.c.time < bindparam("end"),
    table.c.last_curator >= bindparam("first"),
    table.c.first_curator < bindparam("after"),
)
_WINDOW = select(table.c.id, table.c.readings).where(*_INSIDE)
_DEVICES = select(table.c.id).where(*_INSIDE).order_by(table.c.time)
_NEWEST_OF = (
    select(table.c.time)
    .where(
        *_INSIDE[:3],
        table.c.last_device >= bindparam("first"),
        table.c.first_device <= bindparam("last"),
    )
    .distinct()
    .order_by(table.c.time.desc())
    .limit(bindparam("most"))
)
_NUMBER = select(func.coalesce(func.sum(table.c.readings), 0)).where(*_INSIDE[:3])
_QUANTITIES = select(table.c.id, table.c.time, table.c.quantities, table.c.devices).where(_IDS)
_PLAIN = select(table.c.curators, table.c.quantities).where(_IDS)
_TIMED = _PLAIN.add_columns(table.c.time, table.c.randoms)
_SENDERS = (
    select(table.c.time, table.c.curators, table.c.devices).where(_IDS).order_by(table.c.time)
)
_WHOLE = select(table).where(table.c.id == bindparam("of_id"))
_INSERT = insert(table)
_FREE = insert(readings)
_REMOVE = delete(table).where(table.c.id == bindparam("of_id"))
_CUT = (
    update(table)
    .where(table.c.id == bindparam("of_id"))
    .values(
        {
            name: bindparam(f"new_{name}")
            for name in ("readings", "curators", "quantities", "devices", "randoms")
        }
    )
)


@dataclass(frozen=True)
class Columns:
    """Scalar readings: `times` in microseconds since 1970, keys of devices and curators,
    `quantities` in nano-units, `randoms` that order a curator's readings of one instant."""

    times: Ints
    devices: Ints
    curators: Ints
    quantities: Ints
    randoms: Ints

    def __getitem__(self, chosen: slice | Ints | NDArray[np.bool_]) -> Columns:
        """Some of them."""
        return Columns(
            self.times[chosen],
            self.devices[chosen],
            self.curators[chosen],
            self.quantities[chosen],
            self.randoms[chosen],
        )


async def add(transaction: Transaction, register: int, instants: Iterable[Columns]) -> None:
    """Store readings none of which is stored yet: of each instant, by ascending device."""
    parts = [
        columns[start : start + MOST]
        for columns in instants
        for start in range(0, columns.times.size, MOST)
    ]
    if not parts:
        return
    await transaction.execute(
        _INSERT,
        [
            {
                "register": register,
                "time": int(part.times[0]),
                "first_device": int(part.devices[0]),
                "last_device": int(part.devices[-1]),
                "first_curator": int(part.curators.min()),
                "last_curator": int(part.curators.max()),
                **_bytes(part.curators, part.quantities, part.devices, part.randoms),
            }
            for part in parts
        ],
    )


async def quantities(transaction: Transaction, places: Sequence[Place]) -> dict[Place, int]:
    """The readings in blocks at these places, and what they are."""
    by_place: dict[Place, int] = {}
    for register, devices_at in (await _by_register(transaction, places)).items():
        for time, devices, values in await at_instants(transaction, register, devices_at):
            for device, value in zip(devices.tolist(), values.tolist(), strict=True):
                by_place[register, time, device] = value
    return by_place


async def at_instants(
    transaction: Transaction, register: int, devices_at: Mapping[int, Ints]
) -> list[tuple[int, Ints, Ints]]:
    """Which of some devices have a reading in a block: the instant, these devices and what they
    read, block by block. `wanted`: devices, ascending, by instant."""
    near = {block.id: devices for block, devices in await _near(transaction, register, devices_at)}
    stored = []
    for ids in _some(near):
        for block in await transaction.execute(_QUANTITIES, {"ids": ids}):
            devices, values = _ints(block.devices, 4), _ints(block.quantities, 8)
            instants = near[block.id]
            at = np.minimum(np.searchsorted(devices, instants), devices.size - 1)
            there = devices[at] == instants
            if there.any():
                stored.append((block.time, instants[there], values[at[there]]))
    return stored


async def of_devices(
    transaction: Transaction, register: int, owned: Ints, span: tuple[int, int], instants: int
) -> tuple[list[tuple[int, Ints, Ints]], int | None]:
    """The readings of some devices, ascending, in the newest blocks of a half-open span that may
    have any: the instant, the devices and what they read. And the earliest of these instants, where
    there are as many as wanted."""
    inside = {
        "of_register": register,
        "start": span[0],
        "end": span[1],
        "first": int(owned[0]),
        "last": int(owned[-1]),
        "most": instants,
    }
    times = (await transaction.execute(_NEWEST_OF, inside)).scalars().all()
    blocks_at = await at_instants(transaction, register, dict.fromkeys(times, owned))
    return blocks_at, min(times) if len(times) == instants else None


async def take_out(transaction: Transaction, places: Sequence[Place]) -> None:
    """Turn the readings in blocks at these positions into rows; the transaction has locked their
    curators (`readings.lock_curators`). All others that cut blocks wait."""
    chosen = [
        (register, block.id, devices)
        for register, devices_at in (await _by_register(transaction, places)).items()
        for block, devices in await _near(transaction, register, devices_at)
    ]
    if chosen:
        await exclusive(transaction, "cuts of blocks")  # one can have readings of both
    for register, key, devices_out in chosen:
        block = (await transaction.execute(_WHOLE, {"of_id": key})).one_or_none()
        if block is None:
            continue  # meanwhile another transaction made rows of all of it: none of these places
        curators, devices = _ints(block.curators, 4), _ints(block.devices, 4)
        values, randoms = _ints(block.quantities, 8), _ints(block.randoms, 8)
        out = np.isin(devices, devices_out)
        if not out.any():
            continue
        await transaction.execute(
            _FREE,
            [
                {
                    "register": register,
                    "time": block.time,
                    "device": device,
                    "curator": curator,
                    "quantity": quantity,
                    "random": random,
                    "vector": None,
                }
                for device, curator, quantity, random in zip(
                    *(column[out].tolist() for column in (devices, curators, values, randoms)),
                    strict=True,
                )
            ],
        )
        if out.all():
            await transaction.execute(_REMOVE, {"of_id": key})
            continue
        # The bounds of its devices and curators stay: they need not be the narrowest.
        remaining = (column[~out] for column in (curators, values, devices, randoms))
        new = {f"new_{name}": value for name, value in _bytes(*remaining).items()}
        await transaction.execute(_CUT, {"of_id": key, **new})


async def count(transaction: Transaction, register: int, start: int, end: int) -> int:
    """How many readings of a window are in blocks, of all curators."""
    inside = {"of_register": register, "start": start, "end": end}
    number: int = (await transaction.execute(_NUMBER, inside)).scalar_one()
    return int(number)


async def window(
    transaction: Transaction,
    register: int,
    span: tuple[int, int],
    curators: tuple[int, int],
    *,
    timed: bool,
) -> tuple[Ints, ...]:
    """Curators and quantities of a window's readings in blocks, in any order; `timed` adds times
    and random ids. `span`: half-open, in microseconds; `curators`: half-open range of keys."""
    listed = (await transaction.execute(_WINDOW, _inside(register, span, curators))).all()
    columns = [
        np.empty(sum(row.readings for row in listed), np.int64) for _ in range(4 if timed else 2)
    ]
    filled = 0
    for some in _some(listed):
        ids = {"ids": [row.id for row in some]}
        for row in await transaction.execute(_TIMED if timed else _PLAIN, ids):
            owners = _ints(row.curators, 4)
            inside = (owners >= curators[0]) & (owners < curators[1])
            after = filled + int(inside.sum())
            columns_of_row = [owners, _ints(row.quantities, 8)]
            if timed:
                columns_of_row += [
                    np.broadcast_to(np.int64(row.time), owners.shape),
                    _ints(row.randoms, 8),
                ]
            for column, values in zip(columns, columns_of_row, strict=True):
                column[filled:after] = values if after - filled == inside.size else values[inside]
            filled = after
    return tuple(column[:filled] for column in columns)


async def senders(
    transaction: Transaction, register: int, span: tuple[int, int], curators: tuple[int, int]
) -> AsyncIterator[tuple[int, Ints]]:
    """Of the blocks of a window by time: the instant, and the devices that have a reading then and
    belong to curators with keys in a half-open range."""
    listed = (
        (await transaction.execute(_DEVICES, _inside(register, span, curators))).scalars().all()
    )
    for some in _some(listed):
        for row in await transaction.execute(_SENDERS, {"ids": some}):
            owners = _ints(row.curators, 4)
            inside = (owners >= curators[0]) & (owners < curators[1])
            if inside.any():
                yield row.time, _ints(row.devices, 4)[inside]


async def _near(
    transaction: Transaction, register: int, devices_at: Mapping[int, Ints]
) -> list[tuple[Row[int, int, int, int], Ints]]:
    """The blocks that may have readings of some devices, ascending, by instant; with those."""
    near: list[tuple[Row[int, int, int, int], Ints]] = []
    if not devices_at:
        return near
    if not await _any(transaction, register, min(devices_at), max(devices_at)):
        return near  # as in most stores: no list of instants is made a statement
    for times in batches(sorted(devices_at), _one, _INSTANTS):
        values = {"of_register": register, "times": times}
        for row in (await transaction.execute(_AT, values)).all():
            devices = devices_at[row.time]
            start, end = np.searchsorted(devices, (row.first_device, row.last_device + 1))
            if end > start:
                near.append((row, devices[start:end]))
    return near


async def _any(transaction: Transaction, register: int, start: int, last: int) -> bool:
    """Whether any block is of these instants, both included."""
    span = {"of_register": register, "start": start, "last": last}
    return (await transaction.execute(_SPAN, span)).first() is not None


async def _by_register(
    transaction: Transaction, places: Sequence[Place]
) -> dict[int, dict[int, Ints]]:
    """Devices, ascending and each once, by register and time: of registers with blocks nearby."""
    spans: dict[int, list[int]] = {}
    for register, time, _ in places:
        span = spans.setdefault(register, [time, time])
        if time < span[0]:
            span[0] = time
        elif time > span[1]:
            span[1] = time
    near = {
        register for register, span in spans.items() if await _any(transaction, register, *span)
    }
    devices_at: dict[int, dict[int, list[int]]] = {}
    for register, time, device in places if near else ():
        if register in near:
            devices_at.setdefault(register, {}).setdefault(time, []).append(device)
    return {
        register: {
            time: np.unique(np.array(devices, np.int64)) for time, devices in instants.items()
        }
        for register, instants in devices_at.items()
    }


def _some(items: Iterable[Item]) -> Iterator[list[Item]]:
    return batches(items, _one, _TOGETHER)


def _one(_: object) -> int:
    return 1


def _inside(register: int, span: tuple[int, int], curators: tuple[int, int]) -> dict[str, int]:
    return {
        "of_register": register,
        "start": span[0],
        "end": span[1],
        "first": curators[0],
        "after": curators[1],
    }


def _bytes(curators: Ints, values: Ints, devices: Ints, randoms: Ints) -> dict[str, Any]:
    return {
        "readings": int(curators.size),
        "curators": curators.astype("<i4").tobytes(),
        "quantities": values.astype("<i8").tobytes(),
        "devices": devices.astype("<i4").tobytes(),
        "randoms": randoms.astype("<i8").tobytes(),
    }


def _ints(column: bytes, size: int) -> NDArray[Any]:
    return np.frombuffer(column, f"<i{size}")
