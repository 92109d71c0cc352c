"""Amounts of a ledger: scaled up, bounded, and shown as decimals."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tacit.accounting.amounts import (
    FEMTO,
    UNVERIFIED,
    Amount,
    Cost,
    format_amount,
    format_femto,
    format_micro,
    scaled,
)


def test_a_cost_is_rounded_up_to_the_unit() -> None:
    assert scaled(Cost(Fraction(1, 3), Fraction(1, 3 * 10**14))) == Amount(333_334, 4)
    assert scaled(Cost(Fraction(5, 2), Fraction(0))) == Amount(2_500_000, 0)


def test_what_costs_more_than_the_most_counts_as_unbounded() -> None:
    most = Cost(Fraction(10**6), Fraction(1, 10))
    assert scaled(most) == Amount(10**12, 10**14)
    assert scaled(most._replace(epsilon=10**6 + Fraction(1, 10**9))) is None
    assert scaled(most._replace(delta=Fraction(1, 10) + Fraction(1, 10**18))) is None


@pytest.mark.parametrize(
    "cost", [UNVERIFIED, Cost(Fraction(1), None), Cost(None, Fraction(0))], ids=str
)
def test_an_unverified_cost_has_no_amount(cost: Cost) -> None:
    assert scaled(cost) is None


def test_amounts_are_shown_as_decimals() -> None:
    assert format_micro(1_500_000) == "1.5"
    assert format_micro(0) == "0"
    assert format_micro(None) == "inf"
    assert format_femto(5 * 10**14) == "0.5"
    assert format_femto(0) == "0"
    assert format_femto(None) == "1"


def test_both_figures_of_an_amount() -> None:
    assert format_amount(Amount(1_500_000, 5 * 10**14)) == {"epsilon": "1.5", "delta": "0.5"}
    assert format_amount(None) == {"epsilon": "inf", "delta": "1"}


def test_no_more_than_1_is_shown_as_delta() -> None:
    assert format_femto(FEMTO - 1) == "0." + 15 * "9"
    assert format_femto(FEMTO + 1) == format_femto(3 * FEMTO) == "1"
