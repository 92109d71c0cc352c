"""What experiments ask of a population of itemsets: releases of each method, and their errors.

Spec: set-valued, section 5. The true answers of a workload are computed once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import SequentialContext
from algorithms.set_valued.algorithm import (
    DENSE_ITEMS,
    Errors,
    Queries,
    dense_counts,
    mining_utility,
    query_counts,
    relative_errors,
    workload,
)
from algorithms.set_valued.counts import publish
from algorithms.set_valued.records import (
    Itemsets,
    Supports,
    Weighted,
    clipped,
    deduplicated,
    exact_histogram,
    itemsets,
    most_frequent,
    noisy_histogram,
    record_masks,
    superset_sums,
)
from algorithms.set_valued.settings import PaperLaw, Row, Settings, SoundLaw, anywhere
from simulation.stand_in_data import Population
from tacit.encoders.set_valued_counts import Masks, Taxonomy

Method = Literal["sound", "paper, C2 = 5", "paper, C2 = 1.2", "Basic, clipped", "Basic, raw"]
MOST: Final = 100
"""The longest list of frequent itemsets that is compared."""

BATCHES: Final = 10
"""Batches of a workload, to measure how much its queries matter."""

_HALF: Final = Fraction(1, 2)


@dataclass(frozen=True, eq=False)
class Study:
    """A population, and a workload of `each` queries a group (`longest`: as if that were the
    longest record)."""

    population: Population
    each: int
    longest: int | None = None

    @property
    def items(self) -> int:
        """The size of the universe."""
        return len(self.population.universe)

    @property
    def records(self) -> int:
        """How many."""
        return self.population.dataset.records

    @cached_property
    def _sets(self) -> Itemsets:
        dataset = self.population.dataset
        return itemsets(dataset, self.population.universe, SequentialContext())

    @cached_property
    def _raw(self) -> Weighted:
        return deduplicated(self._sets, self.items)

    @cached_property
    def queries(self) -> tuple[Queries, ...]:
        """The five groups."""
        found = int(np.diff(self._sets.offsets).max())
        return workload(self.items, self.longest or found, self.each, seed=0)

    @cached_property
    def _true(self) -> list[NDArray[np.int64]]:
        return query_counts(self._raw, self.items, self.queries)

    @cached_property
    def _top(self) -> list[Row]:
        return most_frequent(Supports.of(self._raw, self.items), MOST)

    @cached_property
    def _histogram(self) -> NDArray[np.int64]:
        return exact_histogram(self._raw.sets, self.items, self._raw.weights)

    @lru_cache(maxsize=2)  # noqa: B019 - a study lives as long as its experiment
    def masks(self, fanout: int) -> Masks:
        """The records as a taxonomy sees them."""
        dataset, universe = self.population.dataset, self.population.universe
        taxonomy = Taxonomy(self.items, fanout)
        return record_masks(dataset, universe, taxonomy, SequentialContext())

    def release(
        self, epsilon: str, seed: int, fanout: int = 10, method: Method = "sound"
    ) -> tuple[Row, ...]:
        """A release by DiffPart."""
        budget = Fraction(epsilon)
        if method == "sound":
            settings = Settings(budget, SoundLaw(_HALF, _HALF))
        else:
            constants = (3.0, 5.0) if method == "paper, C2 = 5" else (1.0, 1.2)
            settings = Settings(budget, PaperLaw(*constants), choose=anywhere)
        taxonomy = Taxonomy(self.items, fanout)
        return publish(
            self.masks(fanout), taxonomy, settings, SequentialContext(test_seed=seed)
        ).rows

    def errors(self, rows: Sequence[Row]) -> Errors:
        """Of a release, on the workload."""
        found: Sequence[NDArray[Any]] = query_counts(
            Weighted.of_rows(rows), self.items, self.queries
        )
        return relative_errors(self._true, found, self.records)

    @cached_property
    def query_errors(self) -> NDArray[np.float64]:
        """The relative standard error (5,) that a mean error over the workload has because the
        queries are drawn, as the errors of a sound release at epsilon 1 show it."""
        weighted = Weighted.of_rows(self.release("1", 0))
        found = query_counts(weighted, self.items, self.queries)
        parts = [
            relative_errors(
                [each[part::BATCHES] for each in self._true],
                [each[part::BATCHES] for each in found],
                self.records,
            ).mean
            for part in range(BATCHES)
        ]
        shown: NDArray[np.float64] = np.std(parts, axis=0, ddof=1) / np.mean(parts, axis=0)
        return shown / math.sqrt(BATCHES)

    def basic_errors(self, epsilon: str, seed: int, method: Method) -> Errors:
        """Of the noisy histogram in floating point, clipped or not; few items only."""
        assert self.items <= DENSE_ITEMS
        context = SequentialContext(test_seed=seed)
        noisy = noisy_histogram(self._histogram, Fraction(epsilon), "paper", context)
        cells = clipped(noisy) if method == "Basic, clipped" else noisy
        found = dense_counts(superset_sums(cells), self.queries)
        return relative_errors(self._true, found, self.records)

    def measured(self, epsilon: str, seed: int, fanout: int, method: Method) -> Errors:
        """Of one run of a method."""
        if method in ("Basic, clipped", "Basic, raw"):
            return self.basic_errors(epsilon, seed, method)
        return self.errors(self.release(epsilon, seed, fanout, method))

    def utilities(self, rows: Sequence[Row], counts: Sequence[int]) -> list[float]:
        """Frequent itemset mining at each K."""
        found = most_frequent(Supports.of(Weighted.of_rows(rows), self.items), max(counts))
        utilities = [mining_utility(self._top[:k], found[:k]) for k in counts]
        return [np.nan if value is None else value for value in utilities]
