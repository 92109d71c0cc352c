"""What the experiments on n-grams measure: errors of count queries, and of frequent patterns.

Spec: sequential-ngram, section 5. Queries are answered on the whole sequences; patterns have 2 to 5
items and are counted on sequences cut at 20 items, as the source's tables must have been made.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import SequentialContext
from algorithms.counts.keeper import Add, adder, no_noise
from algorithms.sequential_ngram.evaluation import (
    Ints,
    Pattern,
    Text,
    answers,
    frequent,
    pattern_figures,
    relative_errors,
    released_patterns,
    supports_of,
    workload,
)
from algorithms.sequential_ngram.publication import Release, publish
from algorithms.sequential_ngram.settings import Budget, Fill, Settings, empty_threshold
from reproduction.sequential_ngram_data import Population
from reproduction.sequential_ngram_prefix import prefix_text

LONGEST: Final = 20
GRAM: Final = 5
SIZES: Final = (4, 8, 12, 16, 20)
"""Greatest sizes of the five sets of queries."""
TOPS: Final = (20, 40, 60, 80, 100)
BATCHES: Final = 10
"""Batches of the queries, to measure how much they matter."""
PROTOTYPE_QUERIES: Final = 10_000

Floats = NDArray[np.float64]
Stance = Literal["sound", "paper", "exact"]


@dataclass(frozen=True)
class Method:
    """N-grams with these choices; exact: without noise, every gram that occurs."""

    stance: Stance = "sound"
    fill: Fill = "leftover"
    budget: Budget = "adaptive"
    l_max: int = LONGEST
    n_max: int = GRAM


SOUND: Final = Method()
PAPER: Final = Method("paper", "ratio")
BASELINE: Final = Method("exact", "none", "uniform")


@dataclass(frozen=True)
class Measured:
    """Mean relative errors by size of queries; share of true positives and utility loss by top: of
    one run (5,), or of several (runs, 5)."""

    errors: Floats
    positives: Floats
    losses: Floats


@dataclass(frozen=True, eq=False)
class Study:
    """A population, and how many queries of each size are asked."""

    population: Population
    each: int

    @cached_property
    def queries(self) -> list[NDArray[np.int32]]:
        """The five sets."""
        return workload(len(self.population.dataset.universe), LONGEST, self.each, 0)

    @cached_property
    def truth(self) -> list[Ints]:
        """Their true answers."""
        text = Text.of_data(self.population.dataset)
        return [answers(text, group) for group in self.queries]

    @cached_property
    def patterns(self) -> list[tuple[Pattern, int]]:
        """The true top patterns."""
        return frequent(Text.of_data(self.population.dataset, LONGEST), max(TOPS), GRAM)

    def ngrams(self, epsilon: str, method: Method, seed: int = 1) -> Measured:
        """One release."""
        items = len(self.population.dataset.universe)
        release = self._released(epsilon, method, seed)
        found = released_patterns(release.grams, max(TOPS), GRAM)
        supports = supports_of(release.grams, self.patterns)
        return self._measured(Text.of_copies(release.grams, release.copies, items), found, supports)

    def _released(self, epsilon: str, method: Method, seed: int) -> Release:
        data, items = self.population.dataset, len(self.population.dataset.universe)
        settings = Settings(
            items=items,
            epsilon=Fraction(epsilon),
            l_max=method.l_max,
            n_max=method.n_max,
            threshold=partial(
                empty_threshold, l_max=method.l_max, items=items, paper=method.stance == "paper"
            ),
            budget=method.budget,
            fill=method.fill,
        )
        add: Add = no_noise
        if method.stance == "exact":
            settings = replace(settings, threshold=lambda _budget: 1.0, max_nodes=100_000_000)
        else:
            add = adder(method.stance)
        return publish(data, settings, add, SequentialContext(test_seed=seed))

    def prefix(self, epsilon: str, height: int, seed: int = 1) -> Measured:
        """One release by a prefix tree; its patterns are mined from the synthetic file."""
        context = SequentialContext(test_seed=seed)
        text = prefix_text(self.population.dataset, Fraction(epsilon), height, context)
        found = frequent(text, max(TOPS), GRAM)
        wanted = np.full((len(self.patterns), GRAM), -1, np.int32)
        for place, (pattern, _) in enumerate(self.patterns):
            wanted[place, : len(pattern)] = pattern
        held = answers(text, wanted).tolist()
        supports = {pattern: count for (pattern, _), count in zip(self.patterns, held, strict=True)}
        return self._measured(text, found, supports)

    @cached_property
    def query_errors(self) -> Floats:
        """The relative standard error (5,) that a mean error has because the queries are drawn, as
        a sound release at epsilon 1 shows it; in it the queries of the specification's figures."""
        release = self._released("1", SOUND, 1)
        text = Text.of_copies(release.grams, release.copies, len(self.population.dataset.universe))
        given = [answers(text, group) for group in self.queries]
        parts = [
            relative_errors(
                [each[part::BATCHES] for each in self.truth],
                [each[part::BATCHES] for each in given],
                self.population.dataset.count,
            )
            for part in range(BATCHES)
        ]
        shown: Floats = np.std(parts, axis=0, ddof=1) / np.mean(parts, axis=0)
        return shown * math.sqrt((1 + self.each / PROTOTYPE_QUERIES) / BATCHES)

    def _measured(
        self, text: Text, found: list[tuple[Pattern, int]], supports: dict[Pattern, int]
    ) -> Measured:
        given = [answers(text, group) for group in self.queries]
        figures = [pattern_figures(self.patterns, found, supports, top) for top in TOPS]
        return Measured(
            np.array(relative_errors(self.truth, given, self.population.dataset.count)),
            np.array([each["true_positives"] for each in figures], float),
            np.array([each["utility_loss"] for each in figures], float),
        )
