"""Storing what a file holds: what an import needs of the intake, and where readings wait until the
file was read to its end. So nothing is stored of a damaged file, however large it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from common.principals import Principal
from curator.errors import BadImport, BadItem
from curator.files.upload import Progress
from curator.intake.intake import Status
from curator.intake.reading import Times
from tacit.units import Kind

Ints = NDArray[np.int64]
Columns = tuple[Ints, Ints, Ints, Ints]
"""Times in microseconds since 1970, device keys, curator keys, quantities in nano-units."""
IN_MEMORY: Final = 4 << 20
"""Bytes that wait in memory; the others in a file."""
TOGETHER: Final = 250_000
"""Readings that are sorted together."""
LOT: Final = 50_000
"""Of these, readings that are stored in one transaction."""
_ROW: Final = np.dtype([("time", "<i8"), ("quantity", "<i8"), ("device", "<i4")])


class FileImport(Protocol):
    """Reads one file into `Waiting`. Raises BadImport for a damaged one."""

    async def run(self, chunks: AsyncIterator[bytes]) -> None:
        """Read a file to its end."""


class ReadingStore(Protocol):
    """What an import needs of the intake. `curator.intake.intake.Intake` implements it; a dry
    run uses one that keeps readings in memory."""

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

    async def make_devices(self, pairs: Sequence[tuple[int, str]]) -> dict[tuple[int, str], int]:
        """Keys of devices, by curator key and name."""

    async def store_columns(self, columns: Columns, register: str, unit: str) -> Counter[Status]:
        """Amounts or states, sorted by time and device. Raises BadItem for a unit of another
        dimension."""

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


class Waiting:
    """The readings of one file until its end is known, in a temporary file without a name, which
    disappears with the process. Until then devices have numbers of this import."""

    def __init__(self, store: ReadingStore, directory: Path) -> None:
        self._store = store
        where = str(directory) if directory.is_dir() else None
        self._file = SpooledTemporaryFile(IN_MEMORY, dir=where)  # noqa: SIM115 - until `close`
        self._devices: dict[tuple[int, str], int] = {}
        self._fresh: dict[Booking, list[NDArray[np.void]]] = {}
        self._parts: dict[Booking, list[tuple[int, int]]] = {}
        """Where the readings are in the file: the first byte, and how many."""
        self._size = self._count = 0

    def devices(self, pairs: Sequence[tuple[int, str]]) -> list[int]:
        """A number for each device (curator key, name)."""
        numbers = self._devices
        return [numbers.setdefault(device, len(numbers)) for device in pairs]

    def add(self, booking: Booking, times: Ints, devices: Ints | int, quantities: Ints) -> None:
        """Add readings in the order of the file; of several with the same time and device the
        first counts."""
        rows = np.empty(times.size, _ROW)
        rows["time"], rows["quantity"], rows["device"] = times, quantities, devices
        self._fresh.setdefault(booking, []).append(rows)
        self._count += times.size
        if self._count >= LOT:
            self._write()

    def _write(self) -> None:
        for booking, blocks in self._fresh.items():
            count = sum(block.size for block in blocks)
            self._parts.setdefault(booking, []).append((self._size, count))
            self._size += count * _ROW.itemsize
            self._file.writelines(block.tobytes() for block in blocks)
        self._fresh, self._count = {}, 0

    async def store(self, progress: Progress) -> None:
        """Store them, sorted by time, many in a transaction; what `progress` counts is durable.
        Raises BadImport for a register of another dimension."""
        self._write()
        if not self._parts:
            return
        pairs = list(self._devices)
        self._devices.clear()
        key_of = await self._store.make_devices(pairs)
        keys = np.array([key_of[pair] for pair in pairs], np.int64)
        owners = np.array([owner for owner, _ in pairs], np.int64)
        del key_of, pairs
        for booking, parts in self._parts.items():
            for rows in self._together(parts):
                devices = keys[rows["device"]]
                order = np.lexsort((devices, rows["time"]))
                for begin in range(0, order.size, LOT):
                    lot = order[begin : begin + LOT]
                    some = rows[lot]
                    columns = (
                        np.ascontiguousarray(some["time"]),
                        devices[lot],
                        owners[some["device"]],
                        np.ascontiguousarray(some["quantity"]),
                    )
                    await self._book(columns, booking, progress)

    async def _book(self, columns: Columns, booking: Booking, progress: Progress) -> None:
        try:
            if booking.kind is Kind.TOTAL_INCREASING:
                outcomes = await self._store.store_totals(
                    columns, booking.register, booking.unit, booking.rollover
                )
            else:
                outcomes = await self._store.store_columns(columns, booking.register, booking.unit)
        except BadItem as error:
            raise BadImport(error.detail, pointer=error.pointer) from None
        progress.duplicates += outcomes[Status.DUPLICATE]
        progress.conflicts += outcomes[Status.CONFLICT]
        progress.accepted += outcomes[Status.ACCEPTED]

    def _together(self, parts: Sequence[tuple[int, int]]) -> Iterator[NDArray[np.void]]:
        blocks, count = [], 0
        for begin, size in parts:
            self._file.seek(begin)
            blocks.append(np.frombuffer(self._file.read(size * _ROW.itemsize), _ROW))
            count += size
            if count >= TOGETHER:
                yield np.concatenate(blocks)
                blocks, count = [], 0
        if blocks:
            yield np.concatenate(blocks)

    def close(self) -> None:
        """Give the space back."""
        self._file.close()
