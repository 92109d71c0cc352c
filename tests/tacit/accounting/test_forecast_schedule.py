"""A year forecast: composed guarantees per day, month and year."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from tacit.accounting.amounts import UNVERIFIED, Cost
from tacit.accounting.forecast import Forecast, ForecastRow, forecast_schedule
from tacit.accounting.scenarios import Scenario
from tacit.query.query import Query
from tacit.query.terms import PrivacyUnit
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
