"""How close draws are to their laws, and what that adds to delta.

A service's draws are so close to their laws that N of them, each within 2^-116 in total
variation, add at most (1 + e^epsilon) N 2^-116 to delta: if M' is within t of M for every input
and M is (epsilon, delta)-private, then P(M'(x) in S) <= P(M(x) in S) + t
<= e^epsilon P(M(y) in S) + delta + t <= e^epsilon P(M'(y) in S) + delta + (1 + e^epsilon) t.
"""

from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Final

DRAW_DISTANCE: Final = Fraction(1, 1 << 116)
"""Total variation between one draw (a discrete Laplace, or a share with r <= 1) and its law."""

_UPWARD: Final = Context(prec=20, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)


def sampler_delta(draws: int, epsilon: Fraction) -> Fraction:
    """(1 + e^epsilon) N 2^-116, rounded up to 20 digits: what imperfect draws add to delta.

    A share of weight above 1 counts as its whole part plus one draws.
    """
    if draws < 0 or epsilon < 0:
        raise ValueError("neither draws nor epsilon can be negative")
    exponent = _UPWARD.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator))
    growth = _UPWARD.next_plus(_UPWARD.exp(exponent))
    return Fraction(_UPWARD.multiply(_UPWARD.add(1, growth), Decimal(draws))) * DRAW_DISTANCE
