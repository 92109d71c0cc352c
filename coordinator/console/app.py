"""All pages of the coordinator's console, and what they need of the service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fastapi import FastAPI

from common.identity.token_pages import Offered, add_audit, add_tokens_pages
from common.principals import Scope
from common.web.client import Transport
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
from common.web.console.single_sign_on import add_single_sign_on, provider_of
from coordinator.console import (
    budget,
    datasets,
    downloads,
    jobs,
    ledger,
    monitoring,
    parties,
    queries,
    query_wizard,
    rounds,
)
from coordinator.services import CoordinatorServices
from coordinator.settings import CoordinatorSettings
from coordinator.store.tables import console
from tacit.crypto.signing import fingerprint
from tacit.version import VERSION

PEOPLE: Final = frozenset({Scope.OPERATOR, Scope.ANALYST})
_ENTRIES: Final = (
    Entry("Overview", "/console", PEOPLE),
    Entry("Rounds", "/console/rounds", PEOPLE),
    Entry("Queries", "/console/queries", PEOPLE),
    Entry("Budget", "/console/budget", PEOPLE),
    Entry("Jobs", "/console/jobs", PEOPLE),
    Entry("Datasets", "/console/datasets", frozenset({Scope.OPERATOR})),
    Entry("Data flow", "/console/flow", frozenset({Scope.OPERATOR})),
    Entry("Parties", "/console/parties", frozenset({Scope.OPERATOR})),
    Entry("Tokens", "/console/tokens", frozenset({Scope.OPERATOR})),
)


def console_parts(
    services: CoordinatorServices, transports: Mapping[str, Transport] | None
) -> tuple[object, ...]:
    """The objects that pages look up by type, once the service has started. `transports` as of
    the app."""
    settings, clock = services.settings, services.clock
    key = fingerprint(services.own.public_keys[0]).hex()
    about = About("coordinator", settings.deployment, key, VERSION)
    pages = Pages(about, "coordinator.console", _ENTRIES, settings)
    pages.compile_between_requests()
    return (
        pages,
        Sessions(
            services.database,
            console,
            services.authenticator,
            clock,
            people=PEOPLE,
            idle_s=settings.console_idle_s,
        ),
        Failures(clock),
        *provider_of(settings, clock, transports),
    )


def add_console(app: FastAPI, settings: CoordinatorSettings) -> None:
    """Add the pages to the app."""
    shared = console_router()
    add_static(shared)
    add_sign_in(shared)
    if settings.oidc_issuer is not None:
        add_single_sign_on(shared, settings.oidc_session_s)
    add_tokens_pages(app, shared, Offered(PEOPLE))
    for router in (
        shared,
        monitoring.router,
        rounds.router,
        query_wizard.router,  # /queries/new before /queries/ID
        queries.router,
        ledger.router,
        budget.router,
        jobs.router,
        datasets.router,
        parties.router,
        downloads.router,
    ):
        app.router.routes.extend(router.routes)
    add_front_door(app)
    add_audit(app)
    add_codes(app, *PEOPLE)
