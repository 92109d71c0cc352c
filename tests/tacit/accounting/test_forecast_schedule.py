"""A year forecast: composed guarantees per day, month and year."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest

from tacit.accounting.composition import laplace_round, tight
from tacit.accounting.costs import UNVERIFIED, Cost
from tacit.accounting.forecast_schedule import Forecast, ForecastRow, forecast_schedule
from tacit.accounting.scenarios import Scenario
from tacit.query.query import Query
from tacit.query.words import PrivacyUnit
from tests.tacit.examples import query

RECORD, CURATOR = PrivacyUnit.RECORD, PrivacyUnit.CURATOR
START = "2026-01-01T00:00:00Z"


def meters(**changes: Any) -> Query:
    given: dict[str, Any] = {
        "mechanism": "distributed",
        "epsilon": "0.01",
        "bounds": ["0", "100"],
        "max_readings": 2,
        "privacy_unit": "record",
        "collusion": {"aggregators": 2},
    }
    return query(**{**given, **changes})


def row(found: Forecast, horizon: str, unit: PrivacyUnit, scenario: Scenario) -> ForecastRow:
    return next(
        row
        for row in found.rows
        if (row.horizon, row.unit, row.scenario) == (horizon, unit, scenario)
    )


def test_a_year_of_quarter_hours() -> None:
    found = forecast_schedule(
        meters(schedule={"period_s": 900, "first_start": START}), None, days=365
    )
    assert found.period_s == 900
    assert [r.horizon for r in found.rows] == ["day"] * 10 + ["month"] * 10 + ["year"] * 10
    year = row(found, "year", CURATOR, Scenario.ASSUMED)
    assert (year.rounds, year.touching) == (35_040, 35_040)
    assert year.basic == Cost(Fraction(35_040, 50), Fraction(0))  # F / Delta = 2
    assert year.tight is not None
    assert year.tight < year.basic.epsilon / 20  # type: ignore[operator]
    day = row(found, "day", CURATOR, Scenario.ASSUMED)
    assert day.basic.epsilon == Fraction(96, 50)
    assert row(found, "month", CURATOR, Scenario.ASSUMED).rounds == 2880
    for horizon in ("day", "month", "year"):
        reading = row(found, horizon, RECORD, Scenario.ASSUMED)
        assert reading.touching == 1
        assert reading.basic == Cost(Fraction(1, 100), Fraction(0))
        assert reading.tight == Fraction(1, 100)
        # All aggregators together hold all the noise there is: nothing.
        assert row(found, horizon, RECORD, Scenario.EVERYONE).basic == UNVERIFIED
        assert row(found, horizon, RECORD, Scenario.EVERYONE).tight is None


def test_the_year_agrees_with_the_composition_itself() -> None:
    found = forecast_schedule(meters(), None, days=365, period_s=86_400)
    expected = tight([(laplace_round(200, Fraction(10_000)), 365)], Fraction(1, 10**6))
    assert row(found, "year", CURATOR, Scenario.ASSUMED).tight == expected


def test_the_curve_rises_to_the_last_row() -> None:
    q = meters(schedule={"period_s": 3600, "first_start": START})
    found = forecast_schedule(q, None, days=100)
    assert {r.horizon for r in found.rows} == {"day", "month", "100 days"}
    curve = [point for point in found.curve if point.unit is CURATOR]
    assert (curve[0].day, curve[-1].day) == (1, 100)
    assert curve[-1].at == datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=100)
    last = row(found, "100 days", CURATOR, Scenario.ASSUMED)
    assert curve[-1].basic == last.basic
    figures = [float(point.tight or 0) for point in curve]
    assert figures == sorted(figures)
    assert last.tight is not None
    assert float(last.tight) <= figures[-1] <= 1.02 * float(last.tight)
    assert all(p.tight <= p.basic.epsilon for p in curve)  # type: ignore[operator]
    assert {p.basic.epsilon for p in found.curve if p.unit is RECORD} == {Fraction(1, 100)}


def test_a_fixed_window_is_released_again_and_again() -> None:
    fixed = meters(window={"start": START, "end": "2026-01-02T00:00:00Z"})
    found = forecast_schedule(fixed, None, days=1, period_s=3600)
    assert row(found, "day", RECORD, Scenario.ASSUMED).touching == 24


def test_a_period_that_does_not_divide_the_day_counts_the_fullest_one() -> None:
    found = forecast_schedule(meters(), None, days=2, period_s=7 * 3600)
    assert row(found, "day", CURATOR, Scenario.ASSUMED).rounds == 4
    assert row(found, "2 days", CURATOR, Scenario.ASSUMED).rounds == 7
    assert found.curve[0].at is None


def test_impossible_schedules_are_refused() -> None:
    with pytest.raises(ValueError, match="period"):
        forecast_schedule(meters(), None, days=1)
    with pytest.raises(ValueError):
        forecast_schedule(meters(), None, days=0, period_s=60)
    with pytest.raises(ValueError, match="rounds"):
        forecast_schedule(meters(), None, days=10**6, period_s=60)
