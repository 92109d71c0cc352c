"""A curator's own readings, for its owner alone: time, register, value, and the answers that used
them.

Spec: console, section 6.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request, Response
from sqlalchemy import select

from common.runtime.clock import from_epoch_microseconds
from common.store.transactions import Transaction
from common.web.console.pages import PagesPart, person
from common.web.console.sessions import Visitor
from common.web.paging import Page, decode_cursor, encode_cursor
from common.web.tokens import Scope
from curator.console.given import found
from curator.owner import statement
from curator.store import readings as store
from curator.store.parties import CuratorRow, PartyRow
from curator.store.tables import devices, newest_readings, registers
from curator.web import DatabasePart
from tacit.units import NANO, UNITS
from tacit.wire import format_exact

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
