"""A dry run of an import: what a file would store, without storing it.

Nothing counts as stored before. On the command line every curator that a file names counts as
hosted; a service knows its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from heapq import nsmallest
from typing import Protocol
from zoneinfo import ZoneInfo

from common.principals import Principal
from common.runtime.clock import SystemClock, epoch_microseconds, from_epoch_microseconds
from curator.errors import BadImport
from curator.files.importer import Importer
from curator.files.options import ImportOptions
from curator.files.storing import Columns
from curator.files.upload import Imports, Progress
from curator.intake.intake import Status
from curator.intake.reading import Times
from curator.settings import CuratorSettings
from tacit.answers.curator import ImportedReadings
from tacit.units import NANO, UNITS
from tacit.wire import format_exact

FIRST = 10


@dataclass(frozen=True)
class DrySum:
    """Readings of one meter on one day of the map's zone, or of UTC. `total` is their sum; for a
    counter, its last reading."""

    day: str
    meter: str
    register: str
    readings: int
    total: str
    unit: str


@dataclass(frozen=True)
class DryRun:
    """The outcome: counts and faults, the first readings (time, meter, value) and the sums of
    days."""

    counts: ImportedReadings
    first: tuple[tuple[str, str, str], ...]
    sums: tuple[DrySum, ...]


class Curators(Protocol):
    """Who is hosted: what a dry run needs of a store."""

    def hosts(self, name: str) -> bool:
        """Whether a curator of this name is hosted."""

    def curator_of(self, named: str | None, caller: Principal) -> tuple[int, str]:
        """Key and name. Raises BadItem, UnknownCurator or ForeignCurator."""

    def curators_of(self, names: Sequence[str], caller: Principal) -> dict[str, int]:
        """The keys of those that `curator_of` would find."""


class Anybody:
    """Every curator counts as hosted."""

    def __init__(self) -> None:
        self._keys: dict[str, int] = {}

    def hosts(self, name: str) -> bool:
        """Whether it could be the name of one."""
        return bool(name)

    def curator_of(self, named: str | None, caller: Principal) -> tuple[int, str]:  # noqa: ARG002
        """A key for each name."""
        name = named or "the only curator"
        return self._keys.setdefault(name, len(self._keys)), name

    def curators_of(self, names: Sequence[str], caller: Principal) -> dict[str, int]:
        """All of them."""
        return {name: self.curator_of(name, caller)[0] for name in names if name}


Held = dict[tuple[str, str, bool], dict[str, dict[int, int]]]
"""By register, unit and whether it is a counter: by meter, quantities by time."""


class InMemory:
    """A store that holds readings in memory. `most`: how many of them."""

    def __init__(self, curators: Curators, times: Times, most: int | None = None) -> None:
        self._curators, self._times, self._most = curators, times, most
        self._names: dict[int, str] = {}
        self._meters: list[str] = []
        self._keys: dict[tuple[int, str], int] = {}
        self._count = 0
        self.readings: Held = {}

    @property
    def times(self) -> Times:
        """Which times a reading may have."""
        return self._times

    async def look(self) -> None:
        """No other process adds anything."""

    def hosts(self, name: str) -> bool:
        """As the curators know."""
        return self._curators.hosts(name)

    def curator_of(self, named: str | None, caller: Principal) -> tuple[int, str]:
        """As the curators know."""
        key, name = self._curators.curator_of(named, caller)
        self._names[key] = name
        return key, name

    def curators_of(self, names: Sequence[str], caller: Principal) -> dict[str, int]:
        """As the curators know."""
        keys = self._curators.curators_of(names, caller)
        self._names |= {key: name for name, key in keys.items()}
        return keys

    async def make_devices(self, pairs: Sequence[tuple[int, str]]) -> dict[tuple[int, str], int]:
        """A key for each device."""
        for owner, device in pairs:
            if (owner, device) not in self._keys:
                self._keys[owner, device] = len(self._meters)
                whose = self._names[owner]
                self._meters.append(device if device == whose else f"{whose} {device}")
        return {pair: self._keys[pair] for pair in pairs}

    async def count_rejected(self, counts: Counter[int], rows: int) -> None:
        """Nothing is counted."""

    async def store_columns(self, columns: Columns, register: str, unit: str) -> Counter[Status]:
        """Hold amounts or states."""
        return self._hold(columns, (register, unit, False))

    async def store_totals(
        self,
        columns: Columns,
        register: str,
        unit: str,
        rollover: int | None,  # noqa: ARG002
    ) -> Counter[Status]:
        """Hold totals."""
        return self._hold(columns, (register, unit, True))

    def _hold(self, columns: Columns, place: tuple[str, str, bool]) -> Counter[Status]:
        outcomes: Counter[Status] = Counter()
        meters = self.readings.setdefault(place, {})
        times, devices, _, quantities = (column.tolist() for column in columns)
        for time, device, quantity in zip(times, devices, quantities, strict=True):
            values = meters.setdefault(self._meters[device], {})
            if time in values:
                same = values[time] == quantity
                outcomes[Status.DUPLICATE if same else Status.CONFLICT] += 1
            else:
                values[time] = quantity
                outcomes[Status.ACCEPTED] += 1
        self._count += outcomes[Status.ACCEPTED]
        if self._most is not None and self._count > self._most:
            raise BadImport(f"a dry run holds at most {self._most} readings")
        return outcomes


_CALLER = Principal("dry run", frozenset())


async def dry_run(
    chunks: AsyncIterator[bytes], options: ImportOptions, *, xml: bool = False
) -> DryRun:
    """Read a file as an import does, without a service. Raises Invalid or BadImport."""
    settings = CuratorSettings.model_construct()
    now = epoch_microseconds(SystemClock().now())
    ahead = round(settings.future_tolerance_s * 1e6)
    times = Times(epoch_microseconds(settings.earliest_reading), now + ahead)
    store = InMemory(Anybody(), times)
    importer = Importer(store, settings, Imports(SystemClock(), settings.import_max_errors))
    progress = await importer.take(chunks, options, _CALLER, xml=xml)
    return outcome(store, progress, options.timezone)


def outcome(store: InMemory, progress: Progress, timezone: str | None) -> DryRun:
    """What a dry run found; days are those of the zone, else of UTC."""
    zone = UTC if timezone is None else ZoneInfo(timezone)
    every = (
        (time, meter, quantity, unit)
        for (_, unit, _), meters in store.readings.items()
        for meter, quantities in meters.items()
        for time, quantity in quantities.items()
    )
    first = tuple(
        (from_epoch_microseconds(time).isoformat(), meter, f"{_in(quantity, unit)} {unit}")
        for time, meter, quantity, unit in nsmallest(FIRST, every)
    )
    days: dict[tuple[str, str, str, str], list[int]] = {}
    for (register, unit, counter), meters in store.readings.items():
        for meter, quantities in meters.items():
            for time in sorted(quantities):
                day = datetime.fromtimestamp(time // 10**6, UTC).astimezone(zone).date()
                sums = days.setdefault((day.isoformat(), meter, register, unit), [0, 0])
                sums[0] += 1
                sums[1] = quantities[time] if counter else sums[1] + quantities[time]
    totals = tuple(
        DrySum(*place[:3], readings, _in(total, place[3]), place[3])
        for place, (readings, total) in sorted(days.items())
    )
    return DryRun(progress.answer(), first, totals)


def _in(quantity: int, unit: str) -> str:
    return format_exact(Fraction(quantity, NANO) / UNITS[unit].factor)
