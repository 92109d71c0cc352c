"""Polya differences of weight above 1 against their definition, with 60-digit decimals."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache

import pytest

from tacit.accounting.loss.fractional import _fractional_law, log_concave_delta, polya_law
from tacit.accounting.loss.rounding import capped
from tacit.accounting.loss.whole import (
    AddedLaws,
    half_line_delta,
    reach_of,
    tail_bound,
    whole_delta,
)

EXACT = Context(prec=80)
UNIT = 2.0**-53
SCALE = Fraction(2)


def decimal(value: Fraction) -> Decimal:
    return EXACT.divide(Decimal(value.numerator), Decimal(value.denominator))


@cache
def exact_law(weight: Fraction, scale: Fraction, reach: int) -> tuple[Decimal, ...]:
    """P(0..reach) = sum_y N(z + y) N(y), N(k) = (1-a)^R a^k R (R+1) ... (R+k-1) / k!."""
    a = EXACT.exp(decimal(-1 / scale))
    terms = math.ceil(100 * scale)
    one = EXACT.power(EXACT.subtract(1, a), decimal(weight))
    each = [one]
    for k in range(1, reach + terms):
        factor = EXACT.multiply(a, decimal((weight + k - 1) / k))
        each.append(EXACT.multiply(each[-1], factor))
    found = []
    for z in range(reach + 1):
        total = Decimal(0)
        for y in range(terms):
            total = EXACT.fma(each[z + y], each[y], total)
        found.append(total)
    return tuple(found)


@pytest.mark.parametrize("weight", ["1", "3/2", "7/3", "5"])
@pytest.mark.parametrize("scale", ["1/2", "2"])
def test_the_recurrence_gives_the_law_to_25_digits(weight: str, scale: str) -> None:
    """Where the window leaves out next to nothing."""
    law = polya_law(Fraction(weight), Fraction(scale), 150)
    assert len(law) == 151
    for found, exact in zip(
        law[:41], exact_law(Fraction(weight), Fraction(scale), 40), strict=True
    ):
        assert abs(found / exact - 1) < Decimal("1e-25")


def test_a_law_cut_short_is_normalised_on_its_window() -> None:
    weight = Fraction(3, 2)
    law, exact = polya_law(weight, SCALE, 5), exact_law(weight, SCALE, 40)
    window = 2 * sum(exact[1:6]) + exact[0]
    assert len(law) == 6
    for found, mass in zip(law, exact[:6], strict=True):
        assert abs(found * window / mass - 1) < Decimal("1e-25")
    assert polya_law(weight, SCALE, 0) == (1,)


def test_the_recurrence_begins_30_scales_beyond() -> None:
    """The first ratio lacks (R - 1) / z, which shrinks by a^2 a step: e^-60 of it is left."""
    weight, scale, reach = Fraction(3, 2), Fraction(10), 3
    law, exact = (
        [Fraction(mass) for mass in masses]
        for masses in (polya_law(weight, scale, reach), exact_law(weight, scale, reach))
    )
    error = abs((law[3] / law[2]) / (exact[3] / exact[2]) - 1)
    assert error < Fraction(math.exp(-60)) * (weight - 1) / (reach + 30 * scale)


def test_a_law_states_its_reach_its_tail_and_its_errors() -> None:
    weight, scale = Fraction(3, 2), Fraction(1, 2)
    law = _fractional_law(weight, scale)
    assert law.reach == reach_of(1.5, 0.5)
    assert law.tail == tail_bound(1.5, 0.5, law.reach)
    assert law.mass.shape == law.below.shape == (2 * law.reach + 1,)
    # One rounding for each point that is summed, and eight more; the tail on both sides.
    expected = (law.mass.size + 8) * UNIT + 2 * law.tail + 1e-24
    assert law.error == expected
    exact = exact_law(weight, scale, 40)
    for z in range(-40, 41):
        assert law.mass[law.reach + z] == pytest.approx(float(exact[abs(z)]), rel=1e-14, abs=0)
    assert law.below[law.reach] == pytest.approx(0.5 + float(exact[0]) / 2, rel=1e-14)
    assert law.below[-1] == pytest.approx(1, rel=1e-14)


def test_the_tail_of_a_law_is_in_its_error() -> None:
    """The tail alone weighs less than the rounding of the sums; 1e-24 is what the decimals lose."""
    for weight in (Fraction(3, 2), Fraction(61, 2)):
        law = _fractional_law(weight, SCALE)
        rounding = (law.mass.size + 8) * UNIT
        # The sum of the three is rounded, to far less than a tail.
        assert rounding * 2**-52 < law.tail / 10
        assert law.error - rounding == pytest.approx(2 * law.tail + 1e-24, rel=0.1, abs=0)


@pytest.mark.parametrize("weight", ["3/2", "13/5"])
@pytest.mark.parametrize("epsilon", ["0", "1/2", "3/2"])
@pytest.mark.parametrize("sensitivity", [1, 4])
def test_delta_is_the_sum_over_all_values(weight: str, epsilon: str, sensitivity: int) -> None:
    if Fraction(epsilon) >= sensitivity / SCALE:
        assert log_concave_delta(Fraction(epsilon), sensitivity, SCALE, Fraction(weight)) == 0
        return
    law = [float(mass) for mass in exact_law(Fraction(weight), SCALE, 90)]
    growth = math.exp(Fraction(epsilon))
    exact = math.fsum(
        max(0.0, law[abs(z)] - growth * law[abs(z - sensitivity)])
        for z in range(sensitivity - 90, 90)
    )
    found = float(log_concave_delta(Fraction(epsilon), sensitivity, SCALE, Fraction(weight)))
    assert exact - 1e-15 <= found <= exact + 1e-12


def test_whole_weights_are_whole_draws() -> None:
    epsilon = Fraction(1, 2)
    for draws in (1, 2, 5):
        expected = whole_delta(epsilon, 4, ((draws, SCALE),))
        assert log_concave_delta(epsilon, 4, SCALE, Fraction(draws)) == expected > 0


def test_a_weight_below_1_is_refused() -> None:
    with pytest.raises(ValueError, match="below 1"):
        log_concave_delta(Fraction(1), 4, SCALE, Fraction(99, 100))


def test_where_the_window_is_long_the_whole_part_is_taken() -> None:
    """From scale 25,000 / 90 on, and from 32 whole draws on."""
    epsilon, weight = Fraction(1, 2), Fraction(3, 2)
    edge = Fraction(25_000, 90)
    long = log_concave_delta(epsilon, 250, edge, weight)
    assert long == whole_delta(epsilon, 250, ((1, edge),))
    short = log_concave_delta(epsilon, 250, edge - Fraction(1, 100), weight)
    assert short < whole_delta(epsilon, 250, ((1, edge - Fraction(1, 100)),))
    scale = Fraction(1, 4)
    for weight, whole in ((Fraction(63, 2), False), (Fraction(65, 2), True)):
        found = log_concave_delta(Fraction(0), 1, scale, weight)
        assert (found == whole_delta(Fraction(0), 1, ((int(weight), scale),))) is whole


def test_delta_is_that_of_the_half_line() -> None:
    weight, epsilon = Fraction(3, 2), Fraction(1, 3)
    law = AddedLaws(None, _fractional_law(weight, SCALE))
    expected = capped(half_line_delta(law, epsilon, 3))
    assert log_concave_delta(epsilon, 3, SCALE, weight) == expected
