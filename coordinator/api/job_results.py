from __future__ import annotations

import asyncio
import json

from fastapi import Request, Response
from starlette.background import BackgroundTask
from starlette.responses import FileResponse

from common.web.openapi import gives, gives_octets
from common.web.tokens import Scope
from common.web.wire import etag_response
from coordinator.errors import (
    UnknownPart,
)
from coordinator.jobs import views
from coordinator.jobs.results import Results
from coordinator.services import Services
from coordinator.web import (
    Analyst,
    Operator,
    api_router,
    encode,
)
from tacit.answers.jobs import (
    Evaluation,
    JobResult,
)
from tacit.report.model import PrivacyReport

router = api_router()


@router.get(
    "/v1/jobs/{job_id}/result",
    **gives(JobResult),
    tags=["jobs"],
    summary="The result as JSON, or by `Accept` the native file of that media type",
)
async def get_job_result(
    request: Request, job_id: str, services: Services, caller: Analyst
) -> Response:
    await views.succeeded(services.database, job_id, operator=caller.has(Scope.OPERATOR))
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
    await views.succeeded(services.database, job_id, operator=caller.has(Scope.OPERATOR))
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
    await views.succeeded(services.database, job_id, operator=caller.has(Scope.OPERATOR))
    document = await asyncio.to_thread(services.jobs.results.document, job_id)
    kinds = {item["name"]: item["media_type"] for item in document["files"]}
    if name not in kinds:
        raise UnknownPart
    return FileResponse(services.jobs.results.path(job_id, f"files/{name}"), media_type=kinds[name])


@router.get(
    "/v1/jobs/{job_id}/plots/{name}",
    **gives_octets("image/svg+xml", "image/png"),
    tags=["jobs"],
    summary="A plot of published values: NAME.svg, NAME.png, or NAME by `Accept`",
)
async def get_job_plot(
    request: Request, job_id: str, name: str, services: Services, caller: Analyst
) -> Response:
    await views.succeeded(services.database, job_id, operator=caller.has(Scope.OPERATOR))
    if not name.endswith((".svg", ".png")):
        name += ".png" if "image/png" in request.headers.get("accept", "") else ".svg"
    path = await asyncio.to_thread(services.jobs.results.path, job_id, f"plots/{name}")
    kind = "image/png" if name.endswith(".png") else "image/svg+xml"
    return FileResponse(path, media_type=kind, headers={"Vary": "Accept"})


@router.get(
    "/v1/jobs/{job_id}/archive",
    **gives_octets("application/zip"),
    tags=["jobs"],
    summary="All published parts in one zip",
)
async def get_job_archive(job_id: str, services: Services, caller: Analyst) -> Response:
    await views.succeeded(services.database, job_id, operator=caller.has(Scope.OPERATOR))
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
    await views.succeeded(services.database, job_id, operator=caller.has(Scope.OPERATOR))
    body = await asyncio.to_thread(services.jobs.results.evaluation, job_id)
    return Evaluation(format="tacit.evaluation/1", private=True, evaluation=json.loads(body))


async def _bytes(results: Results, job_id: str, part: str) -> bytes:
    path = await asyncio.to_thread(results.path, job_id, part)
    return await asyncio.to_thread(path.read_bytes)
