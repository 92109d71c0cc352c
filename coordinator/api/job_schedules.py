from __future__ import annotations

import json
from typing import Any

from fastapi import Request, Response

from common.store.transactions import Transaction
from common.web import idempotency
from common.web.openapi import api_router, gives, takes
from common.web.paging import PageQuery
from common.web.wire import read_body
from coordinator import examples, queries
from coordinator.errors import UnknownSchedule
from coordinator.jobs.schedules import begun, federation_of, forecast, prepare
from coordinator.models.job import JobRequest
from coordinator.services import CoordinatorServices, Services
from coordinator.store import jobs as store
from coordinator.store.jobs import JobScheduleRow
from coordinator.store.tables import idempotency_keys
from coordinator.web import Operator, encode, link_next, time_text
from tacit.answers.jobs import JobSchedule, JobSchedulePreview, ListOfJobSchedules, WholeJobSchedule
from tacit.report.model import PrivacyReport

router = api_router()


@router.post(
    "/v1/job-schedules",
    **gives(WholeJobSchedule, 201),
    tags=["jobs"],
    status_code=201,
    summary="Ask curators for a job again and again: one for each period that is over",
    openapi_extra=takes(JobRequest, examples.JOB_SCHEDULE),
)
async def create_job_schedule(request: Request, services: Services, caller: Operator) -> Response:
    body = await read_body(request, JobRequest)
    key = await idempotency.request_key(request, caller.token_id)
    async with services.database.reading() as transaction:
        if stored := await idempotency.recall(transaction, idempotency_keys, key):
            return stored.response()
    prepared = await prepare(services.jobs.submission, body)
    row = begun(prepared, services.clock)
    async with services.database.begin() as transaction:
        if stored := await idempotency.recall(transaction, idempotency_keys, key):
            return stored.response()
        await store.add_schedule(transaction, row)
        answer = idempotency.StoredAnswer(
            201, encode(_whole(row, 0)), location=f"/v1/job-schedules/{row.id}"
        )
        now = services.clock.now()
        await idempotency.remember(transaction, idempotency_keys, key, answer, now)
    services.jobs.scheduler.wake()
    return answer.response(replayed=False)


@router.post(
    "/v1/job-schedules/preview",
    tags=["jobs"],
    summary="The privacy report of a run, and what a day, a month and a year of runs cost",
    openapi_extra=takes(JobRequest, examples.JOB_SCHEDULE),
)
async def preview_job_schedule(
    request: Request, services: Services, _: Operator
) -> JobSchedulePreview:
    body = await read_body(request, JobRequest)
    prepared = await prepare(services.jobs.submission, body)
    return JobSchedulePreview(
        algorithm=body.algorithm,
        forecast=forecast(prepared.report, prepared.schedule),
        preview=prepared.report,
    )


@router.get(
    "/v1/job-schedules",
    response_model_exclude_unset=True,
    tags=["jobs"],
    summary="Scheduled jobs, the newest first",
)
async def list_job_schedules(
    request: Request, response: Response, page: PageQuery, services: Services, _: Operator
) -> ListOfJobSchedules:
    async with services.database.reading() as transaction:
        schedules = await listed(transaction, page.after_text(), page.limit)
    link_next(request, response, page, schedules, "id")
    return ListOfJobSchedules(job_schedules=schedules)


@router.get(
    "/v1/job-schedules/{schedule_id}",
    response_model_exclude_unset=True,
    tags=["jobs"],
    summary="One scheduled job; its runs are those of `GET /v1/jobs?schedule=`",
)
async def get_job_schedule(schedule_id: str, services: Services, _: Operator) -> WholeJobSchedule:
    return await _find(services, schedule_id)


@router.delete(
    "/v1/job-schedules/{schedule_id}",
    response_model_exclude_unset=True,
    tags=["jobs"],
    summary="Request no further period; jobs that were requested continue",
)
async def stop_job_schedule(schedule_id: str, services: Services, _: Operator) -> WholeJobSchedule:
    async with services.database.begin() as transaction:
        await store.stop_schedule(transaction, schedule_id, services.clock.now())
    return await _find(services, schedule_id)


async def listed(transaction: Transaction, before: str | None, limit: int) -> list[JobSchedule]:
    """Scheduled jobs, the newest first, each with the number of its runs."""
    rows = await store.page_of_schedules(transaction, before, limit)
    return [
        JobSchedule(**_shown(row, (await store.count_runs(transaction, row.id))[0])) for row in rows
    ]


async def _find(services: CoordinatorServices, schedule_id: str) -> WholeJobSchedule:
    async with services.database.reading() as transaction:
        row = await store.find_schedule(transaction, schedule_id)
        if row is None:
            raise UnknownSchedule
        runs, _ = await store.count_runs(transaction, schedule_id)
    return _whole(row, runs)


def _whole(row: JobScheduleRow, runs: int) -> WholeJobSchedule:
    report = PrivacyReport.model_validate_json(row.preview)
    _, schedule = federation_of(JobRequest.model_validate_json(row.request))
    return WholeJobSchedule(
        **_shown(row, runs), forecast=forecast(report, schedule), preview=report
    )


def _shown(row: JobScheduleRow, runs: int) -> dict[str, Any]:
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
        "federation": federation,
        "state": "running" if row.stopped is None else "stopped",
        "runs": runs,
        "next_window": following,
        "waits_for": None if row.problem is None else json.loads(row.problem),
        "created": time_text(row.created),
        "stopped": time_text(row.stopped),
    }
