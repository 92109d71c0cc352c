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

from common.runtime.clock import epoch_microseconds
from common.store.transactions import Transaction
from curator.store import readings as store
from curator.store.parties import hosted_curators
from tacit.protocol.round import RoundDescriptor
from tacit.query.fields import Window
from tacit.query.functions import Readings, dimension, reading_dimension, reads_vectors
from tacit.query.query import Query
from tacit.query.words import Function
from tacit.units import UNITS

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
        """The readings of the present curators of a run that starts at `first_key`."""
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


@dataclass(frozen=True)
class ReadingSource:
    """Where a round's readings are in the store.

    `pages` of the window, where readings are numbers; `reach`: how many neighbours among the
    curators may be read in one scan, if all have about as many readings.
    """

    query: Query
    window: Window
    register: int | None
    pages: Sequence[store.WindowPage]
    reach: int

    async def load(self, transaction: Transaction, keys: tuple[int, int]) -> WindowReadings:
        """The readings of the curators with keys in a half-open range."""
        if reads_vectors(self.query):
            return await self._vectors(transaction, keys)
        if self.query.function is not Function.VECTOR_SUM:
            curator, quantity = await self._scalars(transaction, keys, timed=False)
            if _at_most(self.query.max_readings, curator):
                return _by_curator(curator, quantity, np.zeros(curator.size, np.int64))
            del curator, quantity
        columns = await self._scalars(transaction, keys, timed=True)
        order = np.lexsort((columns[3], columns[2]))
        curator, quantity, time = (column[order] for column in columns[:3])
        return _by_curator(curator, quantity, position(time, self.window))

    async def _scalars(
        self, transaction: Transaction, keys: tuple[int, int], *, timed: bool
    ) -> tuple[Ints, ...]:
        if self.register is None:
            return tuple(np.zeros(0, np.int64) for _ in range(4 if timed else 2))
        return await store.window(transaction, self.register, self.pages, keys, timed=timed)

    async def _vectors(self, transaction: Transaction, keys: tuple[int, int]) -> WindowReadings:
        d = reading_dimension(self.query)
        rows = []
        if self.register is not None:
            start, end = _instants(self.window)
            rows = await store.vectors(transaction, self.register, start, end, keys)
        # A vector of another length has no meaning for this query: it does not count.
        rows = sorted((row for row in rows if len(row[3]) == 8 * d), key=lambda row: row[1:3])
        quantity = np.frombuffer(b"".join(row[3] for row in rows), "<i8").reshape(-1, d)
        curator = np.array([row[0] for row in rows], np.int64)
        nowhere = np.zeros(len(rows), np.int64)
        return _by_curator(curator, quantity.astype(np.int64, copy=False), nowhere)


async def reading_source(transaction: Transaction, descriptor: RoundDescriptor) -> ReadingSource:
    """The readings that a round requests, looked up."""
    query, window = descriptor.query, descriptor.window
    register = await store.register_key(transaction, query.register_name, UNITS[query.unit].base)
    hosted = await hosted_curators(transaction)
    if register is None:
        return ReadingSource(query, window, None, (), hosted)
    pages: Sequence[store.WindowPage] = ()
    if reads_vectors(query):
        numbers = dimension(query) * await store.count(transaction, register, *_instants(window))
    else:
        pages = await store.window_pages(transaction, register, *_instants(window))
        numbers = len(pages) * store.WINDOW_PAGE
    reach = hosted if numbers <= TOGETHER else max(1, hosted * TOGETHER // numbers)
    return ReadingSource(query, window, register, pages, reach)


def _instants(window: Window) -> tuple[int, int]:
    return epoch_microseconds(window.start), epoch_microseconds(window.end)


def _at_most(most: int, curator: Ints) -> bool:
    """Whether no curator has more readings; most have one, which is quickly seen."""
    if (curator[1:] > curator[:-1]).all():
        return True
    return bool(np.bincount(curator - curator.min()).max() <= most)


def position(times: Ints, window: Window) -> Ints:
    """Where instants (microseconds) are in a window, [0, 1) scaled to 2^32, rounded up: an instant
    on a slot's border is in the slot that begins there. Exact for windows up to two years."""
    start, end = epoch_microseconds(window.start), epoch_microseconds(window.end)
    length = np.int64(end - start)
    if length >= 1 << 46:
        exact = [min(-((start - int(t)) * 2**32 // int(length)), 2**32 - 1) for t in times]
        return np.array(exact, np.int64)
    high, rest = np.divmod((times - np.int64(start)) * _HALF, length)
    low, rest = np.divmod(rest * _HALF, length)
    return np.minimum(high * _HALF + low + (rest > 0), _LAST)
