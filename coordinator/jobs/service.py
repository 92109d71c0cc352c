"""The parts of jobs in one process, put together."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncEngine

from common.service.clock import Clock
from coordinator.changes import Changes
from coordinator.datasets.holding import Datasets
from coordinator.jobs.attempts import Attempts
from coordinator.jobs.cluster import Cluster
from coordinator.jobs.dispatcher import Dispatcher
from coordinator.jobs.results import Results
from coordinator.jobs.submission import Submission
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


def open_jobs(
    engine: AsyncEngine,
    datasets: Datasets,
    key: StorageKey,
    settings: CoordinatorSettings,
    clock: Clock,
) -> Jobs:
    """All parts; the dispatcher is not started yet."""
    changes = Changes(engine)
    attempts = Attempts(engine, datasets, key, settings, clock, changes.notify)
    return Jobs(
        Submission(engine, datasets, key, settings, clock),
        attempts,
        Dispatcher(attempts, Cluster(settings), settings, changes.notify),
        Results(settings.data_dir / "jobs", key),
        changes,
    )
