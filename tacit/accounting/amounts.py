"""What a release costs, the least delta that is ever stated, and amounts as ledgers keep them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Final, NamedTuple

from tacit.wire import format_exact


class Cost(NamedTuple):
    """(epsilon, delta) to debit; both None: infinite, or nothing is verified.

    `rho`: the zCDP of a release by Gaussian noise, None for other releases; (epsilon, delta)
    then follows from it at one delta.
    """

    epsilon: Fraction | None
    delta: Fraction | None
    rho: Fraction | None = None

    @property
    def zcdp(self) -> tuple[Fraction, Fraction] | None:
        """(rho, delta) of approximate zCDP, rho rounded up to 10^-12; None: nothing verified.

        Each epsilon-DP release is epsilon tanh(epsilon / 2)-zCDP (C. Harrison and P. Manurangsi,
        2025), and a Renyi divergence of any order above 1 is at most epsilon: where delta is above
        0, rho is min(epsilon^2 / 2, epsilon), and delta stays (M. Bun and T. Steinke, "Concentrated
        differential privacy", TCC 2016, lemma 8.8). Spec: profiles, section 4.
        """
        if self.epsilon is None or self.delta is None:
            return None
        if self.rho is not None:
            return self.rho, Fraction(0)
        if self.delta:
            return _up_to_grain(min(self.epsilon**2 / 2, self.epsilon)), self.delta
        return pure_rho(self.epsilon), Fraction(0)


_RHO_GRAIN: Final = 10**12
_FLOAT_SLACK: Final = Fraction(1, 10**14)
"""What `math.tanh` and a product err by is far less, relatively."""
_TANH_IS_ONE: Final = 40
_TANH_IS_HALF: Final = Fraction(1, 10**4)
"""Below it, tanh(epsilon / 2) is epsilon / 2, and floats might be 0."""


def pure_rho(epsilon: Fraction) -> Fraction:
    """The zCDP of every epsilon-DP release: epsilon tanh(epsilon / 2), rounded up to 10^-12."""
    if epsilon > _TANH_IS_ONE:
        return _up_to_grain(epsilon)
    if epsilon < _TANH_IS_HALF:
        return _up_to_grain(epsilon**2 / 2)
    ratio = Fraction(math.tanh(float(epsilon) / 2)) * (1 + _FLOAT_SLACK)
    return _up_to_grain(epsilon * min(ratio, epsilon / 2, Fraction(1)))


def _up_to_grain(value: Fraction) -> Fraction:
    return Fraction(math.ceil(value * _RHO_GRAIN), _RHO_GRAIN)


UNVERIFIED: Final = Cost(None, None)
NO_COST: Final = Cost(Fraction(0), Fraction(0))
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


# Ledgers keep epsilon in millionths, rho in 10^-9 and delta in 10^-15, rounded up; `None` means "no
# finite figure".

CURATORS_DAY_EPSILON: Final = "1"
CURATORS_DAY_DELTA: Final = "0.000001"
"""What a curator lets a day cost, in each unit of privacy, until its operator says otherwise."""
MICRO: Final = 10**6
NANO: Final = 10**9
FEMTO: Final = 10**15
MOST_EPSILON: Final = MICRO * 10**6
MOST_RHO: Final = NANO * 10**5
MOST_DELTA: Final = FEMTO // 10
"""What costs more than epsilon 10^6 or delta 0.1 counts as unbounded, and a rho above 10^5 as 10^5,
which no limit admits: sums of ninety thousand such rounds then fit 64 bits."""
ROUNDED: Final = (
    "Ledgers count epsilon in millionths and delta in 10^-15, each charge rounded up: 1/3 counts "
    "as 0.333334"
)


@dataclass(frozen=True, slots=True)
class EpsilonDelta:
    """(micro-epsilon, delta in 10^-15): the currency of jobs, whose datasets count epsilon only."""

    epsilon: int
    delta: int


@dataclass(frozen=True, slots=True)
class Amount:
    """One charge in both currencies: (micro-epsilon, delta in 10^-15), and the same release's zCDP
    as (nano-rho, delta in 10^-15). Spec: profiles, section 4."""

    epsilon: int
    delta: int
    rho: int
    rho_delta: int


NOTHING: Final = Amount(0, 0, 0, 0)


def epsilon_delta(cost: Cost) -> EpsilonDelta | None:
    """A cost in epsilon, rounded up; None where nothing of use is verified."""
    if cost.epsilon is None or cost.delta is None:
        return None
    epsilon, delta = math.ceil(cost.epsilon * MICRO), math.ceil(cost.delta * FEMTO)
    bounded = epsilon <= MOST_EPSILON and delta <= MOST_DELTA
    return EpsilonDelta(epsilon, delta) if bounded else None


def scaled(cost: Cost) -> Amount | None:
    """A cost in both currencies, rounded up; None if no finite cost is verified."""
    pure, zcdp = epsilon_delta(cost), cost.zcdp
    if pure is None or zcdp is None:
        return None
    rho, rho_delta = math.ceil(zcdp[0] * NANO), math.ceil(zcdp[1] * FEMTO)
    return Amount(pure.epsilon, pure.delta, min(rho, MOST_RHO), rho_delta)


def format_amount(amount: Amount | EpsilonDelta | None) -> dict[str, str]:
    """Epsilon and delta as `format_micro` and `format_femto` show them."""
    if amount is None:
        return {"epsilon": format_micro(None), "delta": format_femto(None)}
    return {"epsilon": format_micro(amount.epsilon), "delta": format_femto(amount.delta)}


def format_both(amount: Amount | None) -> dict[str, str]:
    """All four figures: those of `format_amount`, and rho with its delta."""
    rho, rho_delta = (None, None) if amount is None else (amount.rho, amount.rho_delta)
    return {**format_amount(amount), "rho": format_nano(rho), "rho_delta": format_femto(rho_delta)}


def format_micro(micro: int | None) -> str:
    """An epsilon in millionths as a decimal string, or "inf"."""
    return "inf" if micro is None else format_exact(Fraction(micro, MICRO))


def format_nano(nano: int | None) -> str:
    """A rho in 10^-9 as a decimal string; "inf" for `MOST_RHO`."""
    return "inf" if nano is None or nano >= MOST_RHO else format_exact(Fraction(nano, NANO))


def format_femto(femto: int | None) -> str:
    """A delta in 10^-15 as a decimal string, or "1" where nothing holds."""
    return "1" if femto is None else format_exact(min(Fraction(femto, FEMTO), Fraction(1)))
