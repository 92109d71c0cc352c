"""A run's public choices, what it may disclose, and what only its operator may see.

Spec: set-valued, sections 2 and 3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from algorithms.counts.contract import CountTest
from algorithms.set_valued.laws import Law
from algorithms.set_valued.problems import PartitionCap, RowCap
from tacit.randomness import NoiseSource, SeededRandom

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
        """Raises PartitionCap."""
        if number > self.max_partitions:
            raise PartitionCap(self.max_partitions, self.expected)

    def check_rows(self, number: int) -> None:
        """Raises RowCap."""
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
