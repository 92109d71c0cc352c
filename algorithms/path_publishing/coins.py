"""The coins of the sound modes: integers decide, and epsilon is that of the integer.

Spec: path-publishing, section 3.9. A wrong answer comes with probability t / 2^64, where t is
2^64 / (1 + e^epsilon) rounded up: the loss ln((2^64 - t) / t) is at most epsilon.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Final

from tacit.paths.published import Direction
from tacit.randomness import NoiseSource
from tacit.wire import format_exact

WORD: Final = 1 << 64
_DOWN: Final = Context(prec=60, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
_UP: Final = Context(prec=60, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)


def wrong_threshold(epsilon: Fraction) -> int:
    """t: words below it give the wrong answer. 1 <= t <= 2^63, epsilon >= 0."""
    exponent = _DOWN.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator))
    growth = _DOWN.add(1, _DOWN.next_minus(_DOWN.exp(exponent)))
    return min(int(_UP.divide(Decimal(WORD), growth).to_integral_value(ROUND_CEILING)), WORD // 2)


def epsilon_of(threshold: int) -> Fraction:
    """The loss of a threshold, rounded up."""
    ratio = _UP.divide(Decimal(WORD - threshold), Decimal(threshold))
    return Fraction(_UP.next_plus(_UP.ln(ratio))) if threshold < WORD // 2 else Fraction(0)


def drawn_direction(first_is_smaller: bool, epsilon: Fraction, source: NoiseSource) -> Direction:
    """Whether the path begins at the smaller of its end ids, truthful with probability
    e^epsilon / (1 + e^epsilon)."""
    wrong = int(source.words(1)[0]) < wrong_threshold(epsilon)
    return Direction(int(first_is_smaller != wrong), format_exact(epsilon))
