"""Clocks and the identifiers made from them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.runtime.clock import (
    ManualClock,
    epoch_microseconds,
    from_epoch_microseconds,
    uuid7,
)


@given(st.integers(0, 10**12), st.integers(1, 10**9))
def test_uuid7_sorts_by_microseconds(start: int, step: int) -> None:
    first = uuid7(ManualClock(from_epoch_microseconds(start)))
    second = uuid7(ManualClock(from_epoch_microseconds(start + step)))
    assert str(first) < str(second)
    assert first.int >> 80 == start // 1000


def test_manual_clock() -> None:
    clock = ManualClock(datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))))
    assert clock.now() == datetime(2026, 1, 1, tzinfo=UTC)
    clock.advance(timedelta(seconds=90))
    assert (clock.now().minute, clock.monotonic()) == (1, 90.0)
    with pytest.raises(ValueError, match="back"):
        clock.advance(timedelta(seconds=-1))
    with pytest.raises(ValueError, match="aware"):
        ManualClock(datetime(2026, 1, 1))  # noqa: DTZ001


@given(st.datetimes(timezones=st.just(UTC)))
def test_instants_are_exact(instant: datetime) -> None:
    assert from_epoch_microseconds(epoch_microseconds(instant)) == instant


def test_a_naive_time_is_refused() -> None:
    with pytest.raises(ValueError, match="zone"):
        epoch_microseconds(datetime(2026, 1, 1))  # noqa: DTZ001
