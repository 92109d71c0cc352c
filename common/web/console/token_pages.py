"""Pages of API tokens and of the audit: who may do what here, and who did.

Spec: console, section 5.10.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from sqlalchemy import Table

from common.runtime.clock import Clock
from common.store.transactions import Database
from common.web.auth import Authenticator, require
from common.web.console.browser_sessions import Sessions, Visitor
from common.web.console.pages import NoSuchPage, PagesPart, own_form, person, see
from common.web.console.sign_in import SessionsPart
from common.web.dependencies import part
from common.web.openapi import gives
from common.web.paging import PageQuery, page_response
from common.web.token_routes import NewToken
from common.web.tokens import (
    Scope,
    insert_token,
    list_tokens,
    mint,
    revoke_token,
    token_by_id,
)
from common.web.wire import parse_json
from tacit.answers.base import Audit
from tacit.errors import DomainError, FieldError, Invalid
from tacit.wire import format_instant

Operator = Annotated[Visitor, Depends(person(Scope.OPERATOR))]
DatabasePart = Annotated[Database, Depends(part(Database))]
AuthenticatorPart = Annotated[Authenticator, Depends(part(Authenticator))]

ROWS: Final = 50
DAYS: Final = 30
"""How long a token of a person holds unless another number is given."""


class NotTyped(Invalid):
    """The token that one is signed in with is revoked by its label alone."""

    name = "not_typed"
    title = "Type the label as it is shown"


async def any_token(database: Database, asked: NewToken) -> None:
    """The check of a service whose tokens belong to nobody there."""


def add_tokens_pages(
    router: APIRouter,
    table: Table,
    clock: Clock,
    scopes: frozenset[Scope],
    *,
    of_one: frozenset[Scope] = frozenset(),
    check: Callable[[Database, NewToken], Awaitable[None]] = any_token,
) -> None:
    """Add them. `scopes`: of the tokens that are made here; `of_one`: those among them that belong
    to one curator, which the form then asks for. `check`: as of the API's route."""

    async def page_of(
        request: Request,
        pages: PagesPart,
        database: Database,
        visitor: Visitor,
        after: str | None = None,
        **values: Any,
    ) -> Response:
        async with database.reading() as transaction:
            found = await list_tokens(transaction, table, after=after, limit=ROWS)
        error = values.get("error")
        return pages.show(
            request,
            "tokens.html",
            visitor,
            status=200 if error is None else 422,
            tokens=found,
            more=found[-1].id if len(found) == ROWS else None,
            scopes=sorted(scopes),
            of_one=sorted(of_one),
            days=DAYS,
            at=clock.now(),
            own=visitor.principal.token_id,
            address=str(request.base_url).rstrip("/"),
            **{"made": None, "error": None, "given": {}, "key": secrets.token_urlsafe(16)} | values,
        )

    @router.get("/tokens")
    async def listing(
        request: Request,
        pages: PagesPart,
        database: DatabasePart,
        visitor: Operator,
        after: str | None = None,
        scope: str = "",
        subject: str = "",
    ) -> Response:
        given = {"scope": scope, "subject": subject}
        return await page_of(request, pages, database, visitor, after, given=given)

    @router.post("/tokens")
    async def make(
        request: Request,
        pages: PagesPart,
        database: DatabasePart,
        sessions: SessionsPart,
        visitor: Operator,
    ) -> Response:
        form = await own_form(request, visitor)
        try:
            asked = _asked(form, scopes, of_one)
            await check(database, asked)
        except DomainError as error:
            return await page_of(request, pages, database, visitor, error=error, given=form)
        assert asked.valid_s is not None
        token, record = mint(
            (asked.scope,),
            clock,
            subject=asked.subject,
            label=asked.label,
            lifetime=timedelta(seconds=asked.valid_s),
        )
        async with database.begin() as transaction:
            await insert_token(transaction, table, record)
        await sessions.note(visitor, "made a token", record.id, "done")
        return await page_of(request, pages, database, visitor, made=(token, record))

    @router.get("/tokens/{token_id}")
    async def one(
        request: Request,
        token_id: str,
        pages: PagesPart,
        database: DatabasePart,
        sessions: SessionsPart,
        visitor: Operator,
    ) -> Response:
        async with database.reading() as transaction:
            record = await token_by_id(transaction, table, token_id)
        if record is None:
            raise NoSuchPage
        own, held = token_id == visitor.principal.token_id, await sessions.of_token(record.hash)
        return pages.show(
            request, "token.html", visitor, token=record, own=own, sessions=held, error=None
        )

    @router.post("/tokens/{token_id}/sessions")
    async def end_sessions(
        request: Request,
        token_id: str,
        database: DatabasePart,
        sessions: SessionsPart,
        visitor: Operator,
    ) -> Response:
        await own_form(request, visitor)
        async with database.reading() as transaction:
            record = await token_by_id(transaction, table, token_id)
        if record is None:
            raise NoSuchPage
        await sessions.note(visitor, "ended the sessions of a token", token_id, "done")
        await sessions.end_of_token(record.hash)
        return see(f"/console/tokens/{token_id}")

    @router.post("/tokens/{token_id}")
    async def revoke(
        request: Request,
        token_id: str,
        pages: PagesPart,
        database: DatabasePart,
        authenticator: AuthenticatorPart,
        sessions: SessionsPart,
        visitor: Operator,
    ) -> Response:
        form = await own_form(request, visitor)
        async with database.reading() as transaction:
            record = await token_by_id(transaction, table, token_id)
        if record is None:
            raise NoSuchPage
        own = token_id == visitor.principal.token_id
        if own and form.get("typed", "").strip() != (record.label or record.id):
            wrong, held = NotTyped(pointer="/typed"), await sessions.of_token(record.hash)
            return pages.show(
                request,
                "token.html",
                visitor,
                status=422,
                token=record,
                own=own,
                sessions=held,
                error=wrong,
            )
        await sessions.note(visitor, "revoked a token", token_id, "done")
        async with database.begin() as transaction:
            await revoke_token(transaction, table, token_id, clock.now())
        authenticator.forget()
        return see("/console/tokens")

    @router.get("/audit")
    async def audit(
        request: Request,
        pages: PagesPart,
        database: DatabasePart,
        sessions: SessionsPart,
        visitor: Operator,
        before: str | None = None,
    ) -> Response:
        rows = await sessions.audited(before, ROWS)
        async with database.reading() as transaction:
            labels = {
                each: found.label
                for each in {row.token_id for row in rows}
                if (found := await token_by_id(transaction, table, each)) is not None
            }
        more = rows[-1].id if len(rows) == ROWS else None
        return pages.show(
            request, "audit.html", visitor, rows=rows, labels=labels, more=more, before=before
        )


def add_audit(app: FastAPI) -> None:
    """Add the route that tells the same."""

    @app.get(
        "/v1/audit",
        **gives(Audit),
        tags=["console"],
        summary="Who did what on pages, the newest first; kept for 400 days",
        dependencies=[Depends(require(Scope.OPERATOR))],
    )
    async def list_audit(
        request: Request, page: PageQuery, sessions: Annotated[Sessions, Depends(part(Sessions))]
    ) -> Response:
        rows = await sessions.audited(page.after_text(), page.limit)
        items = [
            {
                "id": row.id,
                "at": format_instant(row.at),
                "token_id": row.token_id,
                "action": row.action,
                "object": row.object,
                "outcome": row.outcome,
            }
            for row in rows
        ]
        return page_response(request, "audit", items, page.limit, "id")


def _asked(form: Mapping[str, str], scopes: frozenset[Scope], of_one: frozenset[Scope]) -> NewToken:
    """What the form asks for. Raises Invalid with the field."""
    days = form.get("days", "").strip()
    if not days.isdecimal() or not 1 <= int(days) <= 3660:
        raise Invalid(errors=[FieldError("/days", "must be whole days from 1 to 3660")])
    stated = {
        "scope": form.get("scope", ""),
        "label": form.get("label", "").strip(),
        "valid_s": int(days) * 86_400,
    }
    if not stated["label"]:
        raise Invalid(errors=[FieldError("/label", "say for whom or what it is")])
    if stated["scope"] in of_one:
        stated["subject"] = form.get("subject", "").strip()
    asked = parse_json(json.dumps(stated).encode(), NewToken)
    if asked.scope not in scopes:
        raise Invalid(errors=[FieldError("/scope", "tokens of machines are made elsewhere")])
    return asked
