"""The readings of one round's window, fetched in one range scan, ready for the engine.

The order (time, random id) matters only where a curator has more readings than count, or where
slots are filled by time; the cheaper scan is taken otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.ext.asyncio import AsyncConnection

from common.functions import Readings, dimension
from common.models.query import Coordinates, Function, Query, Window
from common.models.round import RoundDescriptor
from common.service.clock import epoch_microseconds
from common.units import UNITS
from curator.store import readings as store

Ints = NDArray[np.int64]
_HALF = np.int64(1 << 16)
_LAST = np.int64((1 << 32) - 1)


TOGETHER = 1 << 21
"""Numbers that a host's whole window may have to be read in one scan, not one for each segment."""


@dataclass(frozen=True)
class WindowReadings:
    """Readings of many curators: `curator` holds keys, ascending; a curator's own readings are in
    (time, random) order where that matters."""

    curator: Ints
    quantity: Ints
    offset: Ints

    def of(self, first_key: int, present: NDArray[np.bool_]) -> Readings:
        """Those of the present curators of a run that starts at `first_key`."""
        start, end = np.searchsorted(self.curator, (first_key, first_key + present.size))
        index = self.curator[start:end] - first_key
        quantity, offset = self.quantity[start:end], self.offset[start:end]
        if not present.all():
            inside = present[index]
            index = (np.cumsum(present) - 1)[index[inside]]
            quantity, offset = quantity[inside], offset[inside]
        return Readings(int(present.sum()), index, quantity, offset)


def _by_curator(curator: Ints, quantity: Ints, offset: Ints) -> WindowReadings:
    if (np.diff(curator) < 0).any():
        order = np.argsort(curator, kind="stable")
        curator, quantity, offset = curator[order], quantity[order], offset[order]
    return WindowReadings(curator, quantity, offset)


async def fits_together(connection: AsyncConnection, descriptor: RoundDescriptor) -> bool:
    """Whether the window is small enough to be read at once, whosever readings it has."""
    query, window = descriptor.query, descriptor.window
    register = await store.register_key(connection, query.register_name, UNITS[query.unit].base)
    start, end = epoch_microseconds(window.start), epoch_microseconds(window.end)
    width = dimension(query) if _by_value(query) else 1
    limit = max(1, TOGETHER // width)
    return register is None or await store.fewer_than(connection, register, start, end, limit)


def _by_value(query: Query) -> bool:
    by_value = query.function is Function.VECTOR_SUM and query.coordinates is Coordinates.VALUES
    return by_value or bool(query.blocks)


async def load_window(
    connection: AsyncConnection, descriptor: RoundDescriptor, keys: tuple[int, int]
) -> WindowReadings:
    """The window's readings of the curators with keys in a half-open range."""
    query, window = descriptor.query, descriptor.window
    base = UNITS[query.unit].base
    register = await store.register_key(connection, query.register_name, base)
    start, end = epoch_microseconds(window.start), epoch_microseconds(window.end)
    if _by_value(query):
        return await _vectors(connection, query, register, (start, end), keys)
    if register is None:
        return _none(())
    slots = query.function is Function.VECTOR_SUM
    if not slots:
        rows = await store.window(connection, register, start, end, keys, timed=False)
        counts = np.bincount(rows[:, 0] - keys[0]) if rows.size else np.zeros(1, np.int64)
        if counts.max() <= query.max_readings:
            nothing = np.zeros(rows.shape[0], np.int64)
            return _by_curator(rows[:, 0], rows[:, 1], nothing)
    rows = await store.window(connection, register, start, end, keys, timed=True)
    rows = rows[np.lexsort((rows[:, 3], rows[:, 2]))]
    return _by_curator(rows[:, 0], rows[:, 1], position(rows[:, 2], window))


async def _vectors(
    connection: AsyncConnection,
    query: Query,
    register: int | None,
    window: tuple[int, int],
    keys: tuple[int, int],
) -> WindowReadings:
    d = dimension(query)
    if register is None:
        return _none((d,))
    rows = await store.vectors(connection, register, *window, keys)
    # A vector of another length has no meaning for this query: it does not count.
    rows = sorted((row for row in rows if len(row[3]) == 8 * d), key=lambda row: row[1:3])
    if not rows:
        return _none((d,))
    quantity = np.frombuffer(b"".join(row[3] for row in rows), "<i8").reshape(-1, d)
    curator = np.array([row[0] for row in rows], np.int64)
    return _by_curator(curator, quantity.astype(np.int64), np.zeros(len(rows), np.int64))


def _none(shape: tuple[int, ...]) -> WindowReadings:
    empty = np.zeros(0, np.int64)
    return WindowReadings(empty, np.zeros((0, *shape), np.int64), empty)


def position(times: Ints, window: Window) -> Ints:
    """Where instants (microseconds) lie in a window, [0, 1) scaled to 2^32, rounded up: an instant
    on a slot's border falls into the slot that begins there. Exact for windows up to two years."""
    start, end = epoch_microseconds(window.start), epoch_microseconds(window.end)
    length = np.int64(end - start)
    if length >= 1 << 46:
        exact = [min(-((start - int(t)) * 2**32 // int(length)), 2**32 - 1) for t in times]
        return np.array(exact, np.int64)
    high, rest = np.divmod((times - np.int64(start)) * _HALF, length)
    low, rest = np.divmod(rest * _HALF, length)
    return np.minimum(high * _HALF + low + (rest > 0), _LAST)
