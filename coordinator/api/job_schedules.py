from __future__ import annotations

import json
from typing import Any

from fastapi import Request, Response

from common.store.transactions import Database, Transaction
from common.web import idempotency
from common.web.openapi import gives, takes
from common.web.paging import PageQuery, page_response
from common.web.wire import read_body
from coordinator import examples, queries
from coordinator.errors import UnknownSchedule
from coordinator.jobs.schedules import begun, federation_of, forecast, prepare
from coordinator.models.job import JobRequest
from coordinator.services import Services
from coordinator.store import jobs as store
from coordinator.store.jobs import JobScheduleRow
from coordinator.store.tables import idempotency_keys
from coordinator.web import Operator, api_router, encode, time_text
from tacit.answers.jobs import JobSchedulePreview, ListOfJobSchedules, WholeJobSchedule
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
async def create_job_schedule(
    request: Request,
    services: Services,
    caller: Operator,
) -> Response:
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
    **gives(JobSchedulePreview),
    tags=["jobs"],
    summary="The privacy report of a run, and what a day, a month and a year of runs cost",
    openapi_extra=takes(JobRequest, examples.JOB_SCHEDULE),
)
async def preview_job_schedule(request: Request, services: Services, _: Operator) -> dict[str, Any]:
    body = await read_body(request, JobRequest)
    prepared = await prepare(services.jobs.submission, body)
    return {
        "algorithm": body.algorithm,
        "forecast": forecast(prepared.report, prepared.schedule),
        "preview": prepared.report.model_dump(mode="json"),
    }


@router.get(
    "/v1/job-schedules",
    **gives(ListOfJobSchedules),
    tags=["jobs"],
    summary="Scheduled jobs, the newest first",
)
async def list_job_schedules(
    request: Request, page: PageQuery, services: Services, _: Operator
) -> Response:
    async with services.database.reading() as transaction:
        items = await listed(transaction, page.after_text(), page.limit)
    return page_response(request, "job_schedules", items, page.limit, "id")


@router.get(
    "/v1/job-schedules/{schedule_id}",
    **gives(WholeJobSchedule),
    tags=["jobs"],
    summary="One scheduled job; its runs are those of `GET /v1/jobs?schedule=`",
)
async def get_job_schedule(schedule_id: str, services: Services, _: Operator) -> dict[str, Any]:
    return await _found(services.database, schedule_id)


@router.delete(
    "/v1/job-schedules/{schedule_id}",
    **gives(WholeJobSchedule),
    tags=["jobs"],
    summary="Ask for no further period; jobs that were asked for go on",
)
async def stop_job_schedule(schedule_id: str, services: Services, _: Operator) -> dict[str, Any]:
    async with services.database.begin() as transaction:
        await store.stop_schedule(transaction, schedule_id, services.clock.now())
    return await _found(services.database, schedule_id)


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
