"""The coordinator's app: its services, its routes and its console."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from types import ModuleType

from fastapi import FastAPI

from common.identity.token_routes import IssuedTokens, NewToken, add_tokens
from common.runtime.clock import Clock, SystemClock
from common.runtime.process import extra_needed
from common.store.database import Readiness
from common.store.transactions import Database
from common.web.app import add_readiness, build_app
from common.web.auth import install_authenticator
from common.web.client import Transport
from common.web.dependencies import part_of, provide
from common.web.openapi import add_routes
from coordinator import examples
from coordinator.api import (
    budget,
    datasets,
    job_attempts,
    job_schedules,
    jobs,
    notifications,
    plans,
    queries,
    registry,
    rounds,
)
from coordinator.datasets.upload import FORM_BYTES
from coordinator.registry import own_identity
from coordinator.services import run_services
from coordinator.settings import CoordinatorSettings
from coordinator.store.tables import tokens
from tacit.errors import Invalid, StartRefused
from tacit.version import VERSION


def create_app(
    settings: CoordinatorSettings,
    *,
    clock: Clock | None = None,
    transports: Mapping[str, Transport] | None = None,
) -> FastAPI:
    """The coordinator. `transports` replaces the network to the given addresses (in-process
    use)."""
    time = clock or SystemClock()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        state = app.state
        async with run_services(
            settings, time, transports, state.metrics, state.tracer
        ) as services:
            state.services = services
            state.polls += services.changes, services.jobs.changes
            pages = _console().console_parts(services, transports) if settings.console else ()
            provide(app, *services.parts(), *pages)
            install_authenticator(app, services.authenticator)
            add_readiness(app, "database", Readiness(services.database).check)
            add_readiness(app, "ledger", services.ledger.readiness)
            add_readiness(app, "erasure", services.erasure.readiness)
            add_readiness(app, "aggregators", services.attendance.readiness, vital=False)
            yield

    app = build_app(
        "coordinator",
        settings,
        lifespan,
        version=VERSION,
        description="Queries, rounds and results. It never sees a share or a reading.",
        body_limits={
            "/v1/enrolments": settings.enrolment_max_body_bytes,
            "/v1/groups": settings.enrolment_max_body_bytes,
            "/v1/datasets": settings.dataset_max_bytes + FORM_BYTES,
            "/console/datasets": settings.dataset_max_bytes + FORM_BYTES,
            job_attempts.PREFIX: settings.job_outcome_bytes,
        },
    )
    add_routes(app, own_identity.router)
    issued = IssuedTokens(tokens, time, lambda: part_of(app, Database), _no_subject)
    add_tokens(app, issued, examples.TOKEN)
    for module in (
        rounds,  # first, as a request is compared with one route after the other
        registry,
        queries,
        budget,
        plans,
        datasets,
        jobs,
        job_schedules,
        job_attempts,
        notifications,
    ):
        app.router.routes.extend(module.router.routes)
    if settings.console:
        _console().add_console(app, settings)
    return app


async def _no_subject(token: NewToken) -> None:
    if token.subject is not None:
        raise Invalid("a token made here belongs to no party", pointer="/subject")


def _console() -> ModuleType:
    """The console, whose templates need jinja2, which is imported only if the console is on."""
    try:
        return import_module("coordinator.console.app")
    except ImportError as error:
        if error.name not in ("jinja2", "joserfc", "markupsafe"):
            raise
        raise StartRefused(extra_needed("TACIT_CONSOLE", "console")) from None
