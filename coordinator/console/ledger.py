"""Pages of the ledger, and what an operator changes there: limits, and events of curators.

Spec: console, section 5.6.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request, Response

from common.bodies import parse_json
from common.principals import Scope
from common.store.transactions import Transaction
from common.web import idempotency
from common.web.console.browser_sessions import Visitor
from common.web.console.pages import PagesPart, own_form, person, see
from common.web.console.sign_in import SessionsPart
from common.web.dependencies import part
from coordinator.budget import curator_events, routes, statement
from coordinator.budget.curator_events import Update
from coordinator.budget.ledger import Ledger
from coordinator.budget.limits import Limit
from coordinator.budget.plan_routes import outlook_of
from coordinator.budget.plans import OutlookRequest
from coordinator.budget.routes import LimitsBody
from coordinator.budget.state import LedgerState
from coordinator.console.budget import PERIODS, SAID, together
from coordinator.errors import UnknownCurator
from coordinator.models.budget_ledger import Event
from coordinator.settings import CoordinatorSettings
from coordinator.store import ledger as store
from coordinator.store.ledger import CuratorRow
from coordinator.store.tables import idempotency_keys
from coordinator.web import ClockPart, DatabasePart
from tacit.accounting.amounts import format_amount
from tacit.accounting.scenarios import Scenario
from tacit.errors import DomainError
from tacit.query.terms import PrivacyUnit
from tacit.wire import format_exact

Operator = Annotated[Visitor, Depends(person(Scope.OPERATOR))]
LedgerPart = Annotated[Ledger, Depends(part(Ledger))]

ROWS: Final = 50
_FREE_LINES: Final = 2
_FIELDS: Final = ("epsilon", "delta", "period", "unit", "scenario")
KINDS: Final = {
    "flagged": "its data is suspected to be polluted; it stays among the curators",
    "cleansed": "its data was corrected, and it follows the protocol",
    "reinstated": "the suspicion was wrong",
    "non_compliant": "it adds no noise: the sources' bounds become infinite",
    "refreshed": "its data changed; no budget comes back, since the old data was released too",
    "left": "it is no longer awaited; its history stays",
    "joined": "it left and is back, with its old history",
}


def add_ledger(router: APIRouter, settings: CoordinatorSettings) -> None:
    """Add the pages and forms."""
    _add_limits(router)
    _add_events(router, settings)

    @router.get("/budget/ledger")
    async def listing(
        request: Request,
        pages: PagesPart,
        database: DatabasePart,
        ledger: LedgerPart,
        visitor: Operator,
        upto: int | None = None,
        curator: str | None = None,
    ) -> Response:
        async with database.reading() as transaction:
            newest, _ = await store.head(transaction)
            last = newest if upto is None else min(max(upto, 0), newest)
            if curator is None:
                after = max(0, last - ROWS)
                events = await store.after(transaction, after, last - after)
            else:
                row = await _named(transaction, curator)
                events, after = await store.about(transaction, row.number, 0, ROWS), 0
            taken_back = _credits(await ledger.current(transaction), events)
        return pages.show(
            request,
            "ledger.html",
            visitor,
            **_rows(events, after, newer=last < newest),
            credits=taken_back,
            curator=curator,
            verified=None,
            said=SAID.get(request.query_params.get("said", "")),
        )

    @router.post("/budget/ledger")
    async def verify(
        request: Request,
        pages: PagesPart,
        database: DatabasePart,
        ledger: LedgerPart,
        sessions: SessionsPart,
        visitor: Operator,
    ) -> Response:
        await own_form(request, visitor)
        verified = await routes.verification_of(database, ledger)
        outcome = "whole" if verified["verified"] else "broken"
        await sessions.note(visitor, "verified the ledger", "ledger", outcome)
        async with database.reading() as transaction:
            newest, _ = await store.head(transaction)
            after = max(0, newest - ROWS)
            events = await store.after(transaction, after, ROWS)
            taken_back = _credits(await ledger.current(transaction), events)
        return pages.show(
            request,
            "ledger.html",
            visitor,
            **_rows(events, after, newer=False),
            credits=taken_back,
            curator=None,
            verified=verified,
            said=None,
        )

    @router.get("/budget/curators")
    async def find(_: Operator, curator: str = "") -> Response:
        return see(f"/console/budget/curators/{quote(curator, safe='')}")

    @router.get("/budget/curators/{curator}")
    async def one(
        request: Request,
        curator: str,
        pages: PagesPart,
        database: DatabasePart,
        ledger: LedgerPart,
        visitor: Operator,
    ) -> Response:
        async with database.reading() as transaction:
            state = await ledger.current(transaction)
            row = await _named(transaction, curator)
            shown = statement.curator(state, row.number, disclosures=True)
            limits = (*state.limits.curators.get(row.number, ()), *state.limits.deployment)
        return pages.show(
            request,
            "curator-budget.html",
            visitor,
            curator=row,
            shown=shown,
            limits=limits,
            together=together,
            exact=format_exact,
        )


def _rows(events: list[Event], after: int, *, newer: bool) -> dict[str, Any]:
    return {"events": events[::-1], "older": after or None, "newer": newer}


def _credits(state: LedgerState, events: list[Event]) -> dict[int, dict[str, str]]:
    """The rounds that rows credit, by the row: round, query, and the epsilon that its curators are
    charged no longer under the query's own assumption."""
    found = {}
    for each in events:
        if not each.payload.get("credited"):
            continue
        charge = state.spending.rounds[each.payload["round"]]
        cost = charge.price.cost(PrivacyUnit.CURATOR, Scenario.ASSUMED)
        epsilon = format_amount(cost)["epsilon"]
        found[each.seq] = {"round": charge.round, "query": charge.query_id, "epsilon": epsilon}
    return found


async def _named(transaction: Transaction, curator: str) -> CuratorRow:
    found = await store.curators_named(transaction, [curator])
    if not found:
        raise UnknownCurator
    return found[0]


# --- limits --------------------------------------------------------------------------------------


def _add_limits(router: APIRouter) -> None:
    @router.get("/budget/limits")
    async def look(
        request: Request,
        pages: PagesPart,
        database: DatabasePart,
        ledger: LedgerPart,
        visitor: Operator,
    ) -> Response:
        async with database.reading() as transaction:
            limits = (await ledger.current(transaction)).limits.deployment
        lines = [*map(_line, limits), *_free()]
        return pages.show(
            request, "limits.html", visitor, lines=lines, asked=None, error=None, periods=PERIODS
        )

    @router.post("/budget/limits")
    async def change(
        request: Request,
        pages: PagesPart,
        database: DatabasePart,
        ledger: LedgerPart,
        clock: ClockPart,
        sessions: SessionsPart,
        visitor: Operator,
    ) -> Response:
        form = await own_form(request, visitor)
        lines = _lines(form)
        try:
            asked = _limits(lines)
            if form.get("step") == "set":
                async with database.begin() as transaction:
                    await routes.change_limits(transaction, ledger, visitor.principal, asked, None)
                await sessions.note(visitor, "changed the limits", "budget", "done")
                return see("/console/budget?said=limits")
            ahead = OutlookRequest(days=30, limits=asked.limits)
            outlook = await outlook_of(database, ledger, clock, ahead)
        except DomainError as error:
            return pages.show(
                request,
                "limits.html",
                visitor,
                status=422,
                lines=[*lines, *_free()],
                asked=None,
                error=error,
                periods=PERIODS,
            )
        return pages.show(
            request,
            "limits.html",
            visitor,
            asked=asked,
            outlook=outlook,
            given=form,
            together=together,
            exact=format_exact,
        )


def _free() -> list[dict[str, str]]:
    return [dict.fromkeys(_FIELDS, "")] * _FREE_LINES


def _line(limit: Limit) -> dict[str, str]:
    return {
        "epsilon": format_exact(limit.epsilon),
        "delta": "" if limit.delta is None else format_exact(limit.delta),
        "period": "" if limit.period_s is None else str(limit.period_s),
        "unit": limit.unit.value,
        "scenario": limit.scenario,
    }


def _lines(form: Mapping[str, str]) -> list[dict[str, str]]:
    """The lines of a form that have an epsilon, in their order."""
    places = [name.removeprefix("epsilon-") for name in form if name.startswith("epsilon-")]
    return [
        {name: form.get(f"{name}-{place}", "").strip() for name in _FIELDS}
        for place in places
        if form[f"epsilon-{place}"].strip()
    ]


def _limits(lines: list[dict[str, str]]) -> LimitsBody:
    """The limits of lines. Raises Invalid with the field."""
    told = [
        {
            "unit": line["unit"] or "curator",
            "scenario": line["scenario"] or "assumed",
            "epsilon": line["epsilon"],
            **({"delta": line["delta"]} if line["delta"] else {}),
            **({"period_s": _whole(line["period"])} if line["period"] else {}),
        }
        for line in lines
    ]
    return parse_json(json.dumps({"limits": told}).encode(), LimitsBody)


def _whole(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


# --- events --------------------------------------------------------------------------------------


def _add_events(router: APIRouter, settings: CoordinatorSettings) -> None:
    @router.get("/budget/events")
    async def form_of(request: Request, pages: PagesPart, visitor: Operator) -> Response:
        given = {"curators": request.query_params.get("curators", "")}
        return _form(request, pages, visitor, given, secrets.token_urlsafe(16))

    @router.post("/budget/events")
    async def record(
        request: Request,
        pages: PagesPart,
        database: DatabasePart,
        ledger: LedgerPart,
        sessions: SessionsPart,
        clock: ClockPart,
        visitor: Operator,
    ) -> Response:
        form = await own_form(request, visitor)
        try:
            update = _update(form)
            key = idempotency.form_key(
                visitor.principal.token_id,
                request.url.path,
                form.get("key", ""),
                update.canonical(),
            )
            async with database.begin() as transaction:
                if await idempotency.recall(transaction, idempotency_keys, key) is None:
                    await curator_events.record(
                        transaction,
                        ledger,
                        update,
                        visitor.principal,
                        allow_paper=settings.allow_paper,
                    )
                    done = idempotency.StoredAnswer(303, b"")
                    await idempotency.remember(
                        transaction, idempotency_keys, key, done, clock.now()
                    )
        except DomainError as error:
            return _form(request, pages, visitor, form, form.get("key", ""), error)
        await sessions.note(visitor, f"recorded: {update.kind}", "ledger", "done")
        return see("/console/budget/ledger?said=recorded")


def _form(
    request: Request,
    pages: PagesPart,
    visitor: Visitor,
    given: Mapping[str, str],
    key: str,
    error: DomainError | None = None,
) -> Response:
    return pages.show(
        request,
        "event.html",
        visitor,
        status=200 if error is None else 422,
        kinds=KINDS,
        given=given,
        key=key,
        error=error,
    )


def _update(form: Mapping[str, str]) -> Update:
    """The event that the form tells of. Raises Invalid with the field."""
    told: dict[str, Any] = {"kind": form.get("kind", "")}
    if ids := form.get("curators", "").replace(",", " ").split():
        told["curators"] = ids
    for name in ("party", "reason"):
        if text := form.get(name, "").strip():
            told[name] = text
    return parse_json(json.dumps(told).encode(), Update)
