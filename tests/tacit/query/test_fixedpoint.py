"""Quantising, clamping, L1 scaling and headroom, against rationals."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.query.encoding import Bounds, clamp, headroom, quantise, round_half_even, truncate_to_l1

INT64 = st.integers(-(2**63), 2**63 - 1)
SMALL = st.integers(-1000, 1000)
CENTRES = st.fractions(min_value=-(2**62), max_value=2**62, max_denominator=1000)


def ints(*values):
    return np.array(values, np.int64)


def saturated(value):
    return max(-(2**63), min(2**63 - 1, value))


@given(
    st.lists(st.one_of(INT64, SMALL), max_size=8),
    st.one_of(st.integers(1, 12), st.integers(1, 2**62)),
    st.one_of(CENTRES, st.fractions(-3, 3, max_denominator=6)),
)
def test_quantise_is_exact_for_every_64_bit_reading(values, resolution, centre):
    expected = [saturated(round_half_even((Fraction(v) - centre) / resolution)) for v in values]
    assert quantise(ints(*values), resolution, centre).tolist() == expected


def test_half_goes_to_even():
    assert quantise(ints(-15, -5, 5, 15, 25), 10).tolist() == [-2, 0, 0, 2, 2]


def test_readings_near_the_end_of_the_range():
    top = 2**62
    assert quantise(ints(top, -top), 1, Fraction(-top)).tolist() == [2**63 - 1, 0]
    assert quantise(ints(top, -top), 2, Fraction(-top)).tolist() == [top, 0]
    assert quantise(ints(top, -top), 3, Fraction(top)).tolist() == [0, round(Fraction(-2 * top, 3))]


def test_a_resolution_below_one_is_refused():
    with pytest.raises(ValueError):
        quantise(ints(1), 0)


def test_rounding_comes_before_clamping():
    """10.4 with a bound of 10.4 at resolution 1: rounds to 10, the rounded bound, not beyond."""
    bounds = Bounds(round_half_even(Fraction("-1.5")), round_half_even(Fraction("10.5")))
    q, moved = clamp(quantise(ints(104, 106, -30), 10), bounds)
    assert q.tolist() == [10, 10, -2]
    assert moved.tolist() == [False, True, True]


@given(
    st.integers(1, 4).flatmap(
        lambda d: st.lists(
            st.lists(st.one_of(SMALL, st.integers(-(2**62), 2**62), INT64), min_size=d, max_size=d),
            min_size=1,
            max_size=5,
        )
    ),
    st.one_of(st.integers(0, 100), st.integers(0, 2**62)),
)
def test_l1_scaling_truncates_toward_zero(rows, bound):
    scaled, over = truncate_to_l1(np.array(rows, np.int64), bound)
    for row, out, was_over in zip(rows, scaled.tolist(), over.tolist(), strict=True):
        norm = sum(abs(v) for v in row)
        assert was_over == (norm > bound)
        expected = [int(Fraction(v * bound, norm)) for v in row] if was_over else row
        assert out == expected  # int() of a rational truncates toward zero
        assert sum(abs(v) for v in out) <= max(bound, 0)


def test_l1_norms_that_pass_64_bits():
    rows = np.full((1, 4), 2**62, np.int64)
    scaled, over = truncate_to_l1(rows, 2**62)
    assert over.tolist() == [True]
    assert scaled.tolist() == [[2**60] * 4]


def test_rounding_to_nearest_would_break_the_bound():
    scaled, _ = truncate_to_l1(np.array([[3, 3, 3, 3]], np.int64), 7)
    assert scaled.tolist() == [[1, 1, 1, 1]]  # 1.75 each: nearest gives 8


def test_headroom_is_strict():
    assert headroom(3, 2, 1, 15)
    assert not headroom(3, 2, 1, 14)
    assert not headroom(1, 2**62, 2**62, 2**64)
    assert headroom(1, 2**62, 2**62 - 1, 2**64)
