"""Randomised responses term by term, with 60-digit decimals, and the searches at their ends."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction

import pytest

from tacit.accounting.randomised_response import (
    MOST_RESPONSES,
    _check,
    _delta,
    _log_binomials,
    delta_of_responses,
    response_epsilon,
    total_epsilon,
)

EXACT = Context(prec=60)
GRAIN = Fraction(1, 1 << 48)


def power(exponent: Fraction) -> Fraction:
    return Fraction(
        EXACT.exp(EXACT.divide(Decimal(exponent.numerator), Decimal(exponent.denominator)))
    )


def exact_delta(count: int, epsilon: Fraction, total: Fraction) -> Fraction:
    p = 1 / (1 + power(-epsilon))
    return sum(
        (
            math.comb(count, j)
            * p**j
            * (1 - p) ** (count - j)
            * (1 - power(total - epsilon * (2 * j - count)))
            for j in range(count + 1)
            if epsilon * (2 * j - count) > total
        ),
        Fraction(0),
    )


@pytest.mark.parametrize("count", [1, 2, 3, 7, 12])
@pytest.mark.parametrize("epsilon", ["1/8", "1", "5/2"])
@pytest.mark.parametrize("share", ["0", "1/7", "3/5", "19/20"])
def test_each_term_and_the_slack_of_one_in_ten_million(
    count: int, epsilon: str, share: str
) -> None:
    one = Fraction(epsilon)
    total = Fraction(share) * count * one
    exact = exact_delta(count, one, total)
    found = delta_of_responses(count, one, total)
    assert exact * (1 + Fraction(99, 10**9)) <= found <= exact * (1 + Fraction(101, 10**9))
    assert _delta(count, float(one), float(total)) == pytest.approx(float(exact), rel=1e-11, abs=0)


def test_what_floats_lose_is_added_and_nothing_exceeds_one() -> None:
    assert delta_of_responses(3000, Fraction(1, 10**6), Fraction(2999, 10**6)) == Fraction(1e-300)
    assert delta_of_responses(50, Fraction(20), Fraction(0)) == 1
    assert delta_of_responses(1, Fraction(0), Fraction(0)) == 0


def test_logarithms_of_binomials() -> None:
    expected = [math.log(math.comb(9, j)) for j in range(10)]
    assert _log_binomials(9).tolist() == pytest.approx(expected, rel=1e-13, abs=1e-14)


@pytest.mark.parametrize(
    ("count", "epsilon", "delta"),
    [(2, "1", "1/100"), (5, "1/3", "1/1000000"), (9, "2", "1/20"), (3, "1/10", "1/100")],
)
def test_a_total_is_the_least_on_its_grid(count: int, epsilon: str, delta: str) -> None:
    one, most = Fraction(epsilon), Fraction(delta)
    found = total_epsilon(count, one, most)
    assert (found / GRAIN).denominator == 1
    assert delta_of_responses(count, one, found) <= most
    assert delta_of_responses(count, one, found - GRAIN) > most


@pytest.mark.parametrize(
    ("count", "total", "delta"),
    [(2, "1", "1/100"), (5, "1/3", "1/1000000"), (9, "20", "1/20"), (40, "1/10", "1/1000")],
)
def test_an_epsilon_is_the_largest_on_its_grid(count: int, total: str, delta: str) -> None:
    whole, most = Fraction(total), Fraction(delta)
    found = response_epsilon(count, whole, most)
    assert whole / count < found < whole
    assert (found / GRAIN).denominator == 1
    assert delta_of_responses(count, found, whole) <= most
    assert delta_of_responses(count, found + GRAIN, whole) > most


def test_a_delta_that_is_met_exactly_is_kept() -> None:
    at_zero = delta_of_responses(3, Fraction(1), Fraction(0))
    assert total_epsilon(3, Fraction(1), at_zero) == 0
    assert 0 < total_epsilon(3, Fraction(1), at_zero - Fraction(1, 10**6)) < Fraction(1, 10**4)
    # A step of the search meets this delta: half of the way from 0 to 4.
    half = delta_of_responses(4, Fraction(1), Fraction(2))
    assert total_epsilon(4, Fraction(1), half) <= 2
    # And from 1/2 to 1: 3/4.
    middle = delta_of_responses(2, Fraction(3, 4), Fraction(1))
    assert response_epsilon(2, Fraction(1), middle) >= Fraction(3, 4)


def test_without_delta_and_with_one_response() -> None:
    assert total_epsilon(5, Fraction(2, 7), Fraction(0)) == Fraction(10, 7)
    assert response_epsilon(5, Fraction(2, 7), Fraction(0)) == Fraction(2, 35)
    assert response_epsilon(1, Fraction(2, 7), Fraction(1, 10)) == Fraction(2, 7)
    assert response_epsilon(2, Fraction(1, 7), Fraction(999, 1000)) == pytest.approx(
        1 / 7, abs=1e-14
    )


def test_the_limits() -> None:
    assert MOST_RESPONSES == 1_000_000
    _check(1, Fraction(0))
    _check(MOST_RESPONSES, Fraction(1))
    one, zero = Fraction(1), Fraction(0)
    assert total_epsilon(1, zero, zero) == 0
    for count, message in ((0, "between"), (MOST_RESPONSES + 1, "between")):
        for call in (delta_of_responses, total_epsilon, response_epsilon):
            with pytest.raises(ValueError, match=message):
                call(count, one, zero)
    with pytest.raises(ValueError, match="total epsilon is not negative"):
        delta_of_responses(1, one, Fraction(-1, 10**9))
    with pytest.raises(ValueError, match="an epsilon is not negative"):
        delta_of_responses(1, Fraction(-1, 10**9), one)
    with pytest.raises(ValueError, match="above 0"):
        response_epsilon(1, zero, zero)
    assert response_epsilon(2, Fraction(1, 1000), zero) == Fraction(1, 2000)
    for delta in (Fraction(-1, 10**9), one, Fraction(2)):
        with pytest.raises(ValueError, match="delta lies"):
            total_epsilon(1, one, delta)
        with pytest.raises(ValueError, match="delta lies"):
            response_epsilon(1, one, delta)
