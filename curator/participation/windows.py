"""The readings of one round's window, fetched in one range scan or few, ready for the engine.

The order (time, random id) matters only where a curator has more readings than count, or where
slots are filled by time; the cheaper scan is taken otherwise. Rounds over one window that are due
together share its scans: readings are kept by time, so that the scan for a few curators visits the
readings of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from common.runtime.clock import epoch_microseconds
from common.store.group_commit import GroupCommit, in_transaction
from common.store.transactions import LARGE_ROWS, Database, Transaction
from curator.store import blocks
from curator.store import readings as store
from curator.store.parties import hosted_curators
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.query.fields import Window
from tacit.query.functions import Readings, dimension, reading_dimension, reads_vectors
from tacit.query.query import Query
from tacit.query.terms import Function
from tacit.units import UNITS

Ints = NDArray[np.int64]
Keys = NDArray[np.int32]
_HALF = np.int64(1 << 16)
_LAST = np.int64((1 << 32) - 1)

SCANNED: Final = 4 * LARGE_ROWS
"""Readings that a scan visits at least to be large: they are not written, and become two texts."""
TOGETHER: Final = 1 << 21
"""Numbers that are read in one scan, about; a window with more is read in several."""


@dataclass(frozen=True)
class WindowReadings:
    """Readings of many curators: `curator` has keys, ascending, fewer than 2^31; a curator's own
    readings are in (time, random) order if that matters."""

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

    def within(self, keys: tuple[int, int]) -> WindowReadings:
        """A copy of those of the curators with keys in a half-open range."""
        start, end = np.searchsorted(self.curator, np.array(keys, np.int32))
        part = slice(start, end)
        return WindowReadings(
            self.curator[part].copy(), self.quantity[part].copy(), self.offset[part].copy()
        )


def _by_curator(curator: Ints, quantity: Ints, offset: Ints) -> WindowReadings:
    if (curator[1:] < curator[:-1]).any():
        order = np.argsort(curator, kind="stable")
        curator, quantity, offset = curator[order], quantity[order], offset[order]
    return WindowReadings(curator.astype(np.int32), quantity, offset)


@dataclass(frozen=True)
class ReadingSource:
    """Where a round's readings are in the store.

    `pages` of the window, if readings are numbers; `reach`: how many neighbouring curators may
    be read in one scan, if all have about equally many readings; `rows`: about how many readings
    a scan visits.
    """

    query: Query
    window: Window
    register: int | None
    pages: Sequence[store.WindowPage]
    reach: int
    rows: int

    async def load(self, transaction: Transaction, keys: tuple[int, int]) -> WindowReadings:
        """The readings of the curators with keys in a half-open range."""
        if reads_vectors(self.query):
            return await self._vectors(transaction, keys)
        if not self.fills_slots:
            readings = await self.untimed(transaction, keys)
            if self.suffices(readings):
                return readings
            del readings
        return await self.timed(transaction, keys)

    @property
    def fills_slots(self) -> bool:
        """Whether numbers go where their time is."""
        return self.query.function is Function.VECTOR_SUM

    @property
    def numbers(self) -> tuple[object, ...] | None:
        """What sources of the same numbers have in common; None if vectors are read."""
        if reads_vectors(self.query):
            return None
        return self.register, self.window.start, self.window.end, tuple(self.pages)

    def suffices(self, readings_read: WindowReadings) -> bool:
        """Whether all readings of each curator count, so that their order does not matter."""
        return _at_most(self.query.max_readings, readings_read.curator)

    async def untimed(self, transaction: Transaction, keys: tuple[int, int]) -> WindowReadings:
        """Numbers, those of a curator in any order."""
        curator, quantity = await self._scalars(transaction, keys, timed=False)
        return _by_curator(curator, quantity, np.zeros(curator.size, np.int64))

    async def timed(self, transaction: Transaction, keys: tuple[int, int]) -> WindowReadings:
        """Numbers, those of a curator in their order."""
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


class Windows:
    """The windows of the rounds that are due."""

    def __init__(self, database: Database) -> None:
        self._sources = GroupCommit(in_transaction(database.reading, _sources))
        self._scans = GroupCommit(in_transaction(database.reading, _scans, _is_large))

    async def source(self, descriptor: RoundDescriptor) -> ReadingSource:
        """Where the readings are that a round requests."""
        return await self._sources.submit(descriptor)

    async def load(self, source: ReadingSource, keys: tuple[int, int]) -> WindowReadings:
        """The readings of the curators with keys in a half-open range, no longer than `reach`."""
        return await self._scans.submit((source, keys))


async def _sources(
    transaction: Transaction, descriptors: Sequence[RoundDescriptor]
) -> list[ReadingSource]:
    """What several rounds request; a shared window is looked up once."""
    hosted = await hosted_curators(transaction)
    registers: dict[tuple[str, str], int | None] = {}
    pages: dict[tuple[int, int, int], tuple[Sequence[store.WindowPage], int]] = {}
    sources = []
    for descriptor in descriptors:
        query, instants = descriptor.query, _instants(descriptor.window)
        name = query.register_name, UNITS[query.unit].base
        if name not in registers:
            registers[name] = await store.register_key(transaction, *name)
        register = registers[name]
        page: Sequence[store.WindowPage] = ()
        numbers = 0
        if register is not None and reads_vectors(query):
            numbers = dimension(query) * await store.count_rows(transaction, register, *instants)
        elif register is not None:
            place = register, *instants
            if place not in pages:
                pages[place] = (
                    await store.window_pages(transaction, *place),
                    await blocks.count(transaction, *place),
                )
            page, in_blocks = pages[place]
            numbers = len(page) * store.WINDOW_PAGE + in_blocks
        reach = hosted if numbers <= TOGETHER else max(1, hosted * TOGETHER // numbers)
        rows = max(hosted, numbers - store.WINDOW_PAGE)
        sources.append(ReadingSource(query, descriptor.window, register, page, reach, rows))
    return sources


_Scan = tuple[ReadingSource, tuple[int, int]]
"""Of which curators a source is read."""


def _is_large(scan: _Scan) -> bool:
    source, (first, end) = scan
    return end > first and max(source.rows, end - first) >= SCANNED


async def _scans(transaction: Transaction, scans: Sequence[_Scan]) -> list[WindowReadings]:
    """What each reads; one scan serves those of the same numbers, as far as its reach allows."""
    readings_of: dict[int, WindowReadings] = {}
    for places in _shared(scans):
        if len(places) == 1:
            source, keys = scans[places[0]]
            readings_of[places[0]] = await source.load(transaction, keys)
            continue
        source, _ = scans[places[0]]
        ordered = [place for place in places if scans[place][0].fills_slots]
        unordered = [place for place in places if not scans[place][0].fills_slots]
        if unordered:
            window_readings = await source.untimed(transaction, _hull(scans, unordered))
            for place in unordered:
                scan, keys = scans[place]
                scan_readings = window_readings.within(keys)
                if scan.suffices(scan_readings):
                    readings_of[place] = scan_readings
                else:
                    ordered.append(place)
            del window_readings
        if ordered:
            window_readings = await source.timed(transaction, _hull(scans, ordered))
            readings_of |= {place: window_readings.within(scans[place][1]) for place in ordered}
    return [readings_of[place] for place in range(len(scans))]


def _shared(scans: Sequence[_Scan]) -> Iterator[list[int]]:
    """The places of those that one scan serves."""
    same: dict[tuple[object, ...], list[int]] = {}
    for place, (source, (first, end)) in enumerate(scans):
        numbers = source.numbers
        if numbers is None or first >= end:
            yield [place]
        else:
            same.setdefault(numbers, []).append(place)
    for places in same.values():
        group: list[int] = []
        for place in sorted(places, key=lambda window: scans[window][1]):
            first, end = _hull(scans, [*group, place])
            if group and end - first > scans[place][0].reach:
                yield group
                group = []
            group.append(place)
        yield group


def _hull(scans: Sequence[_Scan], places: Sequence[int]) -> tuple[int, int]:
    """From the first to the last curator of several scans."""
    keys = [scans[place][1] for place in places]
    return min(first for first, _ in keys), max(end for _, end in keys)


def _instants(window: Window) -> tuple[int, int]:
    return epoch_microseconds(window.start), epoch_microseconds(window.end)


def _at_most(most: int, curator: Keys) -> bool:
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
