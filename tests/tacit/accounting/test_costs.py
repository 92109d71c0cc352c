"""The least delta that is stated, and how a delta is shown."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from tacit.accounting.amounts import SMALLEST_DELTA, debited_delta, format_delta


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
