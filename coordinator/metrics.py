"""Coarse public metrics of budget, rounds and jobs: watched without seeing data.

Rounds and jobs are read from the store at each scrape, so that every replica reports the same;
figures of the budget come from the state that this process has folded, rounded up to a tenth.
Counts and times only; no label names a curator or a query. A released profile is shown where a
setting says so.
"""

from __future__ import annotations

import math
from collections import Counter
from contextlib import suppress
from functools import partial
from typing import Final

from common.runtime.clock import Clock
from common.runtime.telemetry import ServiceMetrics
from common.store.transactions import Database
from coordinator.alerts.conditions import LATE, ConditionKind, Conditions, late_schedules
from coordinator.budget.ledger import Ledger
from coordinator.budget.roster import Status
from coordinator.models.budget_ledger import Kind
from coordinator.models.job import JobState
from coordinator.registry.aggregators import Attendance
from coordinator.rounds import progress
from coordinator.store import jobs as job_store
from coordinator.store import ledger as ledger_store
from coordinator.store import registry as registry_store
from coordinator.store import rounds as round_store
from tacit.accounting.amounts import MICRO
from tacit.accounting.scenarios import Scenario
from tacit.crypto.signing import Signed
from tacit.errors import DomainError
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.protocol.round.state import RoundState
from tacit.query.functions import parts, reads_vectors
from tacit.query.terms import PRESENCE, Function, PrivacyUnit


def add_budget_metrics(metrics: ServiceMetrics, ledger: Ledger) -> None:
    """Have the ledger's figures read whenever the metrics are."""
    metrics.gauge("ledger_events", "Rows of the budget ledger.").set_function(
        lambda: ledger.folded.seq
    )
    metrics.gauge(
        "ledger_verified_ratio", "0 if a row of the ledger did not verify, else 1."
    ).set_function(lambda: float(ledger.broken is None))
    metrics.gauge(
        "ledger_verified_events",
        "Rows of the ledger that this process has verified; after a start from a checkpoint it "
        "rises to ledger_events.",
    ).set_function(lambda: ledger.verified)
    curators = metrics.gauge("budget_curators", "Curators in the ledger, by status.", ("status",))
    for status in Status:
        if status is not Status.UNKNOWN:
            curators.labels(status.name.lower()).set_function(partial(_count, ledger, status))
    spent = _Spent(ledger)
    budget = metrics.gauge(
        "budget_spent_epsilon",
        "Epsilon of the worst curator over all rounds, as each query assumes collusion.",
        ("unit",),
    )
    for unit in PrivacyUnit:
        budget.labels(unit.value).set_function(partial(spent.epsilon, unit))


def _count(ledger: Ledger, status: Status) -> float:
    return ledger.folded.roster.counts()[status]


class _Spent:
    """The worst figures, computed once for each state of the ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._seq = -1
        self._found: dict[PrivacyUnit, float] = {}

    def epsilon(self, unit: PrivacyUnit) -> float:
        state = self._ledger.folded
        if state.seq != self._seq:
            self._seq, self._found = state.seq, {}
        if unit not in self._found:
            record = unit is PrivacyUnit.RECORD
            worst = state.spending.worst_record if record else state.spending.worst_curator
            epsilon = worst(Scenario.ASSUMED).epsilon
            tenths = math.inf if epsilon is None else math.ceil(epsilon * 10 / MICRO) / 10
            self._found[unit] = tenths
        return self._found[unit]


JOB_KINDS: Final = (Kind.JOB_DEBITED, Kind.JOB_SETTLED)


def add_work_metrics(metrics: ServiceMetrics, database: Database, clock: Clock) -> None:
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
    schedules = metrics.gauge(
        "schedules_overdue",
        "Scheduled queries without a round for a period that ended more than ten minutes ago.",
    )
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
            schedules.set(len(await late_schedules(transaction, clock.now() - LATE)))
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


MOST_SLOTS: Final = 96
_RELEASES: Final = 16
"""How many of the newest releases are searched for a profile."""


def add_profile_metrics(metrics: ServiceMetrics, database: Database) -> None:
    """Have the newest released load profile read whenever the metrics are: three series for each
    of at most `MOST_SLOTS` slots, in place of those of the profile before."""
    gauge = metrics.gauge(
        "last_profile_value",
        "The sum in each slot of the load profile that was released last, in `unit`; `bound`: "
        "value, or low and high, between which it was before noise in 95 of 100 cases.",
        ("slot", "bound", "unit"),
    )
    newest: str | None = None

    async def refresh() -> None:
        nonlocal newest
        async with database.reading() as transaction:
            releases = await round_store.newest_releases(transaction, _RELEASES)
        if releases[:1] == [newest]:
            return
        for round_id in releases:
            profile = None
            with suppress(DomainError):  # what is no longer kept is not shown
                profile = await _profile(database, round_id)
            if profile is not None:
                values, half_width, unit = profile
                gauge.clear()
                for slot, value in enumerate(values):
                    for bound, move in (("low", -half_width), ("value", 0.0), ("high", half_width)):
                        gauge.labels(f"{slot:02}", bound, unit).set(value + move)
                break
        newest = next(iter(releases), None)

    metrics.before_scrape(refresh)


async def _profile(database: Database, round_id: str) -> tuple[list[float], float, str] | None:
    """The slots of a released profile, how far noise moves each in 95 of 100 cases, and the
    unit; None for another kind of result, and for more slots than are shown."""
    text = await progress.document(database, round_id, "descriptor")
    query = Signed[RoundDescriptor].model_validate_json(text).statement.query
    if query.function is not Function.VECTOR_SUM or reads_vectors(query):
        return None
    round_result = await progress.result(database, round_id)
    [name] = [part.name for part in parts(query) if part.name != PRESENCE]
    values, error = round_result.result[name], round_result.report.error
    if error is None or not isinstance(values, list) or len(values) > MOST_SLOTS:
        return None
    [half_width] = [
        part["interval"]["half_width"] for part in error["parts"] if part["part"] == name
    ]
    return [float(value) for value in values], float(half_width), round_result.unit


def add_attendance_metrics(metrics: ServiceMetrics, attendance: Attendance) -> None:
    """Have the paired aggregators' presence read whenever the metrics are."""
    up = metrics.gauge(
        "aggregator_up",
        "1 for an aggregator that answered when last asked, else 0.",
        ("aggregator",),
    )
    answered = metrics.gauge(
        "aggregator_last_answer_timestamp_seconds",
        "When an aggregator last answered; missing until it did.",
        ("aggregator",),
    )

    async def refresh() -> None:
        up.clear()
        answered.clear()
        for name, presence in attendance.present.items():
            up.labels(name).set(presence.away is None)
            if presence.answered is not None:
                answered.labels(name).set(presence.answered.timestamp())

    metrics.before_scrape(refresh)


def add_condition_metrics(metrics: ServiceMetrics, conditions: Conditions) -> None:
    """Have what needs an operator, and the end of the budget, read whenever the metrics are."""
    present = metrics.gauge(
        "conditions",
        "What needs an operator now, by kind: how many aggregators, queries, limits.",
        ("condition",),
    )
    ends = metrics.gauge(
        "budget_exhausted_timestamp_seconds",
        "When the schedules use up the first limit; NaN if none within `budget_warning_days`.",
    )
    ends.set(math.nan)

    async def refresh() -> None:
        counts = Counter(condition.kind for condition in await conditions.present())
        for kind in ConditionKind:
            present.labels(kind.value).set(counts[kind])
        limits = (await conditions.outlook()).limits
        known_ends = [limit.exhausted.timestamp() for limit in limits if limit.exhausted]
        ends.set(min(known_ends, default=math.nan))

    metrics.before_scrape(refresh)
