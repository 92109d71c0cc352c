"""Routes for workers: the requests of an attempt at a job. They are in no API document.

They are authorised by the attempt's ticket or session, which no other route accepts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import BinaryIO, Final

from fastapi import Request, Response
from pydantic import Field
from starlette.responses import StreamingResponse

from common.web.openapi import api_router
from common.web.wire import read_body
from coordinator.errors import AttemptRefused
from coordinator.models.job import Beat, Failure, JobFailed, plain_problem
from coordinator.services import Services
from coordinator.web import model_response
from tacit.wire import WireModel, encode_binary

router = api_router()


PREFIX: Final = "/v1/job-attempts/"
_CHUNK: Final = 1 << 20


class Claim(WireModel):
    """Who takes the lease."""

    worker: str = Field(max_length=256)


@router.post(PREFIX + "{attempt_id}/claim", include_in_schema=False)
async def claim(request: Request, attempt_id: str, services: Services) -> Response:
    ticket, body = _token(request), await read_body(request, Claim)
    return model_response(await services.jobs.attempts.claim(attempt_id, ticket, body.worker))


@router.post(PREFIX + "{attempt_id}/block-key", include_in_schema=False)
async def block_key(request: Request, attempt_id: str, services: Services) -> dict[str, str]:
    return {
        "key": encode_binary(await services.jobs.attempts.block_key(attempt_id, _token(request)))
    }


@router.post(PREFIX + "{attempt_id}/beat", include_in_schema=False)
async def beat(request: Request, attempt_id: str, services: Services) -> Response:
    session, body = _token(request), await read_body(request, Beat)
    return model_response(await services.jobs.attempts.beat(attempt_id, session, body))


@router.get(PREFIX + "{attempt_id}/content", include_in_schema=False)
async def content(request: Request, attempt_id: str, services: Services) -> Response:
    row = await services.jobs.attempts.dataset(attempt_id, _token(request))
    stream = await asyncio.to_thread(services.jobs.attempts.datasets.open_content, row)
    return StreamingResponse(_chunks(stream), media_type="application/octet-stream")


@router.post(PREFIX + "{attempt_id}/seed", include_in_schema=False)
async def seed(request: Request, attempt_id: str, services: Services) -> Response:
    return model_response(await services.jobs.attempts.seed(attempt_id, _token(request)))


@router.post(PREFIX + "{attempt_id}/outcome", include_in_schema=False, status_code=204)
async def outcome(request: Request, attempt_id: str, services: Services) -> None:
    session = _token(request)
    await services.jobs.attempts.dataset(attempt_id, session)  # before a large body is read
    arrived = services.jobs.results.incoming()
    try:
        with arrived.open("wb") as file:
            async for chunk in request.stream():
                await asyncio.to_thread(file.write, chunk)
        try:
            packed = await asyncio.to_thread(services.jobs.results.opened, arrived)
        except ValueError:
            problem = plain_problem(JobFailed("the outcome cannot be read"))
            await services.jobs.attempts.fail(attempt_id, session, Failure(problem=problem))
            return
        job, report, rest = await services.jobs.attempts.report_of(
            attempt_id, session, packed.report
        )
        sealed_by = services.jobs.attempts.keys.generation
        await asyncio.to_thread(services.jobs.results.keep, job, arrived, packed, report)
        await services.jobs.attempts.succeed(attempt_id, session, rest, sealed_by)
    finally:
        arrived.unlink(missing_ok=True)
    services.jobs.dispatcher.wake()


@router.post(PREFIX + "{attempt_id}/failure", include_in_schema=False, status_code=204)
async def failure(request: Request, attempt_id: str, services: Services) -> None:
    session = _token(request)
    await services.jobs.attempts.fail(attempt_id, session, await read_body(request, Failure))
    services.jobs.dispatcher.wake()


def _token(request: Request) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not token:
        raise AttemptRefused
    return token


def _chunks(stream: BinaryIO) -> Iterator[bytes]:
    with stream:
        while chunk := stream.read(_CHUNK):
            yield chunk
