"""Planning: what a round would cost, whether it would be admitted, what a year costs.

Spec: budget, sections 3 and 5. Nothing here changes the ledger.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from fractions import Fraction
from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from common.runtime.clock import epoch_microseconds
from coordinator.budget.limits import Planned, Shortage
from coordinator.budget.round_charges import Price
from coordinator.budget.state import LedgerState
from tacit.accounting.amounts import format_amount
from tacit.accounting.composition import FIXED_SCHEDULE
from tacit.accounting.costs import Cost
from tacit.accounting.forecast_schedule import Forecast, forecast_schedule
from tacit.accounting.scenarios import Scenario
from tacit.query.fields import Window
from tacit.query.query import Query
from tacit.query.words import Identifier, PrivacyUnit
from tacit.report.figures import delta_amount, epsilon_amount
from tacit.wire import Exact, Instant, WireModel, format_instant, require

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
    """A planned schedule. Period and first start default to those of the query."""

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
    plan: Planned, found: Sequence[Shortage], blocked: Sequence[Sequence[str]] | None
) -> dict[str, Any]:
    """What opening the round would cost each member, and which limits would refuse it.

    `found`: these limits' shortages; `blocked`: for an operator, whom each concerns.
    """
    price, refusals = plan.price, [item.figures() for item in found]
    for place, item in enumerate(refusals):
        if blocked is None:
            item.pop("rounds")
        else:
            item["blocked"] = list(blocked[place])
    return {
        "curators": int(plan.members.sum()),
        "costs": {
            unit.value: [_cost(price, unit, scenario) for scenario in Scenario]
            for unit in PrivacyUnit
        },
        "allowed": not refusals,
        "refusals": refusals,
    }


def _cost(price: Price, unit: PrivacyUnit, scenario: Scenario) -> dict[str, str]:
    return {
        "scenario": scenario.label,
        "key": scenario.value,
        **format_amount(price.cost(unit, scenario)),
    }


def forecast(
    query: Query, operators: tuple[str, ...] | None, request: ForecastRequest
) -> dict[str, Any]:
    """The composed guarantee per day, month and year. Raises ValueError for what is no schedule."""
    found = forecast_schedule(
        query, operators, request.days, request.period_s, request.first_start, request.delta
    )
    return {
        "period_s": found.period_s,
        "days": request.days,
        "delta": delta_amount(found.delta),
        "sentence": f"The basic figures are what limits are checked against. The tight figure "
        f"{FIXED_SCHEDULE}.",
        "rows": _rows(found),
        "curve": [
            {
                "day": point.day,
                "at": None if point.at is None else format_instant(point.at),
                "rounds": point.rounds,
                "unit": point.unit.value,
                "basic": _shown(point.basic),
                "tight": epsilon_amount(point.tight),
            }
            for point in found.curve
        ],
    }


def _rows(found: Forecast) -> list[dict[str, Any]]:
    return [
        {
            "horizon": row.horizon,
            "days": row.days,
            "rounds": row.rounds,
            "unit": row.unit.value,
            "scenario": row.scenario.label,
            "key": row.scenario.value,
            "touching": row.touching,
            "basic": _shown(row.basic),
            "tight": epsilon_amount(row.tight),
        }
        for row in found.rows
    ]


def _shown(cost: Cost) -> dict[str, str]:
    return {"epsilon": epsilon_amount(cost.epsilon), "delta": delta_amount(cost.delta)}
