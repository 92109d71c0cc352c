"""All pages of the coordinator's console, and what they need of the service."""

from __future__ import annotations

from typing import Final

from fastapi import FastAPI

from common.identity.token_pages import Offered, add_audit, add_tokens_pages
from common.principals import Scope
from common.runtime.clock import Clock
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
from coordinator.console.budget import add_budget
from coordinator.console.datasets import add_datasets
from coordinator.console.job_form import add_job_form
from coordinator.console.jobs import add_jobs
from coordinator.console.ledger import add_ledger
from coordinator.console.monitoring import add_flow, add_overview
from coordinator.console.parties import add_parties
from coordinator.console.queries import add_queries
from coordinator.console.query_wizard import add_wizard
from coordinator.console.round_actions import add_actions
from coordinator.console.rounds import add_rounds
from coordinator.settings import CoordinatorSettings
from coordinator.store.tables import console

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
    settings: CoordinatorSettings,
    database: Database,
    authenticator: Authenticator,
    clock: Clock,
    fingerprint: str,
    version: str,
) -> tuple[object, ...]:
    """What the pages ask for by type, once the service has started."""
    about = About("coordinator", settings.deployment, fingerprint, version)
    return (
        Pages(about, "coordinator.console", _ENTRIES, https=settings.https),
        Sessions(
            database,
            console,
            authenticator,
            clock,
            people=PEOPLE,
            idle_s=settings.console_idle_s,
        ),
        Failures(clock),
    )


def add_console(app: FastAPI, settings: CoordinatorSettings) -> None:
    """Add the pages to the app."""
    router = console_router()

    add_overview(router)
    add_static(router)
    add_sign_in(router)
    add_actions(router)  # /rounds/new before /rounds/ID
    add_rounds(router)
    add_wizard(router, settings)  # /queries/new before /queries/ID
    add_queries(router)
    add_ledger(router, settings)  # /budget/ledger and others below /budget
    add_budget(router, settings)
    add_flow(router)
    add_job_form(router)  # /jobs/new before /jobs/ID
    add_jobs(router)
    add_datasets(router, settings)
    add_parties(router)
    add_tokens_pages(app, router, Offered(PEOPLE))
    app.include_router(router)
    add_front_door(app)
    add_audit(app)
    add_codes(app, *PEOPLE)
