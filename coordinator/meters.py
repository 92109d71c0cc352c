"""Coarse public metrics of rounds and jobs: what an operator watches without seeing data.

Read from the store at each scrape, so that every replica reports the same. Counts and times only;
no label names a query, a round, a curator or a job.
"""

from __future__ import annotations

from common.runtime.clock import Clock
from common.runtime.metrics import ServiceMetrics
from common.store.transactions import Database
from coordinator.models.job import JobState
from coordinator.store import jobs as job_store
from coordinator.store import registry as registry_store
from coordinator.store import rounds as round_store
from tacit.protocol.round import RoundState


def add_work_meters(metrics: ServiceMetrics, database: Database, clock: Clock) -> None:
    """Have the figures read whenever the metrics are."""
    rounds = metrics.gauge("rounds", "Rounds in the store, by state.", ("state",))
    overdue = metrics.gauge("rounds_overdue", "Open rounds whose deadline has passed.")
    released = metrics.gauge(
        "last_release_timestamp_seconds", "When a round was last released; 0 for never."
    )
    participants = metrics.gauge(
        "last_release_participants", "Curators in the round that was released last."
    )
    aggregators = metrics.gauge("aggregators", "Paired aggregators.")
    jobs = metrics.gauge("jobs", "Jobs in the store, by state.", ("state",))

    async def refresh() -> None:
        async with database.reading() as transaction:
            by_state = await round_store.count_states(transaction)
            late = await round_store.count_overdue(transaction, clock.now())
            last = await round_store.last_release(transaction)
            paired = len(await registry_store.list_aggregators(transaction))
            work = await job_store.count_states(transaction)
        for state in RoundState:
            rounds.labels(state.value).set(by_state.get(state.value, 0))
        for job_state in JobState:
            jobs.labels(job_state.value).set(work.get(job_state.value, 0))
        overdue.set(late)
        aggregators.set(paired)
        if last is not None:
            released.set(last.finished.timestamp())
            participants.set(last.participants)

    metrics.before_scrape(refresh)
