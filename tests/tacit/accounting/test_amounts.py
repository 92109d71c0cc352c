"""Amounts of a ledger: scaled up, bounded, and shown as decimals.

The least delta that is stated, and how a delta is shown.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import factorial

import pytest

from tacit.accounting.amounts import (
    FEMTO,
    MOST_RHO,
    SMALLEST_DELTA,
    UNVERIFIED,
    Amount,
    Cost,
    debited_delta,
    format_amount,
    format_both,
    format_delta,
    format_femto,
    format_micro,
    pure_rho,
    scaled,
)


def test_a_cost_is_rounded_up_to_the_unit() -> None:
    assert scaled(Cost(Fraction(1, 3), Fraction(1, 3 * 10**14))) == Amount(
        333_334, 4, 55_555_556, 4
    )
    assert scaled(Cost(Fraction(5, 2), Fraction(0))) == Amount(2_500_000, 0, 2_120_709_100, 0)


def test_what_costs_more_than_the_most_counts_as_unbounded() -> None:
    most = Cost(Fraction(10**6), Fraction(1, 10))
    assert scaled(most) == Amount(10**12, 10**14, MOST_RHO, 10**14)
    assert format_both(scaled(most))["rho"] == "inf"
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
    amount = Amount(1_500_000, 5 * 10**14, 250_000_000, 0)
    assert format_amount(amount) == {"epsilon": "1.5", "delta": "0.5"}
    assert format_both(amount) == {
        "epsilon": "1.5",
        "delta": "0.5",
        "rho": "0.25",
        "rho_delta": "0",
    }
    assert format_amount(None) == {"epsilon": "inf", "delta": "1"}
    nothing = {"epsilon": "inf", "delta": "1", "rho": "inf", "rho_delta": "1"}
    assert format_both(None) == nothing


def test_no_more_than_1_is_shown_as_delta() -> None:
    assert format_femto(FEMTO - 1) == "0." + 15 * "9"
    assert format_femto(FEMTO + 1) == format_femto(3 * FEMTO) == "1"


@pytest.mark.parametrize(
    "epsilon", ["1/100000000", "1/10000", "1/3", "1", "2", "7/2", "39", "40", "41", "1000000"]
)
def test_a_pure_release_has_the_rho_of_a_randomised_response_rounded_up(epsilon: str) -> None:
    exact = Fraction(epsilon)
    rho = pure_rho(exact)
    # tanh(x / 2) = (e^x - 1) / (e^x + 1), with e^x by its series and the rest of it bounded.
    low = sum((exact**k / factorial(k) for k in range(400)), Fraction(0))
    true = exact * (low - 1) / (low + 1) if exact < 50 else exact * (1 - Fraction(1, 10**15))
    assert true <= rho <= true + Fraction(2, 10**12) + exact * Fraction(2, 10**14)
    assert rho * 10**12 == int(rho * 10**12)


def test_the_zcdp_of_each_kind_of_release() -> None:
    nothing = Fraction(0)
    assert Cost(Fraction(1), nothing).zcdp == (Fraction(462_117_157_261, 10**12), nothing)
    assert Cost(nothing, nothing).zcdp == (nothing, nothing)
    assert Cost(Fraction(1, 10**400), nothing).zcdp == (Fraction(1, 10**12), nothing)
    millionth = Fraction(1, 10**6)
    assert Cost(Fraction(1), millionth).zcdp == (Fraction(1, 2), millionth)
    assert Cost(Fraction(3), millionth).zcdp == (Fraction(3), millionth)
    assert Cost(Fraction(5), millionth, Fraction(1, 3)).zcdp == (Fraction(1, 3), nothing)
    assert UNVERIFIED.zcdp is None


@pytest.mark.parametrize(
    ("delta", "shown"),
    [
        ("0", "0"),
        ("1e-284", "1e-30"),
        ("1e-30", "1e-30"),
        ("1", "1"),
        ("0.12341", "0.1235"),
        ("0.00012341", "0.0001235"),
        ("0.0001", "0.0001"),
        ("0.00009999", "0.00009999"),
        ("0.000000012341", "1.235e-8"),
    ],
)
def test_deltas_are_shown_with_four_digits_rounded_up(delta: str, shown: str) -> None:
    assert format_delta(Decimal(delta)) == shown


def test_a_debited_delta_is_0_or_at_least_the_smallest() -> None:
    assert debited_delta(Decimal(0)) == 0
    assert debited_delta(Decimal("1e-284")) == Fraction(SMALLEST_DELTA) == Fraction(1, 10**30)
    assert debited_delta(Decimal("0.125")) == Fraction(1, 8)
