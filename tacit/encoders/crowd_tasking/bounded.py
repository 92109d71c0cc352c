"""Reports `window` and `subset`: values and buckets that a device perturbs within bounds.

Laplace noise pays for values that no bounded sensor has. `window` is an unbiased report of one
number of -X..X that stays within -M..M, or is one of two points; `subset` reports r of d buckets.
Every weight is an integer: E = floor(2^40 e^epsilon) against 2^40, so that no ratio of chances is
above e^epsilon.

Sources: optimal pieces (Zheng, Mishra and Hu, arXiv 2505.15483), piecewise and hybrid reports (Wang
et al., 2019), two points (Duchi et al., 2018), subset selection (Ye and Barg, 2018). Spec:
crowd-tasking, section 10.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.noise import Bernoulli
from tacit.randomness import NoiseSource

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

HALF: Final = 2_048
"""M: reports of a window lie in -M..M."""
UNIT: Final = 1 << 40
"""The weight of a report outside the window."""
MIX: Final = 1 << 32
_DOWN: Final = Context(prec=80, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)


@lru_cache(maxsize=256)
def odds(epsilon: Fraction) -> int:
    """E = floor(2^40 e^epsilon), rounded down; above 2^40. Raises ValueError for an epsilon so
    small that no report would tell anything."""
    exponent = _DOWN.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator))
    found = int(_DOWN.multiply(Decimal(UNIT), _DOWN.next_minus(_DOWN.exp(exponent))))
    if found <= UNIT:
        raise ValueError("so small an epsilon leaves nothing")
    return found


def uniform(below: int, count: int, source: NoiseSource) -> Ints:
    """`count` whole numbers, each of 0..below - 1 as likely; 1 <= below < 2^62."""
    limit = np.uint64((1 << 64) // below * below - 1)
    found = source.words(count)
    while (wrong := np.flatnonzero(found > limit)).size:
        found[wrong] = source.words(wrong.size)
    return (found % np.uint64(below)).astype(np.int64)


# ---------------------------------------------------------------------------------- one number


@dataclass(frozen=True)
class Window:
    """How one number of -X..X is reported, X = half - reach.

    odds: E; reach: w; mixed: of 2^32 draws, how many report a window, the others two points.
    """

    odds: int
    reach: int
    mixed: int
    half: int = HALF

    @property
    def largest(self) -> int:
        """X."""
        return self.half - self.reach

    @property
    def total(self) -> int:
        """T: the sum of all weights of a window, whatever the number."""
        return (2 * self.half + 1) * UNIT + (self.odds - UNIT) * (2 * self.reach + 1)

    @property
    def window_factor(self) -> Fraction:
        """What an unbiased estimate multiplies a window's report by."""
        return Fraction(self.total, (self.odds - UNIT) * (2 * self.reach + 1))

    @property
    def point(self) -> Fraction:
        """The estimate that the upper one of two points stands for."""
        return self.largest * Fraction(self.odds + UNIT, self.odds - UNIT)

    def deviation(self) -> float:
        """Standard deviation of the estimate on [-1, 1], for the worst reading: that of the worst
        number, and of rounding to it."""
        share = self.mixed / MIX
        growth = float(Fraction(self.odds, UNIT))
        middle, end = _variances(growth, np.array([self.reach]), self.half)
        worst = max(share * float(at[0][0]) + (1 - share) * at[1] for at in (middle, end))
        return math.sqrt(worst + 0.25 / self.largest**2)

    def reports(self, numbers: Ints, source: NoiseSource) -> tuple[Ints, Bools]:
        """Of each of -X..X its report, and whether it is a window's; else it is -1 or 1."""
        size = numbers.size
        windowed = Bernoulli(Fraction(self.mixed, MIX)).draw(source, size)
        wide = 2 * self.reach + 1
        inside = Bernoulli(Fraction(self.odds * wide, self.total)).draw(source, size)
        near = numbers - self.reach + uniform(wide, size, source)
        far = uniform(2 * self.half + 1 - wide, size, source) - self.half
        far += np.where(far >= numbers - self.reach, wide, 0)
        upper = uniform(2 * self.largest, size, source) < self.largest + numbers
        truthful = Bernoulli(Fraction(self.odds, self.odds + UNIT)).draw(source, size)
        points = np.where(upper == truthful, 1, -1)
        return np.where(windowed, np.where(inside, near, far), points), windowed

    def estimates(self, reports: Ints, windowed: Bools) -> Floats:
        """Unbiased, on [-1, 1]."""
        scaled = np.where(windowed, float(self.window_factor), float(self.point)) * reports
        found: Floats = scaled / self.largest
        return found

    def placed(self, steps_above: Ints, steps: int, source: NoiseSource) -> Ints:
        """Readings in 0..steps as numbers of -X..X, rounded without bias."""
        whole, rest = np.divmod(2 * self.largest * steps_above, steps)
        return whole + (uniform(steps, rest.size, source) < rest) - self.largest


def _variances(
    growth: float, reach: Ints, half: int
) -> tuple[tuple[Floats, float], tuple[Floats, float]]:
    """On [-1, 1], in the middle and at the end: of a window, of two points; growth: e^epsilon."""
    wide, largest = 2 * reach + 1, half - reach
    total = 2 * half + 1 + (growth - 1) * wide
    factor = total / ((growth - 1) * wide)
    flat = half * (half + 1) * (2 * half + 1) / 3
    own = reach * (reach + 1) * wide / 3
    points = ((growth + 1) / (growth - 1)) ** 2
    found = []
    for place in (0, 1):
        second = (flat + (growth - 1) * (wide * (place * largest) ** 2 + own)) / total
        found.append((np.asarray(factor**2 * second / largest**2 - place), points - place))
    return found[0], found[1]


@lru_cache(maxsize=256)
def best_window(epsilon: Fraction, half: int = HALF) -> Window:
    """The reach and the mixture with the least variance for the worst number, from epsilon alone.

    Variance is linear in the mixture, and largest in the middle or at the end. Raises ValueError.
    """
    found = odds(epsilon)
    growth = float(Fraction(found, UNIT))
    reach = np.arange(half - 1)
    middle, end = _variances(growth, reach, half)
    candidates = [np.zeros(reach.size), np.ones(reach.size)]
    slopes = (middle[0] - middle[1]) - (end[0] - end[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = (end[1] - middle[1]) / slopes
    candidates.append(np.where(np.isfinite(crossing), np.clip(crossing, 0, 1), 0.0))
    shares = np.stack(candidates)
    worst = np.maximum(
        shares * middle[0] + (1 - shares) * middle[1], shares * end[0] + (1 - shares) * end[1]
    )
    row, column = np.unravel_index(int(worst.argmin()), worst.shape)
    return Window(found, int(reach[column]), round(float(shares[row, column]) * MIX), half)


# --------------------------------------------------------------------------------- some buckets


@dataclass(frozen=True)
class Subset:
    """How one of d buckets is reported: as r of them. odds: E."""

    odds: int
    buckets: int
    size: int

    @classmethod
    def of(cls, epsilon: Fraction, buckets: int) -> Subset:
        """r = round(d / (1 + e^epsilon)), at least 1. Raises ValueError."""
        found = odds(epsilon)
        size = max(1, round(Fraction(buckets * UNIT, UNIT + found)))
        return cls(found, buckets, size)

    @property
    def own(self) -> Fraction:
        """p: that the own bucket is in the report."""
        held = self.size * self.odds
        return Fraction(held, held + (self.buckets - self.size) * UNIT)

    @property
    def other(self) -> Fraction:
        """q: that any other one is."""
        with_own = self.own * Fraction(self.size - 1, self.buckets - 1)
        return with_own + (1 - self.own) * Fraction(self.size, self.buckets - 1)

    def deviation(self, reports: int) -> float:
        """Standard deviation of the share of an empty bucket."""
        q = float(self.other)
        return math.sqrt(q * (1 - q) / reports) / float(self.own - self.other)

    def wave_variance(self, reports: int) -> float:
        """Variance of the unbiased shares, given the readings, over the d - 1 ways in which they
        can vary: a report always holds r buckets, so that their sum does not."""
        p, q = float(self.own), float(self.other)
        total = p * (1 - p) + (self.buckets - 1) * q * (1 - q)
        return total / (self.buckets - 1) / reports / (p - q) ** 2

    def reports(self, places: Ints, source: NoiseSource) -> Bools:
        """(n, d) which buckets the report of each place holds: r of each row."""
        rows = np.arange(places.size)
        keys = self._keys(places.size, source)
        held = Bernoulli(self.own).draw(source, places.size)
        # The own bucket comes before all others, or after them.
        keys[rows, places] = np.where(held, -1, np.iinfo(np.int64).max)
        while True:
            last = np.partition(keys, self.size - 1, axis=1)[:, self.size - 1, None]
            found = keys <= last
            wrong = np.flatnonzero(found.sum(axis=1) > self.size)
            if not wrong.size:
                return found
            own = keys[wrong, places[wrong]]  # two keys alike: all others are drawn again
            keys[wrong] = self._keys(wrong.size, source)
            keys[wrong, places[wrong]] = own

    def _keys(self, count: int, source: NoiseSource) -> Ints:
        """(count, d) each from 0 to 2^63 - 1."""
        words = source.words(count * self.buckets).reshape(count, self.buckets)
        return (words >> np.uint64(1)).astype(np.int64)

    def shares(self, counts: Ints | Floats, reports: int) -> Floats:
        """Unbiased shares (d,) from how many reports hold each bucket."""
        found: Floats = (counts / reports - float(self.other)) / float(self.own - self.other)
        return found
