"""Routes of the budget: figures, verification, events, limits, and debits that parties report.

The functions before the routes are shared with the console's pages.
"""

from __future__ import annotations

import asyncio
import json
from fractions import Fraction
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi import Query as Parameter
from starlette.responses import JSONResponse

from common.bodies import LARGEST
from common.principals import Principal, Scope
from common.store.database import exclusive
from common.store.transactions import Database, Transaction
from common.web import idempotency
from common.web.auth import Authenticator, require
from common.web.dependencies import part
from common.web.openapi import gives, takes
from common.web.paging import PageQuery, page_response
from common.web.problems import status_of
from common.web.wire import read_body
from coordinator import examples, queries
from coordinator.budget import charging, curator_events, statement
from coordinator.budget.charging import Acknowledgement, Acknowledgements
from coordinator.budget.curator_events import Update, actor_of
from coordinator.budget.ledger import LOCK, Ledger
from coordinator.budget.limits import Limit
from coordinator.budget.plan_routes import add_planning
from coordinator.budget.roster import Status
from coordinator.budget.state import LedgerState
from coordinator.budget.statement import Tight
from coordinator.errors import UnknownCurator
from coordinator.models.budget_ledger import Break, Draft, Event, Kind
from coordinator.settings import CoordinatorSettings
from coordinator.store import ledger as lasting_seals
from coordinator.store import ledger as store
from coordinator.store.ledger import CuratorRow
from coordinator.store.tables import idempotency_keys
from coordinator.web import Analyst, ClockPart, DatabasePart, Operator, Party, encode, time_text
from tacit.answers.budget import (
    Budget,
    CuratorBudget,
    CuratorLimits,
    DebitDifferences,
    LedgerEvents,
    LedgerSeals,
    LedgerVerification,
    Limits,
)
from tacit.errors import DomainError, FieldError, Invalid
from tacit.protocol.round.pieces import ItemAnswer
from tacit.query.query import Query
from tacit.query.terms import Function, Mechanism
from tacit.wire import WireModel, parse_exact


class LimitsBody(WireModel):
    """The limits that hold from now on, in place of those before; an empty list lifts them."""

    limits: tuple[Limit, ...]


async def overview_of(
    database: Database,
    ledger: Ledger,
    *,
    operator: bool,
    query_id: str | None = None,
    delta: str | None = None,
) -> dict[str, Any]:
    """What the sources claim, what holds of what was released, and the limits; names of curators
    and disclosures for operators alone. Raises UnknownQuery, Invalid with the field."""
    at = _delta(delta)
    async with database.reading() as transaction:
        state = await ledger.current(transaction)
        query = None if query_id is None else await _local(transaction, query_id)
        tight_at = None if at is None else Tight(at, await _queries(transaction, state))
        names = _Names()
        shown = {
            **statement.overview(state),
            "claimed": await asyncio.to_thread(
                statement.claimed, state, query, disclosures=operator
            ),
            "released": await asyncio.to_thread(
                statement.released, state, tight_at, names if operator else None
            ),
            "limits": [statement.limit(item) for item in state.limits.deployment],
        }
        await names.fill(transaction, shown["released"])
    return shown


async def verification_of(
    database: Database, ledger: Ledger, seq: int | None = None, head: str | None = None
) -> dict[str, Any]:
    """Verify every row: whether each follows from the one before, and `seq` still has the hash
    `head` that was kept."""
    async with database.reading() as transaction:
        rows, newest = await store.head(transaction)
        found = await ledger.verify(transaction)
        if found is None and seq is not None and head is not None:
            kept = await store.hash_of(transaction, seq)
            if kept is None:
                found = Break(rows + 1, f"the tail is missing: row {seq} was there once")
            elif kept.hex() != head:
                found = Break(seq, "the row has another hash than the one that was kept")
    broken = None if found is None else {"row": found.seq, "reason": found.reason}
    return {"verified": found is None, "rows": rows, "head": newest.hex(), "broken": broken}


async def change_limits(
    transaction: Transaction,
    ledger: Ledger,
    caller: Principal,
    body: LimitsBody,
    row: CuratorRow | None,
) -> None:
    """Write the limits of the deployment, or (`row`) of one curator. Raises UnknownCurator."""
    await exclusive(transaction, LOCK)
    state = await ledger.current(transaction)
    if row is not None and state.roster.status(row.number) is Status.UNKNOWN:
        raise UnknownCurator
    payload = {"limits": [item.model_dump(mode="json", exclude_none=True) for item in body.limits]}
    number = None if row is None else row.number
    count = None if row is None else 1
    draft = Draft(Kind.LIMIT_CHANGED, actor_of(caller), payload, number, count)
    await ledger.append(transaction, [draft])


class _Names:
    """Roster numbers that an answer names, and their ids, filled in when they are looked up."""

    def __call__(self, number: int) -> str | None:
        return str(number)

    async def fill(self, transaction: Transaction, released: dict[str, Any]) -> None:
        rows = [
            row["worst"]
            for unit in ("record", "curator")
            for row in released[unit]
            if "worst" in row
        ]
        names = await store.curator_names(transaction, [int(row["curator"]) for row in rows])
        for row in rows:
            row["curator"] = names.get(int(row["curator"]))


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
    wanted = sorted(state.spending.rounds.queries())
    return {name: (await queries.find(transaction, name)).query for name in wanted}


# Routes of the budget: figures, events, limits, and plans.

LedgerPart = Annotated[Ledger, Depends(part(Ledger))]
Writer = Annotated[Principal, Depends(require(Scope.OPERATOR, Scope.CURATOR))]


def add_budget(app: FastAPI, settings: CoordinatorSettings) -> None:
    """Add them to the app."""
    _add_figures(app)
    _add_events(app, settings)
    _add_limits(app)
    add_planning(app)
    _add_acknowledgements(app)


def _add_figures(app: FastAPI) -> None:
    @app.get(
        "/v1/budget",
        **gives(Budget),
        tags=["budget"],
        summary="The global bounds from the papers, next to the verified ones",
    )
    async def get_budget(
        database: DatabasePart,
        ledger: LedgerPart,
        caller: Analyst,
        query_id: Annotated[
            str | None,
            Parameter(
                description="A query of mechanism local: its figures stand for curators that "
                "declare none."
            ),
        ] = None,
        delta: Annotated[
            str | None, Parameter(description="Also compose numerically, at this delta.")
        ] = None,
    ) -> Response:
        operator = caller.has(Scope.OPERATOR)
        return JSONResponse(
            await overview_of(database, ledger, operator=operator, query_id=query_id, delta=delta)
        )

    @app.get(
        "/v1/budget/curators/{curator}",
        **gives(CuratorBudget),
        tags=["budget"],
        summary="One curator: where it stands and what it spent",
    )
    async def get_curator_budget(
        curator: str, database: DatabasePart, ledger: LedgerPart, caller: Writer
    ) -> dict[str, Any]:
        async with database.reading() as transaction:
            state = await ledger.current(transaction)
            row = await _curator(transaction, caller, curator)
            operator = caller.has(Scope.OPERATOR)
            shown = statement.curator(state, row.number, disclosures=operator)
        return {"curator": row.id, "party": row.party, "number": row.number, **shown}


def _add_events(app: FastAPI, settings: CoordinatorSettings) -> None:
    @app.get(
        "/v1/budget/events",
        **gives(LedgerEvents),
        tags=["budget"],
        summary="The ledger, row by row",
    )
    async def list_budget_events(
        request: Request,
        page: PageQuery,
        database: DatabasePart,
        _: Operator,
        curator: str | None = None,
    ) -> Response:
        async with database.reading() as transaction:
            after = page.after_number() or 0
            if curator is None:
                found = await store.after(transaction, after, page.limit)
            else:
                named = await store.curators_named(transaction, [curator])
                if not named:
                    raise UnknownCurator
                found = await store.about(transaction, named[0].number, after, page.limit)
        return page_response(request, "events", [_event(item) for item in found], page.limit, "seq")

    @app.post(
        "/v1/budget/events",
        **gives(LedgerEvents, 201),
        tags=["budget"],
        status_code=201,
        summary="Something happened to curators or their data",
        openapi_extra=takes(Update, examples.UPDATE),
    )
    async def record_budget_event(
        request: Request,
        database: DatabasePart,
        ledger: LedgerPart,
        clock: ClockPart,
        caller: Writer,
    ) -> Response:
        body = await read_body(request, Update)
        key = await idempotency.request_key(request, caller.token_id)
        async with database.begin() as transaction:
            if stored := await idempotency.recall(transaction, idempotency_keys, key):
                return stored.response()
            found = await curator_events.record(
                transaction, ledger, body, caller, allow_paper=settings.allow_paper
            )
            answer = idempotency.StoredAnswer(
                201, encode({"events": [_event(item) for item in found]})
            )
            now = clock.now()
            await idempotency.remember(transaction, idempotency_keys, key, answer, now)
        return answer.response(replayed=False)

    @app.get(
        "/v1/budget/seals",
        **gives(LedgerSeals),
        tags=["budget"],
        summary="The ledger's head of each day, sealed so that it is believed for years",
    )
    async def list_budget_seals(
        request: Request, page: PageQuery, database: DatabasePart, _: Operator
    ) -> Response:
        async with database.reading() as transaction:
            found = await lasting_seals.list_ledger_seals(
                transaction, page.after_number(), page.limit
            )
        items = [{"day": day, **json.loads(text)} for day, text in found]
        return page_response(request, "seals", items, page.limit, "day")

    @app.get(
        "/v1/budget/verification",
        **gives(LedgerVerification),
        tags=["budget"],
        summary="Look at every row of the ledger; the first bad one is named",
    )
    async def verify_budget(
        database: DatabasePart,
        ledger: LedgerPart,
        _: Operator,
        seq: Annotated[
            int | None,
            Parameter(ge=0, le=LARGEST, description="A row whose hash you kept."),
        ] = None,
        head: Annotated[
            str | None, Parameter(pattern="^[0-9a-f]{64}$", description="The hash that was kept.")
        ] = None,
    ) -> dict[str, Any]:
        return await verification_of(database, ledger, seq, head)


def _add_limits(app: FastAPI) -> None:
    @app.get(
        "/v1/budget/limits",
        **gives(Limits),
        tags=["budget"],
        summary="The limits of the deployment",
    )
    async def get_budget_limits(
        database: DatabasePart, ledger: LedgerPart, _: Analyst
    ) -> dict[str, Any]:
        async with database.reading() as transaction:
            state = await ledger.current(transaction)
        return {"limits": [statement.limit(item) for item in state.limits.deployment]}

    @app.put(
        "/v1/budget/limits",
        **gives(Limits),
        tags=["budget"],
        summary="Limit what every curator spends",
        openapi_extra=takes(LimitsBody, examples.LIMITS),
    )
    async def put_budget_limits(
        request: Request, database: DatabasePart, ledger: LedgerPart, caller: Operator
    ) -> dict[str, Any]:
        body = await read_body(request, LimitsBody)
        async with database.begin() as transaction:
            await change_limits(transaction, ledger, caller, body, None)
        return {"limits": [statement.limit(item) for item in body.limits]}

    @app.put(
        "/v1/budget/curators/{curator}/limits",
        **gives(CuratorLimits),
        tags=["budget"],
        summary="Limit what one curator spends, beside the deployment's limits",
        openapi_extra=takes(LimitsBody, examples.LIMITS),
    )
    async def put_curator_limits(
        request: Request, curator: str, database: DatabasePart, ledger: LedgerPart, caller: Operator
    ) -> dict[str, Any]:
        body = await read_body(request, LimitsBody)
        async with database.begin() as transaction:
            row = await _curator(transaction, caller, curator)
            await change_limits(transaction, ledger, caller, body, row)
        return {"curator": row.id, "limits": [statement.limit(item) for item in body.limits]}


def _add_acknowledgements(app: FastAPI) -> None:
    @app.put(
        "/v1/rounds/{round_id}/acknowledgement",
        tags=["budget"],
        status_code=204,
        summary="A party says whom of its curators it debited",
        openapi_extra=takes(Acknowledgement, examples.ACKNOWLEDGEMENT),
    )
    async def acknowledge_round(
        request: Request,
        round_id: str,
        database: DatabasePart,
        ledger: LedgerPart,
        clock: ClockPart,
        caller: Party,
    ) -> None:
        body = await read_body(request, Acknowledgement)
        async with database.begin() as transaction:
            state = await ledger.current(transaction)
            party = caller.subject or ""
            await charging.acknowledge(transaction, state, round_id, party, body, clock)

    @app.put(
        "/v1/acknowledgements",
        **gives(list[ItemAnswer]),
        tags=["budget"],
        summary="Parties, each with its token, say whom they debited in rounds; an answer for each",
        openapi_extra=takes(Acknowledgements, examples.ACKNOWLEDGEMENTS),
    )
    async def acknowledge_rounds(
        request: Request,
        database: DatabasePart,
        ledger: LedgerPart,
        clock: ClockPart,
        authenticator: Annotated[Authenticator, Depends(part(Authenticator))],
        _: Party,
    ) -> Response:
        body = await read_body(request, Acknowledgements)
        tokens = dict.fromkeys(said.token for said in body.reports)
        known = {token: await _caller(authenticator, token) for token in tokens}
        answers = []
        async with database.begin() as transaction:
            state = await ledger.current(transaction)
            for index, said in enumerate(body.reports):
                try:
                    caller = known[said.token]
                    if isinstance(caller, DomainError):
                        raise caller
                    party = caller.subject or ""
                    await charging.acknowledge(transaction, state, said.round, party, said, clock)
                except DomainError as error:
                    status = status_of(error)
                    answers.append(ItemAnswer(index=index, status=status, problem=error.name))
                else:
                    answers.append(ItemAnswer(index=index, status=204))
        return JSONResponse([answer.model_dump(exclude_none=True) for answer in answers])

    @app.get(
        "/v1/budget/rounds/{round_id}",
        **gives(DebitDifferences),
        tags=["budget"],
        summary="Whom a round charges here, against what its parties say they debited",
    )
    async def compare_round_debits(
        round_id: str, database: DatabasePart, ledger: LedgerPart, _: Operator
    ) -> dict[str, Any]:
        async with database.reading() as transaction:
            state = await ledger.current(transaction)
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
    found = await store.curators_named(transaction, [curator])
    if not found or not (caller.has(Scope.OPERATOR) or found[0].party == caller.subject):
        raise UnknownCurator
    return found[0]


def _event(event: Event) -> dict[str, Any]:
    return {
        "seq": event.seq,
        "time": time_text(event.time),
        "kind": event.kind.value,
        "actor": event.actor,
        "first": event.first,
        "count": event.count,
        "payload": dict(event.payload),
        "previous": event.previous.hex(),
        "hash": event.hash.hex(),
    }
