"""Stop and start again, on pages that say what that means before it is done.

Spec: console, section 6.6.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from common.web.console.pages import PagesPart, own_form, person, see
from common.web.console.sessions import Visitor
from common.web.console.sign_in import SessionsPart
from common.web.tokens import Scope
from curator.console.given import ClockPart, Person, typed_name
from curator.owner import stopping
from curator.owner.stopping import Stop
from curator.store import parties as store
from curator.web import DatabasePart
from tacit.errors import Invalid

Operator = Annotated[Visitor, Depends(person(Scope.OPERATOR))]


class NotTyped(Invalid):
    """What many depend on is asked for by its name."""

    name = "not_typed"
    title = "Type it as it is shown"


def add_stop(router: APIRouter) -> None:
    """Add the forms of stopping."""

    @router.get("/stop")
    async def confirm_all(
        request: Request, pages: PagesPart, database: DatabasePart, visitor: Operator
    ) -> Response:
        async with database.reading() as transaction:
            total = await store.hosted_curators(transaction)
        return pages.show(request, "stop.html", visitor, curator=None, typed=str(total), error=None)

    @router.post("/stop")
    async def stop_all(
        request: Request,
        pages: PagesPart,
        database: DatabasePart,
        clock: ClockPart,
        sessions: SessionsPart,
        visitor: Operator,
    ) -> Response:
        form = await own_form(request, visitor)
        async with database.reading() as transaction:
            total = str(await store.hosted_curators(transaction))
        if form.get("typed", "").strip() != total:
            wrong = NotTyped(pointer="/typed")
            return pages.show(
                request, "stop.html", visitor, status=422, curator=None, typed=total, error=wrong
            )
        async with database.begin() as transaction:
            await stopping.set_process(transaction, Stop(stopped=True), clock.now())
        await sessions.note(visitor, "stopped all curators", "", "done")
        return see("/console?said=stopped")

    @router.post("/start")
    async def start_all(
        request: Request,
        database: DatabasePart,
        clock: ClockPart,
        sessions: SessionsPart,
        visitor: Operator,
    ) -> Response:
        await own_form(request, visitor)
        async with database.begin() as transaction:
            await stopping.set_process(transaction, Stop(stopped=False), clock.now())
        await sessions.note(visitor, "started all curators again", "", "done")
        return see("/console?said=started")

    @router.get("/curators/{curator_id}/stop")
    async def confirm(
        request: Request, curator_id: str, pages: PagesPart, database: DatabasePart, visitor: Person
    ) -> Response:
        name = await typed_name(database, curator_id, visitor.principal)
        return pages.show(request, "stop.html", visitor, curator=name, typed=name, error=None)

    @router.post("/curators/{curator_id}/stop")
    async def stop(
        request: Request,
        curator_id: str,
        pages: PagesPart,
        database: DatabasePart,
        clock: ClockPart,
        sessions: SessionsPart,
        visitor: Person,
    ) -> Response:
        form = await own_form(request, visitor)
        name = await typed_name(database, curator_id, visitor.principal)
        if form.get("typed", "").strip() != name:
            wrong = NotTyped(pointer="/typed")
            return pages.show(
                request, "stop.html", visitor, status=422, curator=name, typed=name, error=wrong
            )
        async with database.begin() as transaction:
            caller, asked = visitor.principal, Stop(stopped=True)
            await stopping.set_curator(transaction, name, caller, asked, clock.now())
        await sessions.note(visitor, "stopped a curator", name, "done")
        return see(f"/console/curators/{name}?said=stopped")

    @router.post("/curators/{curator_id}/start")
    async def start(
        request: Request,
        curator_id: str,
        database: DatabasePart,
        clock: ClockPart,
        sessions: SessionsPart,
        visitor: Person,
    ) -> Response:
        await own_form(request, visitor)
        name = await typed_name(database, curator_id, visitor.principal)
        async with database.begin() as transaction:
            caller, asked = visitor.principal, Stop(stopped=False)
            await stopping.set_curator(transaction, name, caller, asked, clock.now())
        await sessions.note(visitor, "started a curator again", name, "done")
        return see(f"/console/curators/{name}?said=started")
