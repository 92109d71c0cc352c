"""How far a curator's noise may reach: the bound T at which it is clamped.

    T = floor(b min over l of (1/l) arcosh(1 + ((1 - l^2)^(-R) - 1) / beta)),
    beta = tau w / (n_max d),  l in {k/64: 1 <= k <= 63} and {1 - 2^-k: 7 <= k <= 24}

The moment generating function of noise of scale b and total weight R at l/b is at most
(1 - l^2)^(-R); Markov's inequality on cosh(l Z / b) - 1 gives P(|Z| > T) <= beta. The weights w of
a round add up to n_max at most, so that over all contributions and coordinates the total variation
by clamping is at most tau. In 50-digit decimals, so that every machine finds the same T.

Spec: validity, section 5.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import Final

DEFAULT_TAIL: Final = Fraction(1, 1 << 64)
"""tau of a query that names none."""

_DECIMAL: Final = Context(prec=50, rounding=ROUND_HALF_EVEN, Emin=MIN_EMIN, Emax=MAX_EMAX)
_ONE: Final = Decimal(1)


@dataclass(frozen=True, slots=True)
class Tail:
    """How much total variation clamping can cost in a round, and over how many draws.

    total: tau, in (0, 1). participants: n_max. dimension: coordinates of the query. ValueError:
    one is out of its range.
    """

    participants: int
    dimension: int
    total: Fraction = DEFAULT_TAIL

    def __post_init__(self) -> None:
        if not 0 < self.total < 1:
            raise ValueError("a noise tail lies between 0 and 1")
        if self.participants < 1 or self.dimension < 1:
            raise ValueError("a noise tail is of at least one participant and coordinate")


def noise_bound(tail: Tail, scale: Fraction, weight: Fraction, curators: int = 1) -> int:
    """T in ring units, of the noise of one contribution in one coordinate.

    scale: b > 0. weight: r > 0, the share of a full discrete Laplace that one curator draws (1 in
    two layers). curators: w, 1 or the curators of a host's part, whose total is drawn at once.
    ValueError: one is out of its range.
    """
    if scale <= 0 or weight <= 0 or not 1 <= curators <= tail.participants:
        raise ValueError("a noise bound needs a positive scale, weight and number of curators")
    chance = _decimal(tail.total * curators / (tail.participants * tail.dimension))
    total = _decimal(curators * weight)
    reach = min(_reach(slope, total, chance) for slope in _slopes())
    bound = _DECIMAL.multiply(_decimal(scale), reach)
    return int(bound.to_integral_value(rounding=ROUND_FLOOR, context=_DECIMAL))


def clamp_delta(tail: Tail, epsilon: Fraction) -> Fraction:
    """What clamping adds to delta at most: (1 + e^epsilon) tau, cut at 1."""
    loss = _DECIMAL.add(_ONE, _DECIMAL.exp(_decimal(epsilon)))
    return min(Fraction(loss) * tail.total, Fraction(1))


def _reach(slope: Decimal, total: Decimal, chance: Decimal) -> Decimal:
    """(1/l) arcosh(1 + ((1 - l^2)^(-R) - 1) / beta), arcosh x = ln(x + sqrt(x^2 - 1))."""
    gap = _DECIMAL.subtract(_ONE, _DECIMAL.multiply(slope, slope))
    exponent = _DECIMAL.minus(_DECIMAL.multiply(total, _DECIMAL.ln(gap)))
    excess = _DECIMAL.subtract(_DECIMAL.exp(exponent), _ONE)
    x = _DECIMAL.add(_ONE, _DECIMAL.divide(excess, chance))
    root = _DECIMAL.sqrt(_DECIMAL.subtract(_DECIMAL.multiply(x, x), _ONE))
    return _DECIMAL.divide(_DECIMAL.ln(_DECIMAL.add(x, root)), slope)


def _slopes() -> Iterator[Decimal]:
    for numerator in range(1, 64):
        yield _decimal(Fraction(numerator, 64))
    for exponent in range(7, 25):
        yield _decimal(1 - Fraction(1, 1 << exponent))


def _decimal(value: Fraction) -> Decimal:
    return _DECIMAL.divide(Decimal(value.numerator), Decimal(value.denominator))
