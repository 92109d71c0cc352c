"""The discrete Laplace law, drawn in whole ring units without a float.

    P(Z = z) = (1 - a) / (1 + a) a^|z|,   a = e^(-1/b),   b = Delta / epsilon, 0 < b <= 2 10^7.

Added to an integer of L1 sensitivity Delta it gives epsilon-differential privacy.

Method. For a geometric G, P(G = g) = (1 - a) a^g, and a base-256 expansion
g = sum_j d_j 256^j, a^g = prod_j a^(d_j 256^j): the digits are *independent*, digit j with
weights a^(d 256^j), d = 0..255. J digits, 256^J >= b 129 ln 2, leave out P(G >= 256^J) <= 2^-129.
Then Z = G with probability 1/(1+a), else -1-G: for z >= 0 the mass is (1-a) a^z / (1+a), for
z < 0 it is (1-a) a^(-1-z) a / (1+a), as stated. In two's complement -1-G is G with every bit
turned over.

Distance from the exact law in total variation: below 2^-118 (four tables of 256 cells at 2^-121,
one of two cells, the tail). No rejection: the time does not depend on the value.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from numbers import Rational
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.noise.alias import BLOCK, AliasTable, decay
from tacit.randomness import NoiseSource

SCALE_LIMIT: Final = 20_000_000
"""The largest scale in ring units; beyond it a query needs a coarser resolution."""

_TAIL: Final = Fraction(8942, 100)
"""An upper bound of 129 ln 2 = 89.4159...: e^-89.42 < 2^-129."""


def check_scale(scale: Fraction) -> None:
    """Refuse a scale that the samplers do not serve."""
    if not isinstance(scale, Rational):
        raise TypeError("a noise scale is an exact rational")
    if not 0 < scale <= SCALE_LIMIT:
        raise ValueError(f"a noise scale lies above 0 and is at most {SCALE_LIMIT} ring units")


@dataclass(frozen=True, slots=True)
class DiscreteLaplace:
    """Two-sided geometric noise of the given scale, in ring units."""

    scale: Fraction

    def __post_init__(self) -> None:
        check_scale(self.scale)

    def draw(self, source: NoiseSource, count: int) -> NDArray[np.int64]:
        """`count` independent draws."""
        digits, sign = laplace_tables(self.scale)
        drawn = np.empty(count, dtype=np.int64)
        for start in range(0, count, BLOCK):
            fill_laplace(drawn[start : start + BLOCK], digits, sign, source)
        return drawn

    def pmf(self, z: ArrayLike) -> NDArray[np.float64]:
        """P(Z = z) in floating point: for reports and tests, never for a draw."""
        rate = float(1 / self.scale)
        magnitude = np.abs(np.asarray(z, dtype=np.float64))
        mass: NDArray[np.float64] = np.tanh(rate / 2) * np.exp(-rate * magnitude)
        return mass


def fill_laplace(
    drawn: NDArray[np.int64],
    digits: Sequence[AliasTable],
    sign: AliasTable,
    source: NoiseSource,
) -> None:
    """Fill one block with draws: its geometric digits, then G or -1 - G."""
    value = drawn.view(np.uint64)
    words = source.words((len(digits) + 1) * len(value)).reshape(len(digits) + 1, -1)
    value[:] = digits[0].select(words[0], source)
    for place, table in enumerate(digits[1:], start=1):
        digit = table.select(words[place], source)
        digit <<= np.uint64(8 * place)
        value |= digit
    negative = sign.select(words[-1], source)
    value ^= np.negative(negative, out=negative)


@lru_cache(maxsize=256)
def laplace_tables(
    scale: Fraction, comparison_bits: int | None = None
) -> tuple[tuple[AliasTable, ...], AliasTable]:
    """The tables of the digits, lowest first, and of the sign (1: negative)."""
    places = 1
    while 256**places < scale * _TAIL:
        places += 1
    digits = tuple(
        AliasTable.from_law(decay(Fraction(256**place) / scale, 256), comparison_bits)
        for place in range(places)
    )
    return digits, AliasTable.from_law(decay(Fraction(1) / scale, 2), comparison_bits)
