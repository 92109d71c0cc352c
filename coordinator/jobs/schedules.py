"""Scheduled federated jobs: one ordinary job for each period that is over, in order.

A schedule is validated including the first query of its first run, and priced. The scheduler
submits the jobs, also after any downtime; a period has one job. The routes begin, follow and end
schedules. Spec: jobs, "Federated jobs"; aggregation, section 2.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from common.runtime.clock import Clock, uuid7
from common.runtime.logs import describe, get_logger
from common.runtime.tasks import Repeating
from common.store.transactions import Database
from coordinator import queries
from coordinator.jobs.federated.preparation import Asked
from coordinator.jobs.submission import Submission
from coordinator.models.job import JobRequest, plain_problem
from coordinator.store import jobs as store
from coordinator.store.jobs import JobScheduleRow
from tacit.accounting.amounts import Cost
from tacit.accounting.forecast import forecast_runs
from tacit.answers.datasets import Amount
from tacit.answers.jobs import RunsCost, RunsForecast
from tacit.errors import DomainError, Invalid
from tacit.protocol.federation import Federation
from tacit.query.fields import Schedule
from tacit.report.figures import delta_amount, epsilon_amount
from tacit.report.model import Charge, PrivacyReport
from tacit.wire import LAST_YEAR


@dataclass(frozen=True)
class PreparedSchedule:
    """A schedule that may begin or be previewed; `report`: of one run."""

    request: JobRequest
    schedule: Schedule
    report: PrivacyReport


def federation_of(request: JobRequest) -> tuple[Federation, Schedule]:
    """What a scheduled job asks of curators, and when. Raises Invalid if it is not scheduled."""
    if request.federation is None:
        raise Invalid("a schedule asks curators: it needs a federation", pointer="/federation")
    if request.federation.schedule is None:
        raise Invalid("first_start and period_s are needed", pointer="/federation/schedule")
    return request.federation, request.federation.schedule


def run_request(request: JobRequest, period: int) -> JobRequest:
    """The ordinary job of a period. Raises Invalid beyond the years of an instant."""
    federation, schedule = federation_of(request)
    try:
        window = queries.period_window(schedule, period)
    except ValueError:
        reason = f"the first period ends after the year {LAST_YEAR}"
        raise Invalid(reason, pointer="/federation/schedule/first_start") from None
    return request.model_copy(update={"federation": federation.over(window)})


async def prepare(submission: Submission, request: JobRequest) -> PreparedSchedule:
    """Make every check that needs no curator; nothing is stored."""
    _, schedule = federation_of(request)
    prepared = await submission.prepare(run_request(request, 0))
    assert isinstance(prepared, Asked)
    report = prepared.report
    changes = {
        "subject": report.subject.model_copy(update={"id": "preview"}),
        # Every run has its own descriptor.
        "details": {name: item for name, item in report.details.items() if name != "descriptor"},
    }
    return PreparedSchedule(request, schedule, report.model_copy(update=changes))


def begun(prepared: PreparedSchedule, clock: Clock) -> JobScheduleRow:
    """A new schedule, from its first period on."""
    return JobScheduleRow(
        id=str(uuid7(clock)),
        request=prepared.request.model_dump_json(exclude_none=True),
        preview=prepared.report.model_dump_json(),
        next_period=0,
        problem=None,
        created=clock.now(),
        stopped=None,
    )


def forecast(report: PrivacyReport, schedule: Schedule) -> RunsForecast:
    """What a day, a month and a year of runs cost; `report`: of one of them."""
    charged = report.charged
    return RunsForecast(
        composition="basic",
        privacy_unit_of_a_run=None if charged is None else charged.privacy_unit,
        horizons=[
            RunsCost(
                horizon=row.horizon,
                days=row.days,
                runs=row.runs,
                record=_shown(row.record),
                curator=_shown(row.curator),
            )
            for row in forecast_runs(_cost(charged), schedule.period_s)
        ],
    )


def _cost(charged: Charge | None) -> Cost:
    """The cost of one run; infinite if its charge has no figure."""
    if charged is None or charged.epsilon in (None, "inf") or charged.delta is None:
        return Cost(None, None)
    return Cost(Fraction(str(charged.epsilon)), Fraction(str(charged.delta)))


def _shown(cost: Cost) -> Amount:
    return Amount(epsilon=epsilon_amount(cost.epsilon), delta=delta_amount(cost.delta))


# A period has one job: it is stored in the transaction that advances its schedule, which expects
# the period that it read.

log = get_logger("tacit.job_schedule")

LOOK_S: Final = 1.0
MAX_UNFINISHED: Final = 8
"""Most unfinished jobs of one schedule; missed periods are caught up this many at a time."""


class JobScheduler(Repeating):
    """The coordinator's loop over scheduled jobs: it submits them, `Federated` advances them. Every
    process has one; `submitted` is called after a new job."""

    def __init__(
        self,
        database: Database,
        submission: Submission,
        clock: Clock,
        submitted: Callable[[], None],
    ) -> None:
        super().__init__("job_schedules", log, LOOK_S, version=database.version)
        self._database, self._submission, self._clock = database, submission, clock
        self._submitted = submitted

    async def look(self) -> bool:
        """Do what is due."""
        return not await self.submit_due()

    async def submit_due(self) -> int:
        """Submit every job that is due; how many schedules there are."""
        going = await self._database.read(store.going_schedules)
        for row in going:
            try:
                await self._follow(row)
            except DomainError as error:
                await self._wait(row, error)
            except Exception as error:  # the other schedules continue
                log.error("job_schedule_failed", schedule=row.id, **describe(error))
        return len(going)

    async def _follow(self, row: JobScheduleRow) -> None:
        """Submit what is due of one schedule, up to MAX_UNFINISHED."""
        request = JobRequest.model_validate_json(row.request)
        _, schedule = federation_of(request)
        period = row.next_period
        while not self._pauses.ending and period < queries.periods_over(
            schedule, self._clock.now()
        ):
            async with self._database.reading() as transaction:
                _, unfinished = await store.count_runs(transaction, row.id)
            if unfinished >= MAX_UNFINISHED or not await self._submit(row.id, request, period):
                return
            period += 1

    async def _submit(self, schedule_id: str, request: JobRequest, period: int) -> bool:
        """Submit the job of a period; False if another replica did, or the schedule was stopped."""
        prepared = await self._submission.prepare(run_request(request, period))
        async with self._database.begin() as transaction:
            if not await store.advance_schedule(transaction, schedule_id, period):
                return False
            job = await self._submission.add(transaction, prepared)
            await store.add_run(transaction, schedule_id, period, job.id)
        self._submitted()
        return True

    async def _wait(self, row: JobScheduleRow, error: DomainError) -> None:
        """Log and store why a period waits: once, not every second."""
        problem = json.dumps(plain_problem(error))
        if problem == row.problem:
            return
        log.warning("job_schedule_waits", schedule=row.id, problem=error.name)
        async with self._database.begin() as transaction:
            await store.note_schedule(transaction, row.id, problem)
