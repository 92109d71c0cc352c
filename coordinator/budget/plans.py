"""Plans: what a round would cost, whether it would be admitted, what a year costs.

Spec: budget, sections 3 and 5. With the documents that show the course of a budget: its past, and
what schedules will make of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from fractions import Fraction
from typing import Annotated, Final, Literal

from pydantic import BaseModel, Field, field_validator, model_validator

from common.runtime.clock import epoch_microseconds, from_epoch_microseconds
from coordinator.budget.forecast import Outlook, Point, Step, period_start
from coordinator.budget.limits import YEAR_S, Limit, Planned, Shortage
from coordinator.budget.round_charges import Price
from coordinator.budget.spending import Figure
from coordinator.budget.state import LedgerState
from coordinator.budget.statement import zcdp_shown
from tacit.accounting.amounts import MICRO, NANO, Cost, format_both, format_micro, format_nano
from tacit.accounting.composition import FIXED_SCHEDULE
from tacit.accounting.forecast import Forecast, forecast_schedule
from tacit.accounting.scenarios import Scenario
from tacit.answers import budget as answers
from tacit.answers.budget import (
    BudgetForecast,
    BudgetPreview,
    Costs,
    ForecastPoint,
    ForecastRow,
    ScenarioAmount,
)
from tacit.answers.datasets import Amount
from tacit.query.fields import Window
from tacit.query.query import Query
from tacit.query.terms import Identifier, PrivacyUnit
from tacit.report.figures import delta_amount, epsilon_amount
from tacit.wire import Exact, Instant, WireModel, format_exact, format_instant, parse_exact, require

MOST_DAYS = 3660


class Plan(WireModel):
    """A planned round: a stored query or a new one, and its window."""

    query_id: Identifier | None = None
    query: Query | None = None
    window: Window | None = None

    @model_validator(mode="after")
    def _one_query(self) -> Plan:
        require((self.query is None) != (self.query_id is None), None, "name or give a query")
        return self


class ForecastRequest(WireModel):
    """A planned schedule. Period and first start: by default those of the query."""

    query_id: Identifier | None = None
    query: Query | None = None
    days: Annotated[int, Field(ge=1, le=MOST_DAYS)] = 365
    period_s: Annotated[int, Field(ge=60, le=366 * 86_400)] | None = None
    first_start: Instant | None = None
    delta: Exact = Fraction(1, 10**6)

    @field_validator("delta")
    @classmethod
    def _delta(cls, value: Fraction) -> Fraction:
        return require(0 <= value < 1, value, "must lie in [0, 1)")

    @model_validator(mode="after")
    def _one_query(self) -> ForecastRequest:
        require((self.query is None) != (self.query_id is None), None, "name or give a query")
        return self


def planned(state: LedgerState, price: Price, window: Window, now: datetime) -> Planned:
    """A round over all curators on the roster, opened now."""
    bounds = (epoch_microseconds(window.start), epoch_microseconds(window.end))
    return Planned(price, state.roster.members(), bounds, epoch_microseconds(now))


def preview(
    plan: Planned, exceeded: Sequence[Shortage], blocked: Sequence[Sequence[str]] | None
) -> BudgetPreview:
    """What opening the round would cost each member, and which limits would refuse it.

    `found`: the shortages under these limits; `blocked`: for an operator, the curators of each.
    """
    refusals = [item.figures() for item in exceeded]
    for place, figures in enumerate(refusals):
        if blocked is None:
            figures.pop("rounds")
        else:
            figures["blocked"] = list(blocked[place])
    return BudgetPreview(
        curators=int(plan.members.sum()),
        costs=Costs(
            **{
                unit.value: [_cost(plan.price, unit, scenario) for scenario in Scenario]
                for unit in PrivacyUnit
            }
        ),
        allowed=not refusals,
        refusals=[answers.Shortage(**figures) for figures in refusals],
    )


def _cost(price: Price, unit: PrivacyUnit, scenario: Scenario) -> ScenarioAmount:
    return ScenarioAmount(
        scenario=scenario.label,
        key=scenario.value,
        **zcdp_shown(price.cost(unit, scenario)),
    )


def forecast(
    query: Query, operators: tuple[str, ...] | None, request: ForecastRequest
) -> BudgetForecast:
    """The composed guarantee per day, month and year. Raises ValueError for an invalid schedule."""
    runs = forecast_schedule(
        query, operators, request.days, request.period_s, request.first_start, request.delta
    )
    return BudgetForecast(
        period_s=runs.period_s,
        days=request.days,
        delta=delta_amount(runs.delta),
        sentence="Limits are checked against the basic figures, or where they are in zcdp against "
        f"rho: enforced, adaptive. The tight figure {FIXED_SCHEDULE}.",
        rows=_rows(runs),
        curve=[
            ForecastPoint(
                day=point.day,
                at=None if point.at is None else format_instant(point.at),
                rounds=point.rounds,
                unit=point.unit.value,
                basic=_shown(point.basic),
                tight=epsilon_amount(point.tight),
                rho=epsilon_amount(point.rho),
                zcdp=epsilon_amount(point.zcdp),
            )
            for point in runs.curve
        ],
    )


def _rows(forecast_made: Forecast) -> list[ForecastRow]:
    return [
        ForecastRow(
            horizon=row.horizon,
            days=row.days,
            rounds=row.rounds,
            unit=row.unit.value,
            scenario=row.scenario.label,
            key=row.scenario.value,
            touching=row.touching,
            basic=_shown(row.basic),
            tight=epsilon_amount(row.tight),
            rho=epsilon_amount(row.rho),
            zcdp=epsilon_amount(row.zcdp),
        )
        for row in forecast_made.rows
    ]


def _shown(cost: Cost) -> Amount:
    return Amount(epsilon=epsilon_amount(cost.epsilon), delta=delta_amount(cost.delta))


HISTORY_SENTENCE: Final = (
    "At each instant the largest sum of any one curator over the rounds opened by then, each "
    "charged as it stands now, in both currencies, as limits count."
)
OUTLOOK_SENTENCE: Final = (
    "Each coming round is taken to charge the curator that has spent most, in the limit's own "
    "currency, as limits count. Rounds that are opened by hand come on top."
)
MOST_POINTS: Final = 1000
Assumption = Literal["assumed", "all-aggregators"]


def scenario_of(assumption: Assumption) -> Scenario:
    """The collusion scenario that a limit calls by this word."""
    return Scenario.ASSUMED if assumption == "assumed" else Scenario.EVERYONE


class SpentPoint(WireModel):
    """What the worst curator had spent, or will have; "inf" if it is not finite. `rho`: as zCDP,
    with `rho_delta`. `rounds`: how many rounds it covers (history), or will have opened from now
    on (outlook)."""

    at: Instant
    epsilon: str
    delta: str
    rho: str
    rho_delta: str
    rounds: int

    @classmethod
    def of(cls, point: Point | Step) -> SpentPoint:
        worst = point.worst if isinstance(point, Point) else point.spent
        at = from_epoch_microseconds(point.at)
        return cls(at=at, rounds=point.rounds, **format_both(worst.amount))


class HistoryRequest(BaseModel):
    """Which figure, between which instants (default: from the first round until now), in which
    steps."""

    unit: PrivacyUnit = PrivacyUnit.CURATOR
    scenario: Assumption = "assumed"
    period_s: Annotated[
        int | None,
        Field(ge=60, le=10 * YEAR_S, description="Count within periods, as a limit with them."),
    ] = None
    since: Annotated[Instant | None, Field(alias="from")] = None
    until: Annotated[Instant | None, Field(alias="to")] = None
    step_s: Annotated[
        int | None, Field(ge=1, le=100 * YEAR_S, description="By default 60 steps.")
    ] = None

    def concerns(self, limit: Limit) -> bool:
        """Whether a limit is on this figure."""
        scope = self.unit, self.scenario, self.period_s
        return scope == (limit.unit, limit.scenario, limit.period_s)


class History(WireModel):
    """The past of one figure, and the deployment's limit on it."""

    unit: PrivacyUnit
    scenario: Assumption
    period_s: int | None
    points: tuple[SpentPoint, ...]
    limit: Limit | None
    sentence: str = HISTORY_SENTENCE


class Asked(WireModel):
    """A schedule of a stored or a new query; its period is by default the query's own."""

    query_id: Identifier | None = None
    query: Query | None = None
    period_s: Annotated[int, Field(ge=60, le=366 * 86_400)] | None = None

    @model_validator(mode="after")
    def _one_query(self) -> Asked:
        require((self.query is None) != (self.query_id is None), None, "name or give a query")
        return self


class OutlookRequest(WireModel):
    """Which schedules to examine (default: all that are running), and how far ahead. `limits`:
    to try, instead of the deployment's."""

    queries: Annotated[tuple[Asked, ...], Field(max_length=100)] | None = None
    days: Annotated[int, Field(ge=1, le=MOST_DAYS)] = 365
    limits: Annotated[tuple[Limit, ...], Field(max_length=20)] | None = None


class ScheduleOutlook(WireModel):
    """A schedule of the outlook, and what each of its rounds costs a curator (scenario e)."""

    query_id: str | None
    name: str
    period_s: int
    next: Instant
    rounds: int
    epsilon: str
    delta: str
    rho: str
    rho_delta: str


class Advice(WireModel):
    """What would make the limit last: only every `every`-th round (null: nothing would); or for
    each round at most this share of its price. `epsilon`, or for a limit in zcdp `rho`: that
    share of the price, if one schedule was examined."""

    every: int | None
    share: Exact
    epsilon: str | None
    rho: str | None


class SpentFigure(WireModel):
    """An amount; "inf" if it is not finite. `rho`: as zCDP, with `rho_delta`."""

    epsilon: str
    delta: str
    rho: str
    rho_delta: str


class LimitOutlook(WireModel):
    """One limit. `most` and `left`: of its epsilon, or for a limit in zcdp of its rho, given the
    deltas that are spent; `exhausted`: when the first round is refused, null if none is;
    `begins`, `ends`: the current period of a limit with periods, else null and the last instant
    examined; `advice`: null if nothing helps, or nothing is refused."""

    limit: Limit
    spent: SpentFigure
    most: str
    left: str
    begins: Instant | None
    ends: Instant
    exhausted: Instant | None
    points: tuple[SpentPoint, ...]
    advice: Advice | None


class BudgetOutlook(WireModel):
    """How long each limit lasts under the schedules."""

    now: Instant
    until: Instant
    schedules: tuple[ScheduleOutlook, ...]
    limits: tuple[LimitOutlook, ...]
    sentence: str = OUTLOOK_SENTENCE


def limit_outlook(course_of_limit: Outlook, only: ScheduleOutlook | None, now: int) -> LimitOutlook:
    """One limit's outlook; `only`: the one schedule, if there is one."""
    advice, limit = course_of_limit.advice, course_of_limit.limit
    begins = None if limit.period_s is None else period_start(now, limit.period_s * 10**6)
    shown = None
    if advice is not None:
        part = None
        price = None if only is None else only.epsilon if limit.zcdp is None else only.rho
        if price is not None and price != "inf":
            scale = MICRO if limit.zcdp is None else NANO
            part = format_exact(Fraction(int(parse_exact(price) * advice.share * scale), scale))
        shown = Advice(
            every=advice.every,
            share=advice.share,
            epsilon=part if limit.zcdp is None else None,
            rho=None if limit.zcdp is None else part,
        )
    most, remaining = _left(limit, course_of_limit.spent)
    return LimitOutlook(
        limit=limit,
        spent=SpentFigure(**format_both(course_of_limit.spent.amount)),
        most=most,
        left=remaining,
        begins=None if begins is None else from_epoch_microseconds(begins),
        ends=from_epoch_microseconds(course_of_limit.ends),
        exhausted=None
        if course_of_limit.exhausted is None
        else from_epoch_microseconds(course_of_limit.exhausted),
        points=tuple(SpentPoint.of(step) for step in course_of_limit.steps),
        advice=shown,
    )


def _left(limit: Limit, spent: Figure) -> tuple[str, str]:
    """The most of a limit, and what is left of it, in its own currency."""
    if limit.zcdp is None:
        most = int(limit.epsilon * MICRO)
        remaining = 0 if spent.epsilon is None else max(0, most - spent.epsilon)
        return format_micro(most), format_micro(remaining)
    most = max(0, limit.zcdp.most_rho(spent.rho_delta))
    remaining = 0 if spent.epsilon is None else max(0, most - spent.rho)
    return format_nano(most), format_nano(remaining)
