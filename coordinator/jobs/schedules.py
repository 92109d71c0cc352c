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
from typing import Annotated, Any, Final

from fastapi import Depends, FastAPI, Request, Response

from common.runtime.clock import Clock, uuid7
from common.runtime.logs import describe, get_logger
from common.runtime.tasks import Repeating
from common.store.transactions import Database, Transaction
from common.web import idempotency
from common.web.dependencies import part
from common.web.openapi import gives, takes
from common.web.paging import PageQuery, page_response
from common.web.wire import read_body
from coordinator import examples, queries
from coordinator.errors import UnknownSchedule
from coordinator.jobs.federated.preparation import Asked
from coordinator.jobs.submission import Submission
from coordinator.models.job import JobRequest, plain_problem
from coordinator.store import jobs as store
from coordinator.store.jobs import JobScheduleRow
from coordinator.store.tables import idempotency_keys
from coordinator.web import ClockPart, DatabasePart, Operator, encode, time_text
from tacit.accounting.amounts import Cost
from tacit.accounting.forecast import forecast_runs
from tacit.answers.jobs import JobSchedulePreview, ListOfJobSchedules, WholeJobSchedule
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
    asked = await submission.prepare(run_request(request, 0))
    assert isinstance(asked, Asked)
    report = asked.report
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


def forecast(report: PrivacyReport, schedule: Schedule) -> dict[str, Any]:
    """What a day, a month and a year of runs cost, as JSON; `report`: of one of them."""
    charged = report.charged
    return {
        "composition": "basic",
        "privacy_unit_of_a_run": None if charged is None else charged.privacy_unit,
        "horizons": [
            {
                "horizon": row.horizon,
                "days": row.days,
                "runs": row.runs,
                "record": _shown(row.record),
                "curator": _shown(row.curator),
            }
            for row in forecast_runs(_cost(charged), schedule.period_s)
        ],
    }


def _cost(charged: Charge | None) -> Cost:
    """The cost of one run; infinite if its charge has no figure."""
    if charged is None or charged.epsilon in (None, "inf") or charged.delta is None:
        return Cost(None, None)
    return Cost(Fraction(str(charged.epsilon)), Fraction(str(charged.delta)))


def _shown(cost: Cost) -> dict[str, str]:
    return {"epsilon": epsilon_amount(cost.epsilon), "delta": delta_amount(cost.delta)}


# Submits scheduled federated jobs: one for each period that is over, in order, also after any
# downtime.
#
# Spec: jobs, "Federated jobs"; aggregation, section 2. A period has one job: it is stored in the
# transaction that advances its schedule, which expects the period that it read.

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
        async with self._database.reading() as transaction:
            going = await store.going_schedules(transaction)
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
        asked = await self._submission.prepare(run_request(request, period))
        async with self._database.begin() as transaction:
            if not await store.advance_schedule(transaction, schedule_id, period):
                return False
            job = await self._submission.add(transaction, asked)
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


# Routes of scheduled federated jobs: beginning, following, ending.

SubmissionPart = Annotated[Submission, Depends(part(Submission))]


def add_job_schedules(app: FastAPI) -> None:
    """Add them to the app."""

    @app.post(
        "/v1/job-schedules",
        **gives(WholeJobSchedule, 201),
        tags=["jobs"],
        status_code=201,
        summary="Ask curators for a job again and again: one for each period that is over",
        openapi_extra=takes(JobRequest, examples.JOB_SCHEDULE),
    )
    async def create_job_schedule(
        request: Request,
        database: DatabasePart,
        clock: ClockPart,
        submission: SubmissionPart,
        scheduler: Annotated[JobScheduler, Depends(part(JobScheduler))],
        caller: Operator,
    ) -> Response:
        body = await read_body(request, JobRequest)
        key = await idempotency.request_key(request, caller.token_id)
        async with database.reading() as transaction:
            if stored := await idempotency.recall(transaction, idempotency_keys, key):
                return stored.response()
        prepared = await prepare(submission, body)
        row = begun(prepared, clock)
        async with database.begin() as transaction:
            if stored := await idempotency.recall(transaction, idempotency_keys, key):
                return stored.response()
            await store.add_schedule(transaction, row)
            answer = idempotency.StoredAnswer(
                201, encode(_whole(row, 0)), location=f"/v1/job-schedules/{row.id}"
            )
            now = clock.now()
            await idempotency.remember(transaction, idempotency_keys, key, answer, now)
        scheduler.wake()
        return answer.response(replayed=False)

    @app.post(
        "/v1/job-schedules/preview",
        **gives(JobSchedulePreview),
        tags=["jobs"],
        summary="The privacy report of a run, and what a day, a month and a year of runs cost",
        openapi_extra=takes(JobRequest, examples.JOB_SCHEDULE),
    )
    async def preview_job_schedule(
        request: Request, submission: SubmissionPart, _: Operator
    ) -> dict[str, Any]:
        body = await read_body(request, JobRequest)
        prepared = await prepare(submission, body)
        return {
            "algorithm": body.algorithm,
            "forecast": forecast(prepared.report, prepared.schedule),
            "preview": prepared.report.model_dump(mode="json"),
        }

    @app.get(
        "/v1/job-schedules",
        **gives(ListOfJobSchedules),
        tags=["jobs"],
        summary="Scheduled jobs, the newest first",
    )
    async def list_job_schedules(
        request: Request, page: PageQuery, database: DatabasePart, _: Operator
    ) -> Response:
        async with database.reading() as transaction:
            items = await listed(transaction, page.after_text(), page.limit)
        return page_response(request, "job_schedules", items, page.limit, "id")

    @app.get(
        "/v1/job-schedules/{schedule_id}",
        **gives(WholeJobSchedule),
        tags=["jobs"],
        summary="One scheduled job; its runs are those of `GET /v1/jobs?schedule=`",
    )
    async def get_job_schedule(
        schedule_id: str, database: DatabasePart, _: Operator
    ) -> dict[str, Any]:
        return await _found(database, schedule_id)

    @app.delete(
        "/v1/job-schedules/{schedule_id}",
        **gives(WholeJobSchedule),
        tags=["jobs"],
        summary="Ask for no further period; jobs that were asked for go on",
    )
    async def stop_job_schedule(
        schedule_id: str, database: DatabasePart, clock: ClockPart, _: Operator
    ) -> dict[str, Any]:
        async with database.begin() as transaction:
            await store.stop_schedule(transaction, schedule_id, clock.now())
        return await _found(database, schedule_id)


async def listed(transaction: Transaction, before: str | None, limit: int) -> list[dict[str, Any]]:
    """Scheduled jobs, the newest first, each with the number of its runs."""
    found = await store.page_of_schedules(transaction, before, limit)
    return [_schedule_shown(row, (await store.count_runs(transaction, row.id))[0]) for row in found]


async def _found(database: Database, schedule_id: str) -> dict[str, Any]:
    async with database.reading() as transaction:
        row = await store.find_schedule(transaction, schedule_id)
        if row is None:
            raise UnknownSchedule
        runs, _ = await store.count_runs(transaction, schedule_id)
    return _whole(row, runs)


def _schedule_shown(row: JobScheduleRow, runs: int) -> dict[str, Any]:
    request = JobRequest.model_validate_json(row.request)
    federation, schedule = federation_of(request)
    following = None
    if row.stopped is None:
        following = queries.period_window(schedule, row.next_period).model_dump(mode="json")
    return {
        "id": row.id,
        "algorithm": request.algorithm,
        "stance": request.stance,
        "params": request.params,
        "federation": federation.model_dump(mode="json", exclude_none=True),
        "state": "running" if row.stopped is None else "stopped",
        "runs": runs,
        "next_window": following,
        "waits_for": None if row.problem is None else json.loads(row.problem),
        "created": time_text(row.created),
        "stopped": time_text(row.stopped),
    }


def _whole(row: JobScheduleRow, runs: int) -> dict[str, Any]:
    report = PrivacyReport.model_validate_json(row.preview)
    _, schedule = federation_of(JobRequest.model_validate_json(row.request))
    return {
        **_schedule_shown(row, runs),
        "forecast": forecast(report, schedule),
        "preview": json.loads(row.preview),
    }
