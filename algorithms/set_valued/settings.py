"""A run's public choices, what it may disclose, and what only its operator may see.

The noise of both stances: thresholds, chances of an empty sub-partition, draws. Also what is
refused, and where.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import floating_source
from algorithms.counts.contract import CountTest, FloatingTest, IntegerTest
from tacit.errors import Invalid, TooLarge
from tacit.noise.alias import PRECISE, decimal
from tacit.randomness import NoiseSource, SeededRandom


class BadFanout(Invalid):
    """Outside its range."""

    name = "bad_fanout"
    title = "The fan-out is not valid"


class BadEta(Invalid):
    """Outside its range."""

    name = "bad_eta"
    title = "The expected number of false survivors is not valid"


class BadAim(Invalid):
    """Asked of a method that has no choice of shares."""

    name = "bad_aim"
    title = "The aim does not fit the method"


class PartitionCap(TooLarge):
    """More partitions than the job allows. The number is a function of the noisy transcript."""

    name = "partition_cap"
    title = "Too many partitions survive"

    def __init__(self, limit: int, expected: str) -> None:
        super().__init__(f"more than {limit} partitions. {expected}".strip())


class RowCap(TooLarge):
    """More released rows than the job allows."""

    name = "row_cap"
    title = "Too many rows would be released"

    def __init__(self, limit: int, expected: str) -> None:
        super().__init__(f"more than {limit} released rows. {expected}".strip())


# Spec: set-valued, section 3.3 (table). `sound`: discrete Laplace on integers, a threshold that
# lets at most `eta` empty sub-partitions of a split pass in expectation, everything exact. `paper`:
# Laplace in floating point and the source's thresholds, which let through ever more false
# partitions (4.4). A `CountTest` is the test of one split; splits with the same figures
# share one, with its tables.

Numbers = NDArray[np.int64] | NDArray[np.float64]


class Law(Protocol):
    """The tests of a stance."""

    def partition(self, cells: int, alpha: Fraction, height: int) -> CountTest:
        """Of a sub-partition that is split further; `cells`: sub-partitions of the split."""
        ...

    def leaf(self, cells: int, rate: Fraction) -> CountTest:
        """Of a sub-partition that is an itemset: its noisy count is released."""
        ...

    def source(self, secret: NoiseSource) -> NoiseSource:
        """The source of the draws."""
        ...


# ------------------------------------------------------------------------------------------ sound


def integer_test(
    cells: int, rate: Fraction, eta: Fraction, draws: Fraction = Fraction(1)
) -> IntegerTest:
    """tau: the smallest integer >= 1 with cells a^tau / (1 + a) <= eta, a = e^-rate.

    draws: whole noises that a sum holds; the chance is that of one, and the threshold is higher
    (spec: federated-counting, section 3).
    """
    return _integer_test(cells, rate, eta, draws)


@lru_cache(maxsize=65_536)
def _integer_test(cells: int, rate: Fraction, eta: Fraction, draws: Fraction) -> IntegerTest:
    a = PRECISE.exp(decimal(-rate))
    odds = PRECISE.divide(Decimal(cells), PRECISE.multiply(decimal(eta), PRECISE.add(1, a)))
    needed = PRECISE.divide(PRECISE.ln(odds), decimal(rate))
    tau = max(1, int(needed.to_integral_value(ROUND_CEILING)))
    return IntegerTest.of_threshold(rate, tau, draws)


@dataclass(frozen=True)
class SoundLaw:
    """eta, eta_leaf: expected false survivors of a split, of either kind; draws: whole noises in a
    sum."""

    eta: Fraction
    eta_leaf: Fraction
    draws: Fraction = Fraction(1)

    def partition(self, cells: int, alpha: Fraction, height: int) -> CountTest:  # noqa: ARG002
        """The height does not matter here."""
        return integer_test(cells, alpha, self.eta, self.draws)

    def leaf(self, cells: int, rate: Fraction) -> CountTest:
        """As a partition, with eta_leaf."""
        return integer_test(cells, rate, self.eta_leaf, self.draws)

    def source(self, secret: NoiseSource) -> NoiseSource:
        """The source of the draws."""
        return secret


# ------------------------------------------------------------------------------------------ paper


@lru_cache(maxsize=65_536)
def floating_test(rate: Fraction, multiple: float) -> FloatingTest:
    """threshold = multiple / rate; an empty cell passes with e^-multiple / 2, whatever the rate."""
    return FloatingTest.of_multiple(rate, multiple)


@dataclass(frozen=True)
class PaperLaw:
    """The source's thresholds: sqrt(2) C2 height / alpha, and sqrt(2) C1 / rate of a leaf."""

    c_1: float
    c_2: float

    def partition(self, cells: int, alpha: Fraction, height: int) -> CountTest:  # noqa: ARG002
        """`height`: of the parent's cut (spec: set-valued, section 3.3)."""
        return floating_test(alpha, math.sqrt(2) * self.c_2 * height)

    def leaf(self, cells: int, rate: Fraction) -> CountTest:  # noqa: ARG002
        """No height: sqrt(2) standard deviations times C1."""
        return floating_test(rate, math.sqrt(2) * self.c_1)

    def source(self, secret: NoiseSource) -> NoiseSource:
        """A generator that anyone who knows its seed can repeat."""
        return floating_source(secret)


# Spec: set-valued, sections 2 and 3.

LeafMode = Literal["example", "pseudocode"]
Row = tuple[tuple[int, ...], int]
"""A released itemset (places in the universe, rising) and its count."""


def leftmost(_nodes: int, _source: NoiseSource) -> int:
    """The node that is split next, of those of the greatest height: a public choice."""
    return 0


def anywhere(nodes: int, source: NoiseSource) -> int:
    """As the source has it: uniformly at random."""
    assert isinstance(source, SeededRandom)
    return int(source.generator.integers(nodes))


@dataclass(frozen=True)
class Settings:
    """A run's public choices. `expected`: what an exceeded cap's message states about false
    partitions."""

    epsilon: Fraction
    law: Law
    leaf_mode: LeafMode = "example"
    choose: Callable[[int, NoiseSource], int] = leftmost
    max_partitions: int = 2_000_000
    max_rows: int = 20_000_000
    expected: str = ""

    def check_partitions(self, number: int) -> None:
        """Check the number of partitions. Raises PartitionCap."""
        if number > self.max_partitions:
            raise PartitionCap(self.max_partitions, self.expected)

    def check_rows(self, number: int) -> None:
        """Check the number of rows. Raises RowCap."""
        if number > self.max_rows:
            raise RowCap(self.max_rows, self.expected)


@dataclass(frozen=True)
class Transcript:
    """What may be published of the run: figures of every test, by how many splits had them."""

    splits: int = 0
    tests: Counter[tuple[int, CountTest]] = field(default_factory=Counter)

    def with_more(self, other: Transcript) -> Transcript:
        """Both together."""
        return Transcript(self.splits + other.splits, self.tests + other.tests)


@dataclass(frozen=True)
class Truth:
    """Visible only to the operator: which partitions and rows had records behind them."""

    real_splits: int = 0
    real_rows: int = 0
    records_covered: int = 0
