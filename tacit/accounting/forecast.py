"""The composed guarantee of a schedule per day, month and year, before it starts: of a query, and
of a federated job that runs again.

Spec: budget, section 3. A schedule opens one round each period; round k covers the half-open window
[first_start + k period, first_start + (k+1) period) of readings, or the query's own window every
time where it declares one. A reading touches the rounds whose window covers it (interval sweep); a
curator touches all of them. Three figures are given: basic and zCDP, which limits enforce, and
tight, which holds only if this schedule is kept unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Final

import numpy as np

from tacit.accounting.amounts import MOST_RHO, NANO, Cost, scaled
from tacit.accounting.composition import basic, round_loss, stated_epsilon, tight, worst_instant
from tacit.accounting.scenarios import Scenario
from tacit.query.query import Query
from tacit.query.terms import PrivacyUnit

DAY_S: Final = 86_400
DAYS: Final = {"day": 1, "month": 30, "year": 365}
MAX_ROUNDS: Final = 2_000_000
"""A century of rounds every half hour."""
_CURVE_CELLS: Final = 1 << 14
_CURVE_POINTS: Final = 61


@dataclass(frozen=True, slots=True)
class ForecastRow:
    """One horizon, unit and scenario: `rounds` in the horizon; at most `touching` of them use the
    data of one unit.

    `basic`: (epsilon, delta); `rho` and `zcdp`: the sum of zCDP as ledgers count it, and the
    epsilon that it guarantees at the forecast's delta; `tight`: the composed epsilon at that
    delta (None: none is finite).
    """

    horizon: str
    days: int
    rounds: int
    unit: PrivacyUnit
    scenario: Scenario
    touching: int
    basic: Cost
    tight: Fraction | None
    rho: Fraction | None
    zcdp: Fraction | None


@dataclass(frozen=True, slots=True)
class DayPoint:
    """The guarantee after this many days, under the query's own assumption (scenario e).

    `at`: the end of that day, if the schedule's first start is known. `tight` is computed on a
    coarser grid than that of the rows: up to one percent larger, never smaller.
    """

    day: int
    at: datetime | None
    rounds: int
    unit: PrivacyUnit
    basic: Cost
    tight: Fraction | None
    rho: Fraction | None
    zcdp: Fraction | None


@dataclass(frozen=True, slots=True)
class Forecast:
    """Rows for each horizon, unit and scenario; a running curve of each unit for a plot."""

    period_s: int
    delta: Fraction
    rows: tuple[ForecastRow, ...]
    curve: tuple[DayPoint, ...]


def forecast_schedule(
    query: Query,
    operators: Sequence[str] | None,
    days: int,
    period_s: int | None = None,
    first_start: datetime | None = None,
    delta: Fraction = Fraction(1, 10**6),
) -> Forecast:
    """The composed guarantee of `days` days of this query, one round every `period_s` seconds.

    Period and first start default to the query's own schedule. Horizons: a day, a month of 30 days
    and a year of 365, if `days` is at least as long, and all `days`. A horizon counts the most
    rounds that any stretch of its length can have: ceil(horizon / period).

    Raises ValueError without a period, for a period or a number of days below 1, and for more
    than `MAX_ROUNDS` rounds.
    """
    if query.schedule is not None:
        period_s = query.schedule.period_s if period_s is None else period_s
        first_start = query.schedule.first_start if first_start is None else first_start
    if period_s is None:
        raise ValueError("the query has no schedule: give a period")
    if period_s < 1 or days < 1:
        raise ValueError("a period has at least one second, a forecast at least one day")
    if _rounds(days, period_s) > MAX_ROUNDS:
        raise ValueError(f"more than {MAX_ROUNDS} rounds")
    horizons = {name: length for name, length in DAYS.items() if length <= days}
    if days not in horizons.values():
        horizons[f"{days} days"] = days
    losses = {
        (unit, scenario): round_loss(query, scenario, unit, operators)
        for unit in PrivacyUnit
        for scenario in Scenario
    }
    all_rounds = _rounds(days, period_s)
    most = {PrivacyUnit.RECORD: _peak(query, all_rounds, period_s), PrivacyUnit.CURATOR: all_rounds}
    rows = []
    for name, length in horizons.items():
        rounds = _rounds(length, period_s)
        for (unit, scenario), loss in losses.items():
            touching = min(rounds, most[unit])
            rows.append(
                ForecastRow(
                    name,
                    length,
                    rounds,
                    unit,
                    scenario,
                    touching,
                    basic([(loss.cost, touching)]),
                    tight([(loss, touching)], delta),
                    *_zcdp(loss.cost, touching, delta),
                )
            )
    curve = []
    for day in _curve_days(days):
        rounds = _rounds(day, period_s)
        at = None if first_start is None else first_start + timedelta(days=day)
        for unit in PrivacyUnit:
            loss, touching = losses[unit, Scenario.ASSUMED], min(rounds, most[unit])
            composed = basic([(loss.cost, touching)])
            near = tight([(loss, touching)], delta, _CURVE_CELLS)
            zcdp = _zcdp(loss.cost, touching, delta)
            curve.append(DayPoint(day, at, rounds, unit, composed, near, *zcdp))
    return Forecast(period_s, delta, tuple(rows), tuple(curve))


def _zcdp(
    cost: Cost, rounds: int, delta: Fraction
) -> tuple[Fraction, Fraction | None] | tuple[None, None]:
    """The rho of this many rounds as ledgers count it, and the epsilon that it guarantees."""
    one = scaled(cost)
    if one is None or one.rho * rounds >= MOST_RHO:
        return None, None
    rho = one.rho * rounds
    return Fraction(rho, NANO), stated_epsilon(rho, one.rho_delta * rounds, delta)


def _rounds(days: int, period_s: int) -> int:
    return -(-days * DAY_S // period_s)


def _peak(query: Query, rounds: int, period_s: int) -> int:
    """How many of these rounds cover one instant, at most."""
    starts = np.arange(rounds, dtype=np.int64) * period_s
    if query.window is not None:
        starts[:] = 0  # every round covers the one window that the query declares
    return worst_instant(starts, starts + period_s, np.ones(rounds, np.int64)).amount


def _curve_days(days: int) -> list[int]:
    """At most `_CURVE_POINTS` days, the first and the last among them."""
    points = np.linspace(1, days, min(days, _CURVE_POINTS)).round().astype(int)
    return [int(day) for day in np.unique(points)]


# The runs of a scheduled federated job together, at basic composition (spec: budget, section 3;
# jobs, "Federated jobs"). A run asks each curator for one record, made of
# its readings in the run's own period, and costs it (epsilon, delta) under the relation that the
# run's report names. Periods are half-open and follow one another, so that a record belongs to one
# run; a curator's data to all of them. Runs may depend on what earlier ones released: basic
# composition holds all the same.


@dataclass(frozen=True, slots=True)
class RunsForecast:
    """One horizon: the most `runs` that it can have, and what they cost any one `record` and all
    the data of one `curator`."""

    horizon: str
    days: int
    runs: int
    record: Cost
    curator: Cost


def forecast_runs(one: Cost, period_s: int) -> tuple[RunsForecast, ...]:
    """The cost of runs over a day, a month of 30 days and a year of 365, one run every `period_s`
    seconds (at least 1).

    `one`: what a run costs. A delta is at most 1.
    """
    forecasts = []
    for horizon, days in DAYS.items():
        runs = -(-days * DAY_S // period_s)
        forecasts.append(RunsForecast(horizon, days, runs, one, _times(one, runs)))
    return tuple(forecasts)


def _times(one: Cost, runs: int) -> Cost:
    epsilon = None if one.epsilon is None else runs * one.epsilon
    delta = None if one.delta is None else min(runs * one.delta, Fraction(1))
    return Cost(epsilon, delta)
