"""The parts of a running coordinator, built in the order in which they need each other.

Routes and pages take them as one parameter: `services: Services`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, Protocol

from fastapi import Depends, Request

from common.runtime.clock import Clock
from common.runtime.logs import get_logger
from common.runtime.telemetry import ServiceMetrics, Tracer
from common.runtime.tls import post_quantum
from common.store.database import add_store_meters, migrate, open_store
from common.store.erasure import Erasure
from common.store.own_identities import OwnIdentities, SerialFile
from common.store.transactions import Database
from common.web.auth import Authenticator, ensure_operator_token
from common.web.client import Transport
from coordinator import restoring
from coordinator.alerts.conditions import Conditions
from coordinator.alerts.notifier import Notifier
from coordinator.alerts.outlets import outlets_of
from coordinator.budget.ledger import Ledger, LedgerSeals, Watch
from coordinator.datasets.datasets import Datasets
from coordinator.jobs.attempts import Attempts
from coordinator.jobs.dispatcher import Dispatcher
from coordinator.jobs.federated.conductor import Federated
from coordinator.jobs.federated.lifecycle import Desk
from coordinator.jobs.federated.preparation import FederatedAsking
from coordinator.jobs.pictures import Pictures
from coordinator.jobs.results import Results
from coordinator.jobs.schedules import JobScheduler
from coordinator.jobs.submission import Submission
from coordinator.jobs.workers.cluster import Cluster
from coordinator.jobs.workers.own_workers import OwnWorkers
from coordinator.key_rotation import Resealing
from coordinator.metrics import (
    add_attendance_metrics,
    add_budget_metrics,
    add_condition_metrics,
    add_profile_metrics,
    add_work_metrics,
)
from coordinator.registry import members, own_identity
from coordinator.registry.aggregators import Attendance, HealthLooks, Identities, SealKeyMirror
from coordinator.registry.members import Registry
from coordinator.registry.peer_requests import Renewals
from coordinator.registry.peers import Peers
from coordinator.rounds.conductor import Conductor
from coordinator.rounds.context import Conduct
from coordinator.rounds.notifications import Changes
from coordinator.rounds.progress import ReceivingLooks
from coordinator.rounds.scheduling import Expiry, Scheduler
from coordinator.settings import CoordinatorSettings
from coordinator.storage_keys import StorageKeys, open_storage_keys
from coordinator.store.tables import create, tokens
from coordinator.store.tables import identities as identities_table

MIGRATIONS: Final = Path(__file__).parent / "migrations"
_log = get_logger("tacit.coordinator")


class Loop(Protocol):
    """Work that repeats in the background while the service runs."""

    def start(self) -> None:
        """Start it."""

    async def stop(self) -> None:
        """Stop it, and wait until it has stopped."""


@dataclass(frozen=True)
class Jobs:
    """The parts of jobs."""

    submission: Submission
    attempts: Attempts
    dispatcher: Dispatcher
    results: Results
    pictures: Pictures
    changes: Changes
    federated: Federated
    scheduler: JobScheduler


@dataclass(frozen=True)
class CoordinatorServices:
    """The parts of a coordinator; `loops` are in the order in which they start."""

    settings: CoordinatorSettings
    clock: Clock
    database: Database
    authenticator: Authenticator
    own: OwnIdentities
    erasure: Erasure
    ledger: Ledger
    registry: Registry
    peers: Peers
    identities: Identities
    health_looks: HealthLooks
    attendance: Attendance
    conditions: Conditions
    notifier: Notifier
    seal_keys: SealKeyMirror
    conduct: Conduct
    conductor: Conductor
    scheduler: Scheduler
    expiry: Expiry
    changes: Changes
    receiving_looks: ReceivingLooks
    storage_keys: StorageKeys
    datasets: Datasets
    jobs: Jobs
    resealing: Resealing
    loops: tuple[Loop, ...]
    large_body: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the body of a large enrolment is read: one at a time."""

    def parts(self) -> tuple[object, ...]:
        """All of them for `common.web.dependencies.provide`."""
        jobs = self.jobs
        of_jobs = jobs.submission, jobs.attempts, jobs.results, jobs.federated, jobs.scheduler
        return *vars(self).values(), *of_jobs


async def services_of(request: Request) -> CoordinatorServices:
    """The dependency behind `Services`."""
    services: CoordinatorServices = request.app.state.services
    return services


Services = Annotated[CoordinatorServices, Depends(services_of)]
"""The type of a route's parameter that takes the parts of the service."""


@asynccontextmanager
async def run_services(
    settings: CoordinatorSettings,
    clock: Clock,
    transports: Mapping[str, Transport] | None,
    metrics: ServiceMetrics,
    tracer: Tracer,
) -> AsyncIterator[CoordinatorServices]:
    """Open the parts and start their loops; stop them in reverse order. `transports` replaces
    the network to the given addresses."""
    services = await _open(settings, clock, transports, metrics, tracer)
    for loop in services.loops:
        loop.start()
    await services.resealing.start_leading()
    await services.notifier.start_leading()
    try:
        yield services
    finally:
        await services.notifier.stop()
        await services.resealing.stop()
        for loop in reversed(services.loops):
            await loop.stop()
        await services.jobs.pictures.close()
        services.jobs.changes.end()
        await services.peers.aclose()
        await services.database.dispose()


async def _open(
    settings: CoordinatorSettings,
    clock: Clock,
    transports: Mapping[str, Transport] | None,
    metrics: ServiceMetrics,
    tracer: Tracer,
) -> CoordinatorServices:
    directory = settings.dataset_dir or settings.data_dir / "datasets"
    database = open_store(
        settings, settings.data_dir / "storage.key", settings.data_dir / "jobs", directory
    )
    add_store_meters(metrics, database)
    await migrate(database, MIGRATIONS, create)
    await restoring.recover(database, settings, clock)
    await ensure_operator_token(database, tokens, settings, clock)
    own_identities = await OwnIdentities.of(
        database, identities_table, SerialFile(settings.data_dir / "identity.serial")
    )
    erasure = Erasure(database)
    sweeper = own_identity.Sweeper(own_identities, erasure, clock)
    await sweeper.look()

    renewals = Renewals(database, own_identities, settings.deployment, clock)
    peers = Peers(settings.aggregator_timeout_s, transports, settings.trust(), tracer, renewals)
    ledger = Ledger(
        database, clock, lambda: None if own_identities.revoked else own_identities.current
    )
    await ledger.load()
    add_budget_metrics(metrics, ledger)
    add_work_metrics(metrics, database, clock)
    if settings.profile_metrics:
        add_profile_metrics(metrics, database)
    seal_keys = SealKeyMirror(database, peers)
    identities = Identities(
        database, peers, clock, settings.deployment, own_identities, settings.confirmed_keys
    )
    health_looks = HealthLooks(peers, clock)
    attendance = Attendance(database, health_looks, clock)
    add_attendance_metrics(metrics, attendance)
    conditions = Conditions(settings, database, ledger, attendance, clock)
    add_condition_metrics(metrics, conditions)
    notifier = Notifier(database, conditions, outlets_of(settings), settings.deployment, clock)
    url = settings.public_url or f"http://{settings.host}:{settings.port}"

    changes = Changes(database)
    conduct = Conduct(
        database,
        own_identities,
        await members.load_salt_key(database),
        settings.deployment,
        peers,
        clock,
        settings.patience_s,
        ledger,
        settings.seal_key_per_round,
        seal_keys,
        identities,
        attendance,
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
    expiry = Expiry(database, clock, settings.retention_s, metrics)

    if settings.stored_datasets and post_quantum() == "no":
        _log.warning("datasets_travel_under_classical_tls", openssl=ssl.OPENSSL_VERSION)
    storage_keys = await open_storage_keys(database, settings)
    datasets = Datasets(database, storage_keys, directory, clock, settings)
    await datasets.tidy()
    jobs = _open_jobs(database, datasets, storage_keys, settings, clock, conduct, conductor.wake)
    seals = LedgerSeals(database, own_identities, settings.deployment, clock)
    return CoordinatorServices(
        settings=settings,
        clock=clock,
        database=database,
        authenticator=Authenticator(database, tokens, clock),
        own=own_identities,
        erasure=erasure,
        ledger=ledger,
        registry=Registry(settings.deployment, own_identities, url, clock, ledger),
        peers=peers,
        identities=identities,
        health_looks=health_looks,
        attendance=attendance,
        conditions=conditions,
        notifier=notifier,
        seal_keys=seal_keys,
        conduct=conduct,
        conductor=conductor,
        scheduler=scheduler,
        expiry=expiry,
        changes=changes,
        receiving_looks=ReceivingLooks(conduct),
        storage_keys=storage_keys,
        datasets=datasets,
        jobs=jobs,
        resealing=Resealing(database, storage_keys, datasets, jobs.results),
        loops=(
            Watch(ledger),
            attendance,
            changes,
            conductor,
            scheduler,
            expiry,
            sweeper,
            *((seals,) if settings.lasting_seals else ()),
            jobs.dispatcher,
            jobs.federated,
            jobs.scheduler,
        ),
    )


def _open_jobs(
    database: Database,
    datasets: Datasets,
    keys: StorageKeys,
    settings: CoordinatorSettings,
    clock: Clock,
    conduct: Conduct,
    woken: Callable[[str | None], None],
) -> Jobs:
    """The parts of jobs, not started yet; `woken` is called when a round opens or is to end."""
    changes = Changes(database)
    attempts = Attempts(database, datasets, keys, settings, clock, changes.notify)
    results = Results(settings.data_dir / "jobs", keys)
    submission = Submission(datasets, keys, FederatedAsking(conduct, settings))
    federated = Federated(Desk(conduct, attempts, results, changes.notify, woken))
    address = settings.dask_scheduler
    workers = OwnWorkers(settings.job_workers) if address is None else Cluster(address)
    return Jobs(
        submission,
        attempts,
        Dispatcher(attempts, workers, settings, changes.notify),
        results,
        Pictures(results),
        changes,
        federated,
        JobScheduler(database, submission, clock, federated.wake),
    )
