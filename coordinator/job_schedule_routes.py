"""Routes of scheduled federated jobs: beginning, following, ending."""

from __future__ import annotations

import json
from typing import Any

from fastapi import FastAPI, Request, Response

from common.models.job import JobRequest
from common.models.report import PrivacyReport
from common.service import idempotency
from common.service.bodies import takes
from common.service.database import reading
from common.service.paging import PageQuery
from common.service.wire import read_body
from coordinator import examples, periods
from coordinator.errors import UnknownSchedule
from coordinator.jobs import scheduled_asking
from coordinator.jobs.scheduled_asking import federation_of
from coordinator.store import job_schedules as store
from coordinator.store.job_schedules import JobScheduleRow
from coordinator.store.tables import idempotency_keys
from coordinator.web import Operator, encode, page_response, service_of, time_text


def add_job_schedules(app: FastAPI) -> None:
    """Add them to the app."""

    @app.post(
        "/v1/job-schedules",
        tags=["jobs"],
        status_code=201,
        summary="Ask curators for a job again and again: one for each period that is over",
        openapi_extra=takes(JobRequest, examples.JOB_SCHEDULE),
    )
    async def begin(request: Request, caller: Operator) -> Response:
        service, body = service_of(app), await read_body(request, JobRequest)
        key = await idempotency.request_key(request, caller.token_id)
        async with reading(service.engine) as connection:
            if stored := await idempotency.recall(connection, idempotency_keys, key):
                return stored.response()
        prepared = await scheduled_asking.prepare(service.jobs.submission, body)
        row = scheduled_asking.begun(prepared, service.clock)
        async with service.engine.begin() as connection:
            if stored := await idempotency.recall(connection, idempotency_keys, key):
                return stored.response()
            await store.add(connection, row)
            answer = idempotency.StoredAnswer(
                201, encode(_whole(row, 0)), location=f"/v1/job-schedules/{row.id}"
            )
            now = service.clock.now()
            await idempotency.remember(connection, idempotency_keys, key, answer, now)
        service.jobs.scheduler.wake()
        return answer.response(replayed=False)

    @app.post(
        "/v1/job-schedules/preview",
        tags=["jobs"],
        summary="The privacy report of a run, and what a day, a month and a year of runs cost",
        openapi_extra=takes(JobRequest, examples.JOB_SCHEDULE),
    )
    async def preview(request: Request, _: Operator) -> dict[str, Any]:
        service, body = service_of(app), await read_body(request, JobRequest)
        prepared = await scheduled_asking.prepare(service.jobs.submission, body)
        return {
            "algorithm": body.algorithm,
            "forecast": scheduled_asking.forecast(prepared.report, prepared.schedule),
            "preview": prepared.report.model_dump(mode="json"),
        }

    @app.get("/v1/job-schedules", tags=["jobs"], summary="Scheduled jobs, the newest first")
    async def listing(request: Request, page: PageQuery, _: Operator) -> Response:
        async with reading(service_of(app).engine) as connection:
            found = await store.page(connection, page.after_text(), page.limit)
            runs = [(await store.count_runs(connection, row.id))[0] for row in found]
        items = [_shown(row, count) for row, count in zip(found, runs, strict=True)]
        return page_response(request, "job_schedules", items, page.limit, "id")

    @app.get(
        "/v1/job-schedules/{schedule_id}",
        tags=["jobs"],
        summary="One scheduled job; its runs are those of `GET /v1/jobs?schedule=`",
    )
    async def one(schedule_id: str, _: Operator) -> dict[str, Any]:
        return await _found(schedule_id)

    @app.delete(
        "/v1/job-schedules/{schedule_id}",
        tags=["jobs"],
        summary="Ask for no further period; jobs that were asked for go on",
    )
    async def stop(schedule_id: str, _: Operator) -> dict[str, Any]:
        service = service_of(app)
        async with service.engine.begin() as connection:
            await store.stop(connection, schedule_id, service.clock.now())
        return await _found(schedule_id)

    async def _found(schedule_id: str) -> dict[str, Any]:
        async with reading(service_of(app).engine) as connection:
            row = await store.find(connection, schedule_id)
            if row is None:
                raise UnknownSchedule
            runs, _ = await store.count_runs(connection, schedule_id)
        return _whole(row, runs)


def _shown(row: JobScheduleRow, runs: int) -> dict[str, Any]:
    request = JobRequest.model_validate_json(row.request)
    federation, schedule = federation_of(request)
    following = None
    if row.stopped is None:
        following = periods.window(schedule, row.next_period).model_dump(mode="json")
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
        **_shown(row, runs),
        "forecast": scheduled_asking.forecast(report, schedule),
        "preview": json.loads(row.preview),
    }
