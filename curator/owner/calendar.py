"""A calendar of a curator's readings: for each device which days are complete, and what is missing.

Times and counts; never a value. How often a device reads is the median of the times between its
readings. Where a gap is longer, as many are missing as the gap has room for, evenly spread; each
belongs to the day in which it falls. Days are those of a zone, so a day on which clocks change
has 23 or 25 hours. Spec: console, section 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Final, Literal
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from common.runtime.clock import epoch_microseconds, from_epoch_microseconds
from common.store.transactions import Transaction
from curator.owner.readings_received import UnknownRegister
from curator.store import intake_counts
from curator.store import readings as store
from curator.store.parties import CuratorRow
from curator.store.readings import Stored
from tacit.wire import Instant, WireModel

DAYS: Final = 35
"""Of a calendar."""
INSTANTS: Final = 100_000
"""At which the register has a reading of anyone; a calendar has fewer days where there are more."""
Ints = NDArray[np.int64]
State = Literal["complete", "partial", "missing", "open"]


class Day(WireModel):
    """A day of a device: how many readings it has, and how many are missing between them.

    `open`: it is not over or is before the device's first reading, or nothing is expected, or
    the device has too few readings to tell.
    """

    day: date
    state: State
    readings: int
    missing: int


class DeviceDays(WireModel):
    """A device, its newest reading, how many readings were repeated, corrected, or arrived or
    changed after a round had used their window; and its days. `step_s`: the time between its
    readings."""

    device: str
    last: Instant
    duplicates: int
    corrections: int
    late: int
    step_s: float | None
    days: tuple[Day, ...]


class Calendar(WireModel):
    """The devices of a curator that have readings of a register, on the days from one to another
    (included), in a zone. `registers`: all of the curator's."""

    curator: str
    registers: tuple[str, ...]
    register_name: Annotated[str | None, Field(alias="register")]
    timezone: str
    begin: Annotated[date, Field(alias="from")]
    end: Annotated[date, Field(alias="to")]
    devices: tuple[DeviceDays, ...]


@dataclass(frozen=True)
class Sheet:
    """A calendar with the readings from which it is made; `base`: the unit in which they are
    stored."""

    calendar: Calendar
    stored: Stored
    base: str
    bounds: Ints
    """Microseconds since 1970 at which its days begin, and the last one ends."""


@dataclass(frozen=True)
class Kept:
    """A register of a curator: key, base unit, and its devices (key, name, what is counted)."""

    key: int
    base: str
    devices: tuple[intake_counts.Counted, ...]


async def kept(transaction: Transaction, curator: int) -> dict[str, Kept]:
    """The registers of a curator that have readings, by name."""
    of: dict[str, list[intake_counts.Counted]] = {}
    for device in await intake_counts.devices_of(transaction, curator):
        of.setdefault(device.register_name, []).append(device)
    return {
        name: Kept(devices[0].register, devices[0].base, tuple(devices))
        for name, devices in of.items()
    }


def chosen(registers: dict[str, Kept], named: str | None) -> str | None:
    """The register that is named, else the first. Raises UnknownRegister."""
    if named is not None and named not in registers:
        raise UnknownRegister
    return next(iter(registers), None) if named is None else named


async def sheet(
    transaction: Transaction,
    row: CuratorRow,
    register: str | None,
    last: date | None,
    zone: ZoneInfo,
    now: datetime,
) -> Sheet:
    """Up to five weeks that end with a given day, or today. Raises UnknownRegister."""
    registers = await kept(transaction, row.key)
    name = chosen(registers, register)
    today = now.astimezone(zone).date()
    end = today if last is None else min(last, today)
    days = [end - timedelta(days=back) for back in range(DAYS - 1, -1, -1)]
    bounds = np.array([begin_of(day, zone) for day in [*days, _next(end)]], np.int64)
    nothing = np.zeros(0, np.int64)
    stored, first = Stored(nothing, nothing, nothing, nothing), None
    of = None if name is None else registers[name]
    if of is not None:
        span = (int(bounds[0]), int(bounds[-1]))
        keys = [device.device for device in of.devices]
        stored, first = await store.of_devices(transaction, of.key, keys, span, INSTANTS)
    if first is not None:  # the day that is cut is not shown, unless there is no other
        first_day = min(int(np.searchsorted(bounds, first)), DAYS - 1)
        days, bounds = days[first_day:], bounds[first_day:]
    devices = [] if of is None else of.devices
    calendar = Calendar(
        curator=row.id,
        registers=tuple(registers),
        register_name=name,
        timezone=zone.key,
        begin=days[0],
        end=days[-1],
        devices=tuple(
            _device(each, stored.times[stored.devices == each.device][::-1], days, bounds, now)
            for each in devices
        ),
    )
    return Sheet(calendar, stored, "" if of is None else of.base, bounds)


def begin_of(day: date, zone: ZoneInfo) -> int:
    """When a day begins, in microseconds since 1970."""
    return epoch_microseconds(datetime.combine(day, time(), zone).astimezone(UTC))


def _next(day: date) -> date:
    return day + timedelta(days=1)


def _device(
    device: intake_counts.Counted,
    times: Ints,
    days: Sequence[date],
    bounds: Ints,
    now: datetime,
) -> DeviceDays:
    times = times[times >= bounds[0]]
    began = np.maximum(bounds, device.first)
    step = step_of(times)
    counts = np.diff(np.searchsorted(times, bounds))
    gone = None if step is None else missing(times, step, began)
    judged = (bounds[1:] <= epoch_microseconds(now)) & (bounds[1:] > device.first)
    return DeviceDays(
        device=device.id,
        last=from_epoch_microseconds(device.time),
        duplicates=device.duplicates,
        corrections=device.corrections,
        late=device.late,
        step_s=None if step is None else step / 1e6,
        days=tuple(
            Day(
                day=day,
                state=_state(int(counts[place]), gone, place) if judged[place] else "open",
                readings=int(counts[place]),
                missing=0 if gone is None or not judged[place] else int(gone[place]),
            )
            for place, day in enumerate(days)
        ),
    )


def _state(readings: int, gone: Ints | None, place: int) -> State:
    if gone is None:
        return "missing" if not readings else "open"
    if gone[place]:
        return "partial" if readings else "missing"
    return "complete" if readings else "open"


def step_of(times: Ints) -> int | None:
    """The time between readings, in microseconds: the median of the differences of these
    ascending times. None for fewer than two."""
    return None if times.size < 2 else int(np.median(np.diff(times)))


def missing(times: Ints, step: int, bounds: Ints) -> Ints:
    """How many readings are missing in each of the days between `bounds`, given at least two
    readings.

    Before the first reading and after the last one they are missing up to the bounds.
    """
    first, last = int(times[0]), int(times[-1])
    before = first - step * ((first - int(bounds[0])) // step + 1)
    after = last + step * ((int(bounds[-1]) - 1 - last) // step + 1)
    ends = np.concatenate(([before], times, [after]))
    gaps = np.diff(ends)
    long = np.flatnonzero(2 * gaps > 3 * step)
    total = np.zeros(bounds.size, np.int64)
    for start, gap in zip(ends[long].tolist(), gaps[long].tolist(), strict=True):
        number = (2 * gap + step) // (2 * step) - 1
        # Of the instants start + k * each those before each bound.
        each = gap // (number + 1)
        passed = -(-(bounds - start) // each) - 1
        total += np.clip(passed, 0, number)
    return np.diff(total)
