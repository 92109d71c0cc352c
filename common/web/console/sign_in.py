"""Signing in and out, and the one-time codes by which `tacit console` opens a browser.

Spec: console, sections 3 and 5.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi import Query as Parameter

from common.principals import Scope
from common.store.tokens import hash_token
from common.web.auth import require
from common.web.console.browser_sessions import (
    CODE_S,
    LONGEST_CODE_S,
    Failures,
    ForAMachine,
    NotAccepted,
    Sessions,
    Visitor,
    require_own_origin,
)
from common.web.console.pages import (
    LOGIN,
    PREFIX,
    Pages,
    PagesPart,
    current_visitor,
    own_form,
    own_path,
    see,
)
from common.web.dependencies import part
from common.web.openapi import gives
from tacit.answers.registry import SignInCode

_MOST_CHARACTERS: Final = 512
CodeSeconds = Annotated[int, Parameter(ge=CODE_S, le=LONGEST_CODE_S)]
SessionsPart = Annotated[Sessions, Depends(part(Sessions))]
FailuresPart = Annotated[Failures, Depends(part(Failures))]
MaybeVisitor = Annotated[Visitor | None, Depends(current_visitor)]


def add_sign_in(router: APIRouter) -> None:
    """Add the pages of signing in and out."""

    @router.get("/login")
    async def page(request: Request, pages: PagesPart, visitor: MaybeVisitor) -> Response:
        target = own_path(request.query_params.get("next"))
        return pages.show(request, "login.html", visitor, wanted=target, error=None)

    @router.post("/login")
    async def sign_in(
        request: Request, pages: PagesPart, sessions: SessionsPart, failures: FailuresPart
    ) -> Response:
        require_own_origin(request)
        address = request.client.host if request.client is not None else ""
        async with request.form() as form:
            fields = {name: value for name, value in form.items() if isinstance(value, str)}
        target = own_path(fields.get("next"))
        try:
            failures.check(address)
            session = await _begin(sessions, fields)
        except (NotAccepted, ForAMachine) as error:
            failures.add(address)
            return pages.show(request, "login.html", None, status=401, wanted=target, error=error)
        answer = see(target)
        set_session(answer, pages, session)
        return answer

    @router.post("/logout")
    async def sign_out(
        request: Request, pages: PagesPart, sessions: SessionsPart, visitor: MaybeVisitor
    ) -> Response:
        answer = see(LOGIN)
        if visitor is not None:
            await own_form(request, visitor)
            await sessions.end(visitor.session)
        answer.delete_cookie(pages.cookie, path=pages.root + PREFIX)
        return answer


def set_session(answer: Response, pages: Pages, session: str) -> None:
    """Give a browser its session."""
    answer.set_cookie(
        pages.cookie,
        session,
        path=pages.root + PREFIX,
        httponly=True,
        samesite="strict",
        secure=pages.https,
    )


def add_codes(app: FastAPI, *scopes: Scope) -> None:
    """Add the route by which the command line makes a code for a browser."""

    @app.post(
        "/v1/console/codes",
        **gives(SignInCode, 201),
        tags=["console"],
        status_code=201,
        summary="A code that signs a browser in once, within a minute or `valid_s` seconds",
        dependencies=[Depends(require(*scopes))],
    )
    async def create_console_code(
        request: Request, sessions: SessionsPart, valid_s: CodeSeconds = CODE_S
    ) -> dict[str, Any]:
        token = request.headers["authorization"].partition(" ")[2].strip()
        code = await sessions.offer_code(hash_token(token), valid_s)
        return {"code": code, "path": f"{LOGIN}#{code}", "valid_s": valid_s}


async def _begin(sessions: Sessions, fields: dict[str, str]) -> str:
    """Raises NotAccepted, ForAMachine."""
    code, token = fields.get("code", ""), fields.get("token", "").strip()
    if code and len(code) <= _MOST_CHARACTERS:
        return await sessions.begin_by_code(code)
    return await sessions.begin(token)
