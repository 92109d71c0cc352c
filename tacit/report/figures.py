"""Figures of reports as decimal strings, rounded against us.

Spec: aggregation, sections 1 and 7.
"""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Final

from tacit.accounting.amounts import SMALLEST_DELTA

ACCOUNTING_VERSION: Final = "1"
"""Version of `tacit.accounting`; part of every report whose figures it computed."""

_DIGITS: Final = 12
_CEILING: Final = Context(prec=_DIGITS, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
_SHORT: Final = Context(prec=3, rounding=ROUND_CEILING)
FLOOR: Final = Context(prec=_DIGITS, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)


def amount(value: Fraction | Decimal | int, context: Context = _CEILING) -> str:
    """A decimal string of at most 12 digits, rounded up unless specified otherwise."""
    exact = Fraction(value)
    rounded = context.divide(Decimal(exact.numerator), Decimal(exact.denominator))
    if not rounded:
        return "0"
    exponent = rounded.adjusted()
    if -7 <= exponent < _DIGITS + 4:
        text = f"{rounded:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    digits = str(rounded.as_tuple().digits[0])
    rest = "".join(str(digit) for digit in rounded.as_tuple().digits[1:]).rstrip("0")
    return f"{digits}{'.' + rest if rest else ''}e{exponent}"


def short(value: str | Fraction) -> str:
    """Three significant digits, rounded up, for people; "inf" as it is."""
    return "inf" if value == "inf" else amount(Fraction(value), _SHORT)


def epsilon_amount(value: Fraction | None) -> str:
    """An epsilon; None is infinite."""
    return "inf" if value is None else amount(value)


def delta_amount(value: Fraction | Decimal | None) -> str:
    """A delta; None is 1, and above 0 it is never stated below 1e-30."""
    if value is None:
        return "1"
    return amount(max(Fraction(value), Fraction(SMALLEST_DELTA)) if value else 0)


def of_a_hundred(share: str | None) -> int:
    """A guess as cases of 100, rounded up; 100 where nothing is stated."""
    return math.ceil(100 * Fraction(share or "1"))
