"""The steps of a schedule's forecast: rounds, horizons, days of the curve, and what they cost.

What scheduled runs cost together: exact worked examples, and their law.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest
from dp_accounting.pld import pld_pmf  # noqa: F401
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting.amounts import UNVERIFIED, Cost
from tacit.accounting.composition import basic, round_loss, tight
from tacit.accounting.forecast import (
    DAY_S,
    DAYS,
    MAX_ROUNDS,
    _curve_days,
    _peak,
    _rounds,
    forecast_runs,
    forecast_schedule,
)
from tacit.accounting.scenarios import Scenario
from tacit.query.query import Query
from tacit.query.terms import PrivacyUnit
from tests.tacit.accounting.examples import local
from tests.tacit.examples import query

RECORD, CURATOR = PrivacyUnit.RECORD, PrivacyUnit.CURATOR
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def windowed(**changes: Any) -> Query:
    window = {"start": "2026-01-05T00:00:00Z", "end": "2026-01-06T00:00:00Z"}
    return query(window=window, **changes)


def test_a_horizon_counts_its_best_filled_stretch() -> None:
    assert (DAY_S, DAYS) == (86_400, {"day": 1, "month": 30, "year": 365})
    assert [_rounds(1, period_s) for period_s in (3600, 86_399, 86_400, 86_401)] == [24, 2, 1, 1]
    assert _rounds(30, 7 * DAY_S) == 5


def test_windows_that_follow_one_another_cover_an_instant_once() -> None:
    assert _peak(query(), 9, 3600) == 1
    assert _peak(windowed(), 9, 3600) == 9


def test_the_days_of_the_curve() -> None:
    assert _curve_days(1) == [1]
    assert _curve_days(5) == [1, 2, 3, 4, 5]
    assert _curve_days(61) == list(range(1, 62))
    year = _curve_days(365)
    assert (len(year), year[0], year[1], year[-1]) == (61, 1, 7, 365)


@pytest.mark.parametrize(
    ("days", "horizons"),
    [
        (1, [("day", 1)]),
        (29, [("day", 1), ("29 days", 29)]),
        (30, [("day", 1), ("month", 30)]),
        (365, [("day", 1), ("month", 30), ("year", 365)]),
        (366, [("day", 1), ("month", 30), ("year", 365), ("366 days", 366)]),
    ],
)
def test_horizons_reach_as_far_as_the_days(days: int, horizons: list[tuple[str, int]]) -> None:
    found = forecast_schedule(query(), None, days, DAY_S)
    assert [(row.horizon, row.days) for row in found.rows[::10]] == horizons
    assert len(found.rows) == 10 * len(horizons)
    assert [(row.unit, row.scenario) for row in found.rows[:10]] == [
        (unit, scenario) for unit in PrivacyUnit for scenario in Scenario
    ]
    assert {row.basic for row in found.rows} == {UNVERIFIED}
    assert {row.tight for row in found.rows} == {None}


def test_a_record_is_touched_by_the_rounds_that_cover_it() -> None:
    touching = {
        name: {row.unit: (row.rounds, row.touching) for row in found.rows}
        for name, found in (
            ("apart", forecast_schedule(query(), None, 1, 3600)),
            ("same", forecast_schedule(windowed(), None, 1, 3600)),
        )
    }
    assert touching["apart"] == {RECORD: (24, 1), CURATOR: (24, 24)}
    assert touching["same"] == {RECORD: (24, 24), CURATOR: (24, 24)}


def test_rows_and_curve_are_composed_of_the_rounds_that_touch() -> None:
    q, delta = local(), Fraction(1, 1000)
    found = forecast_schedule(q, None, 3, DAY_S // 2, NOON, delta)
    assert (found.period_s, found.delta) == (DAY_S // 2, delta)
    for row in found.rows:
        loss = round_loss(q, row.scenario, row.unit)
        count = 1 if row.unit is RECORD else row.rounds
        assert row.touching == count
        assert row.basic == Cost(count * loss.cost.epsilon, Fraction(0))
        assert row.tight == tight([(loss, count)], delta)
    assert [(point.day, point.rounds, point.unit) for point in found.curve] == [
        (day, 2 * day, unit) for day in (1, 2, 3) for unit in PrivacyUnit
    ]
    for point in found.curve:
        loss = round_loss(q, Scenario.ASSUMED, point.unit)
        count = 1 if point.unit is RECORD else point.rounds
        assert point.at == NOON + timedelta(days=point.day)
        assert point.basic == basic([(loss.cost, count)])
        assert point.tight == tight([(loss, count)], delta, 16_384)


def test_operators_are_passed_on() -> None:
    q = query(mechanism="distributed", epsilon="1", collusion={"aggregators": 1})
    apart = forecast_schedule(q, ["A", "B", "C"], 1, DAY_S)
    together = forecast_schedule(q, ["A", "A", "A"], 1, DAY_S)
    for found, known in ((apart, True), (together, False)):
        assumed = [row for row in found.rows if row.scenario is Scenario.ASSUMED]
        assert [row.basic != UNVERIFIED for row in assumed] == [known, known]
        assert [point.basic != UNVERIFIED for point in found.curve] == [known, known]


def test_delta_is_a_millionth_if_none_is_passed() -> None:
    found = forecast_schedule(query(), None, 1, DAY_S)
    assert found.delta == Fraction(1, 1_000_000)
    assert found.curve[0].at is None


def test_period_and_start_default_to_the_querys_schedule() -> None:
    schedule = {"period_s": 3600, "first_start": "2026-01-05T12:00:00Z"}
    q = query(schedule=schedule)
    own = forecast_schedule(q, None, 1)
    assert (own.period_s, own.curve[0].at) == (3600, NOON + timedelta(days=1))
    other = NOON + timedelta(hours=5)
    asked = forecast_schedule(q, None, 1, 7200, other)
    assert (asked.period_s, asked.curve[0].at) == (7200, other + timedelta(days=1))


def test_what_cannot_be_forecast() -> None:
    with pytest.raises(ValueError, match="no schedule"):
        forecast_schedule(query(), None, 1)
    assert forecast_schedule(query(), None, 1, 1).rows[-1].rounds == DAY_S
    for days, period_s in ((0, 60), (1, 0)):
        with pytest.raises(ValueError, match="at least one"):
            forecast_schedule(query(), None, days, period_s)


def test_a_century_of_rounds_is_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_ROUNDS == 2_000_000
    with pytest.raises(ValueError, match="more than 2000000 rounds"):
        forecast_schedule(query(), None, 3126, 135)
    monkeypatch.setattr("tacit.accounting.forecast.MAX_ROUNDS", 24)
    assert forecast_schedule(query(), None, 1, 3600).rows[-1].rounds == 24


QUARTER = Fraction(1, 4)


def test_a_quarter_each_hour() -> None:
    """24, 720 and 8,760 runs: a record pays for one of them, a curator for all."""
    found = forecast_runs(Cost(QUARTER, Fraction(1, 10**6)), 3600)
    assert [(row.horizon, row.days, row.runs) for row in found] == [
        ("day", 1, 24),
        ("month", 30, 720),
        ("year", 365, 8760),
    ]
    assert {row.record for row in found} == {Cost(QUARTER, Fraction(1, 10**6))}
    assert [row.curator.epsilon for row in found] == [6, 180, 2190]
    assert [row.curator.delta for row in found] == [
        Fraction(24, 10**6),
        Fraction(720, 10**6),
        Fraction(8760, 10**6),
    ]


def test_a_week_that_does_not_divide_the_month_counts_its_fullest_stretch() -> None:
    found = forecast_runs(Cost(Fraction(1), Fraction(0)), 7 * 86_400)
    assert [row.runs for row in found] == [1, 5, 53]
    assert [row.curator for row in found] == [
        Cost(Fraction(runs), Fraction(0)) for runs in (1, 5, 53)
    ]


def test_what_has_no_figure_has_none_over_a_year() -> None:
    for row in forecast_runs(UNVERIFIED, 86_400):
        assert row.record == row.curator == UNVERIFIED


@given(st.fractions(0, 10), st.fractions(0, 1), st.integers(60, 366 * 86_400))
def test_a_curator_pays_at_least_what_a_record_does_and_no_delta_passes_1(
    epsilon: Fraction, delta: Fraction, period_s: int
) -> None:
    for row in forecast_runs(Cost(epsilon, delta), period_s):
        assert row.curator.epsilon == row.runs * epsilon
        assert delta <= row.curator.delta <= 1
        assert (row.runs - 1) * period_s < row.days * 86_400 <= row.runs * period_s
