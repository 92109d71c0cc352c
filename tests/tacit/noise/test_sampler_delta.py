"""What imperfect draws add to delta, rounded up."""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction

import pytest

from tacit.noise import DRAW_DISTANCE, sampler_delta

EXACT = Context(prec=120)


@pytest.mark.parametrize("epsilon", ["0", "0.1", "1", "10", "100"])
def test_sampler_delta_is_rounded_up(epsilon: str) -> None:
    value = sampler_delta(10**6, Fraction(epsilon))
    exact = (1 + Fraction(EXACT.exp(Decimal(epsilon)))) * 10**6 / (1 << 116)
    assert exact <= value <= exact * (1 + Fraction(1, 10**17))
    assert sampler_delta(0, Fraction(epsilon)) == 0


def test_sampler_delta_has_20_digits() -> None:
    """1 + e^0 = 2, and one unit of the twentieth digit for an exponential that may be below it."""
    assert Fraction(1, 1 << 116) == DRAW_DISTANCE
    assert sampler_delta(1, Fraction(0)) == Fraction("2.0000000000000000001") / (1 << 116)


def test_negative_figures_are_refused() -> None:
    for draws, epsilon in ((-1, Fraction(0)), (1, Fraction(-1, 2))):
        with pytest.raises(ValueError, match="negative"):
            sampler_delta(draws, epsilon)
