"""Pages of jobs: the list, one job as it runs and what came of it, results side by side.

An analyst sees jobs that succeeded, without their times; the comparison with the true data is an
operator's. Spec: console, section 5.8.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import Query as Parameter
from fastapi import Response
from starlette.background import BackgroundTask
from starlette.responses import FileResponse

from common.web.console.pages import HEADERS, console_router, see
from common.web.limits import Wait
from coordinator.api import jobs as api
from coordinator.api.job_schedules import listed
from coordinator.console.visits import Operator, Person
from coordinator.errors import UnknownPart, UnknownSchedule
from coordinator.jobs import views
from coordinator.jobs.results import compared
from coordinator.models.job import FINISHED, JobState
from coordinator.services import CoordinatorServices, Services
from coordinator.store import jobs as job_schedules
from coordinator.store import jobs as store
from coordinator.store.jobs import Filter, JobRow
from tacit.report.model import PrivacyReport

router = console_router()

Ids = Annotated[list[str] | None, Parameter(max_length=8)]

ROWS: Final = 50
_LOOK_S: Final = 1.0
_SHORT: Final = 400
_MOST_ITEMS: Final = 20
SAID: Final = {
    "asked": "The job is queued.",
    "cancelled": "The job ends as soon as it can.",
    "stopped": "No further period is asked for.",
}


@router.get("/jobs")
async def listing(
    visit: Person, services: Services, state: str = "", before: str | None = None
) -> Response:
    operator = visit.operator
    states = tuple(each for each in JobState if each.value == state)
    which = Filter(states if operator else (JobState.SUCCEEDED,))
    async with services.database.reading() as transaction:
        found = await store.page(transaction, which, before, ROWS)
        schedules = await listed(transaction, None, ROWS) if operator else []
    now = services.clock.now()
    return visit.show(
        "jobs.html",
        rows=[views.timed(row, now) if operator else views.published(row) for row in found],
        states=[each.value for each in JobState] if operator else [],
        state=state,
        older=found[-1].id if len(found) == ROWS else None,
        before=before,
        schedules=schedules,
        error=None,
        said=visit.said(SAID),
    )


@router.post("/job-schedules/{schedule_id}/stop")
async def stop_schedule(visit: Operator, schedule_id: str, services: Services) -> Response:
    await visit.form()
    async with services.database.begin() as transaction:
        if await job_schedules.find_schedule(transaction, schedule_id) is None:
            raise UnknownSchedule
        await job_schedules.stop_schedule(transaction, schedule_id, services.clock.now())
    await visit.note("stopped a job schedule", schedule_id)
    return see("/console/jobs?said=stopped")


@router.get("/jobs/compare")
async def compare(visit: Person, services: Services, ids: Ids = None) -> Response:
    chosen = [each for group in ids or () for each in group.split(",")]
    found = await compared(
        services.database, services.jobs.results, chosen, operator=visit.operator
    )
    return visit.show("compare-jobs.html", found=found, text=text)


@router.get("/jobs/{job_id}")
async def one(visit: Person, job_id: str, services: Services) -> Response:
    row = await views.find(services.database, job_id, operator=visit.operator)
    values = await _values(services, row, operator=visit.operator)
    return visit.show("job.html", said=visit.said(SAID), **values)


@router.get("/jobs/{job_id}/live")
async def live(visit: Person, job_id: str, services: Services, wait_s: Wait = 0) -> Response:
    async def values() -> dict[str, Any]:
        row = await views.find(services.database, job_id, operator=visit.operator)
        return await _values(services, row, operator=visit.operator)

    return await visit.pages.live(
        visit.request,
        "job-live.html",
        visit.visitor,
        values,
        wait_s,
        _LOOK_S,
        services.jobs.changes,
    )


@router.post("/jobs/{job_id}/cancel")
async def cancel(visit: Operator, job_id: str, services: Services) -> Response:
    await visit.form()
    await api.cancel(services, job_id)
    await visit.note("cancelled a job", job_id)
    return see(f"/console/jobs/{job_id}?said=cancelled")


@router.get("/jobs/{job_id}/plots/{name}")
async def plot(visit: Person, job_id: str, name: str, services: Services) -> Response:
    await views.succeeded(services.database, job_id, operator=visit.operator)
    if not name.endswith((".svg", ".png")):
        raise UnknownPart
    path = await asyncio.to_thread(services.jobs.results.path, job_id, f"plots/{name}")
    kind = "image/png" if name.endswith(".png") else "image/svg+xml"
    return FileResponse(path, media_type=kind, headers=dict(HEADERS))


@router.get("/jobs/{job_id}/files/{name}")
async def file(visit: Person, job_id: str, name: str, services: Services) -> Response:
    await views.succeeded(services.database, job_id, operator=visit.operator)
    path = await asyncio.to_thread(services.jobs.results.path, job_id, f"files/{name}")
    return FileResponse(
        path, media_type="application/octet-stream", filename=name, headers=dict(HEADERS)
    )


@router.get("/jobs/{job_id}/archive.zip")
async def archive(visit: Person, job_id: str, services: Services) -> Response:
    await views.succeeded(services.database, job_id, operator=visit.operator)
    path = await asyncio.to_thread(services.jobs.results.archive, job_id)
    return FileResponse(
        path,
        media_type="application/zip",
        filename=f"{job_id}.zip",
        headers=dict(HEADERS),
        background=BackgroundTask(path.unlink, missing_ok=True),
    )


@router.get("/jobs/{job_id}/evaluation.json")
async def evaluation(visit: Operator, job_id: str, services: Services) -> Response:
    await views.succeeded(services.database, job_id, operator=visit.operator)
    body = await asyncio.to_thread(services.jobs.results.evaluation, job_id)
    headers = {
        **HEADERS,
        "Content-Disposition": f'attachment; filename="private-{job_id}.json"',
    }
    return Response(body, media_type="application/json", headers=headers)


async def _values(services: CoordinatorServices, row: JobRow, *, operator: bool) -> dict[str, Any]:
    """What a job's page tells its reader."""
    results = services.jobs.results
    values: dict[str, Any] = {
        "job": views.timed(row, services.clock.now()) if operator else views.published(row),
        "finished": row.state in FINISHED,
        "operator": operator,
        "failure": failure(row.error) if operator else None,
        "result": None,
        "report": PrivacyReport.model_validate_json(row.preview) if operator else None,
        "text": text,
    }
    if row.state is JobState.SUCCEEDED:
        document = await asyncio.to_thread(results.document, row.id)
        kept = await asyncio.to_thread(results.path, row.id, "report.json")
        content = await asyncio.to_thread(kept.read_bytes)
        values |= {"result": document, "report": PrivacyReport.model_validate_json(content)}
    return values


@dataclass(frozen=True)
class Failure:
    """Why a job failed: a problem as its worker gave it, of which nothing is taken for granted."""

    title: str
    detail: str
    faults: tuple[tuple[str, str], ...]
    retryable: bool


def failure(error: str | None) -> Failure | None:
    """The failure of a job's stored problem."""
    told = None if error is None else json.loads(error)
    if not isinstance(told, dict):
        return None
    title, detail, listed = (told.get(name) for name in ("title", "detail", "errors"))
    found = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    faults = [(str(each.get("pointer", "")), str(each.get("detail", ""))) for each in found]
    return Failure(
        title=str(title or "It failed"),
        detail=str(detail) if detail and detail != title else "",
        faults=tuple(faults),
        retryable=told.get("retryable") is True,
    )


def text(value: Any) -> str:
    """A value of a result as a line: whole if it is short, else its size."""
    if isinstance(value, str):
        return value if len(value) <= _SHORT else f"{value[:_SHORT]} …"
    if isinstance(value, Mapping | list) and len(value) > _MOST_ITEMS:
        return f"{len(value)} entries: see the archive"
    whole = json.dumps(value, ensure_ascii=False)
    return whole if len(whole) <= _SHORT else f"{len(whole)} characters: see the archive"
