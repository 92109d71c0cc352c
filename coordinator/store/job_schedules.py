"""Schedules of federated jobs, and the job of each period: one, regardless of the submitter."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, insert, select, update

from common.store.transactions import Transaction
from coordinator.models.job import FINISHED
from coordinator.store.tables import job_schedule_runs, job_schedules, jobs


@dataclass(frozen=True)
class JobScheduleRow:
    """`request`: JSON of the job that is asked for, with its schedule; `preview`: of a run's
    privacy report; `next_period`: the first that was not asked for; `problem`: why that waits."""

    id: str
    request: str
    preview: str
    next_period: int
    problem: str | None
    created: datetime
    stopped: datetime | None


_ROW = tuple(job_schedules.c[name] for name in JobScheduleRow.__dataclass_fields__)
_GOING = select(*_ROW).where(job_schedules.c.stopped.is_(None)).order_by(job_schedules.c.id)


async def add(transaction: Transaction, row: JobScheduleRow) -> None:
    """Store a new schedule."""
    values = {name: getattr(row, name) for name in JobScheduleRow.__dataclass_fields__}
    await transaction.execute(insert(job_schedules).values(values))


async def find(transaction: Transaction, schedule_id: str) -> JobScheduleRow | None:
    """One schedule."""
    query = select(*_ROW).where(job_schedules.c.id == schedule_id)
    row = (await transaction.execute(query)).first()
    return None if row is None else _row(row)


async def page(transaction: Transaction, before: str | None, limit: int) -> list[JobScheduleRow]:
    """Schedules, the newest first, older than `before`."""
    query = select(*_ROW).order_by(job_schedules.c.id.desc()).limit(limit)
    if before is not None:
        query = query.where(job_schedules.c.id < before)
    return [_row(row) for row in await transaction.execute(query)]


async def going(transaction: Transaction) -> list[JobScheduleRow]:
    """The schedules that were not stopped."""
    return [_row(row) for row in await transaction.execute(_GOING)]


async def advance(transaction: Transaction, schedule_id: str, period: int) -> bool:
    """Advance past a period, if it is the next one and the schedule was not stopped; whether it
    did. The caller writes nothing else if not."""
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


async def skip(transaction: Transaction, schedule_id: str, period: int) -> None:
    """Skip the periods before this one that were not requested."""
    await transaction.execute(
        update(job_schedules)
        .where(job_schedules.c.id == schedule_id, job_schedules.c.next_period < period)
        .values(next_period=period)
    )


async def note(transaction: Transaction, schedule_id: str, problem: str | None) -> None:
    """Why the next period waits."""
    await transaction.execute(
        update(job_schedules).where(job_schedules.c.id == schedule_id).values(problem=problem)
    )


async def stop(transaction: Transaction, schedule_id: str, now: datetime) -> None:
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


def _row(row: Any) -> JobScheduleRow:
    return JobScheduleRow(**row._mapping)
