"""Shares of a discrete Laplace: Polya noise, X - Y with X, Y ~ NegativeBinomial(r, a).

    P(X = k) = C(k + r - 1, k) (1 - a)^r a^k,   a = e^(-1/b),   r > 0 real.

Independent shares add up by their weights r; r = 1 is one discrete Laplace of scale b. Parties
whose weights sum to one therefore draw together what one trusted party would have drawn alone.

Method. X - Y is a compound Poisson law: jumps of size +k and -k, k >= 1, each at rate
r a^k / k. The rates are dominated on dyadic buckets [2^j, 2^(j+1)) by the constant
r a^(2^j) / 2^j, and the dominating process is thinned:

1. Poisson(2 r sum_j a^(2^j)) proposals (table);
2. for each a bucket j with weights a^(2^j) (table), k uniform in the bucket, a fair sign;
3. keep it with probability 2^j / k (an exact comparison of products) and with probability
   a^(k - 2^j), the product over the base-256 digits d_i of k - 2^j of a^(d_i 256^i) (table);
4. add up what is kept. A whole part of r is drawn as that many discrete Laplaces.

Buckets with 2^j >= b 130 ln 2 and Poisson counts of mass 2^-130 are cut; with the tables'
rounding a share with r <= 1 is within 2^-116 of its law in total variation, and
`PolyaShare.distance` bounds it for the tables in use.

The time a share takes grows with its number of jumps: whoever sends it decouples sending from
drawing.

Source: infinite divisibility of the negative binomial law: W. Feller, An Introduction to
Probability Theory I, XII.2; Goryczka and Xiong, IEEE TDSC 14 (2017), for its use as noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from numbers import Rational
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.noise.alias import BLOCK, PRECISE, WEIGHT_BITS, AliasTable, decay, decimal
from tacit.noise.bits import exact_coin
from tacit.noise.discrete_laplace import DiscreteLaplace, check_scale
from tacit.randomness import NoiseSource

_TAIL: Final = Fraction(9012, 100)
"""An upper bound of 130 ln 2 = 90.1091...: e^-90.12 < 2^-130."""
_TABLE_CUT: Final = PRECISE.power(Decimal(2), -131)


@dataclass(frozen=True, slots=True)
class PolyaShare:
    """Noise of weight r; shares whose weights sum to 1 add up to DiscreteLaplace(scale)."""

    scale: Fraction
    weight: Fraction

    def __post_init__(self) -> None:
        check_scale(self.scale)
        if not isinstance(self.weight, Rational):
            raise TypeError("a weight is an exact rational")
        if self.weight <= 0:
            raise ValueError("a share has positive weight")

    def draw(self, source: NoiseSource, count: int) -> NDArray[np.int64]:
        """`count` independent shares."""
        drawn = np.zeros(count, dtype=np.int64)
        whole, part = divmod(self.weight, 1)
        for _ in range(whole):
            drawn += DiscreteLaplace(self.scale).draw(source, count)
        if part:
            tables = share_tables(self.scale, part)
            for start in range(0, count, tables.block):
                add_jumps(drawn[start : start + tables.block], tables, source)
        return drawn

    def distance(self) -> Fraction:
        """An upper bound of the total variation between what is drawn and the exact law."""
        whole, part = divmod(self.weight, 1)
        return whole * Fraction(1, 2**118) + (
            share_tables(self.scale, part).distance() if part else 0
        )


@dataclass(frozen=True, slots=True, eq=False)
class ShareTables:
    """All tables for one (scale, fractional weight).

    proposals: how many; buckets: which 2^j; thin_high, thin_low: shape (digits, 256), the
    128-bit probability of *dropping* a jump for each base-256 digit of k - 2^j.
    """

    mean: Fraction
    proposals: AliasTable
    buckets: AliasTable
    thin_high: NDArray[np.uint64]
    thin_low: NDArray[np.uint64]

    @property
    def block(self) -> int:
        """Shares drawn at a time: about `BLOCK` proposals, at most `4 BLOCK` shares."""
        return max(1, min(4 * BLOCK, int(BLOCK / max(self.mean, Fraction(1, 8)))))

    def distance(self) -> Fraction:
        """Rounding of every table, each as often as it is used on average, and both tails."""
        per_proposal = self.buckets.size + 2 * len(self.thin_high)
        rounding = self.proposals.size + (self.mean + 1) * per_proposal
        return rounding / 2**129 + Fraction(1, 2**128)


@lru_cache(maxsize=256)
def share_tables(
    scale: Fraction, weight: Fraction, comparison_bits: int | None = None
) -> ShareTables:
    """The tables of a share of weight below one."""
    buckets = 1
    while 2**buckets < scale * _TAIL:
        buckets += 1
    law = [PRECISE.exp(decimal(-Fraction(2**bucket) / scale)) for bucket in range(buckets)]
    total = Decimal(0)
    for rate in law:
        total = PRECISE.add(total, rate)
    mean = PRECISE.multiply(decimal(2 * weight), total)
    places = max(1, -(-(buckets - 1) // 8))
    high, low = _dropping(
        tuple(decay(Fraction(256**place) / scale, 256) for place in range(places))
    )
    return ShareTables(
        mean=Fraction(mean),
        proposals=AliasTable.from_law(_poisson(mean), comparison_bits),
        buckets=AliasTable.from_law(law, comparison_bits),
        thin_high=high,
        thin_low=low,
    )


def _poisson(mean: Decimal) -> tuple[Decimal, ...]:
    """Poisson probabilities 0, 1, ... until less than 2^-130 is left.

    Past 2 mean each term is at most half the one before: the rest is at most the last term.
    """
    terms = [PRECISE.exp(PRECISE.minus(mean))]
    while len(terms) <= PRECISE.add(mean, mean) or terms[-1] >= _TABLE_CUT:
        terms.append(PRECISE.divide(PRECISE.multiply(terms[-1], mean), Decimal(len(terms))))
    return tuple(terms)


def _dropping(
    keeping: Sequence[Sequence[Decimal]],
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """High and low words of round((1 - p) 2^128), at most 2^128 - 1."""
    unit = Decimal(1 << WEIGHT_BITS)
    values = [
        [
            min(
                int(PRECISE.to_integral_value(PRECISE.multiply(PRECISE.subtract(1, p), unit))),
                (1 << WEIGHT_BITS) - 1,
            )
            for p in row
        ]
        for row in keeping
    ]
    high = np.array([[value >> 64 for value in row] for row in values], dtype=np.uint64)
    low = np.array([[value % (1 << 64) for value in row] for row in values], dtype=np.uint64)
    high.flags.writeable = False
    low.flags.writeable = False
    return high, low


def add_jumps(total: NDArray[np.int64], tables: ShareTables, source: NoiseSource) -> None:
    """Add one share to every entry of `total`."""
    proposals = tables.proposals.select(source.words(len(total)), source).view(np.int64)
    jumping = np.flatnonzero(proposals)
    if not len(jumping):
        return
    owners = np.repeat(jumping, proposals[jumping])
    places = len(tables.thin_high)
    words = source.words((3 + places) * len(owners)).reshape(3 + places, -1)
    powers = np.uint64(1) << tables.buckets.select(words[0], source)
    offsets = words[1] & (powers - np.uint64(1))
    sizes = powers + offsets
    accepted = power_ratio_coins(powers, sizes, words[2], source)
    for place in range(places):
        digits = (offsets >> np.uint64(8 * place)) & np.uint64(255)
        accepted &= thinning_coins(
            digits, tables.thin_high[place], tables.thin_low[place], words[3 + place], source
        )
    jumps = sizes.view(np.int64)
    negative = words[1] >> np.uint64(63) == 1
    np.negative(jumps, out=jumps, where=negative)
    np.add.at(total, owners[accepted], jumps[accepted])


def power_ratio_coins(
    powers: NDArray[np.uint64],
    sizes: NDArray[np.uint64],
    words: NDArray[np.uint64],
    source: NoiseSource,
    comparison_bits: int = 32,
) -> NDArray[np.bool_]:
    """Coins with probability powers / sizes exactly, for powers <= sizes < 2^32.

    With u the m high bits of a word and U = (u + V) / 2^m, V uniform in [0, 1), the coin is
    U k < 2^j: surely so if (u + 1) k <= 2^(j+m), surely not if u k >= 2^(j+m). In between
    V < (2^(j+m) - u k) / k is settled by an exact coin. All products stay below 2^64.
    """
    target = powers << np.uint64(comparison_bits)
    product = (words >> np.uint64(64 - comparison_bits)) * sizes
    possible = product < target
    certain = product + sizes <= target
    for tie in np.flatnonzero(possible ^ certain):
        room = int(target[tie]) - int(product[tie])
        certain[tie] = exact_coin(Fraction(room, int(sizes[tie])), source)
    return certain


def thinning_coins(
    digits: NDArray[np.uint64],
    high: NDArray[np.uint64],
    low: NDArray[np.uint64],
    words: NDArray[np.uint64],
    source: NoiseSource,
) -> NDArray[np.bool_]:
    """Coins that fail with the 128-bit probability listed for each digit."""
    threshold = high.take(digits.view(np.int64), mode="clip")
    accepted = words > threshold
    ties = np.flatnonzero(words == threshold)
    if len(ties):
        accepted[ties] = source.words(len(ties)) >= low[digits[ties]]
    return accepted
