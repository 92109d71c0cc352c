"""Do readings arrive, complete, in the right unit: counts, times and units, never a value.

Spec: console, section 6.4.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response
from markupsafe import Markup

from common.store.transactions import Database, Transaction
from common.web.console import charts
from common.web.console.pages import PagesPart
from common.web.console.sessions import Visitor
from common.web.load import Wait
from common.web.tokens import Scope
from curator.console.given import LOOK_S, ClockPart, Person
from curator.owner import flow
from curator.owner.curator_routes import own
from curator.owner.flow import ReadingsCompleteness, Register
from curator.web import DatabasePart
from tacit.errors import DomainError
from tacit.wire import format_instant

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
            hours = flow.span_of(begin, until, now, flow.HOUR)
            arrived = await flow.intake(transaction, *hours)
        found = await flow.registers(transaction, key, party)
        before = now - timedelta(seconds=SILENT_S)
        silent, more = await flow.silent(transaction, before, key, None, MOST)
        periods = flow.span_of(begin, until, now, timedelta(seconds=STEPS[chosen]))
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
        found = await flow.completeness(transaction, register.name, period_s, span, curator)
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
