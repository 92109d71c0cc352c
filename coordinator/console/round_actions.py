"""What an operator does with rounds on pages: open one, close it early, end it.

What cannot be undone asks on a page of its own, which says what it costs.

Spec: console, sections 5.2 and 5.3.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any, Final

from fastapi import Response

from common.web.console.pages import console_router, see
from common.web.wire import parse_json
from coordinator import queries
from coordinator.api import rounds as api
from coordinator.api.plans import preview_of
from coordinator.budget.plans import Plan
from coordinator.console.visits import NotTyped, Operator
from coordinator.errors import UnknownQuery
from coordinator.rounds import views
from coordinator.rounds.opening import OpenRequest
from coordinator.services import Services
from coordinator.store import queries as query_store
from tacit.accounting.scenarios import Scenario
from tacit.answers.budget import BudgetPreview, ScenarioAmount
from tacit.errors import DomainError, FieldError, Invalid
from tacit.query.terms import PrivacyUnit

router = console_router()

_MOST_QUERIES: Final = 500


@router.get("/rounds/new")
async def choose(visit: Operator, services: Services, query_id: str | None = None) -> Response:
    async with services.database.reading() as transaction:
        known = await query_store.page(transaction, None, _MOST_QUERIES)
    return visit.show(
        "open-round.html",
        queries=known,
        chosen=query_id,
        error=None,
        given={},
    )


@router.post("/rounds/new")
async def opening(visit: Operator, services: Services) -> Response:
    form = await visit.form()
    try:
        asked = _asked(form)
        if form.get("step") == "open":
            key = visit.key(form.get("key", ""), asked.canonical())
            done = await api.open_requested(services, asked, key)
            round_id = json.loads(done.answer.body)["id"]
            await visit.note("opened a round", round_id)
            return see(f"/console/rounds/{round_id}?said=opened")
        async with services.database.reading() as transaction:
            row = await queries.find(transaction, asked.query_id)
        plan = Plan(query_id=asked.query_id, window=asked.window)
        cost = await preview_of(services, plan, named=False)
    except DomainError as error:
        if isinstance(error, UnknownQuery):
            raise
        async with services.database.reading() as transaction:
            known = await query_store.page(transaction, None, _MOST_QUERIES)
        return visit.show(
            "open-round.html",
            status=422,
            queries=known,
            chosen=form.get("query_id"),
            error=error,
            given=form,
        )
    return visit.show(
        "open-round-confirm.html",
        row=row,
        window=asked.window or row.query.window,
        given=form,
        cost=cost,
        each=cost_of_each(cost, row.query.privacy_unit),
        key=secrets.token_urlsafe(16),
    )


@router.post("/rounds/{round_id}/close")
async def close(visit: Operator, round_id: str, services: Services) -> Response:
    await visit.form()
    await api.close(services, round_id)
    await visit.note("closed a round early", round_id)
    return see(f"/console/rounds/{round_id}?said=closing")


@router.get("/rounds/{round_id}/abort")
async def confirm(visit: Operator, round_id: str, services: Services) -> Response:
    head = views.head(await views.find(services.database, round_id))
    return visit.show("abort-round.html", round=head, error=None)


@router.post("/rounds/{round_id}/abort")
async def abort(visit: Operator, round_id: str, services: Services) -> Response:
    form = await visit.form()
    head = views.head(await views.find(services.database, round_id))
    if form.get("typed", "").strip() != head.query:
        wrong = NotTyped(pointer="/typed")
        return visit.show("abort-round.html", status=422, round=head, error=wrong)
    await api.abort(services, round_id)
    await visit.note("ended a round without a sum", round_id)
    return see(f"/console/rounds/{round_id}?said=aborted")


def _asked(form: Mapping[str, str]) -> OpenRequest:
    """What the form asks for. Raises Invalid with the field."""
    content: dict[str, Any] = {"query_id": form.get("query_id", "")}
    start, end = form.get("start", "").strip(), form.get("end", "").strip()
    if start or end:
        content["window"] = {"start": _utc(start), "end": _utc(end)}
    if deadline := form.get("deadline_s", "").strip():
        if not deadline.isdecimal():
            raise Invalid(errors=[FieldError("/deadline_s", "must be whole seconds")])
        content["deadline_s"] = int(deadline)
    return parse_json(json.dumps(content).encode(), OpenRequest)


def _utc(text: str) -> str:
    """A field `datetime-local`, which is told to be in UTC."""
    return f"{text}Z" if text and not text.endswith("Z") else text


def cost_of_each(cost: BudgetPreview, unit: PrivacyUnit) -> ScenarioAmount:
    """What each unit pays where the query's own assumption holds."""
    rows = cost.costs.record if unit is PrivacyUnit.RECORD else cost.costs.curator
    return next(row for row in rows if row.key == Scenario.ASSUMED.value)
