"""The readings of one round's window, fetched in one range scan or few, ready for the engine.

The order (time, random id) matters only where a curator has more readings than count, or where
slots are filled by time; the cheaper scan is taken otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.ext.asyncio import AsyncConnection

from common.functions import Readings, dimension, reading_dimension
from common.models.query import Coordinates, Function, Query, Window
from common.models.round import RoundDescriptor
from common.service.clock import epoch_microseconds
from common.units import DIMENSIONS, UNITS
from curator.store import readings as store
from curator.store.parties import hosted_curators

Ints = NDArray[np.int64]
Keys = NDArray[np.int32]
_HALF = np.int64(1 << 16)
_LAST = np.int64((1 << 32) - 1)

TOGETHER: Final = 1 << 21
"""Numbers that are read in one scan, about; a window with more is read in several."""


@dataclass(frozen=True)
class WindowReadings:
    """Readings of many curators: `curator` holds keys, ascending, of which there are fewer than
    2^31; a curator's own readings are in (time, random) order where that matters."""

    curator: Keys
    quantity: Ints
    offset: Ints

    def of(self, first_key: int, present: NDArray[np.bool_]) -> Readings:
        """Those of the present curators of a run that starts at `first_key`."""
        ends = np.array((first_key, first_key + present.size), np.int32)
        start, end = np.searchsorted(self.curator, ends)
        index = np.subtract(self.curator[start:end], first_key, dtype=np.int64)
        quantity, offset = self.quantity[start:end], self.offset[start:end]
        if not present.all():
            inside = present[index]
            index = (np.cumsum(present) - 1)[index[inside]]
            quantity, offset = quantity[inside], offset[inside]
        return Readings(int(present.sum()), index, quantity, offset)


def _by_curator(curator: Ints, quantity: Ints, offset: Ints) -> WindowReadings:
    if (curator[1:] < curator[:-1]).any():
        order = np.argsort(curator, kind="stable")
        curator, quantity, offset = curator[order], quantity[order], offset[order]
    return WindowReadings(curator.astype(np.int32), quantity, offset)


def _by_value(query: Query) -> bool:
    by_value = query.function is Function.VECTOR_SUM and query.coordinates is Coordinates.VALUES
    return by_value or bool(query.blocks)


@dataclass(frozen=True)
class ReadingSource:
    """Where a round's readings stand in the store.

    `pages` of the window, where readings are numbers; `reach`: how many neighbours among the
    curators may be read in one scan, if all have about as many readings.
    """

    query: Query
    window: Window
    register: int | None
    pages: Sequence[store.WindowPage]
    reach: int

    async def load(self, connection: AsyncConnection, keys: tuple[int, int]) -> WindowReadings:
        """The readings of the curators with keys in a half-open range."""
        if _by_value(self.query):
            return await self._vectors(connection, keys)
        if self.query.function is not Function.VECTOR_SUM:
            curator, quantity = await self._scalars(connection, keys, timed=False)
            if _at_most(self.query.max_readings, curator):
                return _by_curator(curator, quantity, np.zeros(curator.size, np.int64))
            del curator, quantity
        columns = await self._scalars(connection, keys, timed=True)
        order = np.lexsort((columns[3], columns[2]))
        curator, quantity, time = (column[order] for column in columns[:3])
        return _by_curator(curator, quantity, position(time, self.window))

    async def _scalars(
        self, connection: AsyncConnection, keys: tuple[int, int], *, timed: bool
    ) -> tuple[Ints, ...]:
        if self.register is None:
            return tuple(np.zeros(0, np.int64) for _ in range(4 if timed else 2))
        return await store.window(connection, self.register, self.pages, keys, timed=timed)

    async def _vectors(self, connection: AsyncConnection, keys: tuple[int, int]) -> WindowReadings:
        d = reading_dimension(self.query)
        rows = []
        if self.register is not None:
            start, end = _instants(self.window)
            rows = await store.vectors(connection, self.register, start, end, keys)
        # A vector of another length has no meaning for this query: it does not count.
        rows = sorted((row for row in rows if len(row[3]) == 8 * d), key=lambda row: row[1:3])
        quantity = np.frombuffer(b"".join(row[3] for row in rows), "<i8").reshape(-1, d)
        curator = np.array([row[0] for row in rows], np.int64)
        nowhere = np.zeros(len(rows), np.int64)
        return _by_curator(curator, quantity.astype(np.int64, copy=False), nowhere)


async def reading_source(connection: AsyncConnection, descriptor: RoundDescriptor) -> ReadingSource:
    """What a round asks for, looked up."""
    query, window = descriptor.query, descriptor.window
    register = await store.register_key(connection, query.register_name, UNITS[query.unit].base)
    hosted = await hosted_curators(connection)
    if register is None:
        return ReadingSource(query, window, None, (), hosted)
    pages: Sequence[store.WindowPage] = ()
    if _by_value(query):
        numbers = dimension(query) * await store.count(connection, register, *_instants(window))
    else:
        pages = await store.window_pages(connection, register, *_instants(window))
        numbers = len(pages) * store.WINDOW_PAGE
    reach = hosted if numbers <= TOGETHER else max(1, hosted * TOGETHER // numbers)
    return ReadingSource(query, window, register, pages, reach)


async def unusable(connection: AsyncConnection, descriptor: RoundDescriptor, curator: int) -> str:
    """Why nothing of what a curator's store holds counts in a round; for its owner alone."""
    query, name = descriptor.query, descriptor.query.register_name
    if query.job is not None:
        return "there is no record of what the job asks for"
    base = UNITS[query.unit].base
    key = await store.register_key(connection, name, base)
    if key is None:
        bases = await store.register_bases(connection, name)
        if not bases:
            return f"no reading of {name} was ever stored"
        kept = " and ".join(DIMENSIONS[each] for each in bases)
        return f"{name} is kept as {kept}, and the query asks for {DIMENSIONS[base]}"
    found = await store.lengths(connection, key, curator, *_instants(descriptor.window))
    if not found:
        return f"there is no reading of {name} in the window"
    wanted = reading_dimension(query) if _by_value(query) else None
    if wanted in found:
        return f"the readings of {name} in the window came after the contribution was made"
    asked = "numbers" if wanted is None else f"vectors of {wanted}"
    return f"the readings of {name} in the window are not the {asked} that the query asks for"


def _instants(window: Window) -> tuple[int, int]:
    return epoch_microseconds(window.start), epoch_microseconds(window.end)


def _at_most(most: int, curator: Ints) -> bool:
    """Whether no curator has more readings; most have one, which is quickly seen."""
    if (curator[1:] > curator[:-1]).all():
        return True
    return bool(np.bincount(curator - curator.min()).max() <= most)


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
