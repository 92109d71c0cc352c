"""Pages of the ledger, and what an operator changes there: limits, and events of curators.

Spec: console, section 5.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from fastapi import Response

from common.bodies import parse_json
from common.store.transactions import Transaction
from common.web import idempotency
from common.web.console.pages import console_router, see
from coordinator.api.budget import LimitsBody, change_limits, verification_of
from coordinator.budget import ledger, statement
from coordinator.budget.ledger import Update
from coordinator.budget.limits import Limit
from coordinator.budget.outlook import outlook_of
from coordinator.budget.plans import OutlookRequest
from coordinator.budget.state import LedgerState
from coordinator.console.budget import PERIODS, SAID, guessed, together
from coordinator.console.visits import Operator, Visit
from coordinator.errors import UnknownCurator
from coordinator.models.budget_ledger import Event
from coordinator.services import CoordinatorServices, Services
from coordinator.store import ledger as store
from coordinator.store import queries as query_store
from coordinator.store.ledger import CuratorRow
from coordinator.store.tables import idempotency_keys
from tacit.accounting.amounts import format_amount
from tacit.accounting.scenarios import Scenario
from tacit.answers.budget import LedgerVerification
from tacit.errors import DomainError
from tacit.query.terms import PrivacyUnit
from tacit.wire import format_exact

router = console_router()


ROWS: Final = 50
_FREE_LINES: Final = 2
_FIELDS: Final = ("currency", "epsilon", "delta", "period", "unit", "scenario")
KINDS: Final = {
    "flagged": "its data is suspected to be polluted; it stays among the curators",
    "cleansed": "its data was corrected, and it follows the protocol",
    "reinstated": "the suspicion was wrong",
    "non_compliant": "it adds no noise: the sources' bounds become infinite",
    "refreshed": "its data changed; no budget comes back, since the old data was released too",
    "left": "it is no longer awaited; its history stays",
    "joined": "it left and is back, with its old history",
}


@router.get("/budget/ledger")
async def list_events(
    visit: Operator, services: Services, upto: int | None = None, curator: str | None = None
) -> Response:
    return await _page(visit, services, upto=upto, curator=curator)


@router.post("/budget/ledger")
async def verify_ledger(visit: Operator, services: Services) -> Response:
    await visit.form()
    verified = await verification_of(services)
    await visit.note("verified the ledger", "ledger", "whole" if verified.verified else "broken")
    return await _page(visit, services, verified=verified)


async def _page(
    visit: Visit,
    services: CoordinatorServices,
    *,
    upto: int | None = None,
    curator: str | None = None,
    verified: LedgerVerification | None = None,
) -> Response:
    """The newest rows up to `upto`, or the oldest about one curator."""
    async with services.database.reading() as transaction:
        newest, _ = await store.head(transaction)
        last = newest if upto is None else min(max(upto, 0), newest)
        if curator is None:
            after = max(0, last - ROWS)
            events = await store.after(transaction, after, last - after)
        else:
            row = await _named(transaction, curator)
            events, after = await store.about(transaction, row.number, 0, ROWS), 0
        taken_back = _credits(await services.ledger.current(transaction), events)
    return visit.show(
        "ledger.html",
        events=events[::-1],
        older=after or None,
        newer=last < newest,
        credits=taken_back,
        curator=curator,
        verified=verified,
        said=visit.said(SAID),
    )


@router.get("/budget/curators")
async def find_curator(_: Operator, curator: str = "") -> Response:
    return see(f"/console/budget/curators/{quote(curator, safe='')}")


@router.get("/budget/curators/{curator}")
async def show_curator(visit: Operator, curator: str, services: Services) -> Response:
    async with services.database.reading() as transaction:
        state = await services.ledger.current(transaction)
        row = await _named(transaction, curator)
        exact = await query_store.without_noise(transaction)
        shown = statement.curator(state, row, exact, disclosures=True)
        limits = (*state.limits.curators.get(row.number, ()), *state.limits.deployment)
    return visit.show(
        "curator-budget.html",
        curator=row,
        shown=shown,
        limits=limits,
        together=together,
        guessed=guessed,
        exact=format_exact,
    )


def _credits(state: LedgerState, events: list[Event]) -> dict[int, dict[str, str]]:
    """The rounds that rows credit, by row: round, query, and the epsilon that its curators are
    no longer charged under the query's own assumption."""
    credit_of = {}
    for event in events:
        if not event.payload.get("credited"):
            continue
        charge = state.spending.rounds[event.payload["round"]]
        cost = charge.price.cost(PrivacyUnit.CURATOR, Scenario.ASSUMED)
        epsilon = format_amount(cost)["epsilon"]
        credit_of[event.seq] = {"round": charge.round, "query": charge.query_id, "epsilon": epsilon}
    return credit_of


async def _named(transaction: Transaction, curator: str) -> CuratorRow:
    curators = await store.curators_named(transaction, [curator])
    if not curators:
        raise UnknownCurator
    return curators[0]


# --- limits --------------------------------------------------------------------------------------


@router.get("/budget/limits")
async def show_limits(visit: Operator, services: Services) -> Response:
    async with services.database.reading() as transaction:
        limits = (await services.ledger.current(transaction)).limits.deployment
    lines = [*map(_line, limits), *_free()]
    return visit.show("limits.html", lines=lines, asked=None, error=None, periods=PERIODS)


@router.post("/budget/limits")
async def change_deployment_limits(visit: Operator, services: Services) -> Response:
    form = await visit.form()
    lines = _lines(form)
    try:
        limits_asked = _limits(lines)
        if form.get("step") == "set":
            async with services.database.begin() as transaction:
                await change_limits(
                    transaction, services.ledger, visit.visitor.principal, limits_asked, None
                )
            await visit.note("changed the limits", "budget")
            return see("/console/budget?said=limits")
        ahead = OutlookRequest(days=30, limits=limits_asked.limits)
        outlook = await outlook_of(services.database, services.ledger, services.clock, ahead)
    except DomainError as error:
        return visit.show(
            "limits.html",
            status=422,
            lines=[*lines, *_free()],
            asked=None,
            error=error,
            periods=PERIODS,
        )
    return visit.show(
        "limits.html",
        asked=limits_asked,
        outlook=outlook,
        given=form,
        together=together,
        guessed=guessed,
        exact=format_exact,
    )


def _free() -> list[dict[str, str]]:
    return [dict.fromkeys(_FIELDS, "")] * _FREE_LINES


def _line(limit: Limit) -> dict[str, str]:
    return {
        "currency": limit.currency.value,
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
    limit_rows = [
        {
            "unit": line["unit"] or "curator",
            "scenario": line["scenario"] or "assumed",
            "currency": line["currency"] or "epsilon",
            "epsilon": line["epsilon"],
            **({"delta": line["delta"]} if line["delta"] else {}),
            **({"period_s": _whole(line["period"])} if line["period"] else {}),
        }
        for line in lines
    ]
    return parse_json(json.dumps({"limits": limit_rows}).encode(), LimitsBody)


def _whole(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


# --- events --------------------------------------------------------------------------------------


@router.get("/budget/events")
async def show_event_form(visit: Operator) -> Response:
    form_values = {"curators": visit.request.query_params.get("curators", "")}
    return _form(visit, form_values, secrets.token_urlsafe(16))


@router.post("/budget/events")
async def record_event(visit: Operator, services: Services) -> Response:
    form = await visit.form()
    try:
        update = _update(form)
        key = visit.key(
            form.get("key", ""),
            update.canonical(),
        )
        async with services.database.begin() as transaction:
            if await idempotency.recall(transaction, idempotency_keys, key) is None:
                await ledger.record(
                    transaction,
                    services.ledger,
                    update,
                    visit.visitor.principal,
                    allow_paper=services.settings.allow_paper,
                )
                done = idempotency.StoredAnswer(303, b"")
                await idempotency.remember(
                    transaction, idempotency_keys, key, done, services.clock.now()
                )
    except DomainError as error:
        return _form(visit, form, form.get("key", ""), error)
    await visit.note(f"recorded: {update.kind}", "ledger")
    return see("/console/budget/ledger?said=recorded")


def _form(
    visit: Visit, form_values: Mapping[str, str], key: str, error: DomainError | None = None
) -> Response:
    return visit.show(
        "event.html",
        status=200 if error is None else 422,
        kinds=KINDS,
        given=form_values,
        key=key,
        error=error,
    )


def _update(form: Mapping[str, str]) -> Update:
    """The event that the form records. Raises Invalid with the field."""
    content: dict[str, Any] = {"kind": form.get("kind", "")}
    if ids := form.get("curators", "").replace(",", " ").split():
        content["curators"] = ids
    for name in ("party", "reason"):
        if text := form.get(name, "").strip():
            content[name] = text
    return parse_json(json.dumps(content).encode(), Update)
