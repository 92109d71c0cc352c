"""Routes of plans: what a round would cost, and what a schedule composes to; nothing is spent."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import Query as Parameter
from fastapi import Request

from common.principals import Scope
from common.runtime.clock import epoch_microseconds
from common.runtime.compute_processes import apart
from common.store.transactions import Transaction
from common.web.openapi import api_router, takes
from common.web.wire import read_body
from coordinator import examples, queries
from coordinator.budget import charging, plans
from coordinator.budget.forecast import POINTS
from coordinator.budget.forecast import history as course
from coordinator.budget.limits import shortages
from coordinator.budget.outlook import outlook_of, refused
from coordinator.budget.plans import (
    MOST_POINTS,
    BudgetOutlook,
    ForecastRequest,
    History,
    HistoryRequest,
    OutlookRequest,
    Plan,
    SpentPoint,
    scenario_of,
)
from coordinator.errors import WindowMissing
from coordinator.services import CoordinatorServices, Services
from coordinator.store.registry import list_aggregators
from coordinator.web import Analyst
from tacit.answers.budget import BudgetForecast, BudgetPreview
from tacit.errors import FieldError, Invalid
from tacit.query.query import Query
from tacit.query.terms import PrivacyUnit

router = api_router()


@router.post(
    "/v1/budget/preview",
    response_model_exclude_unset=True,
    tags=["budget"],
    summary="What a round would cost, and whether it would be accepted; nothing is spent",
    openapi_extra=takes(Plan, examples.PLAN),
)
async def preview_budget(request: Request, services: Services, caller: Analyst) -> BudgetPreview:
    body = await read_body(request, Plan)
    named = caller.has(Scope.OPERATOR)
    return await preview_of(services, body, named=named)


@router.post(
    "/v1/budget/forecast",
    tags=["budget"],
    summary="The composed guarantee of a schedule, per day, month and year",
    openapi_extra=takes(ForecastRequest, examples.FORECAST),
)
async def forecast_budget(request: Request, services: Services, _: Analyst) -> BudgetForecast:
    body = await read_body(request, ForecastRequest)
    async with services.database.reading() as transaction:
        query, operators = await _planned(transaction, body.query, body.query_id)
    try:
        return await apart(plans.forecast, query, operators, body)
    except ValueError as error:
        raise Invalid(str(error), errors=(FieldError("/period_s", str(error)),)) from None


@router.get(
    "/v1/budget/history",
    tags=["budget"],
    summary="What the worst curator had spent, step by step of time",
)
async def get_budget_history(
    services: Services, _: Analyst, asked: Annotated[HistoryRequest, Parameter()]
) -> History:
    return await history_of(services, asked)


@router.post(
    "/v1/budget/outlook",
    tags=["budget"],
    summary="How long each limit lasts under the schedules that are running, or planned ones",
    openapi_extra=takes(OutlookRequest, examples.OUTLOOK),
)
async def get_budget_outlook(request: Request, services: Services, _: Analyst) -> BudgetOutlook:
    body = await read_body(request, OutlookRequest)
    return await outlook_of(services.database, services.ledger, services.clock, body)


async def preview_of(services: CoordinatorServices, plan: Plan, *, named: bool) -> BudgetPreview:
    """What a planned round would cost, and whether it would be accepted; `named`: with the curators
    whose limits refuse it. Raises UnknownQuery, WindowMissing."""
    async with services.database.reading() as transaction:
        query, operators = await _planned(transaction, plan.query, plan.query_id)
        state = await services.ledger.current(transaction)
    window = plan.window or query.window
    if window is None:
        raise WindowMissing("this query has no window of its own: give a window", pointer="/window")
    price = await apart(charging.price_of, query, operators)
    planned = plans.planned(state, price, window, services.clock.now())
    exceeded = shortages(state.limits, state.spending, planned)
    blocked = None
    if named:
        async with services.database.reading() as transaction:
            blocked = await charging.blocked(transaction, exceeded)
    return plans.preview(planned, exceeded, blocked)


async def history_of(services: CoordinatorServices, request: HistoryRequest) -> History:
    """The past of one figure. Raises Invalid with the field."""
    if request.unit is PrivacyUnit.RECORD and request.period_s is not None:
        raise refused("/period_s", "the unit record has no periods")
    async with services.database.reading() as transaction:
        state = await services.ledger.current(transaction)
    until = epoch_microseconds(request.until or services.clock.now())
    opened_at = state.spending.rounds.column("made")
    since = int(opened_at.min()) if opened_at.size else until
    since = min(until, since if request.since is None else epoch_microseconds(request.since))
    step = max(1, (until - since) // (POINTS - 1))
    if request.step_s is not None:
        step = request.step_s * 10**6
    if (until - since) // step >= MOST_POINTS:
        raise refused("/step_s", f"more than {MOST_POINTS} points: take longer steps")
    times = [*range(since, until, step), until]
    period = None if request.period_s is None else request.period_s * 10**6
    spent_points = await asyncio.to_thread(
        course, state.spending, request.unit, scenario_of(request.scenario), times, period
    )
    limits = (item for item in state.limits.deployment if request.concerns(item))
    return History(
        unit=request.unit,
        scenario=request.scenario,
        period_s=request.period_s,
        points=tuple(SpentPoint.of(point) for point in spent_points),
        limit=min(limits, key=lambda item: item.epsilon, default=None),
    )


async def _planned(
    transaction: Transaction, query: Query | None, query_id: str | None
) -> tuple[Query, tuple[str, ...] | None]:
    if query is None:
        assert query_id is not None
        query = (await queries.find(transaction, query_id)).query
    operators = queries.operators_for(query, await list_aggregators(transaction))
    return query, operators or None
