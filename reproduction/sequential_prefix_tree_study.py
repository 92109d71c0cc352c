"""Releases of one data set, and how good they are: what the experiments on prefix trees share."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Final, Literal

from algorithms.contract import SequentialContext
from algorithms.sequential_prefix_tree import Parameters as SequentialPrefixTreeParameters
from algorithms.sequential_prefix_tree.counts import Release, publish
from algorithms.sequential_prefix_tree.evaluation import (
    Answers,
    Ints,
    Pattern,
    Query,
    frequent,
    relative_error,
    true_positives,
    workload,
)
from algorithms.sequential_prefix_tree.parameters import resolved
from reproduction.stand_in_data import bus
from simulation.stand_in_data import StandIn, metro

Form = Literal["simple", "hybrid"]
FORMS: Final[tuple[Form, ...]] = ("simple", "hybrid")
HEIGHT: Final = 12
MOST_PATTERNS: Final = 300
METRO: Final = 847_668
BUS: Final = 778_724


@dataclass(frozen=True, eq=False)
class Study:
    """A data set with its true answers and patterns; seed: of the queries."""

    stand_in: StandIn
    seed: int = 1

    def release(self, form: Form, epsilon: str, height: int, seed: int) -> Release:
        """Stance sound, with noise that can be repeated."""
        asked = SequentialPrefixTreeParameters(
            epsilon=Fraction(epsilon),
            universe=self.stand_in.dataset.universe,
            taxonomy=self.stand_in.taxonomy if form == "hybrid" else None,
            height=height,
        )
        chosen = resolved(asked, "sound")[1]
        return publish(self.stand_in.dataset, chosen, SequentialContext(test_seed=seed))

    @cached_property
    def answers(self) -> Answers:
        """True answers."""
        return Answers(self.stand_in.dataset, None, SequentialContext())

    @cached_property
    def patterns(self) -> list[tuple[Pattern, int]]:
        """The true top."""
        return frequent(self.stand_in.dataset, None, MOST_PATTERNS)

    @lru_cache(maxsize=8)  # noqa: B019
    def workload(self, each: int) -> list[tuple[list[Query], Ints]]:
        """The four groups of queries at height 12, with their true answers."""
        groups = workload(len(self.stand_in.dataset.universe), HEIGHT, each, seed=self.seed)
        return [(group, self.answers.of(group)) for group in groups]

    def errors(self, release: Release, groups: list[tuple[list[Query], Ints]]) -> tuple[float, ...]:
        """Mean relative error of each group."""
        synthetic, counts = release.synthetic(self.stand_in.dataset.universe)
        found = Answers(synthetic, counts, SequentialContext())
        whole = self.stand_in.dataset.count
        return tuple(relative_error(true, found.of(group), whole) for group, true in groups)

    def hits(self, release: Release, tops: tuple[int, ...]) -> tuple[int, ...]:
        """True positives of each top."""
        synthetic, counts = release.synthetic(self.stand_in.dataset.universe)
        found = frequent(synthetic, counts, max(tops))
        return tuple(true_positives(self.patterns, found, top) for top in tops)


@lru_cache(maxsize=1)
def studies(seed: int = 1) -> tuple[Study, Study]:
    """The stand-ins for Metro and Bus, at their full size whatever the effort."""
    return Study(metro(METRO, seed), seed), Study(bus(BUS, seed), seed)
