"""Routes of rounds. Each parses, calls one function of the domain, and answers.

A transition's answer is the stored one, byte for byte.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Query, Request, Response
from pydantic import TypeAdapter, ValidationError

from aggregator import committing, examples, opening, rounds
from aggregator.errors import SamplersFailed
from aggregator.opening import RelayedPiece
from aggregator.rounds import MAX_WAIT_S, Awaited
from aggregator.web import Coordinator, Watcher, service_of, text_response
from common.errors import UnsupportedForm
from common.models.query import MAX_CURATORS
from common.models.round import AbortRequest, ManifestRequest, RevealRequest, RoundDescriptor
from common.models.round import Awaited as AwaitedCurators
from common.service.bodies import takes
from common.service.problems import invalid_from
from common.service.wire import (
    CBOR,
    JSON,
    answer,
    content_type,
    decode_cbor,
    encode,
    etag_response,
    read_body,
)
from common.signing import Signed

Accepted = Annotated[
    int, Query(ge=0, le=MAX_CURATORS, description="Wait until pieces of so many curators are held.")
]
Wait = Annotated[float, Query(ge=0, le=MAX_WAIT_S, description="Long poll: seconds to wait.")]

_RELAYED = TypeAdapter(tuple[RelayedPiece, ...])


def add_rounds(app: FastAPI) -> None:
    """Add them to the app."""

    @app.post(
        "/v1/rounds",
        tags=["rounds"],
        status_code=201,
        summary="Take part in a round",
        openapi_extra=takes(Signed[RoundDescriptor]),
    )
    async def open_round(request: Request, _: Coordinator) -> Response:
        service = service_of(request)
        if not service.samplers_passed:
            raise SamplersFailed
        body = await read_body(request, Signed[RoundDescriptor])
        answered, new = await opening.open_round(service.aggregator, body)
        if new:
            service.warmer.warm(await service.aggregator.round(body.statement.round))
        return text_response(answered, 201 if new else 200)

    @app.post(
        "/v1/rounds/{round_id}/contributions",
        tags=["rounds"],
        summary="Other aggregators' shares of noise for this one",
        openapi_extra=takes(RelayedPiece),
    )
    async def contribute(request: Request, round_id: str, _: Coordinator) -> Response:
        service, form = service_of(request), content_type(request)
        if form not in (JSON, CBOR):
            raise UnsupportedForm(extra={"supported": [JSON, CBOR]})
        body = await request.body()
        try:
            if form == CBOR:
                relayed = _RELAYED.validate_json(encode(decode_cbor(body)))
            else:
                relayed = _RELAYED.validate_json(body)
        except ValidationError as error:
            raise invalid_from(error) from None
        held = await opening.add_contributions(
            service.aggregator, service.intake, round_id, relayed
        )
        return answer(request, {"contributions": held})

    @app.post(
        "/v1/rounds/{round_id}/missing",
        tags=["rounds"],
        summary="Of how many of these curators no piece is held; nothing changes",
        openapi_extra=takes(AwaitedCurators, examples.AWAITED),
    )
    async def missing(request: Request, round_id: str, _: Coordinator) -> Response:
        body = await read_body(request, AwaitedCurators)
        found = await rounds.missing(service_of(request).aggregator, round_id, body.members)
        return answer(request, {"missing": found})

    @app.post("/v1/rounds/{round_id}/freeze", tags=["rounds"], summary="Sign whose pieces are in")
    async def freeze(request: Request, round_id: str, _: Coordinator) -> Response:
        service = service_of(request)
        signed = await rounds.freeze(service.aggregator, service.intake, round_id)
        return text_response(signed)

    @app.post(
        "/v1/rounds/{round_id}/commitment",
        tags=["rounds"],
        summary="Sum the manifest, and commit to the partial sum",
        openapi_extra=takes(ManifestRequest),
    )
    async def commit(request: Request, round_id: str, _: Coordinator) -> Response:
        service = service_of(request)
        body = await read_body(request, ManifestRequest)
        signed = await committing.commit(service.aggregator, round_id, body)
        return text_response(signed)

    @app.post(
        "/v1/rounds/{round_id}/reveal",
        tags=["rounds"],
        summary="The partial sum, after everybody's commitments",
        openapi_extra=takes(RevealRequest),
    )
    async def reveal(request: Request, round_id: str, _: Coordinator) -> Response:
        service = service_of(request)
        body = await read_body(request, RevealRequest)
        revealed = await committing.reveal(service.aggregator, round_id, body)
        return text_response(revealed)

    @app.post(
        "/v1/rounds/{round_id}/abort",
        tags=["rounds"],
        summary="End a round without a sum, for good",
        openapi_extra=takes(AbortRequest, examples.ABORT),
    )
    async def abort(request: Request, round_id: str, _: Watcher) -> Response:
        service = service_of(request)
        body = await read_body(request, AbortRequest)
        signed = await rounds.abort(service.aggregator, service.intake, round_id, body)
        return text_response(signed)

    @app.get("/v1/rounds/{round_id}", tags=["rounds"], summary="Where a round stands")
    async def one(
        request: Request, round_id: str, _: Watcher, accepted: Accepted = 0, wait_s: Wait = 0
    ) -> Response:
        service, awaited = service_of(request), Awaited(accepted, wait_s)
        shown = await rounds.describe(service.aggregator, service.intake, round_id, awaited)
        return etag_response(request, encode(shown))
