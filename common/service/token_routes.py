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
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.responses import JSONResponse

from common.errors import NotFound
from common.models.base import WireModel, format_instant
from common.models.query import Identifier
from common.service.auth import Principal, require
from common.service.bodies import takes
from common.service.clock import Clock
from common.service.database import reading
from common.service.paging import PageQuery, next_link
from common.service.tokens import (
    Scope,
    TokenRecord,
    insert_token,
    list_tokens,
    mint,
    revoke_token,
)
from common.service.wire import read_body

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
    engine: Callable[[], AsyncEngine],
    *,
    check: Callable[[NewToken], Awaitable[None]],
    revoked: Callable[[], None],
    example: dict[str, Any],
) -> None:
    """Add them to the app.

    `engine` is asked while the app runs. `check` raises an `Invalid` or `NotFound` for a token that
    this service does not issue. `revoked` is called after a revocation, so that whatever remembers
    tokens beside the authenticator forgets them too.
    """

    @app.post(
        "/v1/tokens",
        tags=["tokens"],
        status_code=201,
        summary="A new API token, shown once",
        openapi_extra=takes(NewToken, example),
    )
    async def new_token(request: Request, _: Operator) -> dict[str, Any]:
        asked = await read_body(request, NewToken)
        await check(asked)
        lifetime = None if asked.valid_s is None else timedelta(seconds=asked.valid_s)
        token, record = mint(
            (asked.scope,), clock, subject=asked.subject, label=asked.label, lifetime=lifetime
        )
        async with engine().begin() as connection:
            await insert_token(connection, table, record)
        return {
            "id": record.id,
            "token": token,
            "scopes": list(record.scopes),
            "subject": record.subject,
        }

    @app.get("/v1/tokens", tags=["tokens"], summary="Tokens, without their secrets")
    async def tokens(request: Request, page: PageQuery, _: Operator) -> Response:
        async with reading(engine()) as connection:
            found = await list_tokens(connection, table, after=page.after_text(), limit=page.limit)
        headers = next_link(request, found[-1].id) if len(found) == page.limit else None
        return JSONResponse({"tokens": [_public(item) for item in found]}, headers=headers)

    @app.delete("/v1/tokens/{token_id}", tags=["tokens"], status_code=204, summary="Revoke one")
    async def revoke(token_id: TokenId, _: Operator) -> None:
        async with engine().begin() as connection:
            if not await revoke_token(connection, table, token_id, clock.now()):
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
    }
