"""Pages of readings: whether they arrive complete, a curator's own, the import of a file.

An operator sees counts, times and units, never a value. A curator's own readings are for its owner
alone, with the answers that used them. An imported file goes through this process into the store
and nowhere else. Spec: console, sections 6.3 and 6.4.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from functools import partial
from typing import Annotated, Any, Final, get_args

from fastapi import Depends, Query, Response
from markupsafe import Markup
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from sqlalchemy import select
from starlette.responses import PlainTextResponse

from common.bodies import invalid_from
from common.principals import Scope
from common.runtime.clock import from_epoch_microseconds
from common.store.transactions import Transaction
from common.web.console import charts
from common.web.console.browser_sessions import require_own_origin, require_secret
from common.web.console.pages import HEADERS, console_router
from common.web.dependencies import part
from common.web.limits import Wait
from common.web.paging import Page, decode_cursor, encode_cursor
from curator.console.view import AnyView, OperatorView, OwnerView, View
from curator.files.routes import Importer, ImportOptions, Running
from curator.files.upload import form_with_file
from curator.intake.intake import Intake
from curator.owner import readings_received, statement
from curator.owner.curators import own
from curator.owner.readings_received import ReadingsCompleteness, Register
from curator.settings import CuratorSettings
from curator.store import readings as store
from curator.store.parties import CuratorRow, PartyRow
from curator.store.tables import devices, newest_readings, registers
from tacit.answers.curator import AskedFor, GivenContribution
from tacit.errors import DomainError
from tacit.units import NANO, UNITS
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
        found = await readings_received.registers(transaction, key, party)
        before = now - timedelta(seconds=SILENT_S)
        silent, more = await readings_received.silent(transaction, before, key, None, MOST)
        periods = readings_received.span_of(begin, until, now, timedelta(seconds=STEPS[chosen]))
        pictures = [
            await _picture(transaction, register, STEPS[chosen], periods, key)
            for register in found[:MOST]
        ]
    return {
        "address": str(view.request.base_url).rstrip("/"),
        "span": chosen,
        "spans": tuple(SPANS),
        "until": None if end is None else format_instant(until),
        "arrived": arrived,
        "stored": STORED,
        "registers": list(zip(found[:MOST], pictures, strict=True)),
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
    whole = sum(count >= completeness.expected for count in counts)
    sentence = (
        f"{register.name}: {whole} of {len(counts)} periods have a reading of all "
        f"{completeness.expected} devices; the fewest are {min(counts)}."
    )
    part = slice(11, 16) if period_s < 6 * 3_600 else slice(5, 10)
    labels = [format_instant(period.start)[part] for period in completeness.periods]
    return charts.bars(counts, [0.0] * len(counts), labels=labels, sentence=sentence), completeness


# --- a curator's own readings, for its owner alone -----------------------------------------------

INSTANTS: Final = 25
"""Of one page; a register of a host has readings of others at other instants."""
ANSWERS: Final = 500
"""The newest answers, in which a reading may have been used."""


@dataclass(frozen=True)
class Use:
    """An answer whose window holds a reading; clamped: the reading lies beyond its bounds."""

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


@router.get("/curators/{curator_id}/readings")
async def show_own_readings(
    view: OwnerView, curator_id: str, register: str | None = None, cursor: str | None = None
) -> Response:
    """A curator's readings with their values, for its owner alone."""
    before = None if cursor is None else Page(INSTANTS, decode_cursor(cursor)).after_number()
    async with view.database.reading() as transaction:
        row, party = await view.find(transaction, curator_id)
        values = await _page(transaction, row, party, register, before)
        counts = await statement.reading_counts(transaction, row, party)
    return view.show("own-readings.html", row=row, counts=counts, most=ANSWERS, **values)


async def _page(
    transaction: Transaction,
    row: CuratorRow,
    party: PartyRow,
    register: str | None,
    before: int | None,
) -> dict[str, Any]:
    newest = newest_readings.c
    kept = await transaction.execute(
        select(newest.register, newest.device, newest.time, registers.c.name, registers.c.base)
        .where(newest.curator == row.key, registers.c.key == newest.register)
        .order_by(newest.register)
    )
    of: dict[str, list[Any]] = {}
    for device in kept:
        of.setdefault(device.name, []).append(device)
    shown = register if register in of else next(iter(of), None)
    values: dict[str, Any] = {
        "registers": list(of),
        "register": shown,
        "readings": [],
        "older": None,
    }
    if shown is None:
        return values
    [first, *_] = of[shown]
    names = {
        device.key: device.id
        for device in await transaction.execute(
            select(devices.c.key, devices.c.id).where(devices.c.curator == row.key)
        )
    }
    last = max(device.time for device in of[shown]) + 1
    stored, following = await store.of_devices(
        transaction,
        first.register,
        [device.device for device in of[shown]],
        last if before is None else min(before, last),
        INSTANTS,
    )
    answers, _ = await statement.contributions(transaction, row, party, None, ANSWERS)
    given = [
        answer for answer in answers if answer.contributed and answer.asked.register_name == shown
    ]
    values["readings"] = [_shown(reading, names, first.base, given) for reading in stored]
    values["older"] = None if following is None else encode_cursor(following)
    return values


def _shown(
    stored: store.Stored,
    names: Mapping[int, str],
    base: str,
    given: Sequence[GivenContribution],
) -> OwnReading:
    time = from_epoch_microseconds(stored.time)
    value = Fraction(stored.quantity, NANO)
    uses = [
        Use(answer.round, answer.query_name, _beyond(value, answer.asked))
        for answer in given
        if _instant(answer.window.start) <= time < _instant(answer.window.end)
    ]
    text = format_exact(value) if stored.places is None else f"{stored.places} values"
    return OwnReading(time, names.get(stored.device, ""), text, base, tuple(uses))


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
    *("unit", "register", "kind", "curator", "curator_column", "device_column"),
    *("time_column", "value_column", "timezone"),
)
"""What most files need; all other parameters of an import are behind a fold."""
SHOWN: Final = 20
"""Places of an import that a page lists."""


@dataclass(frozen=True)
class Field:
    """A parameter of an import: `choices` where there are few, `default` where it has one."""

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
    given: dict[str, str] = {}
    try:
        given, chunks = await form_with_file(view.request)
        require_secret(view.visitor.csrf, given.pop("csrf", None))
        importer = Importer(intake, settings, imports)
        progress = await importer.take(chunks, options_of(given), view.caller, xml=False)
    except DomainError as error:
        return _form(view, given, error)
    await view.note("imported readings")
    return view.show("imported.html", outcome=progress.answer(), most=SHOWN)


@router.get("/readings/imports/{import_id}/progress")
async def show_progress(import_id: str, imports: Running, _: OperatorView) -> Response:
    """A line for the page that sends the file; empty before it has begun."""
    try:
        outcome = imports.find(import_id).answer()
    except DomainError:
        return PlainTextResponse("", headers=dict(HEADERS))
    line = "{lines:,} lines read; {accepted:,} readings accepted, {rejected:,} rejected"
    return PlainTextResponse(line.format(**outcome.model_dump()), headers=dict(HEADERS))


def _form(view: View, given: Mapping[str, str], error: DomainError | None = None) -> Response:
    form = fields()
    return view.show(
        "import-readings.html",
        status=200 if error is None else 422,
        first=[form[name] for name in FIRST],
        others=[field for name, field in form.items() if name not in FIRST],
        given=given,
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


def options_of(given: Mapping[str, str]) -> ImportOptions:
    """The options of a form's fields, without empty ones. Raises Invalid."""
    stated = {name: value.strip() for name, value in given.items() if value.strip()}
    options = {name: stated[name] for name in (*fields(), "import_id") if name in stated}
    try:
        return ImportOptions.model_validate(options)
    except ValidationError as error:
        raise invalid_from(error, options) from None


def _choices(name: str, info: FieldInfo) -> tuple[str, ...]:
    if name == "unit":
        return tuple(sorted(UNITS))
    inner = (
        choice
        for part in (info.annotation, *get_args(info.annotation))
        for choice in get_args(part)
    )
    return tuple(dict.fromkeys(choice for choice in inner if isinstance(choice, str)))


def _default(info: FieldInfo) -> str:
    return "" if info.default is None else str(info.default)
