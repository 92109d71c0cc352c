"""Coarse public metrics of rounds and jobs: what an operator watches without seeing data.

Read from the store at each scrape, so that every replica reports the same. Counts and times only;
no label names a query, a round, a curator or a job.
"""

from __future__ import annotations

from typing import Final

from common.runtime.clock import Clock
from common.runtime.metrics import ServiceMetrics
from common.store.transactions import Database
from coordinator.models.budget_events import Kind
from coordinator.models.job import JobState
from coordinator.store import jobs as job_store
from coordinator.store import ledger as ledger_store
from coordinator.store import registry as registry_store
from coordinator.store import rounds as round_store
from tacit.protocol.round.descriptor import RoundState

JOB_KINDS: Final = (Kind.JOB_DEBITED, Kind.JOB_SETTLED)


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
    entries = metrics.gauge(
        "job_ledger_events",
        "Entries of the ledger about jobs that are debited once, by kind: debited (again with an "
        "attempt that the debit moves to), and settled at the end.",
        ("kind",),
    )
    counted = dict.fromkeys(JOB_KINDS, 0)
    last_counted = 0

    async def count_entries() -> None:
        """Those that are new: a ledger only grows."""
        nonlocal last_counted
        async with database.reading() as transaction:
            more, last = await ledger_store.count_kinds(transaction, JOB_KINDS, last_counted)
        if last > last_counted:  # else another scrape has counted them
            last_counted = last
            for kind, number in more.items():
                counted[kind] += number
        for kind, number in counted.items():
            entries.labels(kind.value).set(number)

    async def refresh() -> None:
        await count_entries()
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
