"""Streams of events: what they are by their rates, and that a seed repeats them.

Statistical statements are made at a fixed seed; each would fail by chance for less than one seed
in a million (five standard deviations).
"""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulation.populations import Rates, RoundEvents, quiet, stream
from tacit.randomness import SeededRandom
from tests.property_examples import examples

MANY = 100_000
DEVIATIONS = 5


def first(rates: Rates, rounds: int, curators: int = MANY, seed: int = 1) -> list[RoundEvents]:
    return list(islice(stream(curators, rates, SeededRandom(seed)), rounds))


def about(count: int, among: int, rate: float) -> bool:
    return abs(count - among * rate) <= DEVIATIONS * np.sqrt(among * rate * (1 - rate))


def test_nothing_happens_without_rates() -> None:
    for number, event in enumerate(first(Rates(), 3, curators=5)):
        expected = quiet(5, number)
        for name in vars(expected):
            assert np.array_equal(getattr(event, name), getattr(expected, name)), name


def test_events_are_as_frequent_as_their_rates() -> None:
    rates = Rates(
        outside=0.3,
        join=0.25,
        leave=0.05,
        refresh=0.02,
        dropout=0.04,
        straggler=0.1,
        liar=0.01,
        non_compliant=0.03,
        straggler_s=7.0,
    )
    start, event = first(rates, 2)
    inside = int(start.enrolled.sum())
    assert about(MANY - inside, MANY, 0.3)
    assert about(int(event.joined.sum()), MANY - inside, 0.25)
    assert about(int(event.left.sum()), inside, 0.05)
    enrolled, sending = int(event.enrolled.sum()), int(event.sends.sum())
    assert about(int(event.refreshed.sum()), enrolled, 0.02)
    assert about(enrolled - sending, enrolled, 0.04)
    assert about(int((event.late_s > 0).sum()), sending, 0.1)
    assert about(int(event.lying.sum()), sending, 0.01)
    assert about(int(event.non_compliant.sum()), sending, 0.03)
    late = event.late_s[event.late_s > 0]
    assert abs(late.mean() - 7.0) <= DEVIATIONS * 7.0 / np.sqrt(late.size)


RATE = st.floats(0, 1)


@examples(50)
@given(
    st.builds(
        Rates,
        outside=RATE,
        join=RATE,
        leave=RATE,
        refresh=RATE,
        dropout=RATE,
        straggler=RATE,
        liar=RATE,
        non_compliant=RATE,
    ),
    st.integers(1, 40),
    st.integers(0, 2**32),
)
def test_events_follow_from_each_other(rates: Rates, curators: int, seed: int) -> None:
    before = None
    for event in first(rates, 4, curators, seed):
        if before is not None:
            assert not (event.joined & before.enrolled).any()
            assert not (event.left & ~before.enrolled).any()
            expected = (before.enrolled | event.joined) & ~event.left
            assert np.array_equal(event.enrolled, expected)
        assert not (event.sends & ~event.enrolled).any()
        for members in (event.lying, event.non_compliant, event.late_s > 0):
            assert not (members & ~event.sends).any()
        assert not (event.refreshed & ~event.enrolled).any()
        assert event.readings_of.min() >= 0
        assert event.readings_of.max() < curators
        before = event


@pytest.mark.parametrize("wrong", [{"join": -0.1}, {"dropout": 1.5}, {"straggler_s": -1.0}])
def test_a_rate_out_of_its_range_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Rates(**wrong)
