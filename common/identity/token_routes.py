"""Routes of `/v1/tokens`: an operator makes API tokens, sees which there are, and revokes them.

Which tokens a service issues is its own decision (`check`). A secret is in the answer that made
it and nowhere else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi import Path as PathParameter
from pydantic import Field
from sqlalchemy import Table

from common.principals import Principal, Scope
from common.runtime.clock import Clock
from common.store import tokens
from common.store.tokens import TokenRecord, mint
from common.store.transactions import Database
from common.web.auth import require
from common.web.openapi import add_routes, api_router, gives, takes
from common.web.paging import PageQuery, page_response
from common.web.wire import read_body
from tacit.answers.base import ListOfTokens, MadeToken
from tacit.answers.registry import EndedTokens
from tacit.errors import NotFound
from tacit.query.terms import Identifier
from tacit.wire import WireModel, format_instant

Operator = Annotated[Principal, Depends(require(Scope.OPERATOR))]
TokenId = Annotated[str, PathParameter(pattern=r"^[0-9A-Za-z-]{1,36}$")]


class UnknownToken(NotFound):
    """No token has this id, or it was revoked before."""

    name = "unknown_token"
    title = "There is no such token"


class NewToken(WireModel):
    """A token to make. `subject`: the id of its owner; `valid_s`: seconds."""

    scope: Scope
    subject: Identifier | None = None
    label: Annotated[str, Field(max_length=200)] = ""
    valid_s: Annotated[int, Field(ge=60, le=10 * 366 * 86_400)] | None = None


@dataclass(frozen=True)
class IssuedTokens:
    """The API tokens of a service.

    `database` is called while the app runs. `check` raises an `Invalid` or `NotFound` for a
    token that this service does not issue. `revoked` is called after a revocation, so that
    caches other than the authenticator's drop the token as well.
    """

    table: Table
    clock: Clock
    database: Callable[[], Database]
    check: Callable[[NewToken], Awaitable[None]]
    revoked: Callable[[], None] = lambda: None

    async def make(self, request: NewToken) -> tuple[str, TokenRecord]:
        """A new token, and what is kept of it. Raises what `check` raises."""
        await self.check(request)
        lifetime = None if request.valid_s is None else timedelta(seconds=request.valid_s)
        token, record = mint(
            (request.scope,),
            self.clock,
            subject=request.subject,
            label=request.label,
            lifetime=lifetime,
        )
        async with self.database().begin() as transaction:
            await tokens.insert_token(transaction, self.table, record)
        return token, record

    async def revoke(self, request: Request, token_id: str) -> None:
        """Revoke one. Raises UnknownToken."""
        async with self.database().begin() as transaction:
            if not await tokens.revoke_token(transaction, self.table, token_id, self.clock.now()):
                raise UnknownToken
        request.app.state.authenticator.forget()
        self.revoked()


def add_tokens(app: FastAPI, issued: IssuedTokens, example: dict[str, Any]) -> None:
    """Add the routes to an app; `example`: a body that asks for a token."""
    app.state.issued_tokens = issued
    app.add_api_route(
        "/v1/tokens",
        create_token,
        methods=["POST"],
        **gives(MadeToken, 201),
        tags=["tokens"],
        status_code=201,
        summary="A new API token, shown once",
        openapi_extra=takes(NewToken, example),
    )
    add_routes(app, router)


async def issued_tokens(request: Request) -> IssuedTokens:
    """A dependency: the tokens of the app that answers."""
    issued: IssuedTokens = request.app.state.issued_tokens
    return issued


IssuedPart = Annotated[IssuedTokens, Depends(issued_tokens)]
router = api_router("tokens")


async def create_token(request: Request, issued: IssuedPart, _: Operator) -> dict[str, Any]:
    token, record = await issued.make(await read_body(request, NewToken))
    return {
        "id": record.id,
        "token": token,
        "scopes": list(record.scopes),
        "subject": record.subject,
    }


@router.post(
    "/v1/tokens/end",
    **gives(EndedTokens),
    summary="End every token but the caller's own, after a theft; identities renew their own",
)
async def end_tokens(request: Request, issued: IssuedPart, caller: Operator) -> dict[str, Any]:
    async with issued.database().begin() as transaction:
        ended = await tokens.end_tokens(
            transaction, issued.table, caller.token_id, issued.clock.now()
        )
    request.app.state.authenticator.forget()
    issued.revoked()
    return {"ended": ended}


@router.get("/v1/tokens", **gives(ListOfTokens), summary="Tokens, without their secrets")
async def list_tokens(
    request: Request, page: PageQuery, issued: IssuedPart, _: Operator
) -> Response:
    async with issued.database().reading() as transaction:
        rows = await tokens.list_tokens(
            transaction, issued.table, after=page.after_text(), limit=page.limit
        )
    return page_response(request, "tokens", [_public(row) for row in rows], page.limit, "id")


@router.delete("/v1/tokens/{token_id}", status_code=204, summary="Revoke one")
async def revoke_token(
    request: Request, token_id: TokenId, issued: IssuedPart, _: Operator
) -> None:
    await issued.revoke(request, token_id)


def _public(record: TokenRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "scopes": list(record.scopes),
        "subject": record.subject,
        "label": record.label,
        "created": format_instant(record.created),
        "expires": record.expires and format_instant(record.expires),
        "revoked": record.revoked and format_instant(record.revoked),
        "last_used": record.last_used and record.last_used.date().isoformat(),
    }
