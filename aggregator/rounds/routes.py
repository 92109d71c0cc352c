"""Routes of rounds: each parses, calls one function of the domain, and answers.

A transition's answer is the stored one, byte for byte. A coordinator sends one step, or the steps
that are due in many rounds together (`RoundSteps`). A released round's transcript can be
sealed for readers years later (spec: keys, section 4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple

from fastapi import Depends, Path, Query, Request, Response
from pydantic import BaseModel

from aggregator import examples
from aggregator.context import Aggregator, AggregatorPart
from aggregator.errors import NotPaired, SamplersFailed, TranscriptRefused
from aggregator.pieces.intake import Intake, IntakePart
from aggregator.rounds import opening, partial_sum, state_machine
from aggregator.rounds import opening as keying
from aggregator.rounds.opening import Opening, RelayedPieces
from aggregator.rounds.state_machine import MAX_WAIT_S, Awaited
from aggregator.rounds.verification import Verifying
from aggregator.store import roster
from aggregator.store import rounds as store
from aggregator.web import Coordinator, Watcher
from common.bodies import encode, parse_json
from common.identity.own_identity import NoIdentityDocument
from common.principals import Scope
from common.web.auth import authenticate
from common.web.dependencies import part, part_of
from common.web.middleware import Answer as RequestHandler
from common.web.openapi import api_router, gives, gives_each, gives_octets, takes, takes_octets
from common.web.problems import problem_response
from common.web.wire import content_type, etag_response, json_response, read_body
from tacit.answers.base import Answer
from tacit.answers.registry import HeldContributions, MissingPieces, RoundProgress, TooEarly
from tacit.crypto.signing import Signed, signer_of
from tacit.errors import DomainError, UnsupportedForm
from tacit.protocol.round.descriptor import (
    DESCRIPTOR_LABEL,
    AbortRequest,
    AbortStatement,
    RoundDescriptor,
)
from tacit.protocol.round.descriptor import Awaited as AwaitedCurators
from tacit.protocol.round.messages import (
    AcceptedSet,
    Commitment,
    FreezeRequest,
    KeyCheck,
    ManifestRequest,
    RelayedKeyShares,
    Reveal,
    RevealRequest,
    Step,
    StepAnswer,
    StepAnswers,
    StepName,
    Steps,
    Transcript,
    Verdict,
    VerdictRequest,
    VerificationRequest,
    Verified,
)
from tacit.protocol.round.opening import check_transcript
from tacit.protocol.trust import TRANSCRIPT_SEAL_LABEL, ShownSeal, TranscriptSeal
from tacit.query.terms import MAX_AGGREGATORS, MAX_CURATORS


async def seal_transcript(
    aggregator: Aggregator, round_id: str, transcript: Transcript
) -> ShownSeal:
    """Seal a transcript of a round whose partial sum was revealed here. Raises UnknownRound,
    NotPaired, TranscriptRefused if it is not the round in which this aggregator participated,
    NoIdentityDocument if its identity at that time no longer has keys."""
    context = await aggregator.round(round_id)
    async with aggregator.database.reading() as transaction:
        coordinator = await roster.coordinator(transaction)
        revealed = await store.document(transaction, context.key, "reveal")
    own_reveals = [reveal for reveal in transcript.reveals if reveal.aggregator == aggregator.id]
    if (
        revealed is None
        or transcript.descriptor.statement != context.descriptor
        or [reveal.model_dump_json() for reveal in own_reveals] != [revealed]
    ):
        raise TranscriptRefused("not what this aggregator opened and revealed")
    if coordinator is None:
        raise NotPaired
    anchored = coordinator.pin.anchored
    documents = () if anchored is None else anchored.documents
    keys = (coordinator.identity_key, *(document.ed25519 for document in documents))
    signer = signer_of(DESCRIPTOR_LABEL, transcript.descriptor, keys)
    try:
        await asyncio.to_thread(check_transcript, transcript, signer)
    except (DomainError, ValueError) as error:
        raise TranscriptRefused(str(error)) from None
    entry = context.descriptor.aggregators[context.index]
    identity = aggregator.identities.pair(entry.identity_key)
    if identity is None:
        raise NoIdentityDocument
    pair, document = identity
    statement = TranscriptSeal(
        round=round_id, transcript=transcript.digest(), time=aggregator.clock.now()
    )
    made = pair.sign(TRANSCRIPT_SEAL_LABEL, statement)
    return ShownSeal(aggregator=aggregator.id, document=document, seal=made)


# --- steps, one alone or those of many rounds in one request -------------------------------------

AT_ONCE: Final = 32
"""Steps of one request in progress at a time: each may hold a batch of pieces in memory."""


class Done(NamedTuple):
    """The result of a step: JSON, and its HTTP status."""

    body: str
    status: int = 200


@dataclass(frozen=True)
class RoundSteps:
    """The steps of this aggregator's rounds."""

    aggregator: Aggregator
    intake: Intake
    verifying: Verifying

    async def open(self, signed: Signed[RoundDescriptor]) -> Done:
        """Participate in a round."""
        if not self.aggregator.samplers_passed:
            raise SamplersFailed
        answered, new = await opening.open_round(self.aggregator, signed)
        return Done(answered, 201 if new else 200)

    async def contribute(self, round_id: str, relayed: RelayedPieces) -> Done:
        """Store other aggregators' shares of noise."""
        places = await opening.add_contributions(
            self.aggregator, self.intake, round_id, relayed.root
        )
        return _done(HeldContributions(contributions=places))

    async def keys(self, round_id: str, relayed: RelayedKeyShares) -> Done:
        """Store the others' shares of the verify key."""
        return Done(await keying.fix_key(self.aggregator, self.intake, round_id, relayed))

    async def missing(self, round_id: str, awaited: AwaitedCurators) -> Done:
        """How many of these curators have no accepted piece."""
        missing = await state_machine.missing(self.aggregator, round_id, awaited.members)
        return _done(MissingPieces(missing=missing))

    async def freeze(self, round_id: str, request: FreezeRequest | None) -> Done:
        """Sign the set of accepted curators. With a request: only when there are enough, or
        commit instead if they are the expected ones."""
        if request is not None:
            awaited = Awaited(request.accepted, request.wait_s)
            accepted = await state_machine.held(self.aggregator, self.intake, round_id, awaited)
            if accepted is not None:
                return _done(TooEarly(accepted=accepted), 202)
            committed = await partial_sum.commit_whole(
                self.aggregator, self.intake, round_id, request
            )
            if committed is not None:
                return Done(committed)
        return Done(await state_machine.freeze(self.aggregator, self.intake, round_id))

    async def verification(self, round_id: str, request: VerificationRequest) -> Done:
        """Verify the contributions that all hold, and sign the hash of the verifier shares."""
        return Done(await self.verifying.verify(round_id, request))

    async def verdict(self, round_id: str, request: VerdictRequest) -> Done:
        """Decide which contributions count."""
        return Done(await self.verifying.decide(round_id, request))

    async def commit(self, round_id: str, request: ManifestRequest) -> Done:
        """Sum the manifest, and commit to the partial sum."""
        return Done(
            await partial_sum.commit(
                self.aggregator, self.intake, round_id, request, self.verifying
            )
        )

    async def reveal(self, round_id: str, request: RevealRequest) -> Done:
        """The partial sum, once all commitments are known."""
        return Done(await partial_sum.reveal(self.aggregator, self.intake, round_id, request))

    async def take(self, step: Step) -> StepAnswer:
        """One of several steps; an error becomes its answer."""
        try:
            done = await self._take(step)
        except Exception as error:
            problem = problem_response(error)
            done = Done(bytes(problem.body).decode(), problem.status_code)
        return StepAnswer(status=done.status, body=done.body)

    async def _take(self, step: Step) -> Done:
        body = step.body.encode()
        if step.name is StepName.OPEN:
            return await self.open(parse_json(body, Signed[RoundDescriptor]))
        if step.name is StepName.FREEZE and not body:
            return await self.freeze(step.round, None)
        model, do = _STEPS[step.name]
        return await do(self, step.round, parse_json(body, model))


_STEPS: Final[Mapping[StepName, tuple[type[BaseModel], Callable[..., Awaitable[Done]]]]] = {
    StepName.CONTRIBUTE: (RelayedPieces, RoundSteps.contribute),
    StepName.KEYS: (RelayedKeyShares, RoundSteps.keys),
    StepName.MISSING: (AwaitedCurators, RoundSteps.missing),
    StepName.FREEZE: (FreezeRequest, RoundSteps.freeze),
    StepName.VERIFICATION: (VerificationRequest, RoundSteps.verification),
    StepName.VERDICT: (VerdictRequest, RoundSteps.verdict),
    StepName.COMMIT: (ManifestRequest, RoundSteps.commit),
    StepName.REVEAL: (RevealRequest, RoundSteps.reveal),
}


def _done(answer: Answer, status: int = 200) -> Done:
    return Done(answer.model_dump_json(), status)


async def take_all(steps: RoundSteps, requested: tuple[Step, ...]) -> list[StepAnswer]:
    """The answers to several steps, in their order."""
    places = asyncio.Semaphore(AT_ONCE)

    async def take(step: Step) -> StepAnswer:
        async with places:
            return await steps.take(step)

    return await asyncio.gather(*(take(step) for step in requested))


# --- routes --------------------------------------------------------------------------------------

StepsPart = Annotated[RoundSteps, Depends(part(RoundSteps))]
Accepted = Annotated[
    int,
    Query(ge=0, le=MAX_CURATORS, description="Wait for pieces of this many curators."),
]
ChunkNumber = Annotated[int, Path(ge=0, lt=2**31)]
AggregatorIndex = Annotated[int, Path(ge=0, lt=MAX_AGGREGATORS)]
OCTETS = "application/octet-stream"
Wait = Annotated[float, Query(ge=0, le=MAX_WAIT_S, description="Long poll: seconds to wait.")]


router = api_router("rounds")


@router.post(
    "/v1/rounds",
    **gives(Opening, 200, 201),
    status_code=201,
    summary="Participate in a round",
    openapi_extra=takes(Signed[RoundDescriptor]),
)
async def open_round(request: Request, steps: StepsPart, _: Coordinator) -> Response:
    return json_response(*await steps.open(await read_body(request, Signed[RoundDescriptor])))


@router.post(
    "/v1/rounds/steps",
    **gives(StepAnswers),
    summary="Steps of many rounds, each answered as by its own route",
    openapi_extra=takes(Steps, examples.STEPS),
)
async def take_round_steps(request: Request, steps: StepsPart, _: Coordinator) -> Response:
    body = await read_body(request, Steps)
    answers = StepAnswers(answers=tuple(await take_all(steps, body.steps)))
    return json_response(answers.model_dump_json())


@router.post(
    "/v1/rounds/{round_id}/contributions",
    **gives(HeldContributions),
    summary="Other aggregators' shares of noise for this one",
    openapi_extra=takes(RelayedPieces),
)
async def list_round_contributions(
    request: Request, round_id: str, steps: StepsPart, _: Coordinator
) -> Response:
    body = await read_body(request, RelayedPieces)
    return json_response(*await steps.contribute(round_id, body))


@router.post(
    "/v1/rounds/{round_id}/verification-keys",
    **gives(KeyCheck),
    summary="Other aggregators' shares of a proved round's verify key",
    openapi_extra=takes(RelayedKeyShares),
)
async def get_verification_keys(
    request: Request, round_id: str, steps: StepsPart, _: Coordinator
) -> Response:
    body = await read_body(request, RelayedKeyShares)
    return json_response(*await steps.keys(round_id, body))


@router.post(
    "/v1/rounds/{round_id}/missing",
    **gives(MissingPieces),
    summary="How many of these curators have no accepted piece; nothing changes",
    openapi_extra=takes(AwaitedCurators, examples.AWAITED),
)
async def list_missing_pieces(
    request: Request, round_id: str, steps: StepsPart, _: Coordinator
) -> Response:
    body = await read_body(request, AwaitedCurators)
    return json_response(*await steps.missing(round_id, body))


@router.post(
    "/v1/rounds/{round_id}/freeze",
    **gives_each({200: Signed[AcceptedSet] | Signed[Commitment], 202: TooEarly}),
    summary="Sign the set of accepted curators; with a body, only when there are enough",
    description="Without a body immediately. With one, 202 and the number of accepted curators "
    "if there are fewer when the time is over; the round then stays open. With the salt and the "
    "hash of a manifest that what is held makes, the commitment to it.",
    openapi_extra=takes(FreezeRequest, examples.FREEZE, required=False),
)
async def freeze_round(
    request: Request, round_id: str, steps: StepsPart, _: Coordinator
) -> Response:
    body = await read_body(request, FreezeRequest) if await request.body() else None
    return json_response(*await steps.freeze(round_id, body))


@router.post(
    "/v1/rounds/{round_id}/commitment",
    **gives(Signed[Commitment]),
    summary="Sum the manifest, and commit to the partial sum",
    openapi_extra=takes(ManifestRequest),
)
async def commit_round(
    request: Request, round_id: str, steps: StepsPart, _: Coordinator
) -> Response:
    return json_response(*await steps.commit(round_id, await read_body(request, ManifestRequest)))


@router.post(
    "/v1/rounds/{round_id}/reveal",
    **gives(Reveal),
    summary="The partial sum, once all commitments are known",
    openapi_extra=takes(RevealRequest),
)
async def reveal_round(
    request: Request, round_id: str, steps: StepsPart, _: Coordinator
) -> Response:
    body = await read_body(request, RevealRequest)
    return json_response(*await steps.reveal(round_id, body))


@router.post(
    "/v1/rounds/{round_id}/verification",
    **gives(Verified),
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


@router.get(
    "/v1/rounds/{round_id}/verification/{chunk}",
    summary="A chunk of this aggregator's verifier shares, sealed for the others",
    **gives_octets(),
)
async def get_verification_chunk(
    round_id: str, chunk: ChunkNumber, steps: StepsPart, _: Coordinator
) -> Response:
    return Response(await steps.verifying.chunk(round_id, chunk), media_type=OCTETS)


@router.put(
    "/v1/rounds/{round_id}/verification/{index}/{chunk}",
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


@router.post(
    "/v1/rounds/{round_id}/verdict",
    **gives(Signed[Verdict]),
    summary="Decide which contributions count, over the verifier shares of all",
    openapi_extra=takes(VerdictRequest),
)
async def get_verdict(
    request: Request, round_id: str, steps: StepsPart, _: Coordinator
) -> Response:
    body = await read_body(request, VerdictRequest)
    return json_response(*await steps.verdict(round_id, body))


@router.post(
    "/v1/rounds/{round_id}/abort",
    **gives(Signed[AbortStatement]),
    summary="Abort a round permanently, without a sum",
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


@router.post(
    "/v1/rounds/{round_id}/seal",
    **gives(ShownSeal),
    summary="Seal the transcript of a released round with Ed25519 and ML-DSA-65",
    openapi_extra=takes(Transcript),
)
async def seal_round(
    request: Request, round_id: str, aggregator: AggregatorPart, _: Coordinator
) -> Response:
    transcript = await read_body(request, Transcript)
    sealed = await seal_transcript(aggregator, round_id, transcript)
    return json_response(sealed.model_dump_json(exclude_none=True))


@router.get(
    "/v1/rounds/{round_id}",
    **gives(RoundProgress),
    summary="The state of a round",
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
    progress = await state_machine.describe(aggregator, intake, round_id, awaited)
    return etag_response(request, encode(progress))


def _by_coordinator(route: Callable[..., Awaitable[Response]]) -> RequestHandler:
    """A route of the coordinator's, called with what the framework would pass to it."""

    async def answered(request: Request) -> Response:
        caller = await authenticate(request)
        caller.demand(Scope.COORDINATOR)
        steps = part_of(request.app, RoundSteps)
        return await route(request, **request.path_params, steps=steps, _=caller)

    return answered


DIRECT: Final[Mapping[str, RequestHandler]] = {
    "/v1/rounds": _by_coordinator(open_round),
    "/v1/rounds/steps": _by_coordinator(take_round_steps),
    "/v1/rounds/{round_id}/freeze": _by_coordinator(freeze_round),
    "/v1/rounds/{round_id}/commitment": _by_coordinator(commit_round),
    "/v1/rounds/{round_id}/reveal": _by_coordinator(reveal_round),
}
"""POSTs of every round, answered before the framework's router, which describes them."""
