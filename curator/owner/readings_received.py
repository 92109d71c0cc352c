"""The flow of readings: received by the hour, silent devices, completeness of a register.

Counts, times and units; never a value. Spec: console, sections 6 and 7.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Final

from pydantic import Field

from common.runtime.clock import epoch_microseconds, from_epoch_microseconds
from common.store.transactions import Transaction
from curator.owner import statement
from curator.store import history
from curator.store import intake_counts as store
from tacit.crypto.signing import Signed
from tacit.errors import FieldError, Invalid, NotFound
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.units import UNITS
from tacit.wire import Instant, WireModel

DAY: Final = timedelta(days=1)
LONGEST: Final = timedelta(days=31)
KEPT: Final = timedelta(days=400)
MOST_PERIODS: Final = 1_000
MOST_READINGS: Final = 5_000_000
"""Of a span whose completeness is counted: more would hold up the service."""
HOUR: Final = timedelta(hours=1)
QUERIES: Final = 200


class Hour(WireModel):
    """Items received within an hour, by outcome: accepted, duplicate, conflict, or the reason
    of a rejection."""

    start: Instant
    outcomes: dict[str, int]


class IntakeFlow(WireModel):
    """Hours from one to another, without empty ones, and their totals."""

    begin: Annotated[Instant, Field(alias="from")]
    end: Annotated[Instant, Field(alias="to")]
    outcomes: dict[str, int]
    hours: tuple[Hour, ...]


class Device(WireModel):
    """A device, and the time of its newest reading of a register."""

    curator: str
    device: str
    register_name: Annotated[str, Field(alias="register")]
    last: Instant


class RegisterQuery(WireModel):
    """A query that uses a register; `fits`: whether its unit fits the register's kind."""

    name: str
    unit: str
    fits: bool


class Register(WireModel):
    """A register that has readings, the unit in which it is stored, and how many devices have
    some."""

    name: str
    unit: str
    devices: int
    queries: tuple[RegisterQuery, ...]


class Period(WireModel):
    """How many devices have a reading in the period that begins then."""

    start: Instant
    devices: int


class ReadingsCompleteness(WireModel):
    """A register's devices, by period; `expected`: all that ever had a reading of it."""

    register_name: Annotated[str, Field(alias="register")]
    period_s: int
    begin: Annotated[Instant, Field(alias="from")]
    end: Annotated[Instant, Field(alias="to")]
    expected: int
    periods: tuple[Period, ...]


class UnknownRegister(NotFound):
    """No reading names it."""

    name = "unknown_register"
    title = "There is no reading of this register"


def span_of(
    begin: datetime | None, end: datetime | None, now: datetime, step: timedelta
) -> tuple[datetime, datetime]:
    """A span widened to whole steps since 1970; by default a day that ends now. Raises Invalid
    for an empty span, or one longer than 31 days."""
    # Of now the step that has begun.
    last = _aligned(end or now + timedelta(microseconds=1), step, up=True)
    first = _aligned(begin or last - DAY, step, up=False)
    if not first < last:
        raise Invalid(errors=[FieldError("/from", "must be before `to`", "query")])
    if last - first > LONGEST + 2 * step:
        raise Invalid(errors=[FieldError("/from", "at most 31 days before `to`", "query")])
    return first, last


def _aligned(at: datetime, step: timedelta, *, up: bool) -> datetime:
    size = step // timedelta(microseconds=1)
    aligned = epoch_microseconds(at) // size * size
    if up and aligned < epoch_microseconds(at):
        aligned += size
    return from_epoch_microseconds(aligned)


async def intake(transaction: Transaction, first: datetime, last: datetime) -> IntakeFlow:
    """The items received within whole hours."""
    rows = await store.hours(transaction, _hour(first), _hour(last))
    hours: dict[int, dict[str, int]] = {}
    totals: dict[str, int] = {}
    for row in rows:
        hours.setdefault(row.hour, {})[row.outcome] = row.items
        totals[row.outcome] = totals.get(row.outcome, 0) + row.items
    return IntakeFlow(
        begin=first,
        end=last,
        outcomes=totals,
        hours=tuple(
            Hour(start=from_epoch_microseconds(hour * store.HOUR_US), outcomes=outcomes)
            for hour, outcomes in hours.items()
        ),
    )


def _hour(at: datetime) -> int:
    return epoch_microseconds(at) // store.HOUR_US


Place = tuple[int, int, int]


async def silent(
    transaction: Transaction,
    before: datetime,
    curator: int | None,
    after: Place | None,
    limit: int,
) -> tuple[list[Device], Place | None]:
    """Devices without a reading at that time or later, the longest silent first; of one curator,
    by its key, or of all. And where the next page begins."""
    instant = epoch_microseconds(before)
    rows = await store.silent_devices(transaction, instant, curator, after, limit)
    devices = [
        Device(
            curator=row.curator,
            device=row.id,
            register_name=row.register_name,
            last=from_epoch_microseconds(row.time),
        )
        for row in rows
    ]
    full = len(rows) == limit
    return devices, (rows[-1].time, rows[-1].register, rows[-1].device) if full else None


async def registers(
    transaction: Transaction, curator: int | None, party: str | None
) -> list[Register]:
    """The registers of a curator, or of all, with the queries that its party was asked."""
    queries: dict[str, list[RegisterQuery]] = {}
    for text in await history.newest_queries(transaction, QUERIES, party):
        query = Signed[RoundDescriptor].model_validate_json(text).statement.query
        of = statement.asked(query)
        if of.register_name is not None and of.unit in UNITS:
            named = RegisterQuery(name=query.name, unit=of.unit, fits=True)
            queries.setdefault(of.register_name, []).append(named)
    return [
        Register(
            name=row.name,
            unit=row.base,
            devices=row.devices,
            queries=tuple(
                query.model_copy(update={"fits": UNITS[query.unit].base == row.base})
                for query in queries.get(row.name, [])
            ),
        )
        for row in await store.register_rows(transaction, curator)
    ]


async def completeness(
    transaction: Transaction,
    register: str,
    period_s: int,
    span: tuple[datetime, datetime],
    curator: int | None,
) -> ReadingsCompleteness:
    """How many devices have a reading of a register in each period of a span.

    Raises UnknownRegister, and Invalid for more than can be counted at once.
    """
    rows = [row for row in await store.register_rows(transaction, curator) if row.name == register]
    if not rows:
        raise UnknownRegister
    step = timedelta(seconds=period_s)
    periods = (span[1] - span[0]) // step
    expected = max(row.devices for row in rows)
    if periods > MOST_PERIODS or periods * expected > MOST_READINGS:
        raise Invalid(errors=[FieldError("/from", "the span has too many periods", "query")])
    size = period_s * 10**6
    first, last = (epoch_microseconds(at) for at in span)
    counts: dict[int, int] = {}
    for row in rows:
        counted = await store.present(transaction, row.key, size, (first, last), curator)
        for period, count in counted:
            counts[period] = counts.get(period, 0) + count
    return ReadingsCompleteness(
        register_name=register,
        period_s=period_s,
        begin=span[0],
        end=span[1],
        expected=expected,
        periods=tuple(
            Period(start=from_epoch_microseconds(number * size), devices=counts.get(number, 0))
            for number in range(first // size, last // size)
        ),
    )
