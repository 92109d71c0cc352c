"""Builds the coordinator: its parts in the order in which they need each other, and its routes."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType

from fastapi import FastAPI

from common.runtime.clock import Clock, SystemClock
from common.runtime.logs import get_logger
from common.runtime.process import extra_needed
from common.runtime.telemetry import Tracer
from common.runtime.tls import post_quantum
from common.store.database import Readiness, migrate, open_store
from common.store.erasure import Erasure
from common.store.metrics import add_store_meters
from common.store.own_identities import OwnIdentities, SerialFile
from common.web.app import add_readiness, build_app
from common.web.auth import Authenticator, ensure_operator_token, install_authenticator
from common.web.client import Transport
from common.web.dependencies import provide
from coordinator import restoring
from coordinator.budget.ledger import Ledger, LedgerSeals, Watch
from coordinator.budget.routes import add_budget
from coordinator.budget.screening import add_proposals
from coordinator.datasets.datasets import Datasets
from coordinator.datasets.routes import add_datasets
from coordinator.datasets.upload import FORM_BYTES
from coordinator.jobs.attempt_routes import PREFIX as ATTEMPTS
from coordinator.jobs.attempt_routes import add_attempts
from coordinator.jobs.federated.conductor import add_reports
from coordinator.jobs.routes import add_jobs
from coordinator.jobs.schedules import add_job_schedules
from coordinator.jobs.wiring import open_jobs
from coordinator.key_rotation import Resealing, add_storage_key
from coordinator.metrics import add_budget_metrics, add_work_metrics
from coordinator.registry import members, own_identity
from coordinator.registry.aggregators import HealthLooks, Identities, SealKeyMirror, add_seal_keys
from coordinator.registry.groups import add_groups
from coordinator.registry.peer_requests import Renewals
from coordinator.registry.peers import Peers
from coordinator.registry.routes import add_registry
from coordinator.rounds.conductor import Conductor
from coordinator.rounds.context import Conduct
from coordinator.rounds.notifications import Changes
from coordinator.rounds.progress import ReceivingLooks, add_flow, add_receiving
from coordinator.rounds.query_routes import add_queries
from coordinator.rounds.routes import add_rounds
from coordinator.rounds.scheduling import Expiry, Scheduler
from coordinator.settings import CoordinatorSettings
from coordinator.storage_keys import open_storage_keys
from coordinator.store.tables import identities as identities_table
from coordinator.store.tables import tokens
from tacit.crypto.signing import fingerprint
from tacit.errors import StartRefused
from tacit.version import VERSION

_log = get_logger("tacit.coordinator")
MIGRATIONS = Path(__file__).parent / "migrations"


def create_app(
    settings: CoordinatorSettings,
    *,
    clock: Clock | None = None,
    transports: Mapping[str, Transport] | None = None,
) -> FastAPI:
    """The coordinator. `transports` replaces the network to given addresses (in-process use)."""
    time = clock or SystemClock()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        directory = settings.dataset_dir or settings.data_dir / "datasets"
        database = open_store(
            settings,
            settings.data_dir / "storage.key",
            settings.data_dir / "jobs",
            directory,
        )
        add_store_meters(app.state.metrics, database)
        await migrate(database, MIGRATIONS)
        await restoring.recover(database, settings, time)
        await ensure_operator_token(database, tokens, settings, time)
        own = await OwnIdentities.of(
            database, identities_table, SerialFile(settings.data_dir / "identity.serial")
        )
        erasure = Erasure(database)
        sweeper = own_identity.Sweeper(own, erasure, time)
        await sweeper.look()
        tracer: Tracer = app.state.tracer
        renewals = Renewals(database, own, settings.deployment, time)
        peers = Peers(settings.aggregator_timeout_s, transports, settings.trust(), tracer, renewals)
        changes = Changes(database)
        ledger = Ledger(database, time, lambda: None if own.revoked else own.current)
        await ledger.load()
        watch = Watch(ledger)
        ledger_seals = LedgerSeals(database, own, settings.deployment, time)
        add_budget_metrics(app.state.metrics, ledger)
        add_work_metrics(app.state.metrics, database, time)
        mirror = SealKeyMirror(database, peers)
        identities = Identities(
            database, peers, time, settings.deployment, own, settings.confirmed_keys
        )
        conduct = Conduct(
            database,
            own,
            await members.load_salt_key(database),
            settings.deployment,
            peers,
            time,
            settings.patience_s,
            ledger,
            settings.seal_key_per_round,
            mirror,
            identities,
            settings.lasting_seals,
        )
        conductor = Conductor(
            conduct,
            lease_s=settings.lease_s,
            poll_s=settings.poll_s,
            changed=changes.notify,
            tracer=tracer,
        )
        scheduler = Scheduler(conduct, conductor.wake)
        expiry = Expiry(database, time, settings.retention_s, app.state.metrics)
        url = settings.public_url or f"http://{settings.host}:{settings.port}"
        authenticator = Authenticator(database, tokens, time)
        if settings.stored_datasets and post_quantum() == "no":
            _log.warning("datasets_travel_under_classical_tls", openssl=ssl.OPENSSL_VERSION)
        storage_keys = await open_storage_keys(database, settings)
        datasets = Datasets(database, storage_keys, directory, time, settings)
        await datasets.tidy()
        jobs = open_jobs(database, datasets, storage_keys, settings, time, conduct, conductor.wake)
        resealing = Resealing(database, storage_keys, datasets, jobs.results)
        provide(
            app,
            database,
            time,
            authenticator,
            ledger,
            members.Registry(settings.deployment, own, url, time, ledger),
            peers,
            HealthLooks(peers, time),
            ReceivingLooks(conduct),
            mirror,
            identities,
            erasure,
            conduct,
            conductor,
            scheduler,
            expiry,
            changes,
            datasets,
            jobs,
            jobs.submission,
            jobs.attempts,
            jobs.results,
            jobs.federated,
            jobs.scheduler,
            storage_keys,
            resealing,
            *(
                _pages().console_parts(
                    settings,
                    database,
                    authenticator,
                    time,
                    fingerprint(own.public_keys[0]).hex(),
                    VERSION,
                )
                if settings.console
                else ()
            ),
        )
        install_authenticator(app, authenticator)
        add_readiness(app, "database", Readiness(database).check)
        add_readiness(app, "ledger", ledger.readiness)
        add_readiness(app, "erasure", erasure.readiness)
        watch.start()
        changes.start()
        conductor.start()
        scheduler.start()
        expiry.start()
        sweeper.start()
        if settings.lasting_seals:
            ledger_seals.start()
        jobs.dispatcher.start()
        jobs.federated.start()
        jobs.scheduler.start()
        await resealing.start_leading()
        try:
            yield
        finally:
            await resealing.stop()
            await jobs.scheduler.stop()
            await jobs.federated.stop()
            await jobs.dispatcher.stop()
            jobs.changes.notify()
            await sweeper.stop()
            await expiry.stop()
            await scheduler.stop()
            await conductor.stop()
            await changes.stop()
            await watch.stop()
            await peers.aclose()
            await database.dispose()

    app = build_app(
        "coordinator",
        settings,
        lifespan,
        answers=Path(__file__).with_name("answers.json"),
        version=VERSION,
        description="Queries, rounds and results. It holds no share and no reading.",
        body_limits={
            "/v1/enrolments": settings.enrolment_max_body_bytes,
            "/v1/groups": settings.enrolment_max_body_bytes,
            "/v1/datasets": settings.dataset_max_bytes + FORM_BYTES,
            "/console/datasets": settings.dataset_max_bytes + FORM_BYTES,
            ATTEMPTS: settings.job_outcome_bytes,
        },
    )
    app.include_router(own_identity.router)
    add_registry(app, settings, time)
    add_groups(app)
    add_seal_keys(app)
    add_queries(app, settings)
    add_rounds(app)
    add_flow(app)
    add_receiving(app)
    add_budget(app, settings)
    add_proposals(app)
    add_datasets(app, settings)
    add_jobs(app)
    add_job_schedules(app)
    add_reports(app)
    add_attempts(app)
    add_storage_key(app)
    if settings.console:
        _pages().add_console(app, settings)
    return app


def _pages() -> ModuleType:
    """The console, whose templates need jinja2: only imported where it is on."""
    try:
        return import_module("coordinator.console.app")
    except ImportError as error:
        if error.name not in ("jinja2", "markupsafe"):
            raise
        raise StartRefused(extra_needed("TACIT_CONSOLE", "console")) from None
