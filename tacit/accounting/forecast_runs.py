"""What the runs of a scheduled federated job cost together, at basic composition.

Spec: budget, section 3; jobs, "Federated jobs". A run asks each curator for one record, made of its
readings in the run's own period, and costs it (epsilon, delta) under the relation that the run's
report names. Periods are half-open and follow one another, so that a record belongs to one run; a
curator's data to all of them. Runs may depend on what earlier ones released: basic composition
holds all the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from tacit.accounting.costs import Cost
from tacit.accounting.forecast_schedule import DAY_S, DAYS


@dataclass(frozen=True, slots=True)
class RunsForecast:
    """One horizon: `runs` in its best-filled stretch; what they cost any one `record`, and all
    the data of one `curator`."""

    horizon: str
    days: int
    runs: int
    record: Cost
    curator: Cost


def forecast_runs(one: Cost, period_s: int) -> tuple[RunsForecast, ...]:
    """A day, a month of 30 days and a year of 365 of runs that cost `one` each, one every
    `period_s` seconds (at least 1). A delta is at most 1."""
    found = []
    for horizon, days in DAYS.items():
        runs = -(-days * DAY_S // period_s)
        found.append(RunsForecast(horizon, days, runs, one, _times(one, runs)))
    return tuple(found)


def _times(one: Cost, runs: int) -> Cost:
    epsilon = None if one.epsilon is None else runs * one.epsilon
    delta = None if one.delta is None else min(runs * one.delta, Fraction(1))
    return Cost(epsilon, delta)
