"""Routes by which curators participate in federated jobs: steps, and their noisy reports."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, FastAPI, Path, Request, Response
from starlette.responses import JSONResponse

from common.web.bodies import gives, takes
from common.web.parts import part
from common.web.wire import etag_response, read_body
from coordinator import examples
from coordinator.errors import UnknownPart
from coordinator.jobs.federated.conductor import Federated
from coordinator.store import job_steps
from coordinator.web import DatabasePart, Party, Reader
from tacit.answers.jobs import ReportsTaken
from tacit.protocol.federation import FederatedStep, Reports

Number = Annotated[int, Path(ge=0, lt=2**31)]


def add_reports(app: FastAPI) -> None:
    """Add them to the app."""

    @app.get(
        "/v1/jobs/{job_id}/steps/{number}",
        **gives(FederatedStep),
        tags=["jobs"],
        summary="What one round of a federated job asks of each curator",
    )
    async def get_job_step(
        request: Request, job_id: str, number: Number, database: DatabasePart, _: Reader
    ) -> Response:
        async with database.reading() as transaction:
            found = await job_steps.find(transaction, job_id, number)
        if found is None:
            raise UnknownPart
        return etag_response(request, found.document.encode())

    @app.post(
        "/v1/jobs/{job_id}/reports",
        **gives(ReportsTaken),
        tags=["jobs"],
        summary="Noisy reports of a party's curators; one answer for each",
        openapi_extra=takes(Reports, examples.REPORTS),
    )
    async def submit_job_reports(
        request: Request,
        job_id: str,
        federated: Annotated[Federated, Depends(part(Federated))],
        caller: Party,
    ) -> Response:
        body = await read_body(request, Reports)
        answers = await federated.collection.take(job_id, caller.subject or "", body)
        items = [answer.document(index) for index, answer in enumerate(answers)]
        return JSONResponse({"reports": items})
