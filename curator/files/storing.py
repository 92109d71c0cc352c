"""Storing what a file holds: what an import needs of the intake, and many readings at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from common.principals import Principal
from curator.files.upload import Progress
from curator.intake.intake import Status
from curator.intake.reading import Times
from tacit.units import Kind

Ints = NDArray[np.int64]
Columns = tuple[Ints, Ints, Ints, Ints]
"""Times in microseconds since 1970, device keys, curator keys, quantities in nano-units."""
FLUSH: Final = 400_000
"""Readings that are sorted together."""
LOT: Final = 100_000
"""Of these, readings that are stored in one transaction."""


class FileImport(Protocol):
    """The import of one file. `whole`: it was read to its end and is not damaged."""

    whole: bool

    async def run(self, chunks: AsyncIterator[bytes]) -> None:
        """Read a file and store it. Raises BadImport."""

    async def check(self, chunks: AsyncIterator[bytes]) -> None:
        """Read a file to its end, for a store that stores nothing. Raises BadImport."""
        await self.run(chunks)


class ReadingStore(Protocol):
    """What an import needs of the intake. `curator.intake.intake.Intake` is one; a dry run and the
    first pass over a large file have others, which store nothing."""

    @property
    def times(self) -> Times:
        """Which times a reading may have."""

    async def look(self) -> None:
        """Load what other processes added."""

    def hosts(self, name: str) -> bool:
        """Whether a curator of this name is hosted."""

    def curator_of(self, named: str | None, caller: Principal) -> tuple[int, str]:
        """Key and name. Raises BadItem, UnknownCurator or ForeignCurator."""

    def curators_of(self, names: Sequence[str], caller: Principal) -> dict[str, int]:
        """The keys of those that `curator_of` would find."""

    async def make_devices(self, wanted: Sequence[tuple[int, str]]) -> dict[tuple[int, str], int]:
        """Keys of devices, by curator key and name."""

    async def store_columns(self, columns: Columns, register: str, unit: str) -> Counter[Status]:
        """Amounts or states, sorted by time and device. Raises BadItem for another dimension."""

    async def store_totals(
        self, columns: Columns, register: str, unit: str, rollover: int | None
    ) -> Counter[Status]:
        """Totals of counters. Raises BadItem for another dimension."""

    async def count_rejected(self, counts: Counter[int], rows: int) -> None:
        """Rejections by curator key, and all rejected rows."""


@dataclass(frozen=True)
class Booking:
    """How readings are booked. `rollover` in nano-units."""

    register: str
    unit: str
    kind: Kind
    rollover: int | None = None


async def book(store: ReadingStore, progress: Progress, columns: Columns, booking: Booking) -> None:
    """Store readings of one register and count their outcomes. Raises BadItem."""
    times, devices, *_ = columns
    order = np.lexsort((devices, times))
    for begin in range(0, order.size, LOT):
        lot = order[begin : begin + LOT]
        some = (columns[0][lot], columns[1][lot], columns[2][lot], columns[3][lot])
        if booking.kind is Kind.TOTAL_INCREASING:
            outcomes = await store.store_totals(
                some, booking.register, booking.unit, booking.rollover
            )
        else:
            outcomes = await store.store_columns(some, booking.register, booking.unit)
        progress.duplicates += outcomes[Status.DUPLICATE]
        progress.conflicts += outcomes[Status.CONFLICT]
        progress.accepted += outcomes[Status.ACCEPTED]
