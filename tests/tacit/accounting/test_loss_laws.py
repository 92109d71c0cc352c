"""Laws on a window: tails, sums of two, and the half-line, on laws small enough to sum by hand."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tacit.accounting.loss.whole import (
    LARGEST_EXPONENT,
    AddedLaws,
    Law,
    half_line_delta,
    reach_of,
    tail_bound,
)

UNIT = 2.0**-53


def law(*masses: float, tail: float = 0.0, error: float = 0.0) -> Law:
    mass = np.array(masses)
    return Law(mass, np.cumsum(mass), len(masses) // 2, tail, error)


THREE = law(0.25, 0.5, 0.25, tail=0.0625, error=0.5)
FIVE = law(0.0625, 0.25, 0.375, 0.25, 0.0625, tail=0.125, error=0.25)


def test_the_stated_limit() -> None:
    assert LARGEST_EXPONENT == 600


# -------------------------------------------------------------------------------------- tails


@pytest.mark.parametrize(
    ("draws", "scale"), [(1, 1.0), (1, 10.0), (3, 4.0), (1.5, 20.0), (32, 5.0)]
)
@pytest.mark.parametrize("widths", [0.0, 0.5, 1.1, 2, 3, 4, 5, 7, 9, 12, 20, 40, 60, 90, 150])
def test_the_best_of_seven_chernoff_bounds(draws: float, scale: float, widths: float) -> None:
    """M(theta) = ((1-a)^2 / ((1 - a e^theta) (1 - a e^-theta)))^R for each share of 1/b."""
    reach, a = widths * scale * draws, math.exp(-1 / scale)
    bounds = [1.0]
    for share in (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98):
        theta = share / scale
        one = (1 - a) ** 2 / ((1 - a * math.exp(theta)) * (1 - a * math.exp(-theta)))
        bounds.append(2 * one**draws * math.exp(-theta * reach) * 1.000001)
    assert tail_bound(draws, scale, reach) == pytest.approx(min(bounds), rel=1e-10, abs=0)


@pytest.mark.parametrize(("draws", "scale"), [(1, 1.0), (1, 0.3), (2, 10.0), (8, 3.0), (32, 50.0)])
def test_a_window_leaves_out_less_than_1e_22(draws: float, scale: float) -> None:
    expected = math.ceil(52 * scale) + 20
    while tail_bound(draws, scale, expected) > 1e-22:
        expected = math.ceil(expected * 1.15)
    assert reach_of(draws, scale) == expected
    assert tail_bound(draws, scale, reach_of(draws, scale)) <= 1e-22


def test_windows_that_are_known() -> None:
    assert reach_of(1, 0.3) == 16 + 20
    assert reach_of(32, 1.0) == 111  # 72, 83, 96, 111
    assert tail_bound(32, 1.0, 111) <= 1e-22 < tail_bound(32, 1.0, 96)


# ------------------------------------------------------------------------------------ two laws


def convolved(one: Law, other: Law) -> dict[int, float]:
    mass = np.convolve(one.mass, other.mass)
    return {z - len(mass) // 2: float(m) for z, m in enumerate(mass)}


@pytest.mark.parametrize(
    ("inner", "outer"), [(THREE, FIVE), (FIVE, THREE), (THREE, THREE), (law(1.0), FIVE)]
)
def test_two_laws_are_added_point_by_point(inner: Law, outer: Law) -> None:
    added, expected = AddedLaws(inner, outer), convolved(inner, outer)
    reach = inner.reach + outer.reach
    assert added.reach == reach
    for z in range(-reach - 4, reach + 5):
        assert added.mass(z) == expected.get(z, 0.0)
        assert added.below(z) == sum(m for x, m in expected.items() if x <= z)


def test_one_law_alone() -> None:
    alone = AddedLaws(None, FIVE)
    assert [alone.mass(z) for z in range(-4, 5)] == [0, 0, *FIVE.mass, 0, 0]
    assert [alone.below(z) for z in range(-4, 5)] == [0, 0, *FIVE.below, 1, 1]
    assert (alone.reach, alone.tail, alone.error) == (2, 0.125, 0.25)


def test_tails_and_errors_are_added() -> None:
    """And one rounding for each product of the inner law."""
    both = AddedLaws(THREE, FIVE)
    assert both.tail == 0.1875
    assert both.error == 0.75 + 3 * UNIT
    tiny = AddedLaws(law(0.25, 0.5, 0.25), law(1.0, error=UNIT))
    assert tiny.error == 4 * UNIT


# ------------------------------------------------------------------------------------ half-lines


def geometric(scale: float, reach: int) -> Law:
    """A discrete Laplace on a window, without errors."""
    a = math.exp(-1 / scale)
    return law(*((1 - a) / (1 + a) * a ** abs(z) for z in range(-reach, reach + 1)))


@pytest.mark.parametrize("sensitivity", [1, 2, 3, 6, 9])
@pytest.mark.parametrize("epsilon", ["0", "1/3", "1", "2", "9/2"])
@pytest.mark.parametrize("inner", [None, 3.0, 1.0], ids=str)
def test_the_half_line_is_the_sum_over_all_values(
    sensitivity: int, epsilon: str, inner: float | None
) -> None:
    added = AddedLaws(geometric(inner, 90) if inner else None, geometric(2.0, 90))
    growth = math.exp(Fraction(epsilon))
    reach = added.reach
    exact = math.fsum(
        max(0.0, added.mass(z) - growth * added.mass(z - sensitivity))
        for z in range(-reach, reach + sensitivity + 1)
    )
    found = half_line_delta(added, Fraction(epsilon), sensitivity)
    assert found == pytest.approx(exact, rel=1e-11, abs=1e-13)


def test_every_error_raises_the_figure() -> None:
    """F (1 + 14 e) - e^epsilon F' (1 - 2 e) + tail, with the law's e and 4 + epsilon roundings."""
    whole = AddedLaws(None, law(1.0))
    for epsilon in (0, 1, 4):
        # The shifted law lies beyond the window: only F = 1 is left.
        assert half_line_delta(whole, Fraction(epsilon), 2) == 1 + 14 * (4 + epsilon) * UNIT
    both = AddedLaws(None, law(0.25, 0.5, 0.25, tail=0.0625, error=0.001))
    for epsilon in (Fraction(0), Fraction(1, 2)):
        # The last z is 0: P(0) = 1/2 and P(-1) = 1/4; then P(1) = 1/4 and P(0) = 1/2.
        expected = 0.75 * 1.014 - math.exp(epsilon) * 0.25 * 0.998 + 0.0625
        assert half_line_delta(both, epsilon, 1) == pytest.approx(expected, rel=1e-13)
    # A shift by 0 would lose all of this: the two cumulative sums are equal.
    assert half_line_delta(AddedLaws(None, law(0.5, 0.5)), Fraction(0), 0) == pytest.approx(0)


def test_the_end_is_never_before_the_true_one() -> None:
    """P(0) = 1/2 and e^epsilon P(-1) = 0.255 e^epsilon: equal but for a relative 0.0198."""
    plain = (0.255, 0.5, 0.255)
    for error, taken in ((0.0024, False), (0.0026, True)):
        found = half_line_delta(
            AddedLaws(None, law(*plain, error=error)), Fraction(str(math.log(2))), 1
        )
        end = 0 if taken else -1
        above = 0.755 if end == 0 else 0.255
        below = 0.255 if end == 0 else 0.0
        expected = above * (1 + 14 * error) - 2 * below * (1 - 2 * error)
        assert found == pytest.approx(expected, rel=1e-12)


def test_a_ratio_that_is_met_exactly_belongs_to_the_half_line() -> None:
    """P(1) = P(0) at epsilon 0 and shift 1: with P(1) or without, the figure is the same."""
    flat = AddedLaws(None, law(0.25, 0.25, 0.25, 0.25, tail=0.5))
    assert half_line_delta(flat, Fraction(0), 1) == pytest.approx(0.75, rel=1e-13)
