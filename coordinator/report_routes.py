"""Routes by which curators take part in federated jobs: what is asked, and their noisy reports."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Path, Request, Response
from starlette.responses import JSONResponse

from common.models.federation import Reports
from common.service.auth import Principal, require
from common.service.bodies import takes
from common.service.database import reading
from common.service.tokens import Scope
from common.service.wire import etag_response, read_body
from coordinator import examples
from coordinator.errors import UnknownPart
from coordinator.store import job_steps
from coordinator.web import Reader, Service, encode, service_of

Party = Annotated[Principal, Depends(require(Scope.CURATOR))]


Number = Annotated[int, Path(ge=0, lt=2**31)]


def add_reports(app: FastAPI) -> None:
    """Add them to the app."""

    @app.get(
        "/v1/jobs/{job_id}/steps/{number}",
        tags=["jobs"],
        summary="What one round of a federated job asks of each curator",
    )
    async def step(request: Request, job_id: str, number: Number, _: Reader) -> Response:
        async with reading(service_of(app).engine) as connection:
            found = await job_steps.find(connection, job_id, number)
        if found is None:
            raise UnknownPart
        return etag_response(request, found.document.encode())

    @app.post(
        "/v1/jobs/{job_id}/reports",
        tags=["jobs"],
        summary="Noisy reports of a party's curators; one answer for each",
        openapi_extra=takes(Reports, examples.REPORTS),
    )
    async def take(request: Request, job_id: str, caller: Party) -> Response:
        body = await read_body(request, Reports)
        collection = service_of(app).jobs.federated.collection
        answers = await collection.take(job_id, caller.subject or "", body)
        items = [answer.document(index) for index, answer in enumerate(answers)]
        return JSONResponse({"reports": items})


async def collecting(request: Request, service: Service, wait_s: float) -> Response:
    """The signed descriptors of the jobs that collect reports now, each with its hash."""
    first_look = request.headers.get("if-none-match") is None
    descriptors = service.jobs.federated.collection.descriptors
    looked = service.changes.shared("collecting", descriptors)

    async def look() -> tuple[Response, bool]:
        found = await looked()
        items: list[dict[str, Any]] = [
            {
                "id": item.statement.job,
                "algorithm": item.statement.algorithm,
                "hash": item.statement.digest().hex(),
                "descriptor": json.loads(item.model_dump_json()),
            }
            for item in found
        ]
        answer = etag_response(request, encode({"jobs": items}))
        return answer, answer.status_code == 304 or (first_look and not items)

    return await service.changes.poll(look, wait_s)
