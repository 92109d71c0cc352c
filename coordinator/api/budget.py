"""Routes of the budget: figures, verification, events, limits, and debits that parties report.

The functions before the routes are shared with the console's pages.
"""

from __future__ import annotations

import asyncio
import json
from fractions import Fraction
from typing import Annotated

from fastapi import Depends, Request, Response
from fastapi import Query as Parameter
from starlette.responses import JSONResponse

from common.bodies import LARGEST
from common.principals import Principal, Scope
from common.store.database import exclusive
from common.store.transactions import Transaction
from common.web import idempotency
from common.web.auth import Authenticator, require
from common.web.openapi import api_router, gives, takes
from common.web.paging import PageQuery, page_response
from common.web.problems import status_of
from common.web.wire import read_body
from coordinator import examples, queries
from coordinator.budget import charging, ledger, screening, statement
from coordinator.budget.charging import Acknowledgement, Acknowledgements
from coordinator.budget.ledger import LOCK, Ledger, Update, actor_of
from coordinator.budget.limits import Limit
from coordinator.budget.roster import Status
from coordinator.budget.state import LedgerState
from coordinator.budget.statement import Tight
from coordinator.errors import UnknownCurator
from coordinator.models.budget_ledger import Break, Draft, Event, Kind
from coordinator.services import CoordinatorServices, Services
from coordinator.store import ledger as lasting_seals
from coordinator.store import ledger as store
from coordinator.store import queries as query_store
from coordinator.store.ledger import CuratorRow
from coordinator.store.tables import idempotency_keys
from coordinator.web import Analyst, Operator, Party, encode, link_next
from tacit.answers.budget import (
    BrokenRow,
    Budget,
    BudgetProposals,
    CuratorBudget,
    CuratorLimits,
    DebitDifferences,
    LedgerEvent,
    LedgerEvents,
    LedgerVerification,
    Limits,
    Proposed,
    Released,
    ReleasedAmount,
    Screened,
)
from tacit.answers.ledger_seals import LedgerSeals
from tacit.errors import DomainError, FieldError, Invalid
from tacit.protocol.round.pieces import ItemAnswer
from tacit.query.query import Query
from tacit.query.terms import Function, Mechanism
from tacit.wire import WireModel, format_instant, parse_exact

router = api_router()


class LimitsBody(WireModel):
    """The limits from now on, in place of all earlier ones; an empty list removes them."""

    limits: tuple[Limit, ...]


async def overview_of(
    services: CoordinatorServices,
    *,
    operator: bool,
    query_id: str | None = None,
    delta: str | None = None,
) -> Budget:
    """What the sources claim, the verified figures of what was released, and the limits; names
    of curators and disclosures for operators only. Raises UnknownQuery, Invalid with the field."""
    at = _delta(delta)
    async with services.database.reading() as transaction:
        state = await services.ledger.current(transaction)
        query = None if query_id is None else await _local(transaction, query_id)
        tight_at = None if at is None else Tight(at, await _queries(transaction, state))
        position, standings = statement.overview(state)
        claimed = await asyncio.to_thread(statement.claimed, state, query, disclosures=operator)
        exact = await query_store.without_noise(transaction)
        released = await asyncio.to_thread(
            statement.released, state, tight_at, exact, numbers=operator
        )
        return Budget(
            ledger=position,
            curators=standings,
            claimed=claimed,
            released=await _named(transaction, released),
            limits=[statement.limit(item) for item in state.limits.deployment],
        )


async def verification_of(
    services: CoordinatorServices, seq: int | None = None, head: str | None = None
) -> LedgerVerification:
    """Verify every row: whether each follows from the one before, and whether `seq` still has
    the hash `head` that the caller kept."""
    async with services.database.reading() as transaction:
        rows, newest = await store.head(transaction)
        break_found = await services.ledger.verify(transaction)
        if break_found is None and seq is not None and head is not None:
            hash_kept = await store.hash_of(transaction, seq)
            if hash_kept is None:
                break_found = Break(rows + 1, f"the tail is missing: row {seq} was there once")
            elif hash_kept.hex() != head:
                break_found = Break(seq, "the row's hash differs from the one that you kept")
    broken = (
        None if break_found is None else BrokenRow(row=break_found.seq, reason=break_found.reason)
    )
    return LedgerVerification(
        verified=break_found is None, rows=rows, head=newest.hex(), broken=broken
    )


async def change_limits(
    transaction: Transaction,
    ledger: Ledger,
    caller: Principal,
    body: LimitsBody,
    row: CuratorRow | None,
) -> None:
    """Store the limits of the deployment, or (`row`) of one curator. Raises UnknownCurator."""
    await exclusive(transaction, LOCK)
    state = await ledger.current(transaction)
    if row is not None and state.roster.status(row.number) is Status.UNKNOWN:
        raise UnknownCurator
    payload = {"limits": [item.model_dump(mode="json", exclude_none=True) for item in body.limits]}
    number = None if row is None else row.number
    count = None if row is None else 1
    draft = Draft(Kind.LIMIT_CHANGED, actor_of(caller), payload, number, count)
    await ledger.append(transaction, [draft])


async def _named(transaction: Transaction, released: Released) -> Released:
    """With the names of the curators that spent most, instead of their numbers."""
    worst = [row.worst for row in (*released.record, *released.curator) if row.worst is not None]
    names = await store.curator_names(transaction, [int(item.curator or 0) for item in worst])

    def named(row: ReleasedAmount) -> ReleasedAmount:
        if row.worst is None:
            return row
        name = names.get(int(row.worst.curator or 0))
        return row.model_copy(update={"worst": row.worst.model_copy(update={"curator": name})})

    return released.model_copy(
        update={
            "record": [named(row) for row in released.record],
            "curator": [named(row) for row in released.curator],
        }
    )


def _delta(text: str | None) -> Fraction | None:
    if text is None:
        return None
    try:
        value = parse_exact(text)
    except ValueError as error:
        raise Invalid(errors=(FieldError("/delta", str(error), place="query"),)) from None
    if not 0 <= value < 1:
        raise Invalid(errors=(FieldError("/delta", "must lie in [0, 1)", place="query"),))
    return value


async def _local(transaction: Transaction, query_id: str) -> Query:
    query = (await queries.find(transaction, query_id)).query
    if query.mechanism is not Mechanism.LOCAL or query.function not in (
        Function.SUM,
        Function.COUNT,
    ):
        problem = "the sources' bounds are about sums and counts of mechanism local"
        raise Invalid(problem, errors=(FieldError("/query_id", problem, place="query"),))
    return query


async def _queries(transaction: Transaction, state: LedgerState) -> dict[str, Query]:
    query_ids = sorted(state.spending.rounds.queries())
    return {name: (await queries.find(transaction, name)).query for name in query_ids}


Writer = Annotated[Principal, Depends(require(Scope.OPERATOR, Scope.CURATOR))]


@router.get(
    "/v1/budget",
    response_model_exclude_unset=True,
    tags=["budget"],
    summary="The global bounds from the papers, next to the verified ones",
)
async def get_budget(
    services: Services,
    caller: Analyst,
    query_id: Annotated[
        str | None,
        Parameter(
            description=(
                "A query of mechanism local: its figures are used for curators that declare none."
            )
        ),
    ] = None,
    delta: Annotated[
        str | None, Parameter(description="Also compose numerically, at this delta.")
    ] = None,
) -> Budget:
    operator = caller.has(Scope.OPERATOR)
    return await overview_of(services, operator=operator, query_id=query_id, delta=delta)


@router.get(
    "/v1/budget/curators/{curator}",
    response_model_exclude_unset=True,
    tags=["budget"],
    summary="One curator: its status and spending",
)
async def get_curator_budget(curator: str, services: Services, caller: Writer) -> CuratorBudget:
    async with services.database.reading() as transaction:
        state = await services.ledger.current(transaction)
        row = await _curator(transaction, caller, curator)
        exact = await query_store.without_noise(transaction)
        return statement.curator(state, row, exact, disclosures=caller.has(Scope.OPERATOR))


@router.get(
    "/v1/budget/events",
    tags=["budget"],
    summary="The ledger, row by row",
)
async def list_budget_events(
    request: Request,
    response: Response,
    page: PageQuery,
    services: Services,
    _: Operator,
    curator: str | None = None,
) -> LedgerEvents:
    async with services.database.reading() as transaction:
        after = page.after_number() or 0
        if curator is None:
            events = await store.after(transaction, after, page.limit)
        else:
            named = await store.curators_named(transaction, [curator])
            if not named:
                raise UnknownCurator
            events = await store.about(transaction, named[0].number, after, page.limit)
    link_next(request, response, page, events, "seq")
    return LedgerEvents(events=[event_answer(event) for event in events])


@router.post(
    "/v1/budget/events",
    **gives(LedgerEvents, 201),
    tags=["budget"],
    status_code=201,
    summary="Something happened to curators or their data",
    openapi_extra=takes(Update, examples.UPDATE),
)
async def record_budget_event(request: Request, services: Services, caller: Writer) -> Response:
    body = await read_body(request, Update)
    key = await idempotency.request_key(request, caller.token_id)
    async with services.database.begin() as transaction:
        if stored := await idempotency.recall(transaction, idempotency_keys, key):
            return stored.response()
        events = await ledger.record(
            transaction, services.ledger, body, caller, allow_paper=services.settings.allow_paper
        )
        recorded = LedgerEvents(events=[event_answer(event) for event in events])
        answer = idempotency.StoredAnswer(201, encode(recorded))
        now = services.clock.now()
        await idempotency.remember(transaction, idempotency_keys, key, answer, now)
    return answer.response(replayed=False)


@router.get(
    "/v1/budget/seals",
    **gives(LedgerSeals),
    tags=["budget"],
    summary="The ledger's head of each day, sealed so that it is believed for years",
)
async def list_budget_seals(
    request: Request, page: PageQuery, services: Services, _: Operator
) -> Response:
    async with services.database.reading() as transaction:
        day_seals = await lasting_seals.list_ledger_seals(
            transaction, page.after_number(), page.limit
        )
    items = [{"day": day, **json.loads(text)} for day, text in day_seals]
    return page_response(request, "seals", items, page.limit, "day")


@router.get(
    "/v1/budget/verification",
    tags=["budget"],
    summary="Look at every row of the ledger; the first bad one is named",
)
async def verify_budget(
    services: Services,
    _: Operator,
    seq: Annotated[
        int | None,
        Parameter(ge=0, le=LARGEST, description="A row whose hash you kept."),
    ] = None,
    head: Annotated[
        str | None, Parameter(pattern="^[0-9a-f]{64}$", description="The hash that was kept.")
    ] = None,
) -> LedgerVerification:
    return await verification_of(services, seq, head)


@router.get(
    "/v1/budget/limits",
    response_model_exclude_unset=True,
    tags=["budget"],
    summary="The limits of the deployment",
)
async def get_budget_limits(services: Services, _: Analyst) -> Limits:
    async with services.database.reading() as transaction:
        state = await services.ledger.current(transaction)
    return Limits(limits=[statement.limit(item) for item in state.limits.deployment])


@router.put(
    "/v1/budget/limits",
    response_model_exclude_unset=True,
    tags=["budget"],
    summary="Limit what every curator spends",
    openapi_extra=takes(LimitsBody, examples.LIMITS),
)
async def put_budget_limits(request: Request, services: Services, caller: Operator) -> Limits:
    body = await read_body(request, LimitsBody)
    async with services.database.begin() as transaction:
        await change_limits(transaction, services.ledger, caller, body, None)
    return Limits(limits=[statement.limit(item) for item in body.limits])


@router.put(
    "/v1/budget/curators/{curator}/limits",
    response_model_exclude_unset=True,
    tags=["budget"],
    summary="Limit what one curator spends, in addition to the deployment's limits",
    openapi_extra=takes(LimitsBody, examples.LIMITS),
)
async def put_curator_limits(
    request: Request, curator: str, services: Services, caller: Operator
) -> CuratorLimits:
    body = await read_body(request, LimitsBody)
    async with services.database.begin() as transaction:
        row = await _curator(transaction, caller, curator)
        await change_limits(transaction, services.ledger, caller, body, row)
    return CuratorLimits(curator=row.id, limits=[statement.limit(item) for item in body.limits])


@router.put(
    "/v1/rounds/{round_id}/acknowledgement",
    tags=["budget"],
    status_code=204,
    summary="A party reports which of its curators it debited",
    openapi_extra=takes(Acknowledgement, examples.ACKNOWLEDGEMENT),
)
async def acknowledge_round(
    request: Request, round_id: str, services: Services, caller: Party
) -> None:
    body = await read_body(request, Acknowledgement)
    async with services.database.begin() as transaction:
        state = await services.ledger.current(transaction)
        party = caller.subject or ""
        await charging.acknowledge(transaction, state, round_id, party, body, services.clock)


@router.put(
    "/v1/acknowledgements",
    **gives(list[ItemAnswer]),
    tags=["budget"],
    summary=(
        "Parties, each with its token, report which curators they debited in rounds; an "
        "answer for each"
    ),
    openapi_extra=takes(Acknowledgements, examples.ACKNOWLEDGEMENTS),
)
async def acknowledge_rounds(request: Request, services: Services, _: Party) -> Response:
    body = await read_body(request, Acknowledgements)
    tokens = dict.fromkeys(said.token for said in body.reports)
    callers = {token: await _caller(services.authenticator, token) for token in tokens}
    answers = []
    async with services.database.begin() as transaction:
        state = await services.ledger.current(transaction)
        for index, said in enumerate(body.reports):
            try:
                caller = callers[said.token]
                if isinstance(caller, DomainError):
                    raise caller
                party = caller.subject or ""
                await charging.acknowledge(
                    transaction, state, said.round, party, said, services.clock
                )
            except DomainError as error:
                status = status_of(error)
                answers.append(ItemAnswer(index=index, status=status, problem=error.name))
            else:
                answers.append(ItemAnswer(index=index, status=204))
    return JSONResponse([answer.model_dump(exclude_none=True) for answer in answers])


@router.get(
    "/v1/budget/rounds/{round_id}",
    tags=["budget"],
    summary=(
        "Which curators a round charges here, compared with what its parties report as debited"
    ),
)
async def compare_round_debits(round_id: str, services: Services, _: Operator) -> DebitDifferences:
    async with services.database.reading() as transaction:
        state = await services.ledger.current(transaction)
        return await charging.differences(transaction, state, round_id)


# --- parts ---------------------------------------------------------------------------------------


async def _caller(authenticator: Authenticator, token: str) -> Principal | DomainError:
    """The party that a token belongs to, or what is wrong with the token."""
    try:
        found = await authenticator.principal(token)
        found.demand(Scope.CURATOR)
    except DomainError as error:
        return error
    return found


async def _curator(transaction: Transaction, caller: Principal, curator: str) -> CuratorRow:
    curators = await store.curators_named(transaction, [curator])
    if not curators or not (caller.has(Scope.OPERATOR) or curators[0].party == caller.subject):
        raise UnknownCurator
    return curators[0]


def event_answer(event: Event) -> LedgerEvent:
    return LedgerEvent(
        seq=event.seq,
        time=format_instant(event.time),
        kind=event.kind.value,
        actor=event.actor,
        first=event.first,
        count=event.count,
        payload=dict(event.payload),
        previous=event.previous.hex(),
        hash=event.hash.hex(),
    )


Alpha = Annotated[
    float,
    Parameter(
        gt=0,
        lt=1,
        description="The chance, in (0, 1), that anybody is proposed for missed rounds in one "
        "look, if rounds are missed at random.",
    ),
]


@router.get(
    "/v1/budget/proposals",
    tags=["budget"],
    summary="Curators that an operator may want to examine, according to the ledger",
)
async def list_budget_proposals(
    services: Services, _: Operator, alpha: Alpha = 0.001
) -> BudgetProposals:
    state, seen, far, absent = await screening.screened(services.database, services.ledger, alpha)
    listed = (*far[: screening.NAMED], *absent[: screening.NAMED])
    async with services.database.reading() as transaction:
        names = await store.curator_names(transaction, sorted({item.number for item in listed}))
    return BudgetProposals(
        screened=Screened(
            declaring=int(seen.declaring.size),
            rounds=len(seen.rounds),
            most_rounds=screening.NEWEST,
            alpha=alpha,
        ),
        proposed=Proposed(far_bounds=len(far), missed_rounds=len(absent)),
        proposals=[
            *screening.shown(far, names, state),
            *screening.shown(absent, names, state),
        ],
        sentence=screening.SENTENCE,
    )
