"""Routes of algorithms and jobs: submitting, following, cancelling, and reading results.

An operator (the data's custodian) sees everything; an analyst sees the published parts of jobs that
succeeded. The functions before the routes are shared with the console's pages.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

from fastapi import Path, Request, Response
from fastapi import Query as Parameter
from starlette.background import BackgroundTask
from starlette.responses import FileResponse, StreamingResponse

from algorithms import catalogue
from common.principals import Scope
from common.runtime.clock import Clock
from common.store.transactions import Database
from common.web import idempotency
from common.web.idempotency import RequestKey, StoredAnswer
from common.web.limits import Wait
from common.web.openapi import api_router, gives, gives_octets, takes
from common.web.paging import PageQuery, next_link
from common.web.wire import etag_response, json_response, read_body
from coordinator import examples
from coordinator.errors import (
    JobOver,
    UnknownPart,
)
from coordinator.jobs import results
from coordinator.jobs.federated import lifecycle
from coordinator.jobs.federated.conductor import collecting as collecting_jobs
from coordinator.jobs.pictures import KINDS
from coordinator.jobs.results import Comparison, Results, compared
from coordinator.models.job import FINISHED, JobRequest, JobState
from coordinator.services import CoordinatorServices, Jobs, Services
from coordinator.store import jobs as store
from coordinator.store.jobs import Filter, JobRow
from coordinator.store.tables import idempotency_keys
from coordinator.web import Analyst, Operator, Party, Reader, encode
from tacit.answers.jobs import (
    Algorithm,
    CollectingJob,
    CreatedJob,
    Evaluation,
    Job,
    JobPreview,
    JobResult,
    ListOfAlgorithms,
    ListOfJobs,
    PublishedJob,
    ReportsTaken,
    ReportTaken,
)
from tacit.protocol.federation import FederatedStep, Reports
from tacit.report.model import PrivacyReport

router = api_router()


async def submit(
    services: CoordinatorServices, body: JobRequest, key: RequestKey | None
) -> tuple[StoredAnswer, bool]:
    """Check, reserve and queue a job, once for each idempotency key; the answer, and whether it
    was stored before. Raises what the checks raise, before anything is stored."""
    database, jobs, now = services.database, services.jobs, services.clock.now()
    async with database.reading() as transaction:
        if stored := await idempotency.recall(transaction, idempotency_keys, key):
            return stored, True
    prepared = await jobs.submission.prepare(body)
    async with database.begin() as transaction:
        if stored := await idempotency.recall(transaction, idempotency_keys, key):
            return stored, True
        row = await jobs.submission.add(transaction, prepared)
        content = encode(results.created(row, now))
        answer = StoredAnswer(202, content, location=f"/v1/jobs/{row.id}")
        await idempotency.remember(transaction, idempotency_keys, key, answer, now)
    jobs.dispatcher.wake()
    jobs.federated.wake()
    return answer, False


async def cancel(services: CoordinatorServices, job_id: str) -> JobRow:
    """End a job, or request its end; the job as it is then. Raises UnknownJob, JobOver."""
    database, jobs, now = services.database, services.jobs, services.clock.now()
    row = await results.find(database, job_id, operator=True)
    if row.state is JobState.CANCELLED:
        return row
    if row.state in FINISHED:
        raise JobOver(extra={"state": row.state.value})
    async with database.begin() as transaction:
        changed = row.cancelling is None and await store.change(
            transaction, job_id, (JobState.RUNNING,), cancelling=now
        )
    if not changed and row.cancelling is None and row.state is JobState.QUEUED:
        await jobs.attempts.end(job_id, JobState.CANCELLED, None)
    jobs.dispatcher.wake()
    jobs.federated.wake()
    return await results.find(database, job_id, operator=True)


EVENTS: Final = "text/event-stream"
_EVENT: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "Each event `job` is the job's document; of a job over curators that is "
        "debited once, `job_debited` and `job_settled` are its entries of the ledger. `attempt` is "
        "the number of the attempt that `progress` and `stage` are about: `progress` never goes "
        "back within an attempt and begins again at 0 with the next one.",
        "content": {EVENTS: {"schema": {"type": "string"}, "example": examples.JOB_EVENT}},
    }
}
LOOK_S: Final = 1.0
SILENCE_LOOKS: Final = 15

Ids = Annotated[
    str, Parameter(max_length=400, description="Ids of two to four jobs, with commas between.")
]
State = Annotated[list[JobState] | None, Parameter(description="Only jobs in these states.")]


@router.get(
    "/v1/algorithms",
    **gives(ListOfAlgorithms),
    tags=["jobs"],
    summary="The algorithms that run as jobs",
)
async def list_algorithms(request: Request, _: Analyst) -> Response:
    return etag_response(request, encode(await asyncio.to_thread(_algorithms)))


@router.get(
    "/v1/algorithms/{name}",
    **gives(Algorithm),
    tags=["jobs"],
    summary="One algorithm and its parameters",
)
async def get_algorithm(request: Request, name: str, _: Analyst) -> Response:
    return etag_response(request, encode(await asyncio.to_thread(_algorithm, name)))


def _algorithm(name: str) -> Algorithm:
    return Algorithm(**catalogue.shown(name))


def _algorithms() -> ListOfAlgorithms:
    return ListOfAlgorithms(algorithms=[_algorithm(name) for name in catalogue.NAMES])


@router.post(
    "/v1/jobs",
    **gives(CreatedJob, 202),
    tags=["jobs"],
    status_code=202,
    summary="Ask for a job; it is checked against the data before it is queued",
    openapi_extra=takes(JobRequest, examples.JOB),
)
async def create_job(request: Request, services: Services, caller: Operator) -> Response:
    body = await read_body(request, JobRequest)
    key = await idempotency.request_key(request, caller.token_id)
    answer, replayed = await submit(services, body, key)
    return answer.response(replayed=replayed)


@router.post(
    "/v1/jobs/preview",
    tags=["jobs"],
    summary="The privacy report that a job would carry; nothing is queued or spent",
    openapi_extra=takes(JobRequest, examples.JOB),
)
async def preview_job(request: Request, services: Services, _: Operator) -> JobPreview:
    body = await read_body(request, JobRequest)
    prepared = await services.jobs.submission.prepare(body)
    return JobPreview(
        algorithm=body.algorithm,
        dataset=body.dataset,
        params=prepared.params.model_dump(mode="json"),
        charge=results.price_shown(prepared.price),
        preview=prepared.report.model_copy(
            update={"subject": prepared.report.subject.model_copy(update={"id": "preview"})}
        ),
    )


@router.get(
    "/v1/jobs",
    **gives(ListOfJobs),
    tags=["jobs"],
    summary=(
        "Jobs, the newest first; `collecting=true` returns the signed descriptors of those "
        "that collect reports, for curators, long-polled by ETag"
    ),
)
async def list_jobs(
    request: Request,
    page: PageQuery,
    services: Services,
    caller: Reader,
    state: State = None,
    algorithm: str | None = None,
    dataset: str | None = None,
    schedule: str | None = None,
    collecting: bool = False,
    wait_s: Wait = 0,
) -> Response:
    if collecting:
        return await collecting_jobs(
            request, services.jobs.federated.collection, services.changes, wait_s
        )
    caller.demand(Scope.ANALYST, Scope.OPERATOR)
    states = tuple(state or ())
    if not caller.has(Scope.OPERATOR):
        states = (JobState.SUCCEEDED,)
    which = Filter(states, algorithm, dataset, schedule)
    async with services.database.reading() as transaction:
        rows = await store.page(transaction, which, page.after_text(), page.limit)
    operator, now = caller.has(Scope.OPERATOR), services.clock.now()
    jobs: list[Job | PublishedJob | CollectingJob] = [
        results.timed(row, now) if operator else results.published(row) for row in rows
    ]
    body = ListOfJobs.model_construct(jobs=jobs).model_dump_json(exclude_unset=True)
    headers = next_link(request, rows[-1].id) if len(rows) == page.limit else None
    return json_response(body, headers=headers)


@router.get(
    "/v1/jobs/compare",
    tags=["jobs"],
    summary="Two to four jobs that succeeded, side by side; keys that differ are marked",
)
async def compare_jobs(services: Services, caller: Analyst, ids: Ids) -> Comparison:
    operator = caller.has(Scope.OPERATOR)
    return await compared(
        services.database, services.jobs.results, ids.split(","), operator=operator
    )


@router.get(
    "/v1/jobs/{job_id}",
    **gives(Job | PublishedJob),
    tags=["jobs"],
    summary="One job, long-polled by ETag",
)
async def get_job(
    request: Request, job_id: str, services: Services, caller: Analyst, wait_s: Wait = 0
) -> Response:
    operator = caller.has(Scope.OPERATOR)

    async def look() -> tuple[Response, bool]:
        row = await results.find(services.database, job_id, operator=operator)
        if operator:
            job = results.timed(row, services.clock.now())
            tag_of = encode(job.model_copy(update={"remaining_s": None}))
            answer = etag_response(request, encode(job), tag_of=tag_of)
        else:
            answer = etag_response(request, encode(results.published(row)))
        return answer, answer.status_code == 304

    return await services.jobs.changes.poll(look, wait_s, LOOK_S)


@router.get(
    "/v1/jobs/{job_id}/events",
    tags=["jobs"],
    summary="The job each time it changes, as server-sent events, until it has finished",
    response_class=StreamingResponse,
    responses=_EVENT,
)
async def follow_job(job_id: str, services: Services, _: Operator) -> StreamingResponse:
    await results.find(services.database, job_id, operator=True)
    return StreamingResponse(
        _events(services.database, services.clock, services.jobs, job_id), media_type=EVENTS
    )


@router.delete(
    "/v1/jobs/{job_id}",
    response_model_exclude_unset=True,
    tags=["jobs"],
    status_code=202,
    summary="Cancel a job; if noise was drawn, its charge stays",
)
async def cancel_job(job_id: str, services: Services, _: Operator) -> Job:
    row = await cancel(services, job_id)
    return results.timed(row, services.clock.now())


# --- parts ---------------------------------------------------------------------------------------


async def _events(
    database: Database, clock: Clock, jobs: Jobs, job_id: str
) -> AsyncIterator[bytes]:
    """The job at each change; a comment at intervals keeps the connection open."""
    last, silent, entries = None, 0, 0
    while True:
        ticket = jobs.changes.ticket()
        async with database.reading() as transaction:
            row = await store.find(transaction, job_id)
            if row is None:
                return
            job = results.timed(row, clock.now())
            shown = job.model_copy(update={"remaining_s": None})
            is_new = shown != last and row.federation is not None
            events = await lifecycle.events_of(transaction, job_id) if is_new else []
        for kind, entry in events[entries:]:
            yield f"event: {kind}\ndata: ".encode() + encode(entry) + b"\n\n"
        entries = max(entries, len(events))
        if shown != last:
            last, silent = shown, 0
            yield b"event: job\ndata: " + encode(job) + b"\n\n"
        elif (silent := silent + 1) % SILENCE_LOOKS == 0:
            yield b": still there\n\n"
        if row.state in FINISHED or jobs.changes.ended:
            return
        await jobs.changes.wait(ticket, LOOK_S)


Number = Annotated[int, Path(ge=0, lt=2**31)]


@router.get(
    "/v1/jobs/{job_id}/steps/{number}",
    **gives(FederatedStep),
    tags=["jobs"],
    summary="What one round of a federated job asks of each curator",
)
async def get_job_step(
    request: Request, job_id: str, number: Number, services: Services, _: Reader
) -> Response:
    async with services.database.reading() as transaction:
        step = await store.find_step(transaction, job_id, number)
    if step is None:
        raise UnknownPart
    return etag_response(request, step.document.encode())


@router.post(
    "/v1/jobs/{job_id}/reports",
    response_model_exclude_none=True,
    tags=["jobs"],
    summary="Noisy reports of a party's curators; one answer for each",
    openapi_extra=takes(Reports, examples.REPORTS),
)
async def submit_job_reports(
    request: Request, job_id: str, services: Services, caller: Party
) -> ReportsTaken:
    body = await read_body(request, Reports)
    answers = await services.jobs.federated.collection.take(job_id, caller.subject or "", body)
    return ReportsTaken(
        reports=[
            ReportTaken(index=index, status=answer.status, detail=answer.detail)
            for index, answer in enumerate(answers)
        ]
    )


@router.get(
    "/v1/jobs/{job_id}/result",
    **gives(JobResult),
    tags=["jobs"],
    summary="The result as JSON, or by `Accept` the native file of that media type",
)
async def get_job_result(
    request: Request, job_id: str, services: Services, caller: Analyst
) -> Response:
    await results.succeeded(services.database, job_id, operator=caller.has(Scope.OPERATOR))
    document = await asyncio.to_thread(services.jobs.results.document, job_id)
    wanted = request.headers.get("accept", "").partition(";")[0].partition(",")[0].strip()
    for file in document["files"]:
        if wanted == file["media_type"] and wanted != "application/json":
            path = services.jobs.results.path(job_id, f"files/{file['name']}")
            return FileResponse(path, media_type=wanted, headers={"Vary": "Accept"})
    return etag_response(request, encode(document), headers={"Vary": "Accept"})


@router.get(
    "/v1/jobs/{job_id}/report",
    **gives(PrivacyReport, also=["text/plain"]),
    tags=["jobs"],
    summary="The privacy report, as JSON or (Accept: text/plain) in plain words",
)
async def get_job_report(
    request: Request, job_id: str, services: Services, caller: Analyst
) -> Response:
    plain = request.headers.get("accept", "").startswith("text/plain")
    await results.succeeded(services.database, job_id, operator=caller.has(Scope.OPERATOR))
    name = "report.txt" if plain else "report.json"
    body = await _bytes(services.jobs.results, job_id, name)
    media_type = "text/plain; charset=utf-8" if plain else "application/json"
    return etag_response(request, body, media_type=media_type, headers={"Vary": "Accept"})


@router.get(
    "/v1/jobs/{job_id}/files/{name}",
    **gives_octets(),
    tags=["jobs"],
    summary="A native file of the result",
)
async def get_job_file(job_id: str, name: str, services: Services, caller: Analyst) -> Response:
    await results.succeeded(services.database, job_id, operator=caller.has(Scope.OPERATOR))
    document = await asyncio.to_thread(services.jobs.results.document, job_id)
    kinds = {item["name"]: item["media_type"] for item in document["files"]}
    if name not in kinds:
        raise UnknownPart
    return FileResponse(services.jobs.results.path(job_id, f"files/{name}"), media_type=kinds[name])


@router.get(
    "/v1/jobs/{job_id}/plots/{name}",
    **gives_octets("image/svg+xml", "image/png"),
    tags=["jobs"],
    summary="A plot of published values, drawn when it is first requested: NAME.svg, NAME.png, or "
    "NAME by `Accept`",
)
async def get_job_plot(
    request: Request, job_id: str, name: str, services: Services, caller: Analyst
) -> Response:
    await results.succeeded(services.database, job_id, operator=caller.has(Scope.OPERATOR))
    if not name.endswith(tuple(KINDS)):
        name += ".png" if "image/png" in request.headers.get("accept", "") else ".svg"
    path = await services.jobs.pictures.path(job_id, name)
    return FileResponse(path, media_type=KINDS[path.suffix], headers={"Vary": "Accept"})


@router.get(
    "/v1/jobs/{job_id}/archive",
    **gives_octets("application/zip"),
    tags=["jobs"],
    summary="All published parts in one zip",
)
async def get_job_archive(job_id: str, services: Services, caller: Analyst) -> Response:
    await results.succeeded(services.database, job_id, operator=caller.has(Scope.OPERATOR))
    path = await asyncio.to_thread(services.jobs.results.archive, job_id)
    return FileResponse(
        path,
        media_type="application/zip",
        filename=f"{job_id}.zip",
        background=BackgroundTask(path.unlink, missing_ok=True),
    )


@router.get(
    "/v1/jobs/{job_id}/evaluation",
    tags=["jobs"],
    summary="The comparison with the true data: never private, never published",
)
async def get_job_evaluation(job_id: str, services: Services, caller: Operator) -> Evaluation:
    await results.succeeded(services.database, job_id, operator=caller.has(Scope.OPERATOR))
    body = await asyncio.to_thread(services.jobs.results.evaluation, job_id)
    return Evaluation(format="tacit.evaluation/1", private=True, evaluation=json.loads(body))


async def _bytes(results: Results, job_id: str, part: str) -> bytes:
    path = await asyncio.to_thread(results.path, job_id, part)
    return await asyncio.to_thread(path.read_bytes)
