"""Sums of whole discrete Laplaces against convolutions with 60-digit decimals.

delta of one discrete Laplace against the sum over its values, with 60-digit decimals.

Laws on a window: tails, sums of two, and the half-line, on laws small enough to sum by hand.

Certified figures do not depend on the precision of the calling thread.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from tacit.accounting.loss.fractional import polya_law
from tacit.accounting.loss.rounding import capped
from tacit.accounting.loss.whole import (
    LARGEST_EXPONENT,
    MAX_WHOLE_DRAWS,
    AddedLaws,
    Law,
    _coarse,
    continuous_laplace_delta,
    half_line_delta,
    laplace_delta,
    long_law,
    reach_of,
    tail_bound,
    whole_delta,
    whole_law,
    whole_masses,
)
from tests.tacit.accounting.examples import hockey_stick

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
    return hockey_stick(law, epsilon, shift)


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
        (10, "6000", 5), (100, "6000", 6), (7, "4000", 4), (1000, "1", 4), (1025, "1", 5),
        (2, "5000", 2), (0, "5000", 0),
    ],
)  # fmt: skip
def test_the_units_of_the_grid(sensitivity: int, widest: str, units: int) -> None:
    """At most 256 coarse units and a scale of 1,000, and no more units than tile the change."""
    assert _coarse(sensitivity, Fraction(widest)) == units


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


def power(exponent: Fraction) -> Fraction:
    return Fraction(EXACT.exp(decimal(exponent)))


def exact_delta(epsilon: Fraction, sensitivity: int, scale: Fraction) -> Fraction:
    """The sum of max(0, P(z) - e^epsilon P(z - Delta)); below -60 scale nothing is left."""
    growth = power(epsilon)
    reach = math.ceil(60 * scale)
    with localcontext(EXACT):
        a, e = decimal(power(-1 / scale)), decimal(growth)
        powers = [a**k for k in range(reach + sensitivity + 1)]
        found = sum(
            (
                max(Decimal(0), powers[abs(z)] - e * powers[abs(z - sensitivity)])
                for z in range(-reach, sensitivity + 1)
            ),
            Decimal(0),
        )
        return Fraction(found * (1 - a) / (1 + a))


@pytest.mark.parametrize("scale", ["1/2", "1", "7/3"])
@pytest.mark.parametrize("sensitivity", [1, 2, 5])
@pytest.mark.parametrize("share", ["0", "1/5", "1/2", "9/10"])
def test_the_closed_form_is_the_sum(scale: str, sensitivity: int, share: str) -> None:
    """From above, by one in 10^16: the last of 17 digits is rounded up."""
    epsilon = Fraction(share) * sensitivity / Fraction(scale)
    exact = exact_delta(epsilon, sensitivity, Fraction(scale))
    found = Fraction(laplace_delta(epsilon, sensitivity, Fraction(scale)))
    assert exact * (1 - Fraction(1, 10**22)) <= found <= exact * (1 + Fraction(2, 10**16))


def test_from_the_ratio_on_there_is_no_delta() -> None:
    for sensitivity in (1, 4, 7):
        assert laplace_delta(Fraction(sensitivity, 4), sensitivity, Fraction(4)) == 0
        assert laplace_delta(Fraction(sensitivity, 3), sensitivity, Fraction(4)) == 0
        assert laplace_delta(Fraction(sensitivity, 5), sensitivity, Fraction(4)) > 0


def test_the_digits_that_cancel_are_added() -> None:
    """Just below the ratio the difference is about 1e-27 / (1 + a), the slack 1e-26 F(0)."""
    a = power(Fraction(-1, 2))
    gap = Fraction(1, 10**27)
    found = Fraction(laplace_delta(Fraction(2) - gap, 4, Fraction(2)))
    above = 1 - a**1 / (1 + a)
    below = power(-gap) / (1 + a)
    assert found == pytest.approx(float(above - below + above / 10**26), rel=1e-12, abs=0)


def test_the_continuous_limit() -> None:
    assert continuous_laplace_delta(1.0, 1.0) == continuous_laplace_delta(2.0, 1.0) == 0
    assert continuous_laplace_delta(1.0, 3.0) == pytest.approx(1 - math.exp(-1), rel=1e-15)
    assert continuous_laplace_delta(0.5, 1.25) == pytest.approx(1 - math.exp(-0.375), rel=1e-15)


def law(*masses: float, tail: float = 0.0, error: float = 0.0) -> Law:
    mass = np.array(masses)
    return Law(mass, np.cumsum(mass), len(masses) // 2, tail, error)


THREE_POINTS = law(0.25, 0.5, 0.25, tail=0.0625, error=0.5)
FIVE_POINTS = law(0.0625, 0.25, 0.375, 0.25, 0.0625, tail=0.125, error=0.25)


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
    ("inner", "outer"),
    [
        (THREE_POINTS, FIVE_POINTS),
        (FIVE_POINTS, THREE_POINTS),
        (THREE_POINTS, THREE_POINTS),
        (law(1.0), FIVE_POINTS),
    ],
)
def test_two_laws_are_added_point_by_point(inner: Law, outer: Law) -> None:
    added, expected = AddedLaws(inner, outer), convolved(inner, outer)
    reach = inner.reach + outer.reach
    assert added.reach == reach
    for z in range(-reach - 4, reach + 5):
        assert added.mass(z) == expected.get(z, 0.0)
        assert added.below(z) == sum(m for x, m in expected.items() if x <= z)


def test_one_law_alone() -> None:
    alone = AddedLaws(None, FIVE_POINTS)
    assert [alone.mass(z) for z in range(-4, 5)] == [0, 0, *FIVE_POINTS.mass, 0, 0]
    assert [alone.below(z) for z in range(-4, 5)] == [0, 0, *FIVE_POINTS.below, 1, 1]
    assert (alone.reach, alone.tail, alone.error) == (2, 0.125, 0.25)


def test_tails_and_errors_are_added() -> None:
    """And one rounding for each product of the inner law."""
    both = AddedLaws(THREE_POINTS, FIVE_POINTS)
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


def test_the_precision_of_the_thread_does_not_matter() -> None:
    asked = (Fraction(1, 2), 4, Fraction(4))
    weight, scale = Fraction(3, 2), Fraction(5, 3)
    delta, law = laplace_delta(*asked), polya_law(weight, scale, 40)
    masses = whole_masses(3, scale, 40).tolist()
    with localcontext(Context(prec=6)):
        assert laplace_delta.__wrapped__(*asked) == delta
        assert polya_law.__wrapped__(weight, scale, 40) == law
        assert whole_masses(3, scale, 40).tolist() == masses
    # 50 digits, not the 28 of a thread that has asked for nothing: masses on both sides sum to 1.
    total = Fraction(2) * sum(map(Fraction, law), Fraction(0)) - Fraction(law[0])
    assert abs(total - 1) < Fraction(1, 10**47)
