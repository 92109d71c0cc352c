"""Reports `window` and `subset` of crowd tasking: how a device perturbs a value within bounds, and
what it sends.

Reports `window` and `subset`: values and buckets that a device perturbs within bounds.

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
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.encoders.crowd_tasking import ReadingGrid
from tacit.noise import Bernoulli
from tacit.randomness import NoiseSource
from tacit.wire import format_exact

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
    small that no report would be informative."""
    exponent = _DOWN.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator))
    odds_of_unit = int(_DOWN.multiply(Decimal(UNIT), _DOWN.next_minus(_DOWN.exp(exponent))))
    if odds_of_unit <= UNIT:
        raise ValueError("so small an epsilon leaves nothing")
    return odds_of_unit


def uniform(below: int, count: int, source: NoiseSource) -> Ints:
    """`count` whole numbers, each of 0..below - 1 as likely; 1 <= below < 2^62."""
    limit = np.uint64((1 << 64) // below * below - 1)
    drawn = source.words(count)
    while (wrong := np.flatnonzero(drawn > limit)).size:
        drawn[wrong] = source.words(wrong.size)
    return (drawn % np.uint64(below)).astype(np.int64)


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
        """The estimate that a report of the upper of two points gives."""
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
        """The report of each of -X..X, if it is a window's; else it is -1 or 1."""
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
        values: Floats = scaled / self.largest
        return values

    def placed(self, steps_above: Ints, steps: int, source: NoiseSource) -> Ints:
        """Readings in 0..steps as numbers of -X..X, rounded without bias."""
        below_place, rest = np.divmod(2 * self.largest * steps_above, steps)
        return below_place + (uniform(steps, rest.size, source) < rest) - self.largest


def _variances(
    growth: float, reach: Ints, half: int
) -> tuple[tuple[Floats, float], tuple[Floats, float]]:
    """On [-1, 1], in the middle and at the end: of a window, of two points; growth: e^epsilon."""
    wide, largest = 2 * reach + 1, half - reach
    total = 2 * half + 1 + (growth - 1) * wide
    factor = total / ((growth - 1) * wide)
    flat = half * (half + 1) * (2 * half + 1) / 3
    within = reach * (reach + 1) * wide / 3
    points = ((growth + 1) / (growth - 1)) ** 2
    moments = []
    for place in (0, 1):
        second = (flat + (growth - 1) * (wide * (place * largest) ** 2 + within)) / total
        moments.append((np.asarray(factor**2 * second / largest**2 - place), points - place))
    return moments[0], moments[1]


@lru_cache(maxsize=256)
def best_window(epsilon: Fraction, half: int = HALF) -> Window:
    """The reach and the mixture with the least variance for the worst number, from epsilon alone.

    Variance is linear in the mixture, and largest in the middle or at the end. Raises ValueError.
    """
    window_odds = odds(epsilon)
    growth = float(Fraction(window_odds, UNIT))
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
    return Window(window_odds, int(reach[column]), round(float(shares[row, column]) * MIX), half)


@dataclass(frozen=True)
class Subset:
    """How one of d buckets is reported: as r of them. odds: E."""

    odds: int
    buckets: int
    size: int

    @classmethod
    def of(cls, epsilon: Fraction, buckets: int) -> Subset:
        """r = round(d / (1 + e^epsilon)), at least 1. Raises ValueError."""
        odds_of_own = odds(epsilon)
        size = max(1, round(Fraction(buckets * UNIT, UNIT + odds_of_own)))
        return cls(odds_of_own, buckets, size)

    @property
    def own(self) -> Fraction:
        """p: that the own bucket is in the report."""
        own_mass = self.size * self.odds
        return Fraction(own_mass, own_mass + (self.buckets - self.size) * UNIT)

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
        bucket_is_own = Bernoulli(self.own).draw(source, places.size)
        # The own bucket comes before all others, or after them.
        keys[rows, places] = np.where(bucket_is_own, -1, np.iinfo(np.int64).max)
        while True:
            last = np.partition(keys, self.size - 1, axis=1)[:, self.size - 1, None]
            chosen = keys <= last
            wrong = np.flatnonzero(chosen.sum(axis=1) > self.size)
            if not wrong.size:
                return chosen
            new_keys = keys[wrong, places[wrong]]  # two keys alike: all others are drawn again
            keys[wrong] = self._keys(wrong.size, source)
            keys[wrong, places[wrong]] = new_keys

    def _keys(self, count: int, source: NoiseSource) -> Ints:
        """(count, d) each from 0 to 2^63 - 1."""
        words = source.words(count * self.buckets).reshape(count, self.buckets)
        return (words >> np.uint64(1)).astype(np.int64)

    def shares(self, counts: Ints | Floats, reports: int) -> Floats:
        """Unbiased shares (d,) from how many reports hold each bucket."""
        estimated: Floats = (counts / reports - float(self.other)) / float(self.own - self.other)
        return estimated


# What a device sends as reports `window` and `subset`, in whole numbers.
#
# A device derives every probability from the epsilon of a coordinate; which window, which mixture
# and how many buckets are public choices that change the error and never the privacy.
#
# Spec: crowd-tasking, section 10.

MOST_EPSILON: Final = 64
MOST_BUCKETS: Final = 500
POINT: Final = HALF + 1
"""Reports POINT and -POINT mean the two points; all others are values."""


def bucket_of(values: Floats, edges: Floats) -> Ints:
    """(n,) the bucket of each value; beyond the edges the first or the last."""
    return np.asarray(np.searchsorted(edges[1:-1], values, side="right"), np.int64)


@dataclass(frozen=True)
class _Bounded(ReadingGrid):
    """epsilon_each: of one coordinate of one reading."""

    epsilon_each: Fraction

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.epsilon_each <= MOST_EPSILON:
            raise ValueError(f"epsilon lies above 0 and is at most {MOST_EPSILON}")

    @property
    def epsilon(self) -> Fraction:
        """Of the values of one reading."""
        return self.dimension * self.epsilon_each

    @property
    def fresh(self) -> bool:
        """Every round draws new noise."""
        return True


@dataclass(frozen=True)
class WindowReports(_Bounded):
    """Each coordinate is sent as a number of -M..M near it or anywhere, or as one of two points:
    an unbiased report for averages. reach: w; mixed: of 2^32 draws, how many report a window."""

    reach: int
    mixed: int

    def __post_init__(self) -> None:
        super().__post_init__()
        integers = isinstance(self.reach, int) and isinstance(self.mixed, int)
        if not integers or not 0 <= self.reach < HALF - 1 or not 0 <= self.mixed <= MIX:
            raise ValueError("a window lies within all reports")
        odds(self.epsilon_each)

    @property
    def law(self) -> Window:
        """Of one coordinate."""
        return Window(odds(self.epsilon_each), self.reach, self.mixed)

    def document(self) -> dict[str, Any]:
        """As JSON without floating-point numbers."""
        return {
            **super().document(),
            "report": "window",
            "epsilon": format_exact(self.epsilon_each),
            "reach": self.reach,
            "mixed": self.mixed,
        }

    def reports(self, readings: Floats, source: NoiseSource) -> Ints:
        """(n, k) as they are sent."""
        above = self.quantise(readings)
        law = self.law
        numbers, windowed = law.reports(law.placed(above.ravel(), self.steps, source), source)
        return np.where(windowed, numbers, POINT * numbers).reshape(above.shape)

    def estimates(self, reports: Ints) -> Floats:
        """(n, k) unbiased, in the sensor's unit: post-processing."""
        windowed = np.abs(reports) < POINT
        law = self.law
        estimated = law.estimates(np.where(windowed, reports, np.sign(reports)), windowed)
        return self.decode((estimated + 1) / 2 * self.steps)

    def numbers(
        self,
        users: Ints,  # noqa: ARG002
        rounds: Ints,  # noqa: ARG002
        readings: Floats,
        source: NoiseSource,
    ) -> list[list[int]]:
        """The numbers of each report; no two share any noise."""
        reported: list[list[int]] = self.reports(readings, source).tolist()
        return reported

    def refusal(self, values: Sequence[int]) -> str | None:
        """Nothing lies beyond the points."""
        if len(values) != self.dimension:
            return f"a report has {self.dimension} numbers"
        if not all(abs(value) <= POINT for value in values):
            return f"a number of a window lies in -{POINT}..{POINT}"
        return None


@dataclass(frozen=True)
class SubsetReports(_Bounded):
    """The bucket of the only coordinate is sent as a set of buckets that probably contains it:
    for histograms. edges: (d + 1,) of the buckets; size: r."""

    edges: tuple[float, ...]
    size: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dimension != 1:
            raise ValueError("a subset is of one coordinate")
        rising = all(low < high for low, high in pairwise(self.edges))
        if not rising or not 3 <= len(self.edges) <= MOST_BUCKETS + 1:
            raise ValueError(f"between 2 and {MOST_BUCKETS} buckets, whose edges ascend")
        if not isinstance(self.size, int) or not 1 <= self.size < len(self.edges) - 1:
            raise ValueError("some buckets are sent, and not all")
        odds(self.epsilon_each)

    @property
    def law(self) -> Subset:
        """Of the buckets."""
        return Subset(odds(self.epsilon_each), len(self.edges) - 1, self.size)

    def document(self) -> dict[str, Any]:
        """As JSON without floating-point numbers."""
        return {
            **super().document(),
            "report": "subset",
            "epsilon": format_exact(self.epsilon_each),
            "edges": [repr(value) for value in self.edges],
            "size": self.size,
        }

    def held(self, readings: Floats, source: NoiseSource) -> Bools:
        """(n, d) which buckets the report of each reading (n, 1) holds."""
        inside = np.clip(readings[:, 0], self.lower[0], self.upper[0])
        return self.law.reports(bucket_of(inside, np.array(self.edges)), source)

    def counts(self, rounds: Ints, places: Ints, most: int) -> Ints:
        """(most, d) how many reports of rounds (n,) in 1..most hold each bucket; places (n, r) as
        they were sent: post-processing."""
        buckets = self.law.buckets
        cells = (rounds[:, None] - 1) * buckets + places
        return np.bincount(cells.ravel(), minlength=most * buckets).reshape(most, buckets)

    def numbers(
        self,
        users: Ints,  # noqa: ARG002
        rounds: Ints,  # noqa: ARG002
        readings: Floats,
        source: NoiseSource,
    ) -> list[list[int]]:
        """The indices of the buckets of each report, ascending; reports have independent noise."""
        places = np.nonzero(self.held(readings, source))[1]
        listed: list[list[int]] = places.reshape(-1, self.size).tolist()
        return listed

    def refusal(self, values: Sequence[int]) -> str | None:
        """Different buckets, in order."""
        if len(values) != self.size:
            return f"a report has {self.size} buckets"
        ascending = all(low < high for low, high in pairwise(values))
        if not ascending or values[0] < 0 or values[-1] > len(self.edges) - 2:
            return "a report names different buckets, ascending"
        return None
