"""A dry run of an import: what a file would store, without a service and without storing it.

Every curator that a file names counts as hosted, and nothing as stored before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from common.principals import Principal
from common.runtime.clock import SystemClock, epoch_microseconds, from_epoch_microseconds
from curator.errors import BadItem
from curator.files.routes import Importer, ImportOptions
from curator.files.upload import Imports
from curator.intake.hosted_names import Hosted
from curator.intake.intake import Answer, Intake, Status, rejected
from curator.intake.reading import Times, to_nano
from curator.settings import CuratorSettings
from tacit.answers.curator import ImportedReadings
from tacit.units import NANO, UNITS
from tacit.wire import format_exact

Ints = NDArray[np.int64]
FIRST = 10


@dataclass(frozen=True)
class DrySum:
    """Readings of one meter on one day of the map's zone, or of UTC. `total` is their sum; of a
    counter, its last total."""

    day: str
    meter: str
    register: str
    readings: int
    total: str
    unit: str


@dataclass(frozen=True)
class DryRun:
    """The outcome: counts and faults, the first readings (time, meter, value) and sums a day."""

    counts: ImportedReadings
    first: tuple[tuple[str, str, str], ...]
    sums: tuple[DrySum, ...]


class _Held(Intake):
    """Takes the place of the intake, and holds readings in memory."""

    def __init__(self, settings: CuratorSettings) -> None:
        self.hosted = Hosted()
        self._names: list[str] = []
        now = epoch_microseconds(SystemClock().now())
        ahead = round(settings.future_tolerance_s * 1e6)
        self._times = Times(epoch_microseconds(settings.earliest_reading), now + ahead)
        self.readings: dict[tuple[str, str, int], tuple[int, str, bool]] = {}
        """(register, meter, time) to quantity, unit, and whether it is a counter's total."""

    async def look(self) -> None:
        """No other process adds anything."""

    @property
    def times(self) -> Times:
        return self._times

    def curator_of(self, named: str | None, caller: Principal) -> tuple[int, str]:  # noqa: ARG002
        name = named or "the only curator"
        if name not in self._names:
            self._names.append(name)
        return self._names.index(name), name

    def curators_of(self, names: Sequence[str], caller: Principal) -> dict[str, int]:
        return {name: self.curator_of(name, caller)[0] for name in names if name}

    async def make_devices(self, wanted: Sequence[tuple[int, str]]) -> dict[tuple[int, str], int]:
        found = {}
        for owner, device in wanted:
            whose = self._names[owner]
            meter = device if device == whose else f"{whose} {device}"
            found[owner, device] = self.curator_of(meter, _CALLER)[0]
        return found

    async def count_rejected(self, counts: Counter[int], rows: int) -> None:
        """Nothing is counted."""

    async def store_columns(
        self, columns: tuple[Ints, Ints, Ints, Ints], register: str, unit: str
    ) -> Counter[Status]:
        times, devices, _, quantities = (column.tolist() for column in columns)
        return Counter(
            self._put((register, self._names[device], time), quantity, unit, counter=False)
            for time, device, quantity in zip(times, devices, quantities, strict=True)
        )

    async def take(self, items: Any, caller: Principal) -> list[Answer]:  # noqa: ARG002
        answers = []
        for index, raw in enumerate(items):
            whose, device = raw.get("curator", "the only curator"), raw["device"]
            meter = device if device == whose else f"{whose} {device}"
            place = (raw["register"], meter, int(raw["time"]) * 1000)
            try:
                quantity = to_nano(raw["value"], raw["unit"], "value")
                status = self._put(place, quantity, raw["unit"], counter=True)
                answers.append(Answer(index, status))
            except BadItem as error:
                answers.append(rejected(index, error))
        return answers

    def _put(
        self, place: tuple[str, str, int], quantity: int, unit: str, *, counter: bool
    ) -> Status:
        known = self.readings.get(place)
        if known is not None:
            return Status.DUPLICATE if known[0] == quantity else Status.CONFLICT
        self.readings[place] = (quantity, unit, counter)
        return Status.ACCEPTED


_CALLER = Principal("dry run", frozenset())


async def dry_run(
    chunks: AsyncIterator[bytes], options: ImportOptions, *, xml: bool = False
) -> DryRun:
    """Read a file as an import does. Raises Invalid or BadImport."""
    settings = CuratorSettings.model_construct()
    held = _Held(settings)
    importer = Importer(held, settings, Imports(SystemClock(), settings.import_max_errors))
    progress = await importer.take(chunks, options, _CALLER, xml=xml)
    zone = UTC if options.timezone is None else ZoneInfo(options.timezone)
    ordered = sorted(held.readings.items(), key=lambda item: (item[0][2], item[0][1]))
    first = tuple(
        (from_epoch_microseconds(time).isoformat(), meter, f"{_in(quantity, unit)} {unit}")
        for (_, meter, time), (quantity, unit, _) in ordered[:FIRST]
    )
    days: dict[tuple[str, str, str, str], list[int]] = {}
    for (register, meter, time), (quantity, unit, counter) in ordered:
        day = datetime.fromtimestamp(time // 10**6, UTC).astimezone(zone).date().isoformat()
        sums = days.setdefault((day, meter, register, unit), [0, 0])
        sums[0] += 1
        sums[1] = quantity if counter else sums[1] + quantity
    totals = tuple(
        DrySum(*place[:3], readings, _in(total, place[3]), place[3])
        for place, (readings, total) in sorted(days.items())
    )
    return DryRun(progress.answer(), first, totals)


def _in(quantity: int, unit: str) -> str:
    return format_exact(Fraction(quantity, NANO) / UNITS[unit].factor)
