"""Certified figures do not depend on the precision of the calling thread."""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from fractions import Fraction

import pytest

from tacit.accounting.loss.fractional import polya_law
from tacit.accounting.loss.laplace import continuous_laplace_delta, laplace_delta
from tacit.accounting.loss.whole import whole_masses

EXACT = Context(prec=80)


def exact_delta(epsilon: Fraction, sensitivity: int, scale: Fraction) -> Fraction:
    """The sum of max(0, p - e^epsilon q) over all values that matter, with 80 digits."""

    def power(exponent: Fraction) -> Fraction:
        quotient = EXACT.divide(Decimal(exponent.numerator), Decimal(exponent.denominator))
        return Fraction(EXACT.exp(quotient))

    a = power(-1 / scale)
    law = {z: power(-abs(z) / scale) for z in range(-400, 401)}
    total = Fraction(0)
    for z in range(-400, 401 - sensitivity):
        shifted = law.get(z - sensitivity, power(-abs(z - sensitivity) / scale))
        total += max(Fraction(0), law[z] - power(epsilon) * shifted)
    return total * (1 - a) / (1 + a)


@pytest.mark.parametrize(
    ("epsilon", "sensitivity", "scale"),
    [
        (Fraction(0), 1, Fraction(1)),
        (Fraction(1, 2), 4, Fraction(4)),
        (Fraction(9, 10), 5, Fraction(5)),
        (Fraction(3), 7, Fraction(2)),
        (Fraction(1, 3), 1, Fraction(2)),
    ],
    ids=str,
)
def test_delta_of_a_laplace_is_the_sum_over_its_values(
    epsilon: Fraction, sensitivity: int, scale: Fraction
) -> None:
    """From above, by one in 10^16: the last of 17 digits is rounded up."""
    exact = exact_delta(epsilon, sensitivity, scale)
    found = Fraction(laplace_delta.__wrapped__(epsilon, sensitivity, scale))
    assert exact - Fraction(1, 10**30) <= found <= exact * (1 + Fraction(2, 10**16))


def test_where_a_laplace_needs_no_delta() -> None:
    assert laplace_delta(Fraction(1), 4, Fraction(4)) == 0
    assert laplace_delta(Fraction(2), 4, Fraction(4)) == 0
    assert 0 < laplace_delta(Fraction(999, 1000), 4, Fraction(4)) < Decimal("1e-3")


def test_the_precision_of_the_thread_does_not_matter() -> None:
    asked = (Fraction(1, 2), 4, Fraction(4))
    weight, scale = Fraction(3, 2), Fraction(5, 3)
    delta, law = laplace_delta(*asked), polya_law(weight, scale, 40)
    masses = whole_masses(3, scale, 40).tolist()
    with localcontext(Context(prec=6)):
        assert laplace_delta.__wrapped__(*asked) == delta
        assert polya_law.__wrapped__(weight, scale, 40) == law
        assert whole_masses(3, scale, 40).tolist() == masses
    # 50 digits, not the 28 of a thread that has asked for nothing: masses on both sides sum to 1.
    total = Fraction(2) * sum(map(Fraction, law), Fraction(0)) - Fraction(law[0])
    assert abs(total - 1) < Fraction(1, 10**47)


def test_the_continuous_limit() -> None:
    assert continuous_laplace_delta(1.0, 1.0) == continuous_laplace_delta(2.0, 1.0) == 0
    assert continuous_laplace_delta(1.0, 3.0) == pytest.approx(0.6321205588285577, rel=1e-15)
