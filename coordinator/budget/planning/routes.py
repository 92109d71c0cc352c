"""Routes of plans: what a round would cost, and what a schedule composes to; nothing is spent."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request

from common.runtime.clock import Clock
from common.store.transactions import Database, Transaction
from common.web.bodies import takes
from common.web.parts import part
from common.web.tokens import Scope
from common.web.wire import read_body
from coordinator import examples
from coordinator.budget import charging
from coordinator.budget.ledger import Ledger
from coordinator.budget.limits import shortages
from coordinator.budget.planning import plans
from coordinator.budget.planning.plans import ForecastRequest, Plan
from coordinator.errors import WindowMissing
from coordinator.queries import queries
from coordinator.store.registry import list_aggregators
from coordinator.web import Analyst, ClockPart, DatabasePart
from tacit.errors import FieldError, Invalid
from tacit.query.query import Query

LedgerPart = Annotated[Ledger, Depends(part(Ledger))]


def add_planning(app: FastAPI) -> None:
    """Add them to the app."""

    @app.post(
        "/v1/budget/preview",
        tags=["budget"],
        summary="What a round would cost, and whether it would be let in; nothing is spent",
        openapi_extra=takes(Plan, examples.PLAN),
    )
    async def preview(
        request: Request,
        database: DatabasePart,
        ledger: LedgerPart,
        clock: ClockPart,
        caller: Analyst,
    ) -> dict[str, Any]:
        body = await read_body(request, Plan)
        named = caller.has(Scope.OPERATOR)
        return await preview_of(database, ledger, clock, body, named=named)

    @app.post(
        "/v1/budget/forecast",
        tags=["budget"],
        summary="The composed guarantee of a schedule, per day, month and year",
        openapi_extra=takes(ForecastRequest, examples.FORECAST),
    )
    async def forecast(request: Request, database: DatabasePart, _: Analyst) -> dict[str, Any]:
        body = await read_body(request, ForecastRequest)
        async with database.reading() as transaction:
            query, operators = await _planned(transaction, body.query, body.query_id)
        try:
            return await asyncio.to_thread(plans.forecast, query, operators, body)
        except ValueError as error:
            raise Invalid(str(error), errors=(FieldError("/period_s", str(error)),)) from None


async def preview_of(
    database: Database, ledger: Ledger, clock: Clock, plan: Plan, *, named: bool
) -> dict[str, Any]:
    """What a planned round would cost, and whether it would be let in; `named`: with the curators
    whose limits refuse it. Raises UnknownQuery, WindowMissing."""
    async with database.reading() as transaction:
        query, operators = await _planned(transaction, plan.query, plan.query_id)
        state = await ledger.current(transaction)
    window = plan.window or query.window
    if window is None:
        raise WindowMissing("give the window of a query that fixes none", pointer="/window")
    price = await asyncio.to_thread(charging.price_of, query, operators)
    planned = plans.planned(state, price, window, clock.now())
    found = shortages(state.limits, state.spending, planned)
    blocked = None
    if named:
        async with database.reading() as transaction:
            blocked = await charging.blocked(transaction, found)
    return plans.preview(planned, found, blocked)


async def _planned(
    transaction: Transaction, query: Query | None, query_id: str | None
) -> tuple[Query, tuple[str, ...] | None]:
    if query is None:
        assert query_id is not None
        query = (await queries.find(transaction, query_id)).query
    operators = queries.operators_for(query, await list_aggregators(transaction))
    return query, operators or None
