"""Pages of readings: whether they arrive complete, a curator's own, the import of a file.

An operator sees counts, times and units, never a value. A curator's own readings are for its owner
alone, with the answers that used them. An imported file goes through this process into the store
and nowhere else. Spec: console, section 6.
"""

from __future__ import annotations

import csv
import io
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Annotated, Any, Final, get_args

import numpy as np
from fastapi import Depends, Query, Response
from markupsafe import Markup
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from starlette.responses import PlainTextResponse, StreamingResponse

from common.bodies import invalid_from
from common.principals import Scope
from common.runtime.clock import from_epoch_microseconds
from common.store.transactions import Database, Transaction
from common.web.console import charts
from common.web.console.browser_sessions import require_own_origin, require_secret
from common.web.console.pages import HEADERS, NoSuchPage, console_router
from common.web.dependencies import part
from common.web.limits import Wait
from common.web.paging import Page, decode_cursor, encode_cursor
from curator.console.view import AnyView, OperatorView, OwnerView, View
from curator.files.importer import Importer
from curator.files.options import ImportOptions
from curator.files.routes import Running, imported
from curator.files.upload import form_with_file
from curator.intake.intake import Intake
from curator.owner import calendar, readings_received, statement
from curator.owner.calendar import Day, DeviceDays, Kept, Sheet
from curator.owner.curators import own
from curator.owner.readings_received import ReadingsCompleteness, Register
from curator.owner.routes import zone_of
from curator.settings import CuratorSettings
from curator.store import readings as store
from curator.store.parties import CuratorRow, PartyRow
from tacit.answers.curator import AskedFor, GivenContribution
from tacit.errors import DomainError
from tacit.units import NANO, UNITS, Kind, kind_of
from tacit.wire import format_exact, format_instant

SPANS: Final = {"24 h": timedelta(hours=24), "7 d": timedelta(days=7), "31 d": timedelta(days=31)}
STEPS: Final = {"24 h": 3_600, "7 d": 6 * 3_600, "31 d": 86_400}
"""Seconds of a period of the picture, by span."""
SILENT_S: Final = 86_400
MOST: Final = 20
"""Silent devices, and registers, that a page shows."""
STORED: Final = ("accepted", "duplicate", "conflict")
"""Outcomes that are no rejection."""


router = console_router()


@router.get("/readings")
async def show_readings(
    view: AnyView, span: str = "24 h", end: Annotated[datetime | None, Query(alias="to")] = None
) -> Response:
    """Whether readings arrive complete."""
    return view.show("readings.html", **await _values(view, span, end))


@router.get("/readings/live")
async def show_readings_live(view: AnyView, span: str = "24 h", wait_s: Wait = 0) -> Response:
    """The part of that page that changes."""
    return await view.live("readings-live.html", partial(_values, view, span, None), wait_s)


async def _values(view: View, span: str, end: datetime | None) -> dict[str, Any]:
    """What the page shows, of a span that ends now or at an instant."""
    chosen, now = span if span in SPANS else "24 h", view.clock.now()
    until = now if end is None or end.tzinfo is None else min(end, now)
    begin = until - SPANS[chosen]
    async with view.database.reading() as transaction:
        of = await own(transaction, view.caller)
        key, party = (None, None) if of is None else (of[0].key, of[1].id)
        arrived = None
        if view.visitor.has(Scope.OPERATOR):
            hours = readings_received.span_of(begin, until, now, readings_received.HOUR)
            arrived = await readings_received.intake(transaction, *hours)
        registers_received = await readings_received.registers(transaction, key, party)
        before = now - timedelta(seconds=SILENT_S)
        silent, more = await readings_received.silent(transaction, before, key, None, MOST)
        periods = readings_received.span_of(begin, until, now, timedelta(seconds=STEPS[chosen]))
        pictures = [
            await _picture(transaction, register, STEPS[chosen], periods, key)
            for register in registers_received[:MOST]
        ]
    return {
        "address": view.pages.address(view.request),
        "span": chosen,
        "spans": tuple(SPANS),
        "until": None if end is None else format_instant(until),
        "arrived": arrived,
        "stored": STORED,
        "registers": list(zip(registers_received[:MOST], pictures, strict=True)),
        "silent": silent,
        "more": more is not None,
    }


async def _picture(
    transaction: Transaction,
    register: Register,
    period_s: int,
    span: tuple[datetime, datetime],
    curator: int | None,
) -> tuple[Markup, ReadingsCompleteness] | str:
    """A bar for each period, and its numbers; or why there is none."""
    try:
        completeness = await readings_received.completeness(
            transaction, register.name, period_s, span, curator
        )
    except DomainError as error:
        return str(error)
    counts = [period.devices for period in completeness.periods]
    complete_periods = sum(count >= completeness.expected for count in counts)
    sentence = (
        f"{register.name}: {complete_periods} of {len(counts)} periods have a reading of all "
        f"{completeness.expected} devices; the fewest are {min(counts)}."
    )
    part = slice(11, 16) if period_s < 6 * 3_600 else slice(5, 10)
    labels = [format_instant(period.start)[part] for period in completeness.periods]
    return charts.bars(counts, [0.0] * len(counts), labels=labels, sentence=sentence), completeness


# --- a curator's own readings, for its owner alone -----------------------------------------------

INSTANTS: Final = 25
"""Of one page; a register of a host has readings of others at other instants."""
CSV_INSTANTS: Final = 2_000
"""Of a piece of the download."""
ANSWERS: Final = 500
"""The newest answers, in which a reading may have been used."""
CSV_COLUMNS: Final = ("time", "device", "register", "value", "unit")


@dataclass(frozen=True)
class Use:
    """An answer whose window contains a reading; clamped: the reading is beyond the query's
    bounds."""

    round: str
    query: str
    clamped: bool


@dataclass(frozen=True)
class OwnReading:
    """value: in `unit`, the register's; uses: answers that were given."""

    time: datetime
    device: str
    value: str
    unit: str
    uses: tuple[Use, ...]


@dataclass(frozen=True)
class DaySum:
    """The readings of all devices on a day, and their number: for amounts the sum, for states
    the mean; None without a reading."""

    day: date
    value: Fraction | None
    readings: int

    @property
    def text(self) -> str:
        """The value as a page shows it: a sum exactly."""
        value = self.value or Fraction(0)
        exact = NANO % value.denominator == 0
        return format_exact(value) if exact else f"{float(value):.9g}"


@dataclass(frozen=True)
class Cell:
    """A day of a device, and the cursor of the page on which it first appears."""

    of: Day
    cursor: str


@router.get("/curators/{curator_id}/readings")
async def show_own_readings(
    view: OwnerView,
    settings: Annotated[CuratorSettings, Depends(part(CuratorSettings))],
    curator_id: str,
    register: str | None = None,
    cursor: str | None = None,
    to: date | None = None,
    timezone: str | None = None,
) -> Response:
    """A curator's readings with their values, for its owner alone."""
    before = None if cursor is None else Page(INSTANTS, decode_cursor(cursor)).after_number()
    zone, now = zone_of(timezone, settings), view.clock.now()
    async with view.database.reading() as transaction:
        row, party = await view.find(transaction, curator_id)
        sheet = await calendar.sheet(transaction, row, register, to, zone, now)
        values = await _page(transaction, row, party, sheet.calendar.register_name, before)
        counts = await statement.reading_counts(transaction, row, party)
    days = _sums(sheet)
    return view.show(
        "own-readings.html",
        row=row,
        counts=counts,
        most=ANSWERS,
        calendar=sheet.calendar,
        base=sheet.base,
        devices=[(each, _weeks(each, sheet)) for each in sheet.calendar.devices[:MOST]],
        more=len(sheet.calendar.devices[MOST:]),
        before=sheet.calendar.begin - timedelta(days=1),
        after=sheet.calendar.end + timedelta(days=calendar.DAYS),
        latest=sheet.calendar.end >= now.astimezone(zone).date(),
        days=days,
        picture=_days_picture(sheet, days),
        **values,
    )


@router.get("/curators/{curator_id}/readings.csv")
async def download_own_readings(view: OwnerView, curator_id: str, register: str) -> Response:
    """All readings of a register as a table, the newest first."""
    async with view.database.reading() as transaction:
        row, _ = await view.find(transaction, curator_id)
        registers = await calendar.kept(transaction, row.key)
    if register not in registers:
        raise NoSuchPage
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{row.id}-{register}.csv"'}
    return StreamingResponse(
        _lines(view.database, register, registers[register]),
        media_type="text/csv; charset=utf-8",
        headers=headers,
    )


async def _lines(database: Database, register: str, calendar_kept: Kept) -> AsyncIterator[str]:
    """The table in pieces, each read in a transaction of its own: a slow reader keeps none open."""
    names = {device.device: device.id for device in calendar_kept.devices}
    first = min((device.first for device in calendar_kept.devices), default=0)
    before: int | None = max((device.time for device in calendar_kept.devices), default=0) + 1
    yield ",".join(CSV_COLUMNS) + "\r\n"
    while before is not None:
        async with database.reading() as transaction:
            stored, before = await store.of_devices(
                transaction, calendar_kept.key, list(names), (first, before), CSV_INSTANTS
            )
        text = io.StringIO(newline="")
        csv.writer(text).writerows(
            (format_instant(time), names[device], register, value, calendar_kept.base)
            for time, device, value in _values_of(stored)
        )
        yield text.getvalue()


async def _page(
    transaction: Transaction,
    row: CuratorRow,
    party: PartyRow,
    register: str | None,
    before: int | None,
) -> dict[str, Any]:
    """The readings of a page, and where the next one begins."""
    if register is None:
        return {"readings": [], "older": None}
    kept = (await calendar.kept(transaction, row.key))[register]
    names = {device.device: device.id for device in kept.devices}
    first = min(device.first for device in kept.devices)
    last = max(device.time for device in kept.devices) + 1
    span = (first, last if before is None else min(before, last))
    stored, following = await store.of_devices(transaction, kept.key, list(names), span, INSTANTS)
    answers, _ = await statement.contributions(transaction, row, party, None, ANSWERS)
    given = [
        answer
        for answer in answers
        if answer.contributed and answer.asked.register_name == register
    ]
    quantities = stored.quantities.tolist()
    readings = [
        OwnReading(time, names[device], value, kept.base, _uses(time, quantity, given))
        for (time, device, value), quantity in zip(_values_of(stored), quantities, strict=True)
    ]
    return {
        "readings": readings,
        "older": None if following is None else encode_cursor(following),
    }


def _values_of(stored: store.Stored) -> Iterator[tuple[datetime, int, str]]:
    """Time, device and value of readings; for a vector the number of its values."""
    columns = (stored.times, stored.devices, stored.quantities, stored.places)
    for time, device, quantity, places in zip(*(each.tolist() for each in columns), strict=True):
        value = f"{places} values" if places else format_exact(Fraction(quantity, NANO))
        yield from_epoch_microseconds(time), device, value


def _uses(
    time: datetime, quantity: int, contributions: Sequence[GivenContribution]
) -> tuple[Use, ...]:
    value = Fraction(quantity, NANO)
    return tuple(
        Use(answer.round, answer.query_name, _beyond(value, answer.asked))
        for answer in contributions
        if _instant(answer.window.start) <= time < _instant(answer.window.end)
    )


def _weeks(device: DeviceDays, sheet: Sheet) -> list[list[Cell | None]]:
    """The days of a device in weeks from Monday on; None for days outside the calendar."""
    cells: list[Cell | None] = [None] * device.days[0].day.weekday()
    cells += [
        Cell(day, encode_cursor(int(end)))
        for day, end in zip(device.days, sheet.bounds[1:], strict=True)
    ]
    cells += [None] * (-len(cells) % 7)
    return [cells[start : start + 7] for start in range(0, len(cells), 7)]


def _sums(sheet: Sheet) -> list[DaySum]:
    """The readings of each day together, exactly; without vectors."""
    register, stored = sheet.calendar.register_name, sheet.stored
    if register is None:
        return []
    mean = kind_of(register) is Kind.INSTANT
    order = np.argsort(stored.times, kind="stable")
    order = order[stored.places[order] == 0]
    at = np.searchsorted(stored.times[order], sheet.bounds)
    sums = []
    for place, (start, end) in enumerate(pairwise(at.tolist())):
        total = Fraction(sum(stored.quantities[order[start:end]].tolist()), NANO)
        number = end - start
        value = total / number if mean and number else total
        day = sheet.calendar.begin + timedelta(days=place)
        sums.append(DaySum(day, value if number else None, number))
    return sums


def _days_picture(sheet: Sheet, days: Sequence[DaySum]) -> Markup | None:
    """A bar for each day."""
    register = sheet.calendar.register_name
    values = [(each.value, each.day) for each in days if each.value is not None]
    if register is None or not values:
        return None
    most, day = max(values)
    statistic = "mean" if kind_of(register) is Kind.INSTANT else "sum"
    name = register.replace("_", " ")
    sentence = (
        f"{name}: the {statistic} of each day; the highest is {float(most):,.6g} {sheet.base}, "
    )
    return charts.bars(
        [float(each.value or 0) for each in days],
        [0.0] * len(days),
        labels=[f"{each.day.day} {each.day:%b}" for each in days],
        sentence=f"{sentence}on {day.day} {day:%b}.",
    )


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _beyond(value: Fraction, request: AskedFor) -> bool:
    """Whether a query's bounds cut this value, in the base unit."""
    unit = UNITS.get(request.unit)
    factor = Fraction(1) if unit is None else unit.factor
    low, high = (Fraction(bound) * factor for bound in request.bounds)
    return not low <= value <= high


# --- importing a file ----------------------------------------------------------------------------


FIRST: Final = (
    *("dry_run", "unit", "register", "kind", "curator", "curator_column", "device_column"),
    *("time_column", "value_column", "timezone"),
)
"""What most files need; all other parameters of an import are behind a fold."""
SHOWN: Final = 20
"""Places of an import that a page lists."""


@dataclass(frozen=True)
class Field:
    """A parameter of an import: its `choices` if they are few, its `default` if it has one."""

    name: str
    help: str
    choices: tuple[str, ...]
    default: str

    @property
    def of_columns(self) -> bool:
        """Whether it names a column of the file."""
        return self.name.endswith("_column")


@router.get("/readings/import")
async def show_import_form(view: AnyView) -> Response:
    """The form."""
    return _form(view, {"curator": view.caller.subject or ""})


@router.post("/readings/import")
async def import_file(
    view: AnyView,
    intake: Annotated[Intake, Depends(part(Intake))],
    settings: Annotated[CuratorSettings, Depends(part(CuratorSettings))],
    imports: Running,
) -> Response:
    """Import the file of the form."""
    require_own_origin(view.request)  # before a byte of the body is read
    fields: dict[str, str] = {}
    try:
        fields, chunks = await form_with_file(view.request)
        require_secret(view.visitor.csrf, fields.pop("csrf", None))
        importer = Importer(intake, settings, imports)
        options = options_of(fields)
        outcome = await imported(importer, chunks, options, view.caller, xml=False)
    except DomainError as error:
        return _form(view, fields, error)
    if not options.dry_run:
        await view.note("imported readings")
    return view.show("imported.html", outcome=outcome, most=SHOWN)


@router.get("/readings/imports/{import_id}/progress")
async def show_progress(import_id: str, imports: Running, _: OperatorView) -> Response:
    """A line for the page that sends the file; empty before it has begun."""
    try:
        outcome = imports.find(import_id).answer()
    except DomainError:
        return PlainTextResponse("", headers=dict(HEADERS))
    line = "{lines:,} lines read; {accepted:,} readings accepted, {rejected:,} rejected"
    return PlainTextResponse(line.format(**outcome.model_dump()), headers=dict(HEADERS))


def _form(view: View, form_values: Mapping[str, str], error: DomainError | None = None) -> Response:
    form = fields()
    return view.show(
        "import-readings.html",
        status=200 if error is None else 422,
        first=[form[name] for name in FIRST],
        others=[field for name, field in form.items() if name not in FIRST],
        given=form_values,
        import_id=secrets.token_urlsafe(16),
        error=error,
    )


def fields() -> dict[str, Field]:
    """The fields of the form: every parameter of an import, by its name in the API."""
    form = {}
    for attribute, info in ImportOptions.model_fields.items():
        name = info.alias or attribute
        if name != "import_id":
            form[name] = Field(name, info.description or "", _choices(name, info), _default(info))
    return form


def options_of(form_values: Mapping[str, str]) -> ImportOptions:
    """The options of a form's fields, without empty ones. Raises Invalid."""
    stated = {name: value.strip() for name, value in form_values.items() if value.strip()}
    options = {name: stated[name] for name in (*fields(), "import_id") if name in stated}
    try:
        return ImportOptions.model_validate(options)
    except ValidationError as error:
        raise invalid_from(error, options) from None


def _choices(name: str, info: FieldInfo) -> tuple[str, ...]:
    if name == "unit":
        return tuple(sorted(UNITS))
    if info.annotation is bool:
        return ("true",)
    inner = (
        choice
        for part in (info.annotation, *get_args(info.annotation))
        for choice in get_args(part)
    )
    return tuple(dict.fromkeys(choice for choice in inner if isinstance(choice, str)))


def _default(info: FieldInfo) -> str:
    return "" if info.default in (None, False) else str(info.default)
