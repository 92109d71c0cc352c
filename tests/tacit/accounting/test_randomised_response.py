"""The exact accountant of randomised responses against enumeration and the specs' figures."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tacit.accounting.randomised_response import (
    delta_of_responses,
    response_epsilon,
    total_epsilon,
)

MILLIONTH = Fraction(1, 10**6)


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
