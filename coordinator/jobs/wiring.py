"""Builds the parts of jobs in one process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from common.runtime.clock import Clock
from common.store.transactions import Database
from coordinator.datasets.datasets import Datasets
from coordinator.jobs.attempts import Attempts
from coordinator.jobs.dispatcher import Dispatcher
from coordinator.jobs.federated.conductor import Federated
from coordinator.jobs.federated.lifecycle import Desk
from coordinator.jobs.federated.preparation import FederatedAsking
from coordinator.jobs.results import Results
from coordinator.jobs.schedules import JobScheduler
from coordinator.jobs.submission import Submission
from coordinator.jobs.workers.cluster import Cluster
from coordinator.rounds.context import Conduct
from coordinator.rounds.notifications import Changes
from coordinator.settings import CoordinatorSettings
from coordinator.storage_keys import StorageKeys


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
    database: Database,
    datasets: Datasets,
    keys: StorageKeys,
    settings: CoordinatorSettings,
    clock: Clock,
    conduct: Conduct,
    woken: Callable[[str | None], None],
) -> Jobs:
    """All parts; dispatcher, federated jobs and schedules are not started yet. `woken` is called
    when a round was opened or is to end."""
    changes = Changes(database)
    attempts = Attempts(database, datasets, keys, settings, clock, changes.notify)
    results = Results(settings.data_dir / "jobs", keys)
    submission = Submission(datasets, keys, FederatedAsking(conduct, settings))
    federated = Federated(Desk(conduct, attempts, results, changes.notify, woken))
    return Jobs(
        submission,
        attempts,
        Dispatcher(attempts, Cluster(settings), settings, changes.notify),
        results,
        changes,
        federated,
        JobScheduler(database, submission, clock, federated.wake),
    )
