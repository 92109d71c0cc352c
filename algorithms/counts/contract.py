"""The contract of adaptive counting: an algorithm asks questions, a source answers with noise.

Also the threshold that a noisy count must reach and its draws, for both stances, and for sums that
hold more noise than one whole draw. Spec: federated-counting, section 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.noise import DiscreteLaplace, floating_laplace
from tacit.noise.alias import PRECISE, decimal
from tacit.randomness import NoiseSource, SeededRandom

Ints = NDArray[np.int64]
Numbers = NDArray[np.int64] | NDArray[np.float64]
"""Whole numbers (sound) or floats (paper)."""


@dataclass(frozen=True, eq=False)
class Question:
    """Cells to be counted, group by group.

    stage: the name of the keeper's noise stream, unique for each question of a run, and block:
    its number; document: what the cells are, for the encoder; reach: A; sizes (G,): cells of
    each group; rates: the distinct ones, in the order in which a keeper draws their noise;
    rate_of (G,): the rate of each group, as its index in `rates`.
    """

    stage: str
    document: Any
    reach: int
    sizes: Ints
    rates: tuple[Fraction, ...]
    rate_of: Ints
    block: int = 0

    @property
    def bounds(self) -> Ints:
        """(G + 1,): the first cell of each group, and the number of cells."""
        return np.concatenate(([0], np.cumsum(self.sizes)))

    def scale(self, rate: int) -> Fraction:
        """Of the noise in cells of a rate, by its place."""
        return self.reach / self.rates[rate]


class CountTest(Protocol):
    """The threshold of a noisy count, and how one keeper draws it. `rate`: the epsilon that the
    test costs."""

    @property
    def rate(self) -> Fraction: ...

    @property
    def threshold(self) -> int | float: ...

    @property
    def chance(self) -> Fraction:
        """The probability that an empty cell passes."""
        ...

    def noisy(self, counts: Ints, source: Any) -> Numbers:
        """Counts with fresh noise each."""
        ...

    def passing(self, count: int, source: Any) -> Numbers:
        """Noisy counts of empty cells that passed: the law of the noise above the threshold."""
        ...


@dataclass(frozen=True, eq=False)
class Passed:
    """Cells that reached their threshold, by their number in the question (ascending), and their
    noisy counts."""

    cells: Ints
    counts: Numbers


class Answer(Protocol):
    """Noisy counts of a question. Each cell may be read once, in one of the two ways."""

    def dense(self) -> Numbers:
        """The counts of all cells."""
        ...

    def passing(
        self, groups: Ints, tests: Sequence[CountTest], test_of: Ints, limit: Callable[[int], None]
    ) -> Passed:
        """Only cells that reach the threshold of their group.

        groups: of the question, ascending; test_of: the test of each, by its index in `tests`;
        limit: called with the number of cells that passed, to stop a run that has become too
        large.
        """
        ...

    def again(self, cells: Ints, test: CountTest) -> Numbers:
        """Counts of cells that passed, with the noise of another test: the source's printed
        DiffPart counts its itemsets twice. Raises NotImplementedError without a keeper."""
        ...


class Source(Protocol):
    """Who holds the records, one keeper or many curators."""

    def answer(self, question: Question) -> Answer:
        """The noisy counts."""
        ...


def within(counts: Numbers, cells: Ints, most: int | None) -> Ints:
    """The indices of the largest counts, ascending, until the cells that each of them asks for
    are used up; ties by order. most: cells in total, None for any number."""
    if most is None:
        return np.arange(counts.size)
    order = np.argsort(-counts, kind="stable")
    return np.sort(order[np.cumsum(cells[order]) <= most])


State = TypeVar("State")


@dataclass(frozen=True)
class AdaptiveCounting(Generic[State]):
    """An algorithm as functions of its states: what to ask next (None at the end), and the state
    after an answer."""

    ask: Callable[[State], Question | None]
    absorb: Callable[[State, Question, Answer], State]


def drive(algorithm: AdaptiveCounting[State], state: State, source: Source) -> State:
    """All questions of a run, one after the other: the state after the last one."""
    while (question := algorithm.ask(state)) is not None:
        state = algorithm.absorb(state, question, source.answer(question))
    return state


# Spec: sequential-prefix-tree, section 3; set-valued, section 3.3 (table). `sound`: discrete
# Laplace on integers. `paper`: Laplace in floating point.

COIN_BITS: Final = 128
"""An empty cell passes with a probability that is off by at most 2^-COIN_BITS."""


@dataclass(frozen=True, eq=False)
class IntegerTest:
    """Discrete Laplace of rate alpha compared with an integer threshold of at least 1.

    Compared by identity, which is cheap: the function that makes one caches it by its figures.
    """

    rate: Fraction
    threshold: int
    chance: Fraction

    @classmethod
    def of_threshold(cls, rate: Fraction, least: int, draws: Fraction) -> IntegerTest:
        """A test with the probability of one whole noise to reach `least`, e^(-rate least) / (1
        + e^-rate), and the threshold that a sum of `draws` noises reaches with the same
        probability."""
        tail = PRECISE.exp(decimal(-rate * least))
        chance = Fraction(PRECISE.divide(tail, PRECISE.add(1, PRECISE.exp(decimal(-rate)))))
        if draws != 1:
            least = threshold(draws, 1 / rate, float(chance))
        return cls(rate, least, Fraction(round(chance * 2**COIN_BITS), 2**COIN_BITS))

    @property
    def law(self) -> DiscreteLaplace:
        """The law of the noise."""
        return DiscreteLaplace(1 / self.rate)

    def noisy(self, counts: NDArray[np.int64], source: NoiseSource) -> NDArray[np.int64]:
        """Counts with noise, exact integers."""
        return counts + self.law.draw(source, counts.size)

    def passing(self, count: int, source: NoiseSource) -> NDArray[np.int64]:
        """threshold + G, G geometric: Z is G or -1 - G with a coin that does not depend on G, so
        G is found again by turning negative draws over."""
        drawn = self.law.draw(source, count)
        return self.threshold + (drawn ^ (drawn >> 63))


@dataclass(frozen=True, eq=False)
class FloatingTest:
    """Laplace noise of scale 1 / rate in floating point; for reproducing the source only."""

    rate: Fraction
    threshold: float
    chance: Fraction

    @classmethod
    def of_multiple(cls, rate: Fraction, multiple: float) -> FloatingTest:
        """threshold = multiple / rate; an empty cell passes with chance e^-multiple / 2."""
        return cls(rate, multiple / float(rate), Fraction(math.exp(-multiple) / 2))

    def noisy(self, counts: NDArray[np.int64], source: NoiseSource) -> NDArray[np.float64]:
        """Counts with noise."""
        return counts + floating_laplace(_seeded(source), 1 / float(self.rate), counts.size)

    def passing(self, count: int, source: NoiseSource) -> NDArray[np.float64]:
        """threshold + Exp(rate)."""
        scale = 1 / float(self.rate)
        return self.threshold + _seeded(source).generator.exponential(scale, count)


def _seeded(source: NoiseSource) -> SeededRandom:
    if not isinstance(source, SeededRandom):
        raise TypeError("floating-point noise is for seeded simulations")
    return source


# Thresholds where a released sum holds more noise than one whole draw. Spec: federated-counting,
# section 3. Z is a Polya difference of weight R and scale b: the difference of two negative
# binomials X, Y with P(X = k) proportional to Gamma(k + R) / k! a^k, a = e^(-1/b). So
#
#     P(Z >= t) = sum over y of P(Y = y) P(X >= t + y)
#
# in floating point: a threshold is a matter of utility, privacy does not depend on it. Its user
# records the whole number.

_WIDEST: Final = 1 << 12
"""Larger scales are taken as multiples of this one: relative to b the law no longer changes."""
_REACH: Final = 60
"""Scales after which nothing of weight 1 is left; more for larger weights."""


def tail(draws: Fraction, scale: Fraction, least: int) -> float:
    """P(Z >= least), for least >= 1."""
    from scipy.special import betainc, gammaln

    a, weight = math.exp(-1 / scale), float(draws)
    reach = math.ceil((_REACH + 2 * weight) * scale) + 1
    y = np.arange(reach, dtype=float)
    log_mass = gammaln(y + weight) - gammaln(weight) - gammaln(y + 1) - y / float(scale)
    mass = np.exp(log_mass + weight * math.log(-math.expm1(-1 / scale)))
    return float((mass * betainc(y + least, weight, a)).sum())


@lru_cache(maxsize=4096)
def threshold(draws: Fraction, scale: Fraction, chance: float) -> int:
    """The smallest whole t >= 1 with P(Z >= t) <= chance, for 0 < chance < 1; draws: R > 0.

    Scales above 4,096 are rounded to within 1/4,096 of the threshold, upwards.
    """
    if scale > _WIDEST:
        return math.ceil(threshold(draws, Fraction(_WIDEST), chance) * scale / _WIDEST)
    low, high = 0, 1
    while tail(draws, scale, high) > chance:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if tail(draws, scale, middle) > chance:
            low = middle
        else:
            high = middle
    return high
