"""What scheduled runs cost together: exact worked examples, and their law."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting.amounts import UNVERIFIED, Cost
from tacit.accounting.forecast import forecast_runs

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
        assert row.curator.delta is not None
        assert delta <= row.curator.delta <= 1
        assert (row.runs - 1) * period_s < row.days * 86_400 <= row.runs * period_s
