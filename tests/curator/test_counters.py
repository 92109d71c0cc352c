"""Counters taken together are what they are one after the other, in any order."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curator.counters import Sent, difference, merge
from curator.store.counters import Total

SENT = st.builds(
    Sent,
    time=st.integers(0, 12),
    total=st.integers(0, 30),
    rollover=st.none() | st.just(32),
    random=st.integers(0, 1000),
    correction=st.booleans(),
)


def one_by_one(sent: list[Sent]) -> tuple[list[str], dict[int, int], list[Total]]:
    """Each reading by itself, with nothing but its two neighbours in sight."""
    totals: dict[int, tuple[int, int | None]] = {}
    deltas: dict[int, int] = {}
    statuses = []
    for each in sent:
        before = max((t for t in totals if t < each.time), default=None)
        after = min((t for t in totals if t > each.time), default=None)
        near = [t for t in (before, each.time, after) if t in totals]
        merged = merge([(t, *totals[t]) for t in near if t is not None], [each])
        statuses += merged.statuses
        totals |= {time: (total, rollover) for time, total, rollover in merged.totals}
        deltas |= dict(merged.deltas)
    return statuses, deltas, [(t, *totals[t]) for t in sorted(totals)]


@given(sent=st.lists(SENT, max_size=30), cut=st.integers(0, 30))
def test_together_or_one_by_one(sent: list[Sent], cut: int) -> None:
    statuses, deltas, totals = one_by_one(sent)
    first = merge([], sent[:cut])
    second = merge(first.totals, sent[cut:])
    assert list(first.statuses + second.statuses) == statuses
    assert dict(first.deltas) | dict(second.deltas) == deltas
    assert deltas == {
        before[0]: difference(before[1], after[1], after[2]) for before, after in pairwise(totals)
    }


@given(totals=st.dictionaries(st.integers(0, 50), st.integers(0, 10**6), min_size=2))
def test_a_counter_that_only_grows_gives_back_what_it_counted(totals: dict[int, int]) -> None:
    times = sorted(totals)
    grown = dict(zip(times, sorted(totals.values()), strict=True))
    sent = [Sent(time, grown[time], None, 0) for time in totals]
    merged = merge([], sent)
    assert sum(delta for _, delta in merged.deltas) == grown[times[-1]] - grown[times[0]]
    assert [time for time, _ in merged.deltas] == times[:-1]


@pytest.mark.parametrize(
    ("before", "now", "rollover", "counted"),
    [
        (90, 10, 100, 20),
        (51, 0, 100, 49),
        (50, 0, 100, 0),  # half of it is a replaced meter, which counts from zero
        (60, 10, 100, 10),
        (51, 0, 101, 50),  # below half of an odd size
        (50, 0, 101, 0),
        (60, 10, None, 10),
        (10, 10, 100, 0),
        (10, 60, 100, 50),
    ],
)
def test_a_rollover_is_less_than_half_of_the_counter(
    before: int, now: int, rollover: int | None, counted: int
) -> None:
    assert difference(before, now, rollover) == counted
