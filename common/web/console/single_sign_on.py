"""Pages by which a person signs in, and out, at the identity provider.

A sign-in makes the token that stands for the person, with the role of the person's groups and for
`oidc_session_s`; nobody is ever shown it. So everything that holds of tokens and their sessions
holds here: they are listed, revoked, audited.

The provider sends the browser back from another site, to which our cookie, `SameSite=Strict`, is
not sent; so the answer to that is a page of ours that leads on by itself.

Spec: console, section 3.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Request, Response

from common.runtime.clock import Clock
from common.runtime.logs import get_logger
from common.runtime.settings import ConsoleSettings
from common.web.client import Transport
from common.web.console.browser_sessions import Sessions
from common.web.console.identity_provider import (
    SIGN_IN_FAILED,
    Attempt,
    IdentityProvider,
    NoRole,
    ProviderRefused,
)
from common.web.console.pages import LOGIN, PREFIX, Pages, PagesPart, own_path, see
from common.web.console.sign_in import SessionsPart, set_session
from common.web.dependencies import part
from tacit.errors import DomainError, Unauthenticated

BEGIN: Final = f"{PREFIX}/sso"
_BEGUN_FOR_S: Final = 600
_LONGEST_CODE: Final = 4096
_LABEL: Final = "single sign-on: "
_log = get_logger("tacit.console")
ProviderPart = Annotated[IdentityProvider, Depends(part(IdentityProvider))]


class NotBegunHere(Unauthenticated):
    """The browser did not begin this sign-in, or long ago."""

    name = "not_begun_here"
    title = "This sign-in was not begun in this browser, or more than 10 minutes ago: begin again"


def provider_of(
    settings: ConsoleSettings, clock: Clock, transports: Mapping[str, Transport] | None
) -> tuple[IdentityProvider, ...]:
    """The provider, if the settings name one; `transports` may replace the network to it."""
    issuer = settings.oidc_issuer
    if issuer is None:
        return ()
    return (IdentityProvider(settings, clock, (transports or {}).get(issuer)),)


def add_single_sign_on(router: APIRouter, session_s: int) -> None:
    """Add the pages; a session is good for `session_s` from the sign-in on."""

    @router.get("/sso")
    async def begin(request: Request, pages: PagesPart, provider: ProviderPart) -> Response:
        target, attempt = own_path(request.query_params.get("next")), Attempt.new()
        try:
            address = await provider.sign_in_address(attempt)
        except SIGN_IN_FAILED as error:
            return _failed(request, pages, target, error)
        answer = see(address)
        answer.set_cookie(
            _cookie(pages),
            f"{attempt.secret}.{base64.urlsafe_b64encode(target.encode()).decode()}",
            max_age=_BEGUN_FOR_S,
            path=pages.root + BEGIN,
            httponly=True,
            samesite="lax",  # the provider sends the browser back from its own site
            secure=pages.https,
        )
        return answer

    @router.get("/sso/callback")
    async def come_back(
        request: Request, pages: PagesPart, provider: ProviderPart, sessions: SessionsPart
    ) -> Response:
        target = PREFIX
        try:
            attempt, target = _begun(request, pages)
            session = await _begin(request, attempt, provider, sessions, session_s)
        except (NotBegunHere, *SIGN_IN_FAILED) as error:
            answer = _failed(request, pages, target, error)
        else:
            answer = pages.show(request, "signed-in.html", None, wanted=target)
            set_session(answer, pages, session)
        answer.delete_cookie(_cookie(pages), path=pages.root + BEGIN)
        return answer

    @router.get("/sso/end")
    async def end(request: Request, pages: PagesPart, provider: ProviderPart) -> Response:
        try:
            return see(await provider.sign_out_address() or LOGIN)
        except SIGN_IN_FAILED as error:
            return _failed(request, pages, PREFIX, error)


async def _begin(
    request: Request,
    attempt: Attempt,
    provider: IdentityProvider,
    sessions: Sessions,
    session_s: int,
) -> str:
    """Begin a session for the person that the provider names. Raises one of SIGN_IN_FAILED."""
    code = request.query_params.get("code", "")
    if "error" in request.query_params or not 0 < len(code) <= _LONGEST_CODE:
        raise ProviderRefused("it sent the browser back without a code")
    person = await provider.person(code, attempt)
    lifetime = timedelta(seconds=session_s)
    session = await sessions.begin_of_person(_LABEL + person.subject, person.role, lifetime)
    if session is None:
        raise NoRole
    return session


def _begun(request: Request, pages: Pages) -> tuple[Attempt, str]:
    """The attempt that this browser began, and the page that it requested. Raises NotBegunHere
    unless the address is the answer to it."""
    secret, _, packed = request.cookies.get(_cookie(pages), "").partition(".")
    attempt = Attempt(secret)
    state = request.query_params.get("state", "")
    if not secret or not hmac.compare_digest(state.encode(), attempt.state.encode()):
        raise NotBegunHere
    try:
        return attempt, own_path(base64.urlsafe_b64decode(packed).decode())
    except (binascii.Error, ValueError):
        return attempt, PREFIX


def _failed(request: Request, pages: Pages, target: str, error: DomainError) -> Response:
    _log.warning("single_sign_on_failed", problem=error.name, reason=error.detail)
    return pages.show(request, "login.html", None, status=401, wanted=target, error=error)


def _cookie(pages: Pages) -> str:
    return f"{pages.cookie}_sso"
