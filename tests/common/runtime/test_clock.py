"""Clocks and the identifiers made from them."""

from datetime import UTC, datetime

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


@given(st.datetimes(timezones=st.just(UTC)))
def test_instants_are_exact(instant: datetime) -> None:
    assert from_epoch_microseconds(epoch_microseconds(instant)) == instant


def test_a_naive_time_is_refused() -> None:
    with pytest.raises(ValueError, match="zone"):
        epoch_microseconds(datetime(2026, 1, 1))  # noqa: DTZ001
