"""Routes of plans: what a round would cost, and what a schedule composes to; nothing is spent."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Final

from fastapi import Query as Parameter
from fastapi import Request

from common.principals import Scope
from common.runtime.clock import epoch_microseconds, from_epoch_microseconds
from common.runtime.compute_processes import apart
from common.runtime.telemetry import ServiceMetrics
from common.store.transactions import Transaction
from common.web.openapi import api_router, takes
from common.web.wire import read_body
from coordinator import examples, queries
from coordinator.budget import charging, plans
from coordinator.budget.forecast import MOST_ROUNDS, POINTS, Coming, count_rounds, outlook
from coordinator.budget.forecast import history as course
from coordinator.budget.limits import shortages
from coordinator.budget.plans import (
    MOST_POINTS,
    Asked,
    BudgetOutlook,
    ForecastRequest,
    History,
    HistoryRequest,
    LimitOutlook,
    OutlookRequest,
    Plan,
    ScheduleOutlook,
    SpentPoint,
    limit_outlook,
    scenario_of,
)
from coordinator.budget.round_charges import Price
from coordinator.errors import WindowMissing
from coordinator.services import CoordinatorServices, Services
from coordinator.store import queries as query_store
from coordinator.store.registry import list_aggregators
from coordinator.web import Analyst
from tacit.accounting.amounts import format_both
from tacit.accounting.scenarios import Scenario
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
    return await outlook_of(services, body)


async def preview_of(services: CoordinatorServices, plan: Plan, *, named: bool) -> BudgetPreview:
    """What a planned round would cost, and whether it would be accepted; `named`: with the curators
    whose limits refuse it. Raises UnknownQuery, WindowMissing."""
    async with services.database.reading() as transaction:
        query, operators = await _planned(transaction, plan.query, plan.query_id)
        state = await services.ledger.current(transaction)
    window = plan.window or query.window
    if window is None:
        raise WindowMissing(
            "this query does not say which readings: give a window", pointer="/window"
        )
    price = await apart(charging.price_of, query, operators)
    planned = plans.planned(state, price, window, services.clock.now())
    found = shortages(state.limits, state.spending, planned)
    blocked = None
    if named:
        async with services.database.reading() as transaction:
            blocked = await charging.blocked(transaction, found)
    return plans.preview(planned, found, blocked)


async def history_of(services: CoordinatorServices, asked: HistoryRequest) -> History:
    """The past of one figure. Raises Invalid with the field."""
    if asked.unit is PrivacyUnit.RECORD and asked.period_s is not None:
        raise _refused("/period_s", "the unit record has no periods")
    async with services.database.reading() as transaction:
        state = await services.ledger.current(transaction)
    until = epoch_microseconds(asked.until or services.clock.now())
    made = state.spending.rounds.column("made")
    since = int(made.min()) if made.size else until
    since = min(until, since if asked.since is None else epoch_microseconds(asked.since))
    step = max(1, (until - since) // (POINTS - 1))
    if asked.step_s is not None:
        step = asked.step_s * 10**6
    if (until - since) // step >= MOST_POINTS:
        raise _refused("/step_s", f"more than {MOST_POINTS} points: take longer steps")
    times = [*range(since, until, step), until]
    period = None if asked.period_s is None else asked.period_s * 10**6
    found = await asyncio.to_thread(
        course, state.spending, asked.unit, scenario_of(asked.scenario), times, period
    )
    limits = (item for item in state.limits.deployment if asked.concerns(item))
    return History(
        unit=asked.unit,
        scenario=asked.scenario,
        period_s=asked.period_s,
        points=tuple(SpentPoint.of(point) for point in found),
        limit=min(limits, key=lambda item: item.epsilon, default=None),
    )


async def outlook_of(services: CoordinatorServices, asked: OutlookRequest) -> BudgetOutlook:
    """How long each limit lasts. Raises UnknownQuery, Invalid with the field."""
    now = services.clock.now()
    start, until = epoch_microseconds(now), epoch_microseconds(now + timedelta(days=asked.days))
    async with services.database.reading() as transaction:
        state = await services.ledger.current(transaction)
        queries_asked = await _asked(transaction, asked.queries)
        aggregators = await list_aggregators(transaction)
    for place, (_, _, period_s) in enumerate(queries_asked):
        if period_s is None:
            raise _refused(f"/queries/{place}/period_s", "the query has no schedule: give a period")
    prices = await apart(
        charging.prices_of,
        [(query, queries.operators_for(query, aggregators)) for _, query, _ in queries_asked],
    )
    coming: list[Coming] = []
    shown: list[ScheduleOutlook] = []
    for (query_id, query, period_s), price in zip(queries_asked, prices, strict=True):
        assert period_s is not None
        each = _coming(query, price, period_s * 10**6, start)
        if sum(item.rounds for item in shown) + count_rounds([each], until) > MOST_ROUNDS:
            raise _refused("/days", f"more than {MOST_ROUNDS} rounds: look less far ahead")
        coming.append(each)
        cost = format_both(price.cost(query.privacy_unit, Scenario.ASSUMED))
        shown.append(
            ScheduleOutlook(
                query_id=query_id,
                name=query.name,
                period_s=period_s,
                next=from_epoch_microseconds(each.first),
                rounds=count_rounds([each], until),
                **cost,
            )
        )
    limits = state.limits.deployment if asked.limits is None else asked.limits
    only = shown[0] if len(shown) == 1 else None

    def work() -> tuple[LimitOutlook, ...]:
        with state.spending.lock:
            return tuple(
                limit_outlook(outlook(item, state.spending, coming, start, until), only, start)
                for item in limits
            )

    return BudgetOutlook(
        now=now,
        until=from_epoch_microseconds(until),
        schedules=tuple(shown),
        limits=await asyncio.to_thread(work),
    )


OUTLOOK_KEPT: Final = timedelta(minutes=10)
"""How long one outlook serves the metrics: it may take a second."""
OUTLOOK_DAYS: Final = 30


def add_outlook_metric(services: CoordinatorServices, metrics: ServiceMetrics) -> None:
    """Have the end of the budget read whenever the metrics are."""
    ends = metrics.gauge(
        "budget_exhausted_timestamp_seconds",
        "When the schedules use up the first limit; NaN if none within 30 days.",
    )
    ends.set(math.nan)
    looked: datetime | None = None

    async def refresh() -> None:
        nonlocal looked
        now = services.clock.now()
        if looked is not None and timedelta() <= now - looked < OUTLOOK_KEPT:
            return
        looked = now
        found = await outlook_of(services, OutlookRequest(days=OUTLOOK_DAYS))
        known = [limit.exhausted.timestamp() for limit in found.limits if limit.exhausted]
        ends.set(min(known, default=math.nan))

    metrics.before_scrape(refresh)


Scheduled = tuple[str | None, Query, int | None]


async def _asked(transaction: Transaction, asked: Sequence[Asked] | None) -> list[Scheduled]:
    """The queries to look at, each with its id and the seconds between two rounds."""
    if asked is None:
        running = await query_store.scheduled(transaction)
        return [(row.id, row.query, _period_s(row.query)) for row in running]
    found: list[Scheduled] = []
    for item in asked:
        query = item.query
        if query is None:
            assert item.query_id is not None
            query = (await queries.find(transaction, item.query_id)).query
        found.append((item.query_id, query, item.period_s or _period_s(query)))
    return found


def _period_s(query: Query) -> int | None:
    return None if query.schedule is None else query.schedule.period_s


def _coming(query: Query, price: Price, period: int, now: int) -> Coming:
    """A schedule's rounds from now on: at the ends of its periods, which a query without a schedule
    begins now."""
    first = now + period
    if query.schedule is not None:
        begun = epoch_microseconds(query.schedule.first_start)
        first = begun + period * max(1, (now - begun) // period + 1)
    fixed = query.window
    window = None
    if fixed is not None:
        window = (epoch_microseconds(fixed.start), epoch_microseconds(fixed.end))
    return Coming(price, first, period, window)


def _refused(pointer: str, problem: str) -> Invalid:
    return Invalid(problem, errors=(FieldError(pointer, problem),))


async def _planned(
    transaction: Transaction, query: Query | None, query_id: str | None
) -> tuple[Query, tuple[str, ...] | None]:
    if query is None:
        assert query_id is not None
        query = (await queries.find(transaction, query_id)).query
    operators = queries.operators_for(query, await list_aggregators(transaction))
    return query, operators or None
