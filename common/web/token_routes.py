"""Routes of `/v1/tokens`: an operator makes API tokens, sees which there are, and revokes them.

Which tokens a service issues is its own decision (`check`). A secret is in the answer that made
it and nowhere else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi import Path as PathParameter
from pydantic import Field
from sqlalchemy import Table

from common.runtime.clock import Clock
from common.store.transactions import Database
from common.web import tokens
from common.web.auth import Principal, require
from common.web.openapi import gives, takes
from common.web.paging import PageQuery, page_response
from common.web.tokens import Scope, TokenRecord, mint
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
    """A token to make. `subject`: the id of the one it belongs to; `valid_s`: seconds."""

    scope: Scope
    subject: Identifier | None = None
    label: Annotated[str, Field(max_length=200)] = ""
    valid_s: Annotated[int, Field(ge=60, le=10 * 366 * 86_400)] | None = None


def add_tokens(
    app: FastAPI,
    table: Table,
    clock: Clock,
    database: Callable[[], Database],
    *,
    check: Callable[[NewToken], Awaitable[None]],
    revoked: Callable[[], None],
    example: dict[str, Any],
) -> None:
    """Add them to the app.

    `engine` is called while the app runs. `check` raises an `Invalid` or `NotFound` for a token
    that this service does not issue. `revoked` is called after a revocation, so that caches other
    than the authenticator's drop the token too.
    """

    @app.post(
        "/v1/tokens",
        **gives(MadeToken, 201),
        tags=["tokens"],
        status_code=201,
        summary="A new API token, shown once",
        openapi_extra=takes(NewToken, example),
    )
    async def create_token(request: Request, _: Operator) -> dict[str, Any]:
        asked = await read_body(request, NewToken)
        await check(asked)
        lifetime = None if asked.valid_s is None else timedelta(seconds=asked.valid_s)
        token, record = mint(
            (asked.scope,), clock, subject=asked.subject, label=asked.label, lifetime=lifetime
        )
        async with database().begin() as transaction:
            await tokens.insert_token(transaction, table, record)
        return {
            "id": record.id,
            "token": token,
            "scopes": list(record.scopes),
            "subject": record.subject,
        }

    @app.post(
        "/v1/tokens/end",
        **gives(EndedTokens),
        tags=["tokens"],
        summary="End every token but the caller's own, after a theft; identities renew their own",
    )
    async def end_tokens(caller: Operator) -> dict[str, Any]:
        async with database().begin() as transaction:
            ended = await tokens.end_tokens(transaction, table, caller.token_id, clock.now())
        app.state.authenticator.forget()
        revoked()
        return {"ended": ended}

    @app.get(
        "/v1/tokens",
        **gives(ListOfTokens),
        tags=["tokens"],
        summary="Tokens, without their secrets",
    )
    async def list_tokens(request: Request, page: PageQuery, _: Operator) -> Response:
        async with database().reading() as transaction:
            found = await tokens.list_tokens(
                transaction, table, after=page.after_text(), limit=page.limit
            )
        return page_response(request, "tokens", [_public(item) for item in found], page.limit, "id")

    @app.delete("/v1/tokens/{token_id}", tags=["tokens"], status_code=204, summary="Revoke one")
    async def revoke_token(token_id: TokenId, _: Operator) -> None:
        async with database().begin() as transaction:
            if not await tokens.revoke_token(transaction, table, token_id, clock.now()):
                raise UnknownToken
        app.state.authenticator.forget()
        revoked()


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
