"""Builds the coordinator: its parts in the order in which they need each other, and its routes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from fastapi import FastAPI

from common.service.app import add_readiness, build_app
from common.service.auth import Authenticator, ensure_operator_token, install_authenticator
from common.service.clock import Clock, SystemClock
from common.service.database import check, migrate, open_store
from common.service.tracing import Tracer
from coordinator import registry, restoring
from coordinator.budget.ledger import Ledger
from coordinator.budget.meters import add_meters
from coordinator.budget_routes import add_budget
from coordinator.changes import Changes
from coordinator.conductor import Conductor
from coordinator.dataset_routes import add_datasets
from coordinator.datasets.holding import Datasets
from coordinator.datasets.upload import FORM_BYTES
from coordinator.group_routes import add_groups
from coordinator.job_routes import add_jobs
from coordinator.job_schedule_routes import add_job_schedules
from coordinator.jobs.attempt_routes import PREFIX as ATTEMPTS
from coordinator.jobs.attempt_routes import add_attempts
from coordinator.jobs.service import open_jobs
from coordinator.meters import add_work_meters
from coordinator.peers import Peers
from coordinator.proposal_routes import add_proposals
from coordinator.query_routes import add_queries
from coordinator.registry_routes import add_registry
from coordinator.report_routes import add_reports
from coordinator.round_routes import add_rounds
from coordinator.rounds import Conduct
from coordinator.scheduling import Scheduler
from coordinator.settings import CoordinatorSettings
from coordinator.storage_key import load_storage_key, prove_storage_key
from coordinator.store.tables import tokens
from coordinator.web import Service

VERSION = "0.1.0"
MIGRATIONS = Path(__file__).parent / "migrations"


def create_app(
    settings: CoordinatorSettings,
    *,
    clock: Clock | None = None,
    transports: Mapping[str, httpx.AsyncBaseTransport] | None = None,
) -> FastAPI:
    """The coordinator. `transports` replaces the network to given addresses (in-process use).

    `app.state.service` holds its parts while the app runs.
    """
    time = clock or SystemClock()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        engine = open_store(settings)
        await migrate(engine, MIGRATIONS)
        await restoring.recover(engine, settings, time)
        await ensure_operator_token(engine, tokens, settings, time)
        identity = await registry.load_identity(engine)
        tracer: Tracer = app.state.tracer
        peers = Peers(settings.aggregator_timeout_s, transports, settings.trust(), tracer)
        changes = Changes(engine)
        ledger = Ledger(engine, time)
        await ledger.load()
        add_meters(app.state.metrics, ledger)
        add_work_meters(app.state.metrics, engine, time)
        conduct = Conduct(
            engine, identity, settings.deployment, peers, time, settings.patience_s, ledger
        )
        conductor = Conductor(
            conduct,
            lease_s=settings.lease_s,
            poll_s=settings.poll_s,
            changed=changes.notify,
            tracer=tracer,
        )
        scheduler = Scheduler(conduct, conductor.wake)
        url = settings.public_url or f"http://{settings.host}:{settings.port}"
        authenticator = Authenticator(engine, tokens, time)
        storage_key = load_storage_key(settings)
        await prove_storage_key(engine, storage_key)
        directory = settings.dataset_dir or settings.data_dir / "datasets"
        datasets = Datasets(engine, storage_key, directory, time, settings)
        await datasets.tidy()
        jobs = open_jobs(engine, datasets, storage_key, settings, time, conduct, conductor.wake)
        app.state.service = Service(
            engine,
            time,
            registry.Registry(settings.deployment, identity, url, time, ledger),
            conduct,
            conductor,
            scheduler,
            changes,
            authenticator,
            datasets,
            jobs,
        )
        install_authenticator(app, authenticator)
        add_readiness(app, "database", lambda: check(engine))
        add_readiness(app, "ledger", ledger.readiness)
        changes.start()
        conductor.start()
        scheduler.start()
        jobs.dispatcher.start()
        jobs.federated.start()
        jobs.scheduler.start()
        try:
            yield
        finally:
            await jobs.scheduler.stop()
            await jobs.federated.stop()
            await jobs.dispatcher.stop()
            jobs.changes.notify()
            await scheduler.stop()
            await conductor.stop()
            await changes.stop()
            await peers.aclose()
            await engine.dispose()

    app = build_app(
        "coordinator",
        settings,
        lifespan,
        version=VERSION,
        description="Queries, rounds and results. It holds no share and no reading.",
        body_limits={
            "/v1/enrolments": settings.enrolment_max_body_bytes,
            "/v1/groups": settings.enrolment_max_body_bytes,
            "/v1/datasets": settings.dataset_max_bytes + FORM_BYTES,
            ATTEMPTS: settings.job_outcome_bytes,
        },
    )
    add_registry(app, settings, time)
    add_groups(app)
    add_queries(app, settings)
    add_rounds(app)
    add_budget(app, settings)
    add_proposals(app)
    add_datasets(app, settings, transports)
    add_jobs(app)
    add_job_schedules(app)
    add_reports(app)
    add_attempts(app)
    return app
