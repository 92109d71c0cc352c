"""Routes of rounds: opening, following, freezing early, ending, and what was released.

The functions before the routes (open a round, close it, abort it) are shared with the console's
pages.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final, Literal

from fastapi import Query as Parameter
from fastapi import Request, Response
from pydantic import Field

from common.web import idempotency
from common.web.idempotency import RequestKey, StoredAnswer
from common.web.limits import Wait
from common.web.openapi import api_router, gives, takes
from common.web.paging import PageQuery, next_link
from common.web.wire import etag_response, json_response, read_body
from coordinator import examples, queries
from coordinator.errors import RoundClosed
from coordinator.rounds import context, opening, progress, state_machine, verification
from coordinator.rounds.notifications import ended
from coordinator.rounds.opening import OpenRequest
from coordinator.rounds.progress import DeploymentFlow, Received, flow_of
from coordinator.services import CoordinatorServices, Services
from coordinator.store import ledger
from coordinator.store import round_details as refusal_store
from coordinator.store import rounds as store
from coordinator.store.rounds import Filter
from coordinator.store.tables import idempotency_keys
from coordinator.web import Analyst, Operator, Party, Reader, encode
from tacit.answers.queries import ListOfRounds, RoundResult
from tacit.answers.registry import SealsAsked
from tacit.answers.rounds import OwnStanding, RefusedByProof, RoundHead, RoundRefusals, RoundStates
from tacit.crypto.signing import Signed
from tacit.protocol.round.descriptor import Refusal, RefusalGround, RoundDescriptor, RoundId
from tacit.protocol.round.messages import Transcript
from tacit.protocol.round.state import RoundState
from tacit.protocol.trust import ShownSeal
from tacit.report.model import PrivacyReport
from tacit.report.text import plain_words
from tacit.wire import Instant, WireModel

router = api_router()

OPERATOR_ABORTS: Final = "an operator aborted the round"


@dataclass(frozen=True)
class Asked:
    """The answer to a request for a round, and whether it was stored before."""

    answer: StoredAnswer
    replayed: bool


async def open_requested(
    services: CoordinatorServices, request: OpenRequest, key: RequestKey | None
) -> Asked:
    """Open a round of a query; a repeated idempotency key gets the same answer again. Raises
    what `opening.prepare` and `opening.add` raise."""
    conduct, database = services.conduct, services.database
    async with database.reading() as transaction:
        if stored := await idempotency.recall(transaction, idempotency_keys, key):
            return Asked(stored, replayed=True)
        query = await queries.find(transaction, request.query_id)
    prepared = await opening.prepare(conduct, query, request)
    # The round and the answer are stored together: there is no key without a round.
    async with database.begin() as transaction:
        if stored := await idempotency.recall(transaction, idempotency_keys, key):
            return Asked(stored, replayed=True)
        await opening.add(conduct, transaction, prepared)
        await services.conductor.take(transaction, prepared.signed.statement.round)
        row = await context.find(transaction, prepared.signed.statement.round)
        content = encode(progress.head(row))
        answer = StoredAnswer(201, content, location=f"/v1/rounds/{row.id}")
        now = conduct.clock.now()
        await idempotency.remember(transaction, idempotency_keys, key, answer, now)
    services.conductor.wake()
    return Asked(answer, replayed=False)


async def close(services: CoordinatorServices, round_id: str) -> None:
    """Let an open round freeze now. Raises RoundClosed."""
    async with services.database.begin() as transaction:
        row = await context.find(transaction, round_id)
        now = services.clock.now()
        if row.state is not RoundState.OPEN or row.ending is not None:
            raise RoundClosed(extra={"state": row.state.value})
        if now < row.due:
            await store.change(transaction, round_id, RoundState.OPEN, due=now)
    services.conductor.wake(round_id)


async def abort(services: CoordinatorServices, round_id: str) -> None:
    """Request the end of a round without a sum; its conductor ends it. Raises RoundClosed."""
    async with services.database.begin() as transaction:
        row = await context.find(transaction, round_id)
        if row.state is RoundState.RELEASED:
            raise RoundClosed(extra={"state": row.state.value})
        await store.wish_end(transaction, round_id, OPERATOR_ABORTS)
    services.conductor.wake(round_id)


ABORT_WAIT_S = 5.0
GATHER_S = 0.02
"""How long an answer waits for more rounds that are opened together."""

Begin = Annotated[
    Instant | None,
    Parameter(alias="from", description="At most 31 days ago; without it a day before `to`."),
]
End = Annotated[Instant | None, Parameter(alias="to", description="Without it, now.")]


class SealList(WireModel):
    """The seals of a round's transcript, by aggregator."""

    seals: tuple[ShownSeal, ...]


class RoundIds(WireModel):
    """The rounds to show."""

    rounds: Annotated[tuple[RoundId, ...], Field(min_length=1, max_length=1000)]


@router.post(
    "/v1/rounds",
    **gives(RoundHead, 201),
    tags=["rounds"],
    status_code=201,
    summary="Open a round of a query",
    openapi_extra=takes(OpenRequest, examples.ROUND),
)
async def open_round(request: Request, services: Services, caller: Operator) -> Response:
    body = await read_body(request, OpenRequest)
    key = await idempotency.request_key(request, caller.token_id)
    opened = await open_requested(services, body, key)
    return opened.answer.response(replayed=opened.replayed)


@router.get(
    "/v1/rounds",
    **gives(ListOfRounds),
    tags=["rounds"],
    summary="Rounds; `state=open` returns the signed descriptors, for curators",
)
async def list_rounds(
    request: Request,
    page: PageQuery,
    services: Services,
    _: Reader,
    state: RoundState | None = None,
    query_id: str | None = None,
    newest_first: Annotated[bool, Parameter(description="Else the oldest first.")] = False,
    form: Annotated[
        Literal["descriptor", "head"],
        Parameter(description="Of open rounds, with `state=open`; all others are heads."),
    ] = "descriptor",
    wait_s: Wait = 0,
) -> Response:
    which = Filter(state, query_id, newest_first, form == "head")
    first_look = request.headers.get("if-none-match") is None
    key = ("rounds", which, page.after_text(), page.limit)
    looked = services.changes.shared(key, partial(progress.page, services.database, which, page))

    async def look() -> tuple[Response, bool]:
        ids, shown, newest = await looked()
        body = b'{"rounds":[' + b",".join(shown) + b"]"
        # A change behind a full page changes its tag too.
        body += b"" if newest is None else b',"newest":' + encode(newest)
        body += b"}"
        headers = next_link(request, ids[-1]) if newest is not None else {}
        answer = etag_response(request, body, headers=headers)
        return answer, answer.status_code == 304 or (first_look and not ids)

    # Who comes to be open, or is no longer, was open before its last step.
    of = state if state is RoundState.OPEN else None
    gather_s = max(GATHER_S, services.conduct.peers.pace_s)
    return await services.changes.poll(look, wait_s, key=of, gather_s=gather_s)


@router.get(
    "/v1/rounds/{round_id}",
    **gives(RoundHead),
    tags=["rounds"],
    summary="One round, long-polled by ETag",
)
async def get_round(
    request: Request,
    round_id: str,
    services: Services,
    _: Reader,
    wait_s: Wait = 0,
    finished: Annotated[
        bool, Parameter(description="Wait for the round's end, and not for other changes.")
    ] = False,
) -> Response:
    async def look() -> tuple[Response, bool]:
        row = await progress.find(services.database, round_id)
        answer = etag_response(request, encode(progress.head(row)))
        unfinished = row.state not in (RoundState.RELEASED, RoundState.ABORTED)
        return answer, unfinished if finished else answer.status_code == 304

    return await services.changes.poll(look, wait_s, key=ended(round_id) if finished else round_id)


@router.post(
    "/v1/rounds/states",
    tags=["rounds"],
    summary="Several rounds, as lists show them, without those that are not known",
    openapi_extra=takes(RoundIds, examples.ROUND_IDS),
)
async def get_round_states(request: Request, services: Services, _: Reader) -> RoundStates:
    ids = await read_body(request, RoundIds)
    return RoundStates(rounds=await progress.several(services.database, ids.rounds))


@router.get(
    "/v1/rounds/{round_id}/descriptor",
    **gives(Signed[RoundDescriptor]),
    tags=["rounds"],
    summary="Signed descriptor",
)
async def get_round_descriptor(
    request: Request, round_id: str, services: Services, _: Reader
) -> Response:
    return etag_response(
        request, await progress.document(services.database, round_id, "descriptor")
    )


@router.get(
    "/v1/rounds/{round_id}/result",
    **gives(RoundResult),
    tags=["rounds"],
    summary="The released result",
)
async def get_round_result(
    request: Request, round_id: str, services: Services, _: Analyst
) -> Response:
    document = await progress.result(services.database, round_id)
    return etag_response(request, encode(document))


@router.get(
    "/v1/rounds/{round_id}/report",
    **gives(PrivacyReport),
    tags=["rounds"],
    summary="The privacy report, as JSON or (Accept: text/plain) in plain words",
)
async def get_round_report(
    request: Request, round_id: str, services: Services, _: Analyst
) -> Response:
    document = await progress.document(services.database, round_id, "report")
    if not request.headers.get("accept", "").startswith("text/plain"):
        return etag_response(request, document, headers={"Vary": "Accept"})
    words = plain_words(PrivacyReport.model_validate_json(document))
    return etag_response(
        request,
        words.encode(),
        media_type="text/plain; charset=utf-8",
        headers={"Vary": "Accept"},
    )


@router.get(
    "/v1/rounds/{round_id}/transcript",
    **gives(Transcript),
    tags=["rounds"],
    summary="What anyone needs to check the sum",
)
async def get_round_transcript(
    request: Request, round_id: str, services: Services, _: Reader
) -> Response:
    return etag_response(
        request, await progress.document(services.database, round_id, "transcript")
    )


@router.get(
    "/v1/rounds/{round_id}/seals",
    tags=["rounds"],
    summary="Seals of a released round's transcript, believed for years",
    responses={200: {"model": SealList}},
)
async def list_round_seals(
    request: Request, round_id: str, services: Services, _: Reader
) -> Response:
    async with services.database.reading() as transaction:
        await context.find(transaction, round_id)
        seal_documents = await ledger.seals_of(transaction, round_id)
    return etag_response(request, f'{{"seals":[{",".join(seal_documents)}]}}'.encode())


@router.post(
    "/v1/rounds/{round_id}/seals",
    tags=["rounds"],
    summary="Ask the aggregators of the quorum for their seals again",
)
async def ask_for_round_seals(round_id: str, services: Services, _: Operator) -> SealsAsked:
    text = await progress.document(services.database, round_id, "transcript")
    transcript = Transcript.model_validate_json(text)
    return SealsAsked(seals=await state_machine.ask_for_seals(services.conduct, transcript))


@router.put(
    "/v1/rounds/{round_id}/refusal",
    tags=["rounds"],
    status_code=204,
    summary=(
        "A party keeps some of its curators out of an open round, and reports on which grounds"
    ),
    openapi_extra=takes(Refusal, examples.REFUSAL),
)
async def refuse_round(request: Request, round_id: str, services: Services, caller: Party) -> None:
    body = await read_body(request, Refusal)
    async with services.database.begin() as transaction:
        party = caller.subject or ""
        await progress.take_refusals(transaction, round_id, party, body, services.clock)
    services.conductor.wake(round_id)


@router.get(
    "/v1/rounds/{round_id}/refusals",
    tags=["rounds"],
    summary="How many curators refuse a round, by ground; never which",
)
async def get_round_refusals(round_id: str, services: Services, _: Operator) -> RoundRefusals:
    async with services.database.reading() as transaction:
        row = await context.find(transaction, round_id)
        counts = await refusal_store.count_refusals(transaction, round_id)
    return RoundRefusals(
        round=row.id,
        state=row.state,
        refused=sum(counts.values()),
        grounds={ground.value: counts.get(ground, 0) for ground in RefusalGround},
    )


@router.get(
    "/v1/rounds/{round_id}/standing",
    response_model_exclude_unset=True,
    tags=["rounds"],
    summary="Which of a party's own curators were refused by their proof, and why",
)
async def get_own_standing(round_id: str, services: Services, caller: Party) -> OwnStanding:
    async with services.database.reading() as transaction:
        return await verification.own_standing(transaction, round_id, caller.subject or "")


@router.get(
    "/v1/rounds/{round_id}/refused",
    tags=["rounds"],
    summary="Which curators were refused by their proof, why, and what aggregators contradict",
)
async def get_refused_by_proof(round_id: str, services: Services, _: Operator) -> RefusedByProof:
    async with services.database.reading() as transaction:
        return await verification.whole_standing(transaction, round_id)


@router.post(
    "/v1/rounds/{round_id}/close",
    tags=["rounds"],
    status_code=202,
    summary="Freeze before the deadline",
)
async def close_round(round_id: str, services: Services, _: Operator) -> RoundHead:
    await close(services, round_id)
    return progress.head(await progress.find(services.database, round_id))


@router.post(
    "/v1/rounds/{round_id}/abort",
    **gives(RoundHead, 200, 202),
    tags=["rounds"],
    summary="End a round without a sum; 202 while that is in progress",
)
async def abort_round(round_id: str, services: Services, _: Operator) -> Response:
    await abort(services, round_id)

    async def look() -> tuple[Response, bool]:
        row = await progress.find(services.database, round_id)
        if row.state is RoundState.RELEASED:  # the last partial sum was on its way
            raise RoundClosed(extra={"state": row.state.value})
        done = row.state is RoundState.ABORTED
        content = progress.head(row).model_dump_json()
        return json_response(content, 200 if done else 202), not done

    return await services.changes.poll(look, ABORT_WAIT_S, key=round_id)


@router.get(
    "/v1/rounds/{round_id}/received",
    tags=["rounds"],
    summary=(
        "The progress of an open round: which curators have not answered, and what every "
        "aggregator has"
    ),
)
async def get_round_received(round_id: str, services: Services, _: Operator) -> Received:
    return await services.receiving_looks.look(round_id)


@router.get(
    "/v1/flow",
    tags=["rounds"],
    summary="Whether contributions arrive: rounds, refusals and uploads of a span, in counts",
)
async def get_flow(
    services: Services, _: Operator, begin: Begin = None, end: End = None
) -> DeploymentFlow:
    return await flow_of(services.database, services.peers, services.clock, begin, end)
