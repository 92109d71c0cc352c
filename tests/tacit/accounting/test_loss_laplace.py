"""delta of one discrete Laplace against the sum over its values, with 60-digit decimals."""

from __future__ import annotations

import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import pytest

from tacit.accounting.loss.whole import continuous_laplace_delta, laplace_delta

EXACT = Context(prec=60)


def power(exponent: Fraction) -> Fraction:
    return Fraction(EXACT.exp(to_decimal(exponent)))


def to_decimal(value: Fraction) -> Decimal:
    return EXACT.divide(Decimal(value.numerator), Decimal(value.denominator))


def exact_delta(epsilon: Fraction, sensitivity: int, scale: Fraction) -> Fraction:
    """The sum of max(0, P(z) - e^epsilon P(z - Delta)); below -60 scale nothing is left."""
    growth = power(epsilon)
    reach = math.ceil(60 * scale)
    with localcontext(EXACT):
        a, e = to_decimal(power(-1 / scale)), to_decimal(growth)
        powers = [a**k for k in range(reach + sensitivity + 1)]
        found = sum(
            (
                max(Decimal(0), powers[abs(z)] - e * powers[abs(z - sensitivity)])
                for z in range(-reach, sensitivity + 1)
            ),
            Decimal(0),
        )
        return Fraction(found * (1 - a) / (1 + a))


@pytest.mark.parametrize("scale", ["1/2", "1", "7/3"])
@pytest.mark.parametrize("sensitivity", [1, 2, 5])
@pytest.mark.parametrize("share", ["0", "1/5", "1/2", "9/10"])
def test_the_closed_form_is_the_sum(scale: str, sensitivity: int, share: str) -> None:
    """From above, by one in 10^16: the last of 17 digits is rounded up."""
    epsilon = Fraction(share) * sensitivity / Fraction(scale)
    exact = exact_delta(epsilon, sensitivity, Fraction(scale))
    found = Fraction(laplace_delta(epsilon, sensitivity, Fraction(scale)))
    assert exact * (1 - Fraction(1, 10**22)) <= found <= exact * (1 + Fraction(2, 10**16))


def test_from_the_ratio_on_there_is_no_delta() -> None:
    for sensitivity in (1, 4, 7):
        assert laplace_delta(Fraction(sensitivity, 4), sensitivity, Fraction(4)) == 0
        assert laplace_delta(Fraction(sensitivity, 3), sensitivity, Fraction(4)) == 0
        assert laplace_delta(Fraction(sensitivity, 5), sensitivity, Fraction(4)) > 0


def test_the_digits_that_cancel_are_added() -> None:
    """Just below the ratio the difference is about 1e-27 / (1 + a), the slack 1e-26 F(0)."""
    a = power(Fraction(-1, 2))
    gap = Fraction(1, 10**27)
    found = Fraction(laplace_delta(Fraction(2) - gap, 4, Fraction(2)))
    above = 1 - a**1 / (1 + a)
    below = power(-gap) / (1 + a)
    assert found == pytest.approx(float(above - below + above / 10**26), rel=1e-12, abs=0)


def test_the_continuous_limit() -> None:
    assert continuous_laplace_delta(1.0, 1.0) == continuous_laplace_delta(2.0, 1.0) == 0
    assert continuous_laplace_delta(1.0, 3.0) == pytest.approx(1 - math.exp(-1), rel=1e-15)
    assert continuous_laplace_delta(0.5, 1.25) == pytest.approx(1 - math.exp(-0.375), rel=1e-15)
