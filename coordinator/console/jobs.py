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

from fastapi import APIRouter, Depends, Request, Response
from fastapi import Query as Parameter
from starlette.background import BackgroundTask
from starlette.responses import FileResponse

from common.principals import Scope
from common.store.transactions import Database
from common.web.console.browser_sessions import Visitor
from common.web.console.pages import HEADERS, PagesPart, own_form, see
from common.web.console.sign_in import SessionsPart
from common.web.dependencies import part
from common.web.limits import Wait
from coordinator.console.budget import Person
from coordinator.console.ledger import Operator
from coordinator.errors import UnknownPart, UnknownSchedule
from coordinator.jobs import routes, views
from coordinator.jobs.results import Results, compared
from coordinator.jobs.schedules import listed
from coordinator.jobs.wiring import Jobs
from coordinator.models.job import FINISHED, JobState
from coordinator.store import jobs as job_schedules
from coordinator.store import jobs as store
from coordinator.store.jobs import Filter, JobRow
from coordinator.web import ClockPart, DatabasePart
from tacit.report.model import PrivacyReport

JobsPart = Annotated[Jobs, Depends(part(Jobs))]
ResultsPart = Annotated[Results, Depends(part(Results))]
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


def add_jobs(router: APIRouter) -> None:
    """Add the pages."""
    _add_lists(router)
    _add_one(router)
    _add_parts(router)


def _add_lists(router: APIRouter) -> None:
    @router.get("/jobs")
    async def listing(
        request: Request,
        pages: PagesPart,
        database: DatabasePart,
        clock: ClockPart,
        visitor: Person,
        state: str = "",
        before: str | None = None,
    ) -> Response:
        operator = visitor.has(Scope.OPERATOR)
        states = tuple(each for each in JobState if each.value == state)
        which = Filter(states if operator else (JobState.SUCCEEDED,))
        async with database.reading() as transaction:
            found = await store.page(transaction, which, before, ROWS)
            schedules = await listed(transaction, None, ROWS) if operator else []
        now = clock.now()
        return pages.show(
            request,
            "jobs.html",
            visitor,
            rows=[views.timed(row, now) if operator else views.published(row) for row in found],
            states=[each.value for each in JobState] if operator else [],
            state=state,
            older=found[-1].id if len(found) == ROWS else None,
            before=before,
            schedules=schedules,
            error=None,
            said=SAID.get(request.query_params.get("said", "")),
        )

    @router.post("/job-schedules/{schedule_id}/stop")
    async def stop_schedule(
        request: Request,
        schedule_id: str,
        database: DatabasePart,
        clock: ClockPart,
        sessions: SessionsPart,
        visitor: Operator,
    ) -> Response:
        await own_form(request, visitor)
        async with database.begin() as transaction:
            if await job_schedules.find_schedule(transaction, schedule_id) is None:
                raise UnknownSchedule
            await job_schedules.stop_schedule(transaction, schedule_id, clock.now())
        await sessions.note(visitor, "stopped a job schedule", schedule_id, "done")
        return see("/console/jobs?said=stopped")

    @router.get("/jobs/compare")
    async def compare(
        request: Request,
        pages: PagesPart,
        database: DatabasePart,
        results: ResultsPart,
        visitor: Person,
        ids: Ids = None,
    ) -> Response:
        chosen = [each for group in ids or () for each in group.split(",")]
        found = await compared(database, results, chosen, operator=visitor.has(Scope.OPERATOR))
        return pages.show(request, "compare-jobs.html", visitor, found=found, text=text)


def _add_one(router: APIRouter) -> None:
    @router.get("/jobs/{job_id}")
    async def one(
        request: Request,
        job_id: str,
        pages: PagesPart,
        database: DatabasePart,
        clock: ClockPart,
        results: ResultsPart,
        visitor: Person,
    ) -> Response:
        row = await views.find(database, job_id, operator=visitor.has(Scope.OPERATOR))
        values = await _values(results, row, clock, visitor)
        said = SAID.get(request.query_params.get("said", ""))
        return pages.show(request, "job.html", visitor, said=said, **values)

    @router.get("/jobs/{job_id}/live")
    async def live(
        request: Request,
        job_id: str,
        pages: PagesPart,
        database: DatabasePart,
        clock: ClockPart,
        jobs: JobsPart,
        results: ResultsPart,
        visitor: Person,
        wait_s: Wait = 0,
    ) -> Response:
        async def values() -> dict[str, Any]:
            row = await views.find(database, job_id, operator=visitor.has(Scope.OPERATOR))
            return await _values(results, row, clock, visitor)

        return await pages.live(
            request, "job-live.html", visitor, values, wait_s, _LOOK_S, jobs.changes
        )

    @router.post("/jobs/{job_id}/cancel")
    async def cancel(
        request: Request,
        job_id: str,
        database: DatabasePart,
        clock: ClockPart,
        jobs: JobsPart,
        sessions: SessionsPart,
        visitor: Operator,
    ) -> Response:
        await own_form(request, visitor)
        await routes.cancel(database, jobs, clock.now(), job_id)
        await sessions.note(visitor, "cancelled a job", job_id, "done")
        return see(f"/console/jobs/{job_id}?said=cancelled")


def _add_parts(router: APIRouter) -> None:
    """Files of a result. A browser has no token for the API, so pages have addresses of their
    own."""

    async def succeeded(database: Database, visitor: Visitor, job_id: str) -> None:
        await views.succeeded(database, job_id, operator=visitor.has(Scope.OPERATOR))

    @router.get("/jobs/{job_id}/plots/{name}")
    async def plot(
        job_id: str, name: str, database: DatabasePart, results: ResultsPart, visitor: Person
    ) -> Response:
        await succeeded(database, visitor, job_id)
        if not name.endswith((".svg", ".png")):
            raise UnknownPart
        path = await asyncio.to_thread(results.path, job_id, f"plots/{name}")
        kind = "image/png" if name.endswith(".png") else "image/svg+xml"
        return FileResponse(path, media_type=kind, headers=dict(HEADERS))

    @router.get("/jobs/{job_id}/files/{name}")
    async def file(
        job_id: str, name: str, database: DatabasePart, results: ResultsPart, visitor: Person
    ) -> Response:
        await succeeded(database, visitor, job_id)
        path = await asyncio.to_thread(results.path, job_id, f"files/{name}")
        return FileResponse(
            path, media_type="application/octet-stream", filename=name, headers=dict(HEADERS)
        )

    @router.get("/jobs/{job_id}/archive.zip")
    async def archive(
        job_id: str, database: DatabasePart, results: ResultsPart, visitor: Person
    ) -> Response:
        await succeeded(database, visitor, job_id)
        path = await asyncio.to_thread(results.archive, job_id)
        return FileResponse(
            path,
            media_type="application/zip",
            filename=f"{job_id}.zip",
            headers=dict(HEADERS),
            background=BackgroundTask(path.unlink, missing_ok=True),
        )

    @router.get("/jobs/{job_id}/evaluation.json")
    async def evaluation(
        job_id: str, database: DatabasePart, results: ResultsPart, visitor: Operator
    ) -> Response:
        await succeeded(database, visitor, job_id)
        body = await asyncio.to_thread(results.evaluation, job_id)
        headers = {
            **HEADERS,
            "Content-Disposition": f'attachment; filename="private-{job_id}.json"',
        }
        return Response(body, media_type="application/json", headers=headers)


async def _values(results: Results, row: JobRow, clock: Any, visitor: Visitor) -> dict[str, Any]:
    """What a job's page tells its reader."""
    operator = visitor.has(Scope.OPERATOR)
    values: dict[str, Any] = {
        "job": views.timed(row, clock.now()) if operator else views.published(row),
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
