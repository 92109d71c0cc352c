"""All pages of the curator's console, and what they need of the service; the page of the parties.

That page lists their coordinators, aggregators and keys, and enrols another (spec: console, section
6). A join token's services and fingerprints are shown before anything is sent. Until then only
the form has the token.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Final

from fastapi import FastAPI, Response

from common.identity.token_pages import Offered, add_audit, add_tokens_pages
from common.principals import Scope
from common.runtime.clock import Clock
from common.store.database import exclusive
from common.store.transactions import Database
from common.web.auth import Authenticator
from common.web.client import Transport
from common.web.console.browser_sessions import Failures, Sessions
from common.web.console.pages import (
    About,
    Entry,
    Pages,
    add_front_door,
    add_static,
    console_router,
    see,
)
from common.web.console.sign_in import add_codes, add_sign_in
from common.web.console.single_sign_on import add_single_sign_on, provider_of
from curator.console import contributions_page, policy, readings
from curator.console.view import OperatorView, View
from curator.parties.enrolment import curators_of, parse_token
from curator.parties.routes import After, EnrollerPart
from curator.settings import CuratorSettings
from curator.store import parties as store
from curator.store.tables import console
from tacit.crypto.signing import fingerprint
from tacit.errors import DomainError

PEOPLE: Final = frozenset({Scope.OPERATOR, Scope.CURATOR})
_ENTRIES: Final = (
    Entry("Curators", "/console", frozenset({Scope.OPERATOR})),
    Entry("Readings", "/console/readings", PEOPLE),
    Entry("Policy", "/console/policy", frozenset({Scope.OPERATOR})),
    Entry("What left", "/console/curators", frozenset({Scope.CURATOR})),
    Entry("Parties", "/console/parties", frozenset({Scope.OPERATOR})),
    Entry("Tokens", "/console/tokens", frozenset({Scope.OPERATOR})),
)
_MADE: Final = frozenset({Scope.OPERATOR, Scope.CURATOR, Scope.DEVICE})
_OF_ONE: Final = _MADE - {Scope.OPERATOR}
_NAME: Final = "console_name"


async def console_parts(
    settings: CuratorSettings,
    database: Database,
    authenticator: Authenticator,
    clock: Clock,
    version: str,
    transports: Mapping[str, Transport] | None,
) -> tuple[object, ...]:
    """The parts that pages use, once the service has started."""
    about = About("curator", "", await _name(database), version)
    sessions = Sessions(
        database,
        console,
        authenticator,
        clock,
        people=PEOPLE,
        idle_s=settings.console_idle_s,
    )
    pages = Pages(about, "curator.console", _ENTRIES, settings)
    pages.compile_between_requests()
    return (
        pages,
        sessions,
        Failures(clock),
        *provider_of(settings, clock, transports),
    )


async def _name(database: Database) -> str:
    """Cookies do not distinguish ports: a random name separates this store's from another's."""
    async with database.begin() as transaction:
        await exclusive(transaction, _NAME)
        name = await store.fact(transaction, _NAME)
        if name is None:
            name = secrets.token_hex(16)
            await store.put_fact(transaction, _NAME, name)
        return name


def add_console(app: FastAPI, settings: CuratorSettings) -> None:
    """Add the pages to the app."""
    router = console_router()
    add_static(router)
    add_sign_in(router)
    if settings.oidc_issuer is not None:
        add_single_sign_on(router, settings.oidc_session_s)
    add_tokens_pages(app, router, Offered(_MADE, _OF_ONE))
    app.include_router(router)
    for page in (policy.router, readings.router, contributions_page.router, parties_router):
        app.include_router(page)
    add_front_door(app)
    add_audit(app)
    add_codes(app, *PEOPLE)


ROWS: Final = 50
SAID: Final = {"enrolled": "It is enrolled: its curators participate from the next round on."}

parties_router = console_router()


@parties_router.get("/parties")
async def show_parties(view: OperatorView, after: str | None = None) -> Response:
    """The parties, and the form that enrols another."""
    return await _list(view, {}, after=after)


@parties_router.post("/parties")
async def enrol_party(
    view: OperatorView, enroller: EnrollerPart, after_enrolment: After
) -> Response:
    """Show what a join token names; then enrol with it."""
    form = await view.form()
    text, named = form.get("token", ""), form.get("curators", "").split()
    try:
        token = parse_token(text)
        curators = curators_of(token, named)
        if form.get("step") != "enrol":
            return view.show(
                "enrol-confirm.html", token=token, text=text.strip(), named=named, curators=curators
            )
        row = await enroller.enrol(text, named or None)
    except DomainError as error:
        return await _list(view, form, error=error)
    await after_enrolment.run()
    await view.note("enrolled a party", row.id)
    return see("/console/parties?said=enrolled")


async def _list(
    view: View,
    given: Mapping[str, str],
    *,
    after: str | None = None,
    error: DomainError | None = None,
) -> Response:
    async with view.database.reading() as transaction:
        rows = await store.list_parties(transaction, after=after, limit=ROWS)
    keys = [row.coordinator_key for row in rows]
    coordinators = [None if key is None else fingerprint(key).hex() for key in keys]
    return view.show(
        "parties.html",
        status=200 if error is None else 422,
        items=[
            {"row": row, "coordinator": coordinator}
            for row, coordinator in zip(rows, coordinators, strict=True)
        ],
        after=after,
        more=rows[-1].id if len(rows) == ROWS else None,
        given=given,
        error=error,
        said=view.said(SAID),
    )
