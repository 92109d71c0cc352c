"""Jobs and their attempts; schedules of federated jobs, and the job of each period.

A change names the state it expects: it happens once. A period has one job, regardless of the
submitter.

Also what federated jobs asked of curators, step by step or by one descriptor (number 0), and the
noisy reports that curators sent for them, each stored as received, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import and_, bindparam, delete, func, insert, or_, select, tuple_, update

from common.store.transactions import Transaction
from coordinator.models.job import FINISHED, JobState
from coordinator.store.tables import (
    job_attempts,
    job_reports,
    job_schedule_runs,
    job_schedules,
    job_steps,
    jobs,
)

OFFERED: Final = "offered"
HELD: Final = "held"
OVER: Final = "over"
_LIVE: Final = (OFFERED, HELD)
_UNFINISHED: Final = (JobState.QUEUED.value, JobState.RUNNING.value)


@dataclass(frozen=True)
class JobRow:
    """A job.

    `params`, `preview`, `price`, `error`, `credited`, `federation` are JSON texts; `secret` is
    its encrypted seed, deleted when it has finished; `cancelling`: since when its end is
    requested; `attempts`: how many were begun, and so the number of the newest, to which
    `progress` and `stage` refer. The defaults are those of a job just submitted.
    """

    id: str
    algorithm: str
    version: str
    dataset_id: str | None
    federation: str | None
    stance: str
    params: str
    chosen_seed: int | None
    preview: str
    price: str
    state: JobState
    stage: str
    created: datetime
    started: datetime | None = None
    finished: datetime | None = None
    progress: float = 0.0
    error: str | None = None
    secret: bytes | None = None
    charged: bool = False
    credited: str | None = None
    cancelling: datetime | None = None
    attempts: int = 0


@dataclass(frozen=True)
class AttemptRow:
    """An attempt at a job, by one worker. The lease is valid until `until`; `offered`: no worker
    has taken it yet and `holder` is the replica that offers it. `generation`: of the storage key
    that its blocks' key is derived from."""

    id: str
    job_id: str
    number: int
    state: str
    ticket_hash: str
    session_hash: str | None
    holder: str
    until: datetime
    generation: int


@dataclass(frozen=True)
class Filter:
    """Which jobs a list has; `search`: a text in the id, the algorithm or the dataset's id."""

    states: tuple[JobState, ...] = ()
    algorithm: str | None = None
    dataset_id: str | None = None
    schedule_id: str | None = None
    search: str = ""


_ROW = tuple(jobs.c[name] for name in JobRow.__dataclass_fields__)
_RUNNING = select(*_ROW).where(jobs.c.state == JobState.RUNNING.value).order_by(jobs.c.id)
_FEDERATED = _RUNNING.where(jobs.c.federation.is_not(None))
_ON_WORKERS = _RUNNING.where(jobs.c.federation.is_(None))
_QUEUED = (
    select(jobs.c.id)
    .where(jobs.c.state == JobState.QUEUED.value)
    .order_by(jobs.c.id)
    .limit(bindparam("most"))
)
_ATTEMPT = tuple(job_attempts.c[name] for name in AttemptRow.__dataclass_fields__)
_LIVE_ATTEMPTS = (
    select(*_ATTEMPT).where(job_attempts.c.state.in_(_LIVE)).order_by(job_attempts.c.id)
)


def _job(row: Any) -> JobRow:
    values = dict(row._mapping)
    values["state"] = JobState(values["state"])
    return JobRow(**values)


async def add(transaction: Transaction, row: JobRow) -> None:
    """Store a new job."""
    values = {name: getattr(row, name) for name in JobRow.__dataclass_fields__}
    await transaction.execute(insert(jobs).values({**values, "state": row.state.value}))


async def find(transaction: Transaction, job_id: str, *, lock: bool = False) -> JobRow | None:
    """A job; with `lock` no other transaction changes it before this one ends."""
    query = select(*_ROW).where(jobs.c.id == job_id)
    row = (await transaction.execute(query.with_for_update() if lock else query)).first()
    return None if row is None else _job(row)


async def page(
    transaction: Transaction, which: Filter, before: str | None, limit: int
) -> list[JobRow]:
    """Jobs, the newest first, older than the job `before`."""
    query = select(*_ROW)
    if which.states:
        query = query.where(jobs.c.state.in_([state.value for state in which.states]))
    if which.algorithm is not None:
        query = query.where(jobs.c.algorithm == which.algorithm)
    if which.dataset_id is not None:
        query = query.where(jobs.c.dataset_id == which.dataset_id)
    if which.schedule_id is not None:
        runs = select(job_schedule_runs.c.job_id)
        query = query.where(
            jobs.c.id.in_(runs.where(job_schedule_runs.c.schedule_id == which.schedule_id))
        )
    if which.search:
        texts = (jobs.c.id, jobs.c.algorithm, jobs.c.dataset_id)
        query = query.where(or_(*(text.icontains(which.search, autoescape=True) for text in texts)))
    if before is not None:
        query = query.where(jobs.c.id < before)
    rows = await transaction.execute(query.order_by(jobs.c.id.desc()).limit(limit))
    return [_job(row) for row in rows]


async def count_by_dataset(transaction: Transaction, ids: Sequence[str]) -> dict[str, int]:
    """How many jobs there were on each of these datasets; datasets without jobs are left out."""
    chosen = select(jobs.c.dataset_id, func.count()).where(jobs.c.dataset_id.in_(ids))
    rows = await transaction.execute(chosen.group_by(jobs.c.dataset_id))
    return {dataset: count for dataset, count in rows if dataset is not None}


async def change(
    transaction: Transaction, job_id: str, expected: tuple[JobState, ...], **values: Any
) -> bool:
    """Change a job that is in one of the expected states; whether it was."""
    if isinstance(values.get("state"), JobState):
        values["state"] = values["state"].value
    states = [state.value for state in expected]
    done = await transaction.execute(
        update(jobs).where(and_(jobs.c.id == job_id, jobs.c.state.in_(states))).values(**values)
    )
    return bool(done.rowcount)


async def queued(transaction: Transaction, limit: int) -> list[str]:
    """The jobs that wait, the oldest first."""
    return list((await transaction.execute(_QUEUED, {"most": limit})).scalars())


async def running(transaction: Transaction) -> list[JobRow]:
    """The jobs that run on workers."""
    return await _running(transaction, federated=False)


async def federated(transaction: Transaction) -> list[JobRow]:
    """The jobs that curators work at."""
    return await _running(transaction, federated=True)


async def _running(transaction: Transaction, *, federated: bool) -> list[JobRow]:
    query = _FEDERATED if federated else _ON_WORKERS
    return [_job(row) for row in await transaction.execute(query)]


async def seeds(transaction: Transaction) -> dict[str, bytes]:
    """The sealed seeds of all unfinished jobs, by job."""
    rows = await transaction.execute(
        select(jobs.c.id, jobs.c.secret).where(jobs.c.secret.is_not(None))
    )
    return {row.id: row.secret for row in rows}


async def reseal_seed(transaction: Transaction, job_id: str, before: bytes, now: bytes) -> None:
    """Replace a sealed seed, as it was read, by one that was sealed again."""
    await transaction.execute(
        update(jobs).where(jobs.c.id == job_id, jobs.c.secret == before).values(secret=now)
    )


# --- attempts ------------------------------------------------------------------------------------


async def begin(
    transaction: Transaction, row: AttemptRow, started: datetime, attempts_before: int
) -> bool:
    """Begin an attempt of an unfinished job, whose earlier ones are over; False if another caller
    began one first, or the job has finished. On False the caller writes nothing else."""
    done = await transaction.execute(
        update(jobs)
        .where(
            jobs.c.id == row.job_id,
            jobs.c.state.in_(_UNFINISHED),
            jobs.c.attempts == attempts_before,
        )
        .values(
            state=JobState.RUNNING.value,
            attempts=row.number,
            stage="waiting for a worker",
            progress=0.0,
            started=started,
        )
    )
    if not done.rowcount:
        return False
    await end_attempts(transaction, row.job_id)
    values = {name: getattr(row, name) for name in AttemptRow.__dataclass_fields__}
    await transaction.execute(insert(job_attempts).values(values))
    return True


async def attempt(transaction: Transaction, attempt_id: str) -> AttemptRow | None:
    """One attempt."""
    query = select(*_ATTEMPT).where(job_attempts.c.id == attempt_id)
    row = (await transaction.execute(query)).first()
    return None if row is None else AttemptRow(**row._mapping)


async def live_attempts(transaction: Transaction) -> list[AttemptRow]:
    """All attempts that are not over."""
    rows = await transaction.execute(_LIVE_ATTEMPTS)
    return [AttemptRow(**row._mapping) for row in rows]


async def change_attempt(transaction: Transaction, attempt_id: str, **values: Any) -> bool:
    """Change an attempt that is not over; whether it is not."""
    done = await transaction.execute(
        update(job_attempts)
        .where(job_attempts.c.id == attempt_id, job_attempts.c.state.in_(_LIVE))
        .values(**values)
    )
    return bool(done.rowcount)


async def end_attempts(transaction: Transaction, job_id: str) -> None:
    """End all attempts so far: what they still send is refused."""
    await transaction.execute(
        update(job_attempts)
        .where(job_attempts.c.job_id == job_id, job_attempts.c.state.in_(_LIVE))
        .values(state=OVER)
    )


async def count_states(transaction: Transaction) -> dict[str, int]:
    """How many jobs there are in each state."""
    rows = await transaction.execute(select(jobs.c.state, func.count()).group_by(jobs.c.state))
    return {row[0]: int(row[1]) for row in rows}


# Schedules of federated jobs, and the job of each period: one, regardless of the submitter.


@dataclass(frozen=True)
class JobScheduleRow:
    """`request`: JSON of the job with its schedule; `preview`: of a run's privacy report;
    `next_period`: the first that was not requested yet; `problem`: why that is delayed."""

    id: str
    request: str
    preview: str
    next_period: int
    problem: str | None
    created: datetime
    stopped: datetime | None


_SCHEDULE_ROW = tuple(job_schedules.c[name] for name in JobScheduleRow.__dataclass_fields__)
_GOING = (
    select(*_SCHEDULE_ROW).where(job_schedules.c.stopped.is_(None)).order_by(job_schedules.c.id)
)


async def add_schedule(transaction: Transaction, row: JobScheduleRow) -> None:
    """Store a new schedule."""
    values = {name: getattr(row, name) for name in JobScheduleRow.__dataclass_fields__}
    await transaction.execute(insert(job_schedules).values(values))


async def find_schedule(transaction: Transaction, schedule_id: str) -> JobScheduleRow | None:
    """One schedule."""
    query = select(*_SCHEDULE_ROW).where(job_schedules.c.id == schedule_id)
    row = (await transaction.execute(query)).first()
    return None if row is None else _schedule_row(row)


async def page_of_schedules(
    transaction: Transaction, before: str | None, limit: int
) -> list[JobScheduleRow]:
    """Schedules, the newest first, older than `before`."""
    query = select(*_SCHEDULE_ROW).order_by(job_schedules.c.id.desc()).limit(limit)
    if before is not None:
        query = query.where(job_schedules.c.id < before)
    return [_schedule_row(row) for row in await transaction.execute(query)]


async def going_schedules(transaction: Transaction) -> list[JobScheduleRow]:
    """The schedules that were not stopped."""
    return [_schedule_row(row) for row in await transaction.execute(_GOING)]


async def advance_schedule(transaction: Transaction, schedule_id: str, period: int) -> bool:
    """Advance past a period, if it is the next one and the schedule was not stopped; returns
    whether it did. If not, the caller writes nothing else."""
    done = await transaction.execute(
        update(job_schedules)
        .where(
            job_schedules.c.id == schedule_id,
            job_schedules.c.next_period == period,
            job_schedules.c.stopped.is_(None),
        )
        .values(next_period=period + 1, problem=None)
    )
    return bool(done.rowcount)


async def skip_period(transaction: Transaction, schedule_id: str, period: int) -> None:
    """Skip the periods before this one that were not requested."""
    await transaction.execute(
        update(job_schedules)
        .where(job_schedules.c.id == schedule_id, job_schedules.c.next_period < period)
        .values(next_period=period)
    )


async def note_schedule(transaction: Transaction, schedule_id: str, problem: str | None) -> None:
    """Why the next period waits."""
    await transaction.execute(
        update(job_schedules).where(job_schedules.c.id == schedule_id).values(problem=problem)
    )


async def stop_schedule(transaction: Transaction, schedule_id: str, now: datetime) -> None:
    """Stop a schedule; one that has stopped stays as it is."""
    await transaction.execute(
        update(job_schedules)
        .where(job_schedules.c.id == schedule_id, job_schedules.c.stopped.is_(None))
        .values(stopped=now, problem=None)
    )


async def add_run(transaction: Transaction, schedule_id: str, period: int, job_id: str) -> None:
    """The job of a period. Raises IntegrityError where it has one."""
    values = {"schedule_id": schedule_id, "period": period, "job_id": job_id}
    await transaction.execute(insert(job_schedule_runs).values(values))


async def count_runs(transaction: Transaction, schedule_id: str) -> tuple[int, int]:
    """How many jobs a schedule has submitted, and how many of them have not finished."""
    unfinished = jobs.c.state.not_in([state.value for state in FINISHED])
    query = (
        select(func.count(), func.count().filter(unfinished))
        .select_from(job_schedule_runs.join(jobs, jobs.c.id == job_schedule_runs.c.job_id))
        .where(job_schedule_runs.c.schedule_id == schedule_id)
    )
    total, active = (await transaction.execute(query)).one()
    return int(total), int(active)


def _schedule_row(row: Any) -> JobScheduleRow:
    return JobScheduleRow(**row._mapping)


@dataclass(frozen=True)
class StepRow:
    """`document`: JSON of a FederatedStep, or of a signed Descriptor, which has no round."""

    job_id: str
    number: int
    document: str
    query_id: str | None
    round_id: str | None
    opened: datetime


_STEP_ROW = tuple(job_steps.c[name] for name in StepRow.__dataclass_fields__)
_COLLECTING = (
    select(job_steps.c.job_id)
    .join(jobs, jobs.c.id == job_steps.c.job_id)
    .where(
        jobs.c.state == JobState.RUNNING.value,
        jobs.c.federation.is_not(None),
        job_steps.c.number == 0,
    )
    .order_by(job_steps.c.job_id)
)


async def add_step(transaction: Transaction, row: StepRow) -> None:
    """Store a step. Raises IntegrityError if the job has it already."""
    values = {name: getattr(row, name) for name in StepRow.__dataclass_fields__}
    await transaction.execute(insert(job_steps).values(values))


async def steps_of_job(transaction: Transaction, job_id: str) -> list[StepRow]:
    """All steps of a job, in order."""
    query = select(*_STEP_ROW).where(job_steps.c.job_id == job_id).order_by(job_steps.c.number)
    return [_row(row) for row in await transaction.execute(query)]


async def find_step(transaction: Transaction, job_id: str, number: int) -> StepRow | None:
    """One step."""
    query = select(*_STEP_ROW).where(job_steps.c.job_id == job_id, job_steps.c.number == number)
    row = (await transaction.execute(query)).first()
    return None if row is None else _row(row)


async def pulse_of_jobs(transaction: Transaction) -> Sequence[str]:
    """The running jobs that collect reports: the value differs after one began or ended, in any
    process."""
    return (await transaction.execute(_COLLECTING)).scalars().all()


def _row(row: Any) -> StepRow:
    return StepRow(**row._mapping)


ReportKey = tuple[str, str, int]
"""Curator, record, round."""
_LOOKED_UP = 300


@dataclass(frozen=True)
class ReportRow:
    """`body`: its canonical JSON."""

    curator: str
    record: str
    round: int
    body: str

    @property
    def key(self) -> ReportKey:
        """What there is one report of."""
        return self.curator, self.record, self.round


_COLUMNS = (
    job_reports.c.curator,
    job_reports.c.record,
    job_reports.c.round,
    job_reports.c.body,
)


async def known_reports(
    transaction: Transaction, job_id: str, keys: Sequence[ReportKey]
) -> dict[ReportKey, str]:
    """The stored bodies of some keys."""
    place = tuple_(job_reports.c.curator, job_reports.c.record, job_reports.c.round)
    bodies: dict[ReportKey, str] = {}
    for start in range(0, len(keys), _LOOKED_UP):
        some = list(keys[start : start + _LOOKED_UP])
        query = select(*_COLUMNS).where(job_reports.c.job_id == job_id, place.in_(some))
        for row in await transaction.execute(query):
            bodies[row.curator, row.record, row.round] = row.body
    return bodies


async def add_reports(
    transaction: Transaction, job_id: str, rows: Sequence[ReportRow], now: datetime
) -> None:
    """Store new reports."""
    if rows:
        values = [
            {
                "job_id": job_id,
                "curator": row.curator,
                "record": row.record,
                "round": row.round,
                "body": row.body,
                "received": now,
            }
            for row in rows
        ]
        await transaction.execute(insert(job_reports), values)


async def reporting_curators(transaction: Transaction, job_id: str) -> set[str]:
    """The curators that reported."""
    query = select(job_reports.c.curator).where(job_reports.c.job_id == job_id).distinct()
    return set((await transaction.execute(query)).scalars())


async def reports_of_job(transaction: Transaction, job_id: str) -> list[ReportRow]:
    """Every report of a job, by curator, record and round."""
    query = (
        select(*_COLUMNS)
        .where(job_reports.c.job_id == job_id)
        .order_by(job_reports.c.curator, job_reports.c.record, job_reports.c.round)
    )
    return [
        ReportRow(row.curator, row.record, row.round, row.body)
        for row in await transaction.execute(query)
    ]


async def forget_reports(transaction: Transaction, job_id: str) -> None:
    """Drop the reports of a job that was cancelled or has failed."""
    await transaction.execute(delete(job_reports).where(job_reports.c.job_id == job_id))
