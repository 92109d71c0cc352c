"""Periods are half-open, follow one another, and are over when their window is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.queries import periods
from tacit.query.fields import Schedule

START = datetime(2026, 1, 1, tzinfo=UTC)
HOURLY = Schedule(period_s=3600, first_start=START)


@pytest.mark.parametrize(
    ("after_s", "count"), [(-7200, 0), (-1, 0), (0, 0), (3599, 0), (3600, 1), (7199, 1), (7200, 2)]
)
def test_a_period_is_over_with_its_last_moment(after_s: int, count: int) -> None:
    assert periods.over(HOURLY, START + timedelta(seconds=after_s)) == count


@given(st.integers(60, 366 * 86_400), st.integers(0, 100), st.integers(0, 10**8))
def test_periods_follow_one_another(period_s: int, number: int, now_s: int) -> None:
    schedule = Schedule(period_s=period_s, first_start=START)
    window = periods.window(schedule, number)
    assert window.end == periods.window(schedule, number + 1).start
    now = START + timedelta(seconds=now_s)
    assert (periods.over(schedule, now) > number) == (window.end <= now)


def test_nothing_ends_beyond_the_years_of_an_instant() -> None:
    late = Schedule(period_s=3600, first_start=datetime(9899, 12, 31, 23, 30, tzinfo=UTC))
    with pytest.raises(ValueError, match="9899"):
        periods.window(late, 0)
