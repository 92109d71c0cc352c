"""Routes of rounds. Each parses, calls one function of the domain, and answers.

A transition's answer is the stored one, byte for byte. Those that every round needs are answered
before the framework's router, which describes them (`common.web.direct`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, FastAPI, Path, Query, Request, Response

from aggregator import examples
from aggregator.context import Aggregator
from aggregator.pieces.intake import Intake
from aggregator.rounds import state_machine, transcript_seals
from aggregator.rounds.opening import Opening, RelayedPieces
from aggregator.rounds.state_machine import MAX_WAIT_S, Awaited
from aggregator.rounds.steps import RoundSteps, take_all
from aggregator.web import Coordinator, Watcher
from common.web.auth import authenticate
from common.web.bodies import gives, gives_each, gives_octets, takes, takes_octets
from common.web.direct import Answer, answer_directly
from common.web.parts import part, part_of
from common.web.tokens import Scope
from common.web.wire import (
    content_type,
    encode,
    etag_response,
    json_response,
    read_body,
)
from tacit.answers.aggregators import HeldContributions, MissingPieces, RoundProgress, TooEarly
from tacit.crypto.signing import Signed
from tacit.errors import UnsupportedForm
from tacit.protocol.round.accepted import AcceptedSet, FreezeRequest
from tacit.protocol.round.descriptor import AbortRequest, AbortStatement, RoundDescriptor
from tacit.protocol.round.descriptor import Awaited as AwaitedCurators
from tacit.protocol.round.transcript import (
    Commitment,
    ManifestRequest,
    Reveal,
    RevealRequest,
    Transcript,
)
from tacit.protocol.round.verdicts import (
    KeyCheck,
    RelayedKeyShares,
    Verdict,
    VerdictRequest,
    VerificationRequest,
    Verified,
)
from tacit.protocol.seals import ShownSeal
from tacit.protocol.steps import StepAnswers, Steps
from tacit.query.words import MAX_AGGREGATORS, MAX_CURATORS

AggregatorPart = Annotated[Aggregator, Depends(part(Aggregator))]
IntakePart = Annotated[Intake, Depends(part(Intake))]
StepsPart = Annotated[RoundSteps, Depends(part(RoundSteps))]
Accepted = Annotated[
    int,
    Query(ge=0, le=MAX_CURATORS, description="Wait for pieces of this many curators."),
]
ChunkNumber = Annotated[int, Path(ge=0, lt=2**31)]
AggregatorIndex = Annotated[int, Path(ge=0, lt=MAX_AGGREGATORS)]
OCTETS = "application/octet-stream"
Wait = Annotated[float, Query(ge=0, le=MAX_WAIT_S, description="Long poll: seconds to wait.")]


def add_rounds(app: FastAPI) -> None:
    """Add them to the app."""

    @app.post(
        "/v1/rounds",
        **gives(Opening, 200, 201),
        tags=["rounds"],
        status_code=201,
        summary="Take part in a round",
        openapi_extra=takes(Signed[RoundDescriptor]),
    )
    async def open_round(request: Request, steps: StepsPart, _: Coordinator) -> Response:
        return json_response(*await steps.open(await read_body(request, Signed[RoundDescriptor])))

    @app.post(
        "/v1/rounds/steps",
        **gives(StepAnswers),
        tags=["rounds"],
        summary="Steps of many rounds, each answered as by its own route",
        openapi_extra=takes(Steps, examples.STEPS),
    )
    async def take_round_steps(request: Request, steps: StepsPart, _: Coordinator) -> Response:
        asked = await read_body(request, Steps)
        answers = StepAnswers(answers=tuple(await take_all(steps, asked.steps)))
        return json_response(answers.model_dump_json())

    @app.post(
        "/v1/rounds/{round_id}/contributions",
        **gives(HeldContributions),
        tags=["rounds"],
        summary="Other aggregators' shares of noise for this one",
        openapi_extra=takes(RelayedPieces),
    )
    async def list_round_contributions(
        request: Request, round_id: str, steps: StepsPart, _: Coordinator
    ) -> Response:
        body = await read_body(request, RelayedPieces)
        return json_response(*await steps.contribute(round_id, body))

    @app.post(
        "/v1/rounds/{round_id}/verification-keys",
        **gives(KeyCheck),
        tags=["rounds"],
        summary="Other aggregators' shares of a proved round's verify key",
        openapi_extra=takes(RelayedKeyShares),
    )
    async def get_verification_keys(
        request: Request, round_id: str, steps: StepsPart, _: Coordinator
    ) -> Response:
        body = await read_body(request, RelayedKeyShares)
        return json_response(*await steps.keys(round_id, body))

    @app.post(
        "/v1/rounds/{round_id}/missing",
        **gives(MissingPieces),
        tags=["rounds"],
        summary="Of how many of these curators no piece is held; nothing changes",
        openapi_extra=takes(AwaitedCurators, examples.AWAITED),
    )
    async def list_missing_pieces(
        request: Request, round_id: str, steps: StepsPart, _: Coordinator
    ) -> Response:
        body = await read_body(request, AwaitedCurators)
        return json_response(*await steps.missing(round_id, body))

    @app.post(
        "/v1/rounds/{round_id}/freeze",
        **gives_each({200: Signed[AcceptedSet], 202: TooEarly}),
        tags=["rounds"],
        summary="Sign whose pieces are in; with a body, only when enough are",
        description="Without a body at once. With one, 202 and the number held where pieces of "
        "fewer curators are held when the time is over; the round stays open then.",
        openapi_extra=takes(FreezeRequest, examples.FREEZE, required=False),
    )
    async def freeze_round(
        request: Request, round_id: str, steps: StepsPart, _: Coordinator
    ) -> Response:
        asked = await read_body(request, FreezeRequest) if await request.body() else None
        return json_response(*await steps.freeze(round_id, asked))

    @app.post(
        "/v1/rounds/{round_id}/commitment",
        **gives(Signed[Commitment]),
        tags=["rounds"],
        summary="Sum the manifest, and commit to the partial sum",
        openapi_extra=takes(ManifestRequest),
    )
    async def commit_round(
        request: Request, round_id: str, steps: StepsPart, _: Coordinator
    ) -> Response:
        return json_response(
            *await steps.commit(round_id, await read_body(request, ManifestRequest))
        )

    @app.post(
        "/v1/rounds/{round_id}/reveal",
        **gives(Reveal),
        tags=["rounds"],
        summary="The partial sum, after everybody's commitments",
        openapi_extra=takes(RevealRequest),
    )
    async def reveal_round(
        request: Request, round_id: str, steps: StepsPart, _: Coordinator
    ) -> Response:
        body = await read_body(request, RevealRequest)
        return json_response(*await steps.reveal(round_id, body))

    answer_directly(
        app,
        {
            "/v1/rounds": _by_coordinator(open_round),
            "/v1/rounds/steps": _by_coordinator(take_round_steps),
            "/v1/rounds/{round_id}/freeze": _by_coordinator(freeze_round),
            "/v1/rounds/{round_id}/commitment": _by_coordinator(commit_round),
            "/v1/rounds/{round_id}/reveal": _by_coordinator(reveal_round),
        },
    )
    _add_verification(app)
    _add_ends(app)


def _by_coordinator(route: Callable[..., Awaitable[Response]]) -> Answer:
    """A route of the coordinator's, with what the framework would pass to it."""

    async def answered(request: Request) -> Response:
        caller = await authenticate(request)
        caller.demand(Scope.COORDINATOR)
        steps = part_of(request.app, RoundSteps)
        return await route(request, **request.path_params, steps=steps, _=caller)

    return answered


def _add_ends(app: FastAPI) -> None:
    """The end without a sum, the seal of a transcript, and where a round stands."""

    @app.post(
        "/v1/rounds/{round_id}/abort",
        **gives(Signed[AbortStatement]),
        tags=["rounds"],
        summary="End a round without a sum, for good",
        openapi_extra=takes(AbortRequest, examples.ABORT),
    )
    async def abort_round(
        request: Request,
        round_id: str,
        aggregator: AggregatorPart,
        intake: IntakePart,
        _: Watcher,
    ) -> Response:
        body = await read_body(request, AbortRequest)
        signed = await state_machine.abort(aggregator, intake, round_id, body)
        return json_response(signed)

    @app.post(
        "/v1/rounds/{round_id}/seal",
        **gives(ShownSeal),
        tags=["rounds"],
        summary="Seal the transcript of a released round with Ed25519 and ML-DSA-65",
        openapi_extra=takes(Transcript),
    )
    async def seal_round(
        request: Request, round_id: str, aggregator: AggregatorPart, _: Coordinator
    ) -> Response:
        transcript = await read_body(request, Transcript)
        sealed = await transcript_seals.seal(aggregator, round_id, transcript)
        return json_response(sealed.model_dump_json(exclude_none=True))

    @app.get(
        "/v1/rounds/{round_id}",
        **gives(RoundProgress),
        tags=["rounds"],
        summary="Where a round stands",
    )
    async def get_round(
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


def _add_verification(app: FastAPI) -> None:
    """Of proved rounds: verifier shares out and in, and what they decide."""

    @app.post(
        "/v1/rounds/{round_id}/verification",
        **gives(Verified),
        tags=["rounds"],
        summary="Verify the contributions that all aggregators hold",
        description="The hash of all verifier shares is signed before any other aggregator's is "
        "seen. There is one set of candidates for a round, ever.",
        openapi_extra=takes(VerificationRequest),
    )
    async def begin_verification(
        request: Request, round_id: str, steps: StepsPart, _: Coordinator
    ) -> Response:
        body = await read_body(request, VerificationRequest)
        return json_response(*await steps.verification(round_id, body))

    @app.get(
        "/v1/rounds/{round_id}/verification/{chunk}",
        tags=["rounds"],
        summary="A chunk of this aggregator's verifier shares, sealed for the others",
        **gives_octets(),
    )
    async def get_verification_chunk(
        round_id: str, chunk: ChunkNumber, steps: StepsPart, _: Coordinator
    ) -> Response:
        return Response(await steps.verifying.chunk(round_id, chunk), media_type=OCTETS)

    @app.put(
        "/v1/rounds/{round_id}/verification/{index}/{chunk}",
        tags=["rounds"],
        status_code=204,
        summary="A chunk of another aggregator's verifier shares",
        openapi_extra=takes_octets(),
    )
    async def put_verification_chunk(
        request: Request,
        round_id: str,
        index: AggregatorIndex,
        chunk: ChunkNumber,
        steps: StepsPart,
        _: Coordinator,
    ) -> None:
        if content_type(request) != OCTETS:
            raise UnsupportedForm(extra={"supported": [OCTETS]})
        await steps.verifying.take_chunk(round_id, index, chunk, await request.body())

    @app.post(
        "/v1/rounds/{round_id}/verdict",
        **gives(Signed[Verdict]),
        tags=["rounds"],
        summary="Decide which contributions count, over the verifier shares of all",
        openapi_extra=takes(VerdictRequest),
    )
    async def get_verdict(
        request: Request, round_id: str, steps: StepsPart, _: Coordinator
    ) -> Response:
        body = await read_body(request, VerdictRequest)
        return json_response(*await steps.verdict(round_id, body))
