"""What a release costs, and the least delta that is ever stated."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Final, NamedTuple


class Cost(NamedTuple):
    """An (epsilon, delta) to debit; None: infinite, or nothing verified."""

    epsilon: Fraction | None
    delta: Fraction | None


UNVERIFIED: Final = Cost(None, None)
SMALLEST_DELTA: Final = Decimal("1e-30")
"""A delta above 0 is never stated to be smaller than this."""
_FOUR: Final = Context(prec=4, rounding=ROUND_CEILING)


def format_delta(delta: Decimal) -> str:
    """A delta for people: four digits, rounded up."""
    rounded = _FOUR.plus(max(delta, SMALLEST_DELTA) if delta else delta)
    return f"{rounded:f}" if rounded >= Decimal("1e-4") else f"{rounded:g}"


def debited_delta(delta: Decimal) -> Fraction:
    """A delta as ledgers hold it: 0, or at least `SMALLEST_DELTA`."""
    return Fraction(max(delta, SMALLEST_DELTA) if delta else 0)
