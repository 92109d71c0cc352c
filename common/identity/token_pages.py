"""Pages of API tokens and of the audit: who may do what here, and who did.

Spec: console, section 5.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, FastAPI, Request, Response

from common.bodies import parse_json
from common.identity.token_routes import IssuedPart, IssuedTokens, NewToken, UnknownToken
from common.principals import Scope
from common.store.tokens import list_tokens, token_by_id
from common.web.auth import require
from common.web.console.browser_sessions import Sessions, Visitor
from common.web.console.pages import NoSuchPage, PagesPart, console_router, own_form, person, see
from common.web.console.sign_in import SessionsPart
from common.web.dependencies import part
from common.web.openapi import gives
from common.web.paging import PageQuery, page_response
from tacit.answers.base import Audit
from tacit.errors import DomainError, FieldError, Invalid
from tacit.wire import format_instant

Operator = Annotated[Visitor, Depends(person(Scope.OPERATOR))]

ROWS: Final = 50
DAYS: Final = 30
"""How long a token of a person holds unless another number is given."""


class NotTyped(Invalid):
    """The token that one is signed in with is revoked by its label alone."""

    name = "not_typed"
    title = "Type the label as it is shown"


@dataclass(frozen=True)
class Offered:
    """Which tokens can be made on pages: `scopes`; `of_one`: those among them that belong to one
    curator, for which the form then asks."""

    scopes: frozenset[Scope]
    of_one: frozenset[Scope] = frozenset()


router = console_router()


def add_tokens_pages(app: FastAPI, pages: APIRouter, offered: Offered) -> None:
    """Add them to the pages of an app."""
    app.state.offered_tokens = offered
    pages.routes.extend(router.routes)


async def _page_of(
    request: Request,
    pages: PagesPart,
    issued: IssuedTokens,
    visitor: Visitor,
    after: str | None = None,
    **values: Any,
) -> Response:
    offered: Offered = request.app.state.offered_tokens
    async with issued.database().reading() as transaction:
        page = await list_tokens(transaction, issued.table, after=after, limit=ROWS)
    error = values.get("error")
    return pages.show(
        request,
        "tokens.html",
        visitor,
        status=200 if error is None else 422,
        tokens=page,
        more=page[-1].id if len(page) == ROWS else None,
        scopes=sorted(offered.scopes),
        of_one=sorted(offered.of_one),
        days=DAYS,
        at=issued.clock.now(),
        own=visitor.principal.token_id,
        address=pages.address(request),
        **{"made": None, "error": None, "given": {}, "key": secrets.token_urlsafe(16)} | values,
    )


@router.get("/tokens")
async def listing(
    request: Request,
    pages: PagesPart,
    issued: IssuedPart,
    visitor: Operator,
    after: str | None = None,
    scope: str = "",
    subject: str = "",
) -> Response:
    form_values = {"scope": scope, "subject": subject}
    return await _page_of(request, pages, issued, visitor, after, given=form_values)


@router.post("/tokens")
async def make(
    request: Request,
    pages: PagesPart,
    issued: IssuedPart,
    sessions: SessionsPart,
    visitor: Operator,
) -> Response:
    form = await own_form(request, visitor)
    try:
        token, record = await issued.make(_asked(form, request.app.state.offered_tokens))
    except DomainError as error:
        return await _page_of(request, pages, issued, visitor, error=error, given=form)
    await sessions.note(visitor, "made a token", record.id, "done")
    return await _page_of(request, pages, issued, visitor, made=(token, record))


@router.get("/tokens/{token_id}")
async def one(
    request: Request,
    token_id: str,
    pages: PagesPart,
    issued: IssuedPart,
    sessions: SessionsPart,
    visitor: Operator,
) -> Response:
    async with issued.database().reading() as transaction:
        record = await token_by_id(transaction, issued.table, token_id)
    if record is None:
        raise NoSuchPage
    is_own, open_sessions = (
        token_id == visitor.principal.token_id,
        await sessions.of_token(record.hash),
    )
    return pages.show(
        request, "token.html", visitor, token=record, own=is_own, sessions=open_sessions, error=None
    )


@router.post("/tokens/{token_id}/sessions")
async def end_sessions(
    request: Request,
    token_id: str,
    issued: IssuedPart,
    sessions: SessionsPart,
    visitor: Operator,
) -> Response:
    await own_form(request, visitor)
    async with issued.database().reading() as transaction:
        record = await token_by_id(transaction, issued.table, token_id)
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
    issued: IssuedPart,
    sessions: SessionsPart,
    visitor: Operator,
) -> Response:
    form = await own_form(request, visitor)
    async with issued.database().reading() as transaction:
        record = await token_by_id(transaction, issued.table, token_id)
    if record is None:
        raise NoSuchPage
    is_own = token_id == visitor.principal.token_id
    if is_own and form.get("typed", "").strip() != (record.label or record.id):
        wrong, open_sessions = NotTyped(pointer="/typed"), await sessions.of_token(record.hash)
        return pages.show(
            request,
            "token.html",
            visitor,
            status=422,
            token=record,
            own=is_own,
            sessions=open_sessions,
            error=wrong,
        )
    await sessions.note(visitor, "revoked a token", token_id, "done")
    with suppress(UnknownToken):  # revoked by another meanwhile
        await issued.revoke(request, token_id)
    return see("/console/tokens")


@router.get("/audit")
async def audit(
    request: Request,
    pages: PagesPart,
    issued: IssuedPart,
    sessions: SessionsPart,
    visitor: Operator,
    before: str | None = None,
) -> Response:
    rows = await sessions.audited(before, ROWS)
    async with issued.database().reading() as transaction:
        labels = {
            each: record.label
            for each in {row.token_id for row in rows}
            if (record := await token_by_id(transaction, issued.table, each)) is not None
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
        summary="Actions on pages and who took them, the newest first; stored for 400 days",
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


def _asked(form: Mapping[str, str], offered: Offered) -> NewToken:
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
    if stated["scope"] in offered.of_one:
        stated["subject"] = form.get("subject", "").strip()
    token_asked = parse_json(json.dumps(stated).encode(), NewToken)
    if token_asked.scope not in offered.scopes:
        raise Invalid(errors=[FieldError("/scope", "tokens of machines are made elsewhere")])
    return token_asked
