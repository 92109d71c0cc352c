"""All pages of the curator's console, and what they need of the service."""

from __future__ import annotations

import secrets
from typing import Final

from fastapi import FastAPI

from common.identity.token_pages import Offered, add_audit, add_tokens_pages
from common.principals import Scope
from common.runtime.clock import Clock
from common.store.database import exclusive
from common.store.transactions import Database
from common.web.auth import Authenticator
from common.web.console.browser_sessions import Failures, Sessions
from common.web.console.pages import (
    About,
    Entry,
    Pages,
    add_front_door,
    add_static,
    console_router,
)
from common.web.console.sign_in import add_codes, add_sign_in
from curator.console import contributions_page, parties, policy, readings
from curator.settings import CuratorSettings
from curator.store import parties as store
from curator.store.tables import console

PEOPLE: Final = frozenset({Scope.OPERATOR, Scope.CURATOR})
_ENTRIES: Final = (
    Entry("Curators", "/console", frozenset({Scope.OPERATOR})),
    Entry("Readings", "/console/readings", PEOPLE),
    Entry("Policy", "/console/policy", frozenset({Scope.OPERATOR})),
    Entry("What I gave away", "/console/curators", frozenset({Scope.CURATOR})),
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
    return (
        Pages(about, "curator.console", _ENTRIES, https=settings.https),
        sessions,
        Failures(clock),
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


def add_console(app: FastAPI) -> None:
    """Add the pages to the app."""
    router = console_router()
    add_static(router)
    add_sign_in(router)
    add_tokens_pages(app, router, Offered(_MADE, _OF_ONE))
    app.include_router(router)
    for page in (policy, readings, contributions_page, parties):
        app.include_router(page.router)
    add_front_door(app)
    add_audit(app)
    add_codes(app, *PEOPLE)
