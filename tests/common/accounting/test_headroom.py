"""No sum may wrap: the Chernoff tail, and the rule at its border."""

import math
from fractions import Fraction
from typing import Any

import pytest

from common.accounting.headroom import headroom_problem, noise_tail
from common.accounting.loss.draws import Draws
from tests.common.examples import query


@pytest.mark.parametrize("scale", [1, 1000, 10**7])
def test_tail_of_one_draw_is_close_to_the_exact_one(scale: int) -> None:
    exact = scale * 64 * math.log(2)  # P(|Z| >= t) is about e^(-t/b)
    assert exact <= noise_tail((Draws(Fraction(scale), 1),)) <= 1.15 * exact + 70


def test_tail_grows_with_draws_and_ignores_coins() -> None:
    some = noise_tail((Draws(Fraction(100), 10), Draws(Fraction(1000), 2)))
    assert some >= noise_tail((Draws(Fraction(1000), 2),))
    assert noise_tail((Draws(Fraction(100), 10, probability=Fraction(1, 3)),)) == noise_tail(
        (Draws(Fraction(100), 10),)
    )
    assert noise_tail(()) == 0
    assert noise_tail((Draws(Fraction(100), 10, probability=Fraction(0)),)) == 0


def problem(largest: int, **sharing: Any) -> str | None:
    """A query whose contributions alone just fit; its noise has a scale of largest / epsilon."""
    given = {"privacy_unit": "record", "mechanism": "distributed", "epsilon": "100"}
    return headroom_problem(
        query(
            **{**given, **sharing},
            bounds=["0", str(largest)],
            max_readings=1000,
            layer="curator",
            n_max=10**7,
        )
    )


def test_the_noise_needs_room_too() -> None:
    fits = (2**63 - 1) // 10**10
    refusal = problem(fits)
    assert refusal is not None
    assert "part sum" in refusal
    assert problem(fits - 1000) is None


def test_shamir_has_less_room() -> None:
    fits = (2**57 - 13) // 2 // 10**10
    assert problem(fits) is None
    assert problem(fits, sharing="shamir", threshold=2, epsilon="10") is not None
    assert problem(fits - 1000, sharing="shamir", threshold=2) is None
