"""Sums over windows of time, against a search over all instants."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting.amounts import Cost
from tacit.accounting.charges import unit_cost
from tacit.accounting.composition import (
    Worst,
    basic,
    covering,
    covering_within,
    sums_at,
    worst_instant,
    worst_move,
)
from tacit.accounting.scenarios import Scenario
from tacit.query.terms import PrivacyUnit
from tests.property_examples import examples
from tests.tacit.examples import query

RECORD, CURATOR = PrivacyUnit.RECORD, PrivacyUnit.CURATOR
LOCAL = {"mechanism": "local", "sharing": "none", "aggregators": 1}


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


STARTS, ENDS = ints(0, 5, 20), ints(10, 15, 30)


def test_the_acceptance_check_of_the_sweep() -> None:
    """Windows [0,10), [5,15), [20,30) at epsilon 1 each."""
    ones = ints(1, 1, 1)
    assert worst_instant(STARTS, ENDS, ones).amount == 2
    assert worst_instant(STARTS, ENDS, ones).instant == 5
    assert worst_move(STARTS, ENDS, ones) == 3
    plain = query(**LOCAL, epsilon_i="1", privacy_unit="record", bounds=["0", "4"], max_readings=1)
    busy = query(**LOCAL, epsilon_i="1", privacy_unit="record", bounds=["0", "4"], max_readings=4)
    for q, curator in ((plain, 3), (busy, 12)):
        cost = unit_cost(q, Scenario.ASSUMED, CURATOR)
        assert basic([(cost, 3)]) == Cost(Fraction(curator), Fraction(0))
        assert unit_cost(q, Scenario.ASSUMED, RECORD) == Cost(Fraction(1), Fraction(0))


def test_half_open_windows_that_touch_do_not_add() -> None:
    assert worst_instant(ints(0, 10, 10), ints(10, 20, 10), ints(5, 7, 100)).amount == 7
    assert worst_instant(ints(), ints(), ints()).instant is None
    assert worst_instant(ints(3), ints(3), ints(9)).amount == 0
    assert worst_move(ints(), ints(), ints()) == 0


def test_the_first_of_the_worst_instants() -> None:
    starts, ends = ints(7, 3, 5, 5), ints(8, 4, 6, 6)
    assert worst_instant(starts, ends, ints(2, 2, 1, 1)) == Worst(2, 3)
    assert worst_instant(starts, ends, ints(1, 2, 2, 1)) == Worst(3, 5)
    assert worst_instant(ints(), ints(), ints()) == Worst(0, None)
    assert worst_move(ints(), ints(), ints()) == 0
    assert sums_at(starts, ends, ints(1, 2, 4, 8), ints(2, 3, 4, 5, 6, 7, 8)).tolist() == [
        0, 2, 0, 12, 0, 1, 0,
    ]  # fmt: skip


def test_sweeps_of_fixed_draws_equal_a_search_over_all_instants() -> None:
    """Fixed draws of up to nine windows, some of them empty."""
    drawn = np.random.default_rng(3)
    for _ in range(150):
        size = int(drawn.integers(1, 10))
        starts = drawn.integers(-6, 7, size)
        ends = starts + drawn.integers(0, 7, size)
        amounts = drawn.integers(0, 9, size)
        covering = [{k for k in range(size) if starts[k] <= t < ends[k]} for t in range(-6, 14)]
        summed = [sum(int(amounts[k]) for k in which) for which in covering]
        found = worst_instant(starts, ends, amounts)
        assert found.amount == max(summed)
        moved = max(
            sum(int(amounts[k]) for k in one | other) for one, other in product(covering, repeat=2)
        )
        assert worst_move(starts, ends, amounts) == moved


def test_a_sum_below_62_bits_is_allowed() -> None:
    for sweep in (worst_instant, worst_move):
        with pytest.raises(ValueError, match="62 bits"):
            sweep(ints(0), ints(1), ints(1 << 62))
    most = (1 << 62) - 512
    assert worst_instant(ints(0), ints(1), ints(most)).amount == most
    assert worst_move(ints(0), ints(1), ints(most)) == most


@pytest.mark.parametrize(
    ("starts", "ends", "amounts"),
    [
        (ints(0, 1), ints(2), ints(1)),
        (ints(0), ints(2, 3), ints(1)),
        (ints(0), ints(2), ints(1, 1)),
        (ints(0).reshape(1, 1), ints(2).reshape(1, 1), ints(1).reshape(1, 1)),
    ],
)
def test_windows_come_as_three_columns(starts: Any, ends: Any, amounts: Any) -> None:
    for sweep in (worst_instant, worst_move):
        with pytest.raises(ValueError, match="one start, one end and one amount"):
            sweep(starts, ends, amounts)


def test_windows_that_cannot_be_are_refused() -> None:
    for sweep in (worst_instant, worst_move):
        for starts, ends, amounts in ((2, 1, 1), (0, 1, -1)):
            with pytest.raises(ValueError, match="not negative"):
                sweep(ints(0, starts), ints(1, ends), ints(1, amounts))
    assert worst_instant(ints(2), ints(2), ints(0)).amount == 0


WINDOWS = st.lists(st.tuples(st.integers(-12, 12), st.integers(0, 12)), max_size=9)


@examples(200)
@given(WINDOWS, st.integers(-14, 20), st.integers(1, 12), st.randoms(use_true_random=False))
def test_no_instant_of_a_window_is_covered_by_more_than_those_tried(
    windows: list[tuple[int, int]], start: int, length: int, chance: Any
) -> None:
    starts = ints(*(first for first, _ in windows))
    ends = starts + ints(*(size for _, size in windows))
    amounts = [chance.randrange(10) for _ in windows]
    tried = {
        instant: places.tolist()
        for instant, places in covering_within(starts, ends, start, start + length)
    }
    assert list(tried) == sorted(tried)
    found = {
        instant: [k for k in range(len(windows)) if starts[k] <= instant < ends[k]]
        for instant in range(start, start + length)
    }
    assert tried == {instant: found[instant] for instant in tried}
    assert all(any(set(each) <= set(kept) for kept in tried.values()) for each in found.values())
    sums = {instant: sum(amounts[k] for k in places) for instant, places in found.items()}
    assert max(sums[instant] for instant in tried) == max(sums.values())


def test_a_window_is_searched_at_its_start_and_where_others_start_in_it() -> None:
    starts, ends = ints(0, 4, 6, 8), ints(4, 8, 10, 9)

    def within(start: int, end: int) -> list[tuple[int, list[int]]]:
        return [(at, places.tolist()) for at, places in covering_within(starts, ends, start, end)]

    assert within(1, 4) == [(1, [0])]
    assert within(4, 8) == [(4, [1]), (6, [1, 2])]
    assert within(7, 9) == [(7, [1, 2]), (8, [2, 3])]
    assert within(20, 21) == [(20, [])]
    assert covering(starts, ends, 3).tolist() == [0]
    assert next(covering_within(ints(), ints(), 0, 5))[0] == 0
