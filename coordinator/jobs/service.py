"""The parts of jobs in one process, put together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncEngine

from common.service.clock import Clock
from coordinator.changes import Changes
from coordinator.datasets.holding import Datasets
from coordinator.jobs.attempts import Attempts
from coordinator.jobs.cluster import Cluster
from coordinator.jobs.dispatcher import Dispatcher
from coordinator.jobs.federated import Federated
from coordinator.jobs.federated_asking import FederatedAsking
from coordinator.jobs.federated_desk import Desk
from coordinator.jobs.results import Results
from coordinator.jobs.scheduled import JobScheduler
from coordinator.jobs.submission import Submission
from coordinator.rounds import Conduct
from coordinator.settings import CoordinatorSettings
from coordinator.storage_key import StorageKey


@dataclass(frozen=True)
class Jobs:
    """What the routes of jobs need."""

    submission: Submission
    attempts: Attempts
    dispatcher: Dispatcher
    results: Results
    changes: Changes
    federated: Federated
    scheduler: JobScheduler


def open_jobs(
    engine: AsyncEngine,
    datasets: Datasets,
    key: StorageKey,
    settings: CoordinatorSettings,
    clock: Clock,
    conduct: Conduct,
    woken: Callable[[str | None], None],
) -> Jobs:
    """All parts; dispatcher, federated jobs and schedules are not started yet. `woken` is told when
    a round was opened, or is to end."""
    changes = Changes(engine)
    attempts = Attempts(engine, datasets, key, settings, clock, changes.notify)
    results = Results(settings.data_dir / "jobs", key)
    asking = FederatedAsking(conduct, settings)
    submission = Submission(engine, datasets, key, settings, clock, asking)
    federated = Federated(Desk(conduct, attempts, results, changes.notify, woken))
    return Jobs(
        submission,
        attempts,
        Dispatcher(attempts, Cluster(settings), settings, changes.notify),
        results,
        changes,
        federated,
        JobScheduler(engine, submission, clock, federated.wake),
    )
