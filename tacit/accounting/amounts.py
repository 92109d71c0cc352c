"""What a release costs, the least delta that is ever stated, and amounts as ledgers keep them."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from math import ceil
from typing import Final, NamedTuple

from tacit.wire import format_exact


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


# Ledgers keep epsilon in millionths and delta in 10^-15, rounded up; `None` means "no finite
# figure".

CURATORS_DAY_EPSILON: Final = "1"
CURATORS_DAY_DELTA: Final = "0.000001"
"""What a curator lets a day cost, in each unit of privacy, until its operator says otherwise."""
MICRO: Final = 10**6
FEMTO: Final = 10**15
MOST_EPSILON: Final = MICRO * 10**6
MOST_DELTA: Final = FEMTO // 10
"""What costs more than epsilon 10^6 or delta 0.1 counts as unbounded: sums of ninety thousand such
rounds then fit 64 bits."""
ROUNDED: Final = (
    "Ledgers count epsilon in millionths and delta in 10^-15, each charge rounded up: 1/3 counts "
    "as 0.333334"
)


@dataclass(frozen=True, slots=True)
class Amount:
    """(micro-epsilon, delta in 10^-15)."""

    epsilon: int
    delta: int


def scaled(cost: Cost) -> Amount | None:
    """A cost, rounded up; None where nothing of use is verified."""
    if cost.epsilon is None or cost.delta is None:
        return None
    epsilon, delta = ceil(cost.epsilon * MICRO), ceil(cost.delta * FEMTO)
    bounded = epsilon <= MOST_EPSILON and delta <= MOST_DELTA
    return Amount(epsilon, delta) if bounded else None


def format_amount(amount: Amount | None) -> dict[str, str]:
    """Both figures as `format_micro` and `format_femto` show them."""
    if amount is None:
        return {"epsilon": format_micro(None), "delta": format_femto(None)}
    return {"epsilon": format_micro(amount.epsilon), "delta": format_femto(amount.delta)}


def format_micro(micro: int | None) -> str:
    """An epsilon in millionths as a decimal string, or "inf"."""
    return "inf" if micro is None else format_exact(Fraction(micro, MICRO))


def format_femto(femto: int | None) -> str:
    """A delta in 10^-15 as a decimal string, or "1" where nothing holds."""
    return "1" if femto is None else format_exact(min(Fraction(femto, FEMTO), Fraction(1)))
