"""How long each limit of the budget lasts under the schedules that are running, or planned ones."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from common.runtime.clock import Clock, epoch_microseconds, from_epoch_microseconds
from common.runtime.compute_processes import apart
from common.store.transactions import Database, Transaction
from coordinator import queries
from coordinator.budget import charging
from coordinator.budget.forecast import MOST_ROUNDS, Coming, count_rounds, outlook
from coordinator.budget.ledger import Ledger
from coordinator.budget.plans import (
    Asked,
    BudgetOutlook,
    LimitOutlook,
    OutlookRequest,
    ScheduleOutlook,
    limit_outlook,
)
from coordinator.budget.round_charges import Price
from coordinator.store import queries as query_store
from coordinator.store.registry import list_aggregators
from tacit.accounting.amounts import format_both
from tacit.accounting.scenarios import Scenario
from tacit.errors import FieldError, Invalid
from tacit.query.query import Query


async def outlook_of(
    database: Database, ledger: Ledger, clock: Clock, request: OutlookRequest
) -> BudgetOutlook:
    """How long each limit lasts. Raises UnknownQuery, Invalid with the field."""
    now = clock.now()
    start, until = epoch_microseconds(now), epoch_microseconds(now + timedelta(days=request.days))
    async with database.reading() as transaction:
        state = await ledger.current(transaction)
        queries_asked = await _asked(transaction, request.queries)
        aggregators = await list_aggregators(transaction)
    for place, (_, _, period_s) in enumerate(queries_asked):
        if period_s is None:
            raise refused(f"/queries/{place}/period_s", "the query has no schedule: give a period")
    planned = [(query, queries.operators_for(query, aggregators)) for _, query, _ in queries_asked]
    # Without schedules nothing is computed: no scrape of metrics waits for a process to start.
    prices = await apart(charging.prices_of, planned) if planned else []
    coming: list[Coming] = []
    shown: list[ScheduleOutlook] = []
    for (query_id, query, period_s), price in zip(queries_asked, prices, strict=True):
        assert period_s is not None
        plan = _coming(query, price, period_s * 10**6, start)
        if sum(item.rounds for item in shown) + count_rounds([plan], until) > MOST_ROUNDS:
            raise refused("/days", f"more than {MOST_ROUNDS} rounds: look less far ahead")
        coming.append(plan)
        cost = format_both(price.cost(query.privacy_unit, Scenario.ASSUMED))
        shown.append(
            ScheduleOutlook(
                query_id=query_id,
                name=query.name,
                period_s=period_s,
                next=from_epoch_microseconds(plan.first),
                rounds=count_rounds([plan], until),
                **cost,
            )
        )
    limits = state.limits.deployment if request.limits is None else request.limits
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


Scheduled = tuple[str | None, Query, int | None]


async def _asked(transaction: Transaction, asked: Sequence[Asked] | None) -> list[Scheduled]:
    """The queries to examine, each with its id and the seconds between two rounds."""
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
    """A schedule's future rounds: at the ends of its periods; those of a query without a
    schedule begin now."""
    first = now + period
    if query.schedule is not None:
        begun = epoch_microseconds(query.schedule.first_start)
        first = begun + period * max(1, (now - begun) // period + 1)
    fixed = query.window
    window = None
    if fixed is not None:
        window = (epoch_microseconds(fixed.start), epoch_microseconds(fixed.end))
    return Coming(price, first, period, window)


def refused(pointer: str, problem: str) -> Invalid:
    """A request whose field `pointer` is not valid."""
    return Invalid(problem, errors=(FieldError(pointer, problem),))
