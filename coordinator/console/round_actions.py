"""What an operator does with rounds on pages: open one, close it early, end it.

What cannot be undone asks on a page of its own, which says what it costs.

Spec: console, sections 5.2 and 5.3.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request, Response

from common.bodies import parse_json
from common.principals import Scope
from common.web import idempotency
from common.web.console.browser_sessions import Visitor
from common.web.console.pages import PagesPart, own_form, person, see
from common.web.console.sign_in import SessionsPart
from common.web.dependencies import part
from coordinator import queries
from coordinator.budget.ledger import Ledger
from coordinator.budget.plan_routes import preview_of
from coordinator.budget.plans import Plan
from coordinator.errors import UnknownQuery
from coordinator.rounds import routes, views
from coordinator.rounds.conductor import Conductor
from coordinator.rounds.context import Conduct
from coordinator.rounds.opening import OpenRequest
from coordinator.store import queries as query_store
from coordinator.web import ClockPart, DatabasePart
from tacit.accounting.scenarios import Scenario
from tacit.errors import DomainError, FieldError, Invalid

Operator = Annotated[Visitor, Depends(person(Scope.OPERATOR))]
ConductorPart = Annotated[Conductor, Depends(part(Conductor))]
_MOST_QUERIES: Final = 500


class NotTyped(Invalid):
    """What cannot be undone is asked for by its name."""

    name = "not_typed"
    title = "Type the name as it is shown"


def add_actions(router: APIRouter) -> None:
    """Add the forms of rounds."""

    @router.get("/rounds/new")
    async def choose(
        request: Request,
        pages: PagesPart,
        database: DatabasePart,
        visitor: Operator,
        query_id: str | None = None,
    ) -> Response:
        async with database.reading() as transaction:
            known = await query_store.page(transaction, None, _MOST_QUERIES)
        return pages.show(
            request,
            "open-round.html",
            visitor,
            queries=known,
            chosen=query_id,
            error=None,
            given={},
        )

    @router.post("/rounds/new")
    async def opening(
        request: Request,
        pages: PagesPart,
        database: DatabasePart,
        clock: ClockPart,
        ledger: Annotated[Ledger, Depends(part(Ledger))],
        conduct: Annotated[Conduct, Depends(part(Conduct))],
        conductor: ConductorPart,
        sessions: SessionsPart,
        visitor: Operator,
    ) -> Response:
        form = await own_form(request, visitor)
        try:
            asked = _asked(form)
            if form.get("step") == "open":
                content = asked.canonical()
                token_id = visitor.principal.token_id
                key = idempotency.form_key(token_id, request.url.path, form.get("key", ""), content)
                done = await routes.open_requested(conduct, asked, key)
                conductor.wake()
                round_id = json.loads(done.answer.body)["id"]
                await sessions.note(visitor, "opened a round", round_id, "done")
                return see(f"/console/rounds/{round_id}?said=opened")
            async with database.reading() as transaction:
                row = await queries.find(transaction, asked.query_id)
            plan = Plan(query_id=asked.query_id, window=asked.window)
            cost = await preview_of(database, ledger, clock, plan, named=False)
        except DomainError as error:
            if isinstance(error, UnknownQuery):
                raise
            async with database.reading() as transaction:
                known = await query_store.page(transaction, None, _MOST_QUERIES)
            return pages.show(
                request,
                "open-round.html",
                visitor,
                status=422,
                queries=known,
                chosen=form.get("query_id"),
                error=error,
                given=form,
            )
        return pages.show(
            request,
            "open-round-confirm.html",
            visitor,
            row=row,
            window=asked.window or row.query.window,
            given=form,
            cost=cost,
            each=_each(cost, row.query.privacy_unit.value),
            key=secrets.token_urlsafe(16),
        )

    @router.post("/rounds/{round_id}/close")
    async def close(
        request: Request,
        round_id: str,
        database: DatabasePart,
        clock: ClockPart,
        conductor: ConductorPart,
        sessions: SessionsPart,
        visitor: Operator,
    ) -> Response:
        await own_form(request, visitor)
        await routes.close(database, clock, round_id)
        conductor.wake(round_id)
        await sessions.note(visitor, "closed a round early", round_id, "done")
        return see(f"/console/rounds/{round_id}?said=closing")

    @router.get("/rounds/{round_id}/abort")
    async def confirm(
        request: Request, round_id: str, pages: PagesPart, database: DatabasePart, visitor: Operator
    ) -> Response:
        head = views.head(await views.find(database, round_id))
        return pages.show(request, "abort-round.html", visitor, round=head, error=None)

    @router.post("/rounds/{round_id}/abort")
    async def abort(
        request: Request,
        round_id: str,
        pages: PagesPart,
        database: DatabasePart,
        conductor: ConductorPart,
        sessions: SessionsPart,
        visitor: Operator,
    ) -> Response:
        form = await own_form(request, visitor)
        head = views.head(await views.find(database, round_id))
        if form.get("typed", "").strip() != head["query"]:
            wrong = NotTyped(pointer="/typed")
            return pages.show(
                request, "abort-round.html", visitor, status=422, round=head, error=wrong
            )
        await routes.abort(database, round_id)
        conductor.wake(round_id)
        await sessions.note(visitor, "ended a round without a sum", round_id, "done")
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


def _each(cost: Mapping[str, Any], unit: str) -> Mapping[str, str]:
    """What each unit pays where the query's own assumption holds."""
    found: list[dict[str, str]] = cost["costs"][unit]
    return next(line for line in found if line["key"] == Scenario.ASSUMED.value)
