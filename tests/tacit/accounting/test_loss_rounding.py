"""Rounding of figures on the safe side, and what a layer of noise holds."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from tacit.accounting.loss.rounding import (
    ONE,
    UNIT,
    ZERO,
    Certified,
    Draws,
    both_deltas,
    capped,
    decimal_up,
    precise,
)


def test_the_constants() -> None:
    assert UNIT * 2**53 == 1
    assert (ZERO, ONE) == (0, 1)


def test_a_rational_is_rounded_up_to_17_digits_or_as_many_as_asked() -> None:
    assert str(decimal_up(Fraction(1, 3))) == "0.33333333333333334"
    assert str(decimal_up(Fraction(2, 3), 3)) == "0.667"
    assert str(decimal_up(Fraction(-2, 3), 3)) == "-0.666"
    assert decimal_up(Fraction(1, 8)) == Decimal("0.125")


def test_a_precise_decimal_has_50_digits() -> None:
    assert str(precise(Fraction(2, 3))) == "0." + "6" * 49 + "7"


def test_two_deltas_at_the_sum_of_their_epsilons() -> None:
    assert both_deltas(Decimal("0.25"), Decimal("0.5")) == Decimal("0.625")
    assert both_deltas(Decimal("0.5"), Decimal("0.25")) == Decimal("0.625")
    assert both_deltas(Decimal(1), Decimal(1)) == 1
    assert both_deltas(Decimal(0), Decimal("1e-30")) == Decimal("1e-30")
    assert both_deltas(Decimal("0.99999999999999999"), Decimal("0.9")) == 1  # rounded up


def test_a_delta_lies_between_0_and_1() -> None:
    assert capped(Decimal("-0.5")) == capped(-0.5) == 0
    assert capped(Decimal("1.5")) == capped(1.5) == 1
    assert str(capped(0.1)) == "0.10000000000000001"
    assert str(capped(Decimal("0.1234567890123456701"))) == "0.12345678901234568"


def test_figures_are_certified_and_draws_are_whole_and_sure_unless_it_is_said() -> None:
    assert Certified(Decimal(1)).certified is True
    plain = Draws(Fraction(3), 4)
    assert (plain.weight, plain.probability, plain.total) == (1, 1, 4)
    assert Draws(Fraction(3), 4, Fraction(1, 8)).total == Fraction(1, 2)
