"""Certified figures do not depend on the precision of the calling thread."""

from __future__ import annotations

from decimal import Context, localcontext
from fractions import Fraction

from tacit.accounting.loss.fractional import polya_law
from tacit.accounting.loss.whole import laplace_delta, whole_masses


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
