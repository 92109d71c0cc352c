"""Routes of rounds. Each parses, calls one function of the domain, and answers.

A transition's answer is the stored one, byte for byte.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, FastAPI, Query, Request, Response
from pydantic import TypeAdapter, ValidationError

from aggregator import examples
from aggregator.context import Aggregator
from aggregator.errors import SamplersFailed
from aggregator.pieces.intake import Intake
from aggregator.roster.senders import KeyWarmer
from aggregator.rounds import committing, opening, state_machine
from aggregator.rounds.opening import RelayedPiece
from aggregator.rounds.state_machine import MAX_WAIT_S, Awaited
from aggregator.web import Coordinator, Watcher
from common.web.bodies import takes
from common.web.parts import part
from common.web.problems import invalid_from
from common.web.wire import (
    CBOR,
    JSON,
    answer,
    content_type,
    decode_cbor,
    encode,
    etag_response,
    json_response,
    read_body,
)
from tacit.crypto.signing import Signed
from tacit.errors import UnsupportedForm
from tacit.protocol.round import (
    AbortRequest,
    FreezeRequest,
    ManifestRequest,
    RevealRequest,
    RoundDescriptor,
)
from tacit.protocol.round import Awaited as AwaitedCurators
from tacit.query.words import MAX_CURATORS

AggregatorPart = Annotated[Aggregator, Depends(part(Aggregator))]
IntakePart = Annotated[Intake, Depends(part(Intake))]
Accepted = Annotated[
    int,
    Query(ge=0, le=MAX_CURATORS, description="Wait for pieces of this many curators."),
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
    async def open_round(
        request: Request,
        aggregator: AggregatorPart,
        warmer: Annotated[KeyWarmer, Depends(part(KeyWarmer))],
        _: Coordinator,
    ) -> Response:
        if not aggregator.samplers_passed:
            raise SamplersFailed
        body = await read_body(request, Signed[RoundDescriptor])
        answered, new = await opening.open_round(aggregator, body)
        if new:
            warmer.warm(await aggregator.round(body.statement.round))
        return json_response(answered, 201 if new else 200)

    @app.post(
        "/v1/rounds/{round_id}/contributions",
        tags=["rounds"],
        summary="Other aggregators' shares of noise for this one",
        openapi_extra=takes(RelayedPiece),
    )
    async def contribute(
        request: Request,
        round_id: str,
        aggregator: AggregatorPart,
        intake: IntakePart,
        _: Coordinator,
    ) -> Response:
        form = content_type(request)
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
        held = await opening.add_contributions(aggregator, intake, round_id, relayed)
        return answer(request, {"contributions": held})

    @app.post(
        "/v1/rounds/{round_id}/missing",
        tags=["rounds"],
        summary="Of how many of these curators no piece is held; nothing changes",
        openapi_extra=takes(AwaitedCurators, examples.AWAITED),
    )
    async def missing(
        request: Request, round_id: str, aggregator: AggregatorPart, _: Coordinator
    ) -> Response:
        body = await read_body(request, AwaitedCurators)
        found = await state_machine.missing(aggregator, round_id, body.members)
        return answer(request, {"missing": found})

    @app.post(
        "/v1/rounds/{round_id}/freeze",
        tags=["rounds"],
        summary="Sign whose pieces are in; with a body, only once so many are",
        description="Without a body at once. With one, 202 and the number held where pieces of "
        "fewer curators are held when the time is over; the round stays open then.",
        openapi_extra=takes(FreezeRequest, examples.FREEZE, required=False),
    )
    async def freeze(
        request: Request,
        round_id: str,
        aggregator: AggregatorPart,
        intake: IntakePart,
        _: Coordinator,
    ) -> Response:
        if await request.body():
            asked = await read_body(request, FreezeRequest)
            awaited = Awaited(asked.accepted, asked.wait_s)
            accepted = await state_machine.held(aggregator, intake, round_id, awaited)
            if accepted is not None:
                return answer(request, {"accepted": accepted}, status=202)
        signed = await state_machine.freeze(aggregator, intake, round_id)
        return json_response(signed)

    @app.post(
        "/v1/rounds/{round_id}/commitment",
        tags=["rounds"],
        summary="Sum the manifest, and commit to the partial sum",
        openapi_extra=takes(ManifestRequest),
    )
    async def commit(
        request: Request, round_id: str, aggregator: AggregatorPart, _: Coordinator
    ) -> Response:
        body = await read_body(request, ManifestRequest)
        signed = await committing.commit(aggregator, round_id, body)
        return json_response(signed)

    @app.post(
        "/v1/rounds/{round_id}/reveal",
        tags=["rounds"],
        summary="The partial sum, after everybody's commitments",
        openapi_extra=takes(RevealRequest),
    )
    async def reveal(
        request: Request, round_id: str, aggregator: AggregatorPart, _: Coordinator
    ) -> Response:
        body = await read_body(request, RevealRequest)
        revealed = await committing.reveal(aggregator, round_id, body)
        return json_response(revealed)

    @app.post(
        "/v1/rounds/{round_id}/abort",
        tags=["rounds"],
        summary="End a round without a sum, for good",
        openapi_extra=takes(AbortRequest, examples.ABORT),
    )
    async def abort(
        request: Request,
        round_id: str,
        aggregator: AggregatorPart,
        intake: IntakePart,
        _: Watcher,
    ) -> Response:
        body = await read_body(request, AbortRequest)
        signed = await state_machine.abort(aggregator, intake, round_id, body)
        return json_response(signed)

    @app.get("/v1/rounds/{round_id}", tags=["rounds"], summary="Where a round stands")
    async def one(
        request: Request,
        round_id: str,
        aggregator: AggregatorPart,
        intake: IntakePart,
        _: Watcher,
        accepted: Accepted = 0,
        wait_s: Wait = 0,
    ) -> Response:
        awaited = Awaited(accepted, wait_s)
        shown = await state_machine.describe(aggregator, intake, round_id, awaited)
        return etag_response(request, encode(shown))
