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
from typing import Annotated, Any, Final, get_args

from fastapi import APIRouter, Depends, Query, Request, Response
from markupsafe import Markup
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from sqlalchemy import select
from starlette.responses import PlainTextResponse

from common.bodies import invalid_from
from common.principals import Scope
from common.runtime.clock import from_epoch_microseconds
from common.store.transactions import Database, Transaction
from common.web.console import charts
from common.web.console.browser_sessions import Visitor, require_own_origin, require_secret
from common.web.console.pages import HEADERS, Pages, PagesPart, person
from common.web.console.sign_in import SessionsPart
from common.web.dependencies import part
from common.web.limits import Wait
from common.web.paging import Page, decode_cursor, encode_cursor
from curator.console.contributions_page import LOOK_S, ClockPart, Person, found
from curator.files.routes import Importer, ImportOptions
from curator.files.upload import Imports, form_with_file
from curator.intake.intake import Intake
from curator.owner import readings_received, statement
from curator.owner.curators import own
from curator.owner.readings_received import ReadingsCompleteness, Register
from curator.settings import CuratorSettings
from curator.store import readings as store
from curator.store.parties import CuratorRow, PartyRow
from curator.store.tables import devices, newest_readings, registers
from curator.web import DatabasePart
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


def add_readings(router: APIRouter) -> None:
    """Add the page."""

    @router.get("/readings")
    async def readings(
        request: Request,
        pages: PagesPart,
        database: DatabasePart,
        clock: ClockPart,
        visitor: Person,
        span: str = "24 h",
        end: Annotated[datetime | None, Query(alias="to")] = None,
    ) -> Response:
        values = await _values(database, visitor, clock.now(), span, end)
        return pages.show(request, "readings.html", visitor, address=_address(request), **values)

    @router.get("/readings/live")
    async def live(
        request: Request,
        pages: PagesPart,
        database: DatabasePart,
        clock: ClockPart,
        visitor: Person,
        span: str = "24 h",
        wait_s: Wait = 0,
    ) -> Response:
        async def values() -> dict[str, Any]:
            found = await _values(database, visitor, clock.now(), span, None)
            return {"address": _address(request), **found}

        return await pages.live(request, "readings-live.html", visitor, values, wait_s, LOOK_S)


def _address(request: Request) -> str:
    return str(request.base_url).rstrip("/")


async def _values(
    database: Database, visitor: Visitor, now: datetime, span: str, end: datetime | None
) -> dict[str, Any]:
    """What the page shows, of a span that ends now or at an instant."""
    chosen = span if span in SPANS else "24 h"
    until = now if end is None or end.tzinfo is None else min(end, now)
    begin = until - SPANS[chosen]
    async with database.reading() as transaction:
        of = await own(transaction, visitor.principal)
        key, party = (None, None) if of is None else (of[0].key, of[1].id)
        arrived = None
        if visitor.has(Scope.OPERATOR):
            hours = readings_received.span_of(begin, until, now, readings_received.HOUR)
            arrived = await readings_received.intake(transaction, *hours)
        found = await readings_received.registers(transaction, key, party)
        before = now - timedelta(seconds=SILENT_S)
        silent, more = await readings_received.silent(transaction, before, key, None, MOST)
        periods = readings_received.span_of(begin, until, now, timedelta(seconds=STEPS[chosen]))
        pictures = [
            await _picture(transaction, each, STEPS[chosen], periods, key) for each in found[:MOST]
        ]
    return {
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
        found = await readings_received.completeness(
            transaction, register.name, period_s, span, curator
        )
    except DomainError as error:
        return str(error)
    counts = [each.devices for each in found.periods]
    whole = sum(count >= found.expected for count in counts)
    sentence = (
        f"{register.name}: {whole} of {len(counts)} periods have a reading of all "
        f"{found.expected} devices; the fewest are {min(counts)}."
    )
    part = slice(11, 16) if period_s < 6 * 3_600 else slice(5, 10)
    labels = [format_instant(each.start)[part] for each in found.periods]
    return charts.bars(counts, [0.0] * len(counts), labels=labels, sentence=sentence), found


# A curator's own readings, for its owner alone: time, register, value, and the answers that used
# them.
#
# Spec: console, section 6.3.

Owner = Annotated[Visitor, Depends(person(Scope.CURATOR))]
"""No operator: of them no page shows a value."""
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


def add_own_readings(router: APIRouter) -> None:
    """Add the page."""

    @router.get("/curators/{curator_id}/readings")
    async def own_readings(
        request: Request,
        curator_id: str,
        pages: PagesPart,
        database: DatabasePart,
        visitor: Owner,
        register: str | None = None,
        cursor: str | None = None,
    ) -> Response:
        before = None if cursor is None else Page(INSTANTS, decode_cursor(cursor)).after_number()
        async with database.reading() as transaction:
            row, party = await found(transaction, curator_id, visitor.principal)
            values = await _page(transaction, row, party, register, before)
            counts = await statement.reading_counts(transaction, row, party)
        return pages.show(
            request, "own-readings.html", visitor, row=row, counts=counts, most=ANSWERS, **values
        )


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
    for each in kept:
        of.setdefault(each.name, []).append(each)
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
        each.key: each.id
        for each in await transaction.execute(
            select(devices.c.key, devices.c.id).where(devices.c.curator == row.key)
        )
    }
    last = max(each.time for each in of[shown]) + 1
    stored, following = await store.of_devices(
        transaction,
        first.register,
        [each.device for each in of[shown]],
        last if before is None else min(before, last),
        INSTANTS,
    )
    answers, _ = await statement.contributions(transaction, row, party, None, ANSWERS)
    given = [each for each in answers if each["contributed"] and each["asked"]["register"] == shown]
    values["readings"] = [_shown(each, names, first.base, given) for each in stored]
    values["older"] = None if following is None else encode_cursor(following)
    return values


def _shown(
    stored: store.Stored,
    names: Mapping[int, str],
    base: str,
    given: Sequence[Mapping[str, Any]],
) -> OwnReading:
    time = from_epoch_microseconds(stored.time)
    value = Fraction(stored.quantity, NANO)
    uses = [
        Use(each["round"], each["query_name"], _beyond(value, each["asked"]))
        for each in given
        if _instant(each["window"]["start"]) <= time < _instant(each["window"]["end"])
    ]
    text = format_exact(value) if stored.places is None else f"{stored.places} values"
    return OwnReading(time, names.get(stored.device, ""), text, base, tuple(uses))


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _beyond(value: Fraction, asked: Mapping[str, Any]) -> bool:
    """Whether a query's bounds cut this value, in the base unit."""
    unit = UNITS.get(asked["unit"])
    factor = Fraction(1) if unit is None else unit.factor
    low, high = (Fraction(bound) * factor for bound in asked["bounds"])
    return not low <= value <= high


# Importing a file of readings on a page: what its columns mean, how far it is, what was wrong.
#
# Spec: console, section 6.4. The file goes through this process into the store and nowhere else; a
# browser shows its first rows by itself.

Operator = Annotated[Visitor, Depends(person(Scope.OPERATOR))]
Running = Annotated[Imports, Depends(part(Imports))]

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


def add_imports(router: APIRouter) -> None:
    """Add the form, what it does, and how far it is meanwhile."""

    @router.get("/readings/import")
    async def empty(request: Request, pages: PagesPart, visitor: Person) -> Response:
        return _form(request, pages, visitor, {"curator": visitor.principal.subject or ""})

    @router.post("/readings/import")
    async def take(
        request: Request,
        pages: PagesPart,
        intake: Annotated[Intake, Depends(part(Intake))],
        settings: Annotated[CuratorSettings, Depends(part(CuratorSettings))],
        imports: Running,
        sessions: SessionsPart,
        visitor: Person,
    ) -> Response:
        require_own_origin(request)  # before a byte of the body is read
        given: dict[str, str] = {}
        try:
            given, chunks = await form_with_file(request)
            require_secret(visitor.csrf, given.pop("csrf", None))
            options, caller = options_of(given), visitor.principal
            importer = Importer(intake, settings, imports)
            progress = await importer.take(chunks, options, caller, xml=False)
        except DomainError as error:
            return _form(request, pages, visitor, given, error)
        await sessions.note(visitor, "imported readings", "", "done")
        outcome = progress.document()
        return pages.show(request, "imported.html", visitor, outcome=outcome, most=SHOWN)

    @router.get("/readings/imports/{import_id}/progress")
    async def progress(import_id: str, imports: Running, _: Operator) -> Response:
        """A line for the page that sends the file; empty before it has begun."""
        try:
            outcome = imports.find(import_id).document()
        except DomainError:
            return PlainTextResponse("", headers=dict(HEADERS))
        line = "{lines:,} lines read; {accepted:,} readings accepted, {rejected:,} rejected"
        return PlainTextResponse(line.format(**outcome), headers=dict(HEADERS))


def _form(
    request: Request,
    pages: Pages,
    visitor: Visitor,
    given: Mapping[str, str],
    error: DomainError | None = None,
) -> Response:
    found = fields()
    return pages.show(
        request,
        "import-readings.html",
        visitor,
        status=200 if error is None else 422,
        first=[found[name] for name in FIRST],
        others=[field for name, field in found.items() if name not in FIRST],
        given=given,
        import_id=secrets.token_urlsafe(16),
        error=error,
    )


def fields() -> dict[str, Field]:
    """The fields of the form: every parameter of an import, by its name in the API."""
    found = {}
    for attribute, info in ImportOptions.model_fields.items():
        name = info.alias or attribute
        if name != "import_id":
            found[name] = Field(name, info.description or "", _choices(name, info), _default(info))
    return found


def options_of(given: Mapping[str, str]) -> ImportOptions:
    """What a form's fields ask for; empty ones are left out. Raises Invalid."""
    stated = {name: value.strip() for name, value in given.items() if value.strip()}
    known = {name: stated[name] for name in (*fields(), "import_id") if name in stated}
    try:
        return ImportOptions.model_validate(known)
    except ValidationError as error:
        raise invalid_from(error, known) from None


def _choices(name: str, info: FieldInfo) -> tuple[str, ...]:
    if name == "unit":
        return tuple(sorted(UNITS))
    inner = (
        each for part in (info.annotation, *get_args(info.annotation)) for each in get_args(part)
    )
    return tuple(dict.fromkeys(each for each in inner if isinstance(each, str)))


def _default(info: FieldInfo) -> str:
    return "" if info.default is None else str(info.default)
