"""The exact accountant of randomised responses against enumeration and the specs' figures."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting.randomised_response import (
    MOST_RESPONSES,
    delta_of_responses,
    response_epsilon,
    total_epsilon,
)
from tests.property_examples import examples

MILLIONTH = Fraction(1, 10**6)


def enumerated(count: int, epsilon: float, total: float) -> float:
    """delta over all 2^k outputs, directly from its definition."""
    p = 1 / (1 + math.exp(-epsilon))
    found = 0.0
    for output in itertools.product((0, 1), repeat=count):
        true = sum(output)
        one = p**true * (1 - p) ** (count - true)
        other = (1 - p) ** true * p ** (count - true)
        found += max(0.0, one - math.exp(total) * other)
    return found


@pytest.mark.parametrize("count", [1, 3, 5, 6, 9])
@pytest.mark.parametrize("epsilon", ["1/10", "1", "2"])
@pytest.mark.parametrize("share", ["0", "1/3", "1/2", "9/10"])
def test_delta_is_that_of_enumeration(count: int, epsilon: str, share: str) -> None:
    one = Fraction(epsilon)
    total = Fraction(share) * count * one
    found = float(delta_of_responses(count, one, total))
    exact = enumerated(count, float(one), float(total))
    assert found >= exact - 1e-13
    assert found == pytest.approx(exact, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(
    ("count", "epsilon", "delta"), [(2, 2, 0.671), (10, 2, 0.9935), (10, 1, 0.821)]
)
def test_delta_at_the_epsilon_of_one_bit(count: int, epsilon: int, delta: float) -> None:
    assert float(delta_of_responses(count, Fraction(epsilon), Fraction(epsilon))) == pytest.approx(
        delta, abs=6e-4
    )


@pytest.mark.parametrize(
    ("count", "epsilon", "total"),
    [(2, "2", 4), (10, "2", 20), (100, "2", 199.6), (1000, "2", 1705.5), (1000, "0.5", 193.5)],
)
def test_totals_at_a_millionth(count: int, epsilon: str, total: float) -> None:
    found = total_epsilon(count, Fraction(epsilon), MILLIONTH)
    assert float(found) == pytest.approx(total, rel=5e-4)
    assert delta_of_responses(count, Fraction(epsilon), found) <= MILLIONTH


@pytest.mark.parametrize(
    ("count", "total", "each"),
    [
        (20, 1, 0.0570),
        (20, 5, 0.2551),
        (20, 10, 0.5007),
        (100, 1, 0.0240),
        (100, 5, 0.10436),
        (100, 10, 0.1894),
        (600, 1, 0.00968),
        (600, 5, 0.0418),
        (600, 10, 0.0758),
        (64_000, 8, 0.00605),
    ],
)
def test_the_budget_of_one_of_many(count: int, total: int, each: float) -> None:
    found = response_epsilon(count, Fraction(total), MILLIONTH)
    assert float(found) == pytest.approx(each, rel=1.5e-3)
    assert delta_of_responses(count, found, Fraction(total)) <= MILLIONTH
    assert delta_of_responses(count, found * Fraction(1001, 1000), Fraction(total)) > MILLIONTH


@given(
    count=st.integers(1, 60),
    total=st.fractions(Fraction(1, 100), 20, max_denominator=100),
    exponent=st.integers(2, 12),
)
@examples(40)
def test_there_and_back(count: int, total: Fraction, exponent: int) -> None:
    delta = Fraction(1, 10**exponent)
    each = response_epsilon(count, total, delta)
    assert total / count <= each <= total
    assert total_epsilon(count, each, delta) <= total + Fraction(1, 10**6)


def test_pure_budgets_are_sums() -> None:
    assert response_epsilon(7, Fraction(1), Fraction(0)) == Fraction(1, 7)
    assert total_epsilon(7, Fraction(1, 3), Fraction(0)) == Fraction(7, 3)
    assert delta_of_responses(7, Fraction(1, 3), Fraction(7, 3)) == 0
    assert total_epsilon(3, Fraction(1, 10**9), Fraction(1, 10)) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: delta_of_responses(0, Fraction(1), Fraction(1)),
        lambda: delta_of_responses(MOST_RESPONSES + 1, Fraction(1), Fraction(1)),
        lambda: delta_of_responses(1, Fraction(-1), Fraction(1)),
        lambda: delta_of_responses(1, Fraction(1), Fraction(-1)),
        lambda: total_epsilon(1, Fraction(1), Fraction(1)),
        lambda: response_epsilon(1, Fraction(0), Fraction(0)),
        lambda: response_epsilon(1, Fraction(1), Fraction(-1)),
    ],
)
def test_what_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError):
        wrong()  # type: ignore[operator]
