"""Sums of whole discrete Laplaces against convolutions with 60-digit decimals."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from tacit.accounting.loss.rounding import capped
from tacit.accounting.loss.whole import (
    MAX_WHOLE_DRAWS,
    AddedLaws,
    _coarse,
    half_line_delta,
    laplace_delta,
    long_law,
    reach_of,
    tail_bound,
    whole_delta,
    whole_law,
    whole_masses,
)

EXACT = Context(prec=60)
UNIT = 2.0**-53
TWO, THREE = Fraction(2), Fraction(3)


def decimal(value: Fraction) -> Decimal:
    return EXACT.divide(Decimal(value.numerator), Decimal(value.denominator))


@cache
def exact_law(draws: int, scale: Fraction, reach: int) -> tuple[Decimal, ...]:
    """P(0..reach) = sum_y N(z + y) N(y), N(k) = (1-a)^draws C(k + draws - 1, k) a^k."""
    a = EXACT.exp(decimal(-1 / scale))
    front = EXACT.power(EXACT.subtract(1, a), draws)
    terms = math.ceil((60 + 2 * draws) * scale)
    each = [
        EXACT.multiply(EXACT.multiply(front, math.comb(k + draws - 1, k)), EXACT.power(a, k))
        for k in range(reach + terms)
    ]
    found = []
    for z in range(reach + 1):
        total = Decimal(0)
        for y in range(terms):
            total = EXACT.fma(each[z + y], each[y], total)
        found.append(total)
    return tuple(found)


def brute_force(epsilon: Fraction, shift: int, *laws: tuple[int, Fraction]) -> float:
    """sum_z max(0, P(z) - e^epsilon P(z - s))."""
    law = np.ones(1)
    for draws, scale in laws:
        half = [float(mass) for mass in exact_law(draws, scale, 120)]
        law = np.convolve(law, np.array(half[:0:-1] + half))
    first, second = np.pad(law, (0, shift)), np.pad(law, (shift, 0))
    return math.fsum(np.maximum(0.0, first - math.exp(epsilon) * second))


# -------------------------------------------------------------------------------------- the law


@pytest.mark.parametrize("draws", [1, 2, 3, 6])
@pytest.mark.parametrize("scale", ["1/2", "2", "10/3"])
def test_masses_are_within_their_stated_error(draws: int, scale: str) -> None:
    found = whole_masses(draws, Fraction(scale), 30)
    assert found.shape == (31,)
    for z, (mass, exact) in enumerate(
        zip(found, exact_law(draws, Fraction(scale), 30), strict=True)
    ):
        most = (3 * draws + 4 * z / Fraction(scale) + 20) * Fraction(UNIT)
        assert abs(Fraction(float(mass)) / Fraction(exact) - 1) <= most


def test_one_point_is_enough() -> None:
    exact = float(exact_law(4, TWO, 0)[0])
    assert whole_masses(4, TWO, 0).tolist() == pytest.approx([exact], rel=1e-14)


@pytest.mark.parametrize(("draws", "scale"), [(1, "1/2"), (3, "2")])
def test_a_law_states_its_reach_its_tail_and_its_error(draws: int, scale: str) -> None:
    """3 k + 4 W/b + 64 roundings of the masses, and one for each point that is summed."""
    law = whole_law(draws, Fraction(scale))
    width = float(Fraction(scale))
    assert law.reach == reach_of(draws, width)
    assert law.tail == tail_bound(draws, width, law.reach)
    assert law.mass.shape == law.below.shape == (2 * law.reach + 1,)
    roundings = 3 * draws + 4 * law.reach / width + 64 + law.mass.size
    assert law.error == pytest.approx(roundings * UNIT, rel=1e-12, abs=0)
    half = whole_masses(draws, Fraction(scale), law.reach)
    assert np.array_equal(law.mass[law.reach :], half)
    assert np.array_equal(law.mass, law.mass[::-1])
    assert np.array_equal(law.below, np.cumsum(law.mass))


# ----------------------------------------------------------------------------------- the grid


@pytest.mark.parametrize(
    ("sensitivity", "widest", "units"),
    [
        (1, "1", 1), (256, "1", 1), (257, "1", 2), (512, "1000", 2), (513, "1", 3),
        (100, "1000", 1), (100, "1001", 2), (100, "2000", 2), (100, "2500", 3), (3, "2500", 3),
        (10, "6000", 5), (1000, "1", 4), (1025, "1", 5), (2, "5000", 2), (0, "5000", 0),
    ],
)  # fmt: skip
def test_the_units_of_the_grid(sensitivity: int, widest: str, units: int) -> None:
    """At most 256 coarse units and a scale of 1,000, and no more units than tile the change."""
    assert _coarse(sensitivity, Fraction(widest)) == units


def test_a_change_of_few_units_is_tiled_exactly() -> None:
    """10 units at 6 a coarse one make 2; 5 a coarse one make 2 as well."""
    assert _coarse(10, Fraction(6000)) == 5
    assert _coarse(100, Fraction(6000)) == 6
    assert _coarse(7, Fraction(4000)) == 4


# ----------------------------------------------------------------------------------- delta


@pytest.mark.parametrize("sensitivity", [1, 3, 8])
@pytest.mark.parametrize("share", ["0", "1/4", "4/5"])
@pytest.mark.parametrize(
    "laws",
    [
        ((2, TWO),),
        ((4, TWO),),
        ((1, TWO), (1, THREE)),
        ((3, THREE), (2, TWO)),
        ((1, THREE), (2, TWO)),
    ],
    ids=str,
)
def test_delta_is_the_sum_over_all_values(
    sensitivity: int, share: str, laws: tuple[tuple[int, Fraction], ...]
) -> None:
    widest = max(scale for _, scale in laws)
    epsilon = Fraction(share) * sensitivity / widest
    exact = brute_force(epsilon, sensitivity, *laws)
    found = float(whole_delta(epsilon, sensitivity, laws))
    assert exact - 1e-15 <= found <= exact + 1e-11


def test_one_draw_is_the_closed_form() -> None:
    for epsilon in (Fraction(0), Fraction(1, 3), Fraction(1)):
        expected = laplace_delta(epsilon, 4, TWO)
        assert whole_delta(epsilon, 4, ((1, TWO),)) == expected > 0
        assert whole_delta(epsilon, 4, ((0, THREE), (1, TWO), (-1, THREE))) == expected


def test_without_draws_nothing_is_hidden() -> None:
    assert whole_delta(Fraction(1), 4, ()) == 1
    assert whole_delta(Fraction(1), 4, ((0, TWO), (0, THREE))) == 1


def test_from_the_ratio_of_the_widest_on_there_is_no_delta() -> None:
    laws = ((1, TWO), (1, THREE))
    assert whole_delta(Fraction(2), 6, laws) == 0
    assert 0 < whole_delta(Fraction(19, 10), 6, laws) < laplace_delta(Fraction(19, 10), 6, THREE)


def test_draws_of_one_scale_are_added() -> None:
    epsilon = Fraction(1, 2)
    assert whole_delta(epsilon, 6, ((1, TWO), (2, TWO))) == whole_delta(epsilon, 6, ((3, TWO),))
    assert whole_delta(epsilon, 6, ((30, TWO), (30, TWO))) == whole_delta(epsilon, 6, ((32, TWO),))


def test_draws_beyond_32_are_left_out() -> None:
    assert MAX_WHOLE_DRAWS == 32
    scale = Fraction(1, 4)
    found = [whole_delta(Fraction(0), 1, ((draws, scale),)) for draws in (31, 32, 33, 1000)]
    assert found[0] > found[1] == found[2] == found[3]


def test_the_figure_is_that_of_the_half_line_on_the_grid() -> None:
    """600 units make 200 of 3; the widest law is the outer one."""
    epsilon, one, other = Fraction(1, 2), Fraction(900), Fraction(300)
    law = AddedLaws(whole_law(2, other / 3), whole_law(1, one / 3))
    expected = capped(half_line_delta(law, epsilon, 200))
    for laws in (((1, one), (2, other)), ((2, other), (1, one))):
        assert whole_delta(epsilon, 600, laws) == expected
    # 100 units of 7 tile 700 or less, 93 of 13 tile 1,209.
    for scale, sensitivity, units, coarse in ((6500, 695, 7, 100), (13_000, 1200, 13, 93)):
        alone = AddedLaws(None, whole_law(2, Fraction(scale, units)))
        assert whole_delta(Fraction(1, 20), sensitivity, ((2, Fraction(scale)),)) == capped(
            half_line_delta(alone, Fraction(1, 20), coarse)
        )


def test_beyond_the_largest_exponent_one_draw_is_taken() -> None:
    """e^800 is beyond a double; at 600 the law of both draws is still taken."""
    scale = Fraction(3, 601)
    at_600 = [whole_delta(Fraction(600), 3, ((draws, scale),)) for draws in (1, 2)]
    assert at_600[0] == laplace_delta(Fraction(600), 3, scale) > at_600[1]
    for epsilon in (Fraction(601), Fraction(800)):
        expected = laplace_delta(epsilon, 900, Fraction(1))
        assert whole_delta(epsilon, 900, ((2, Fraction(1)),)) == expected > 0


def test_where_even_the_grid_is_long_one_draw_is_taken() -> None:
    """More than 4,000,000 points: 55 scales that one coarse unit does not shorten."""
    epsilon = Fraction(1, 10**6)
    for points, alone in ((4_000_001, True), (4_000_000, False)):
        scale = Fraction(points, 55)
        found = whole_delta(epsilon, 1, ((2, scale),))
        assert (found == laplace_delta(epsilon, 1, scale)) is alone
    long_law.cache_clear()  # 128 MB


def test_few_long_laws_are_kept() -> None:
    """A process that answers one question after another holds two, not all of them."""
    for number in range(4):
        whole_law(1, Fraction(1_001 + number))
    assert long_law.cache_info().currsize == 2
