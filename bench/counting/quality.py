"""What a release has kept of the data, with what is needed of the data computed once.

Spec: federated-counting, section 8; sequential-ngram, section 5; set-valued, section 5. Contiguous
patterns of 2 to 5 items, for prefix trees too, and queries of at most 4 items.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

import numpy as np

from algorithms import sequential_ngram, sequential_prefix_tree, set_valued
from algorithms.contract import SequentialContext
from algorithms.counts.contract import drive
from algorithms.sequential_ngram import algorithm as ngrams
from algorithms.sequential_ngram import evaluation as compared
from algorithms.sequential_ngram.counts import COUNTING as NGRAMS
from algorithms.sequential_ngram.evaluation import Text, answers, frequent, released_patterns
from algorithms.sequential_ngram.publication import released as released_grams
from algorithms.sequential_prefix_tree import algorithm as tree_rounds
from algorithms.sequential_prefix_tree import counts as trees
from algorithms.sequential_prefix_tree.counts import Tree, grow
from algorithms.sequential_prefix_tree.counts import released as released_tree
from algorithms.sequential_prefix_tree.parameters import resolved
from algorithms.set_valued import federated as sets
from algorithms.set_valued.algorithm import evaluate as evaluate_sets
from algorithms.set_valued.counts import publish, released_rows
from algorithms.set_valued.parameters import Metrics, settings_of
from algorithms.set_valued.records import deduplicated, itemsets, record_masks
from algorithms.set_valued.settings import Row
from bench.counting.curators import Curators
from tacit.encoders.set_valued_counts import Taxonomy
from tacit.records.items import Sequences, Transactions

TOPS: Final = (20, 60, 100)
QUERIES: Final = 10_000
SET_QUERIES: Final = 2_000
MOST_ITEMS: Final = 20
"""Of a sequence (l_max)."""
LONGEST: Final = 5
"""Pattern (n_max)."""
FAN_OUT: Final = 10
UNLIMITED: Final = 100_000_000

Quality = dict[str, tuple[float, ...]]
"""Figures by name."""


def course(source: Curators) -> Quality:
    """What rounds took."""
    return {
        "words": tuple(map(float, source.words)),
        "rates": (float(source.rates),),
        "spent": (float(source.most / source.epsilon),),
        "dropped": (float(source.dropped),),
        "kB": (source.sent / 1e3,),
    }


@dataclass(frozen=True, eq=False)
class Clicks:
    """Sequences and their exact answers. Every run draws its random queries from another seed."""

    data: Sequences
    _workloads: dict[int, tuple[Any, Any]] = field(default_factory=dict)

    @cached_property
    def _ranked(self) -> list[Any]:
        return frequent(Text.of_data(self.data, MOST_ITEMS), max(TOPS), LONGEST)

    def _asked(self, seed: int) -> tuple[Any, Any]:
        """Random queries, and their answers."""
        if seed not in self._workloads:
            queries = compared.workload(len(self.data.universe), MOST_ITEMS, QUERIES, seed)[0]
            self._workloads[seed] = queries, answers(Text.of_data(self.data), queries)
        return self._workloads[seed]

    def _error(self, text: Text, seed: int) -> tuple[float, ...]:
        queries, true = self._asked(seed)
        found = answers(text, queries)
        (error,) = compared.relative_errors([true], [found], self.data.count)
        return (100 * error,)

    def _patterns(self, found: Any, supports: Mapping[Any, int]) -> Quality:
        figures = [compared.pattern_figures(self._ranked, found, supports, top) for top in TOPS]
        return {
            "TP": tuple(100 * (each["true_positives"] or 0.0) for each in figures),
            "loss": (figures[-1]["utility_loss"] or 0.0,),
        }

    def ngrams(
        self, source: Curators, seed: int, epsilon: str, budget: str, max_cells: int
    ) -> Quality:
        """Of one run over curators."""
        params = sequential_ngram.Parameters.model_validate(
            {
                "universe": self.data.universe,
                "epsilon": epsilon,
                "budget": budget,
                "l_max": MOST_ITEMS,
                "n_max": LONGEST,
                "max_cells": max_cells,
            }
        )
        tree = drive(NGRAMS, ngrams.first(params, source.draws), source).tree
        assert tree is not None
        release = released_grams(tree, SequentialContext())
        supports = compared.supports_of(release.grams, self._ranked)
        found = released_patterns(release.grams, max(TOPS), LONGEST)
        text = Text.of_copies(release.grams, release.copies, len(self.data.universe))
        return {
            **self._patterns(found, supports),
            "error": self._error(text, seed),
            **course(source),
        }

    def tree(self, source: Curators, seed: int, epsilon: str, height: int, **more: Any) -> Quality:
        """Of one run over curators."""
        params = self._tree_parameters(epsilon, height, **more)
        grown = drive(trees.COUNTING, tree_rounds.first(params, source.draws), source).tree
        return {**self._of_tree(grown, seed), **course(source)}

    def kept_tree(self, epsilon: str, height: int, seed: int) -> Quality:
        """Of one run of one keeper."""
        settings = resolved(self._tree_parameters(epsilon, height), "sound")[1]
        return self._of_tree(
            grow(self.data, settings, SequentialContext(test_seed=seed)).tree, seed
        )

    def _tree_parameters(self, epsilon: str, height: int, **more: Any) -> Any:
        return sequential_prefix_tree.Parameters.model_validate(
            {"universe": self.data.universe, "epsilon": epsilon, "height": height, **more}
        )

    def _of_tree(self, tree: Tree, seed: int) -> Quality:
        release = released_tree(tree, "sound", SequentialContext())
        sequences, copies = release.synthetic(self.data.universe)
        text = Text.of_counts(sequences, copies)
        found = frequent(text, max(TOPS), LONGEST)
        patterns = self._patterns(found, dict(found))
        return {**patterns, "error": self._error(text, seed), "nodes": (float(tree.nodes),)}


@dataclass(frozen=True, eq=False)
class Baskets:
    """Sets of items and their exact answers. Every run draws queries from another seed."""

    data: Transactions

    @cached_property
    def _raw(self) -> Any:
        own = itemsets(self.data, self.data.items, SequentialContext())
        return deduplicated(own, len(self.data.items))

    def _parameters(self, epsilon: str) -> Any:
        return set_valued.Parameters.model_validate(
            {
                "universe": self.data.items,
                "epsilon": epsilon,
                "method": "diffpart",
                "fanout": FAN_OUT,
            }
        )

    def diffpart(self, source: Curators, seed: int, epsilon: str) -> Quality:
        """Of one run over curators."""
        params = self._parameters(epsilon)
        state = drive(
            sets.questions(params, source.draws), sets.parts(params, source.draws).first(), source
        )
        return {**self._of_rows(released_rows(state), seed), **course(source)}

    def kept(self, epsilon: str, seed: int) -> Quality:
        """Of one run of one keeper."""
        params, items = self._parameters(epsilon), len(self.data.items)
        taxonomy = Taxonomy(items, params.fanout)
        settings = settings_of(params, "sound", taxonomy, Fraction(1))
        context = SequentialContext(test_seed=seed)
        masks = record_masks(self.data, self.data.items, taxonomy, context)
        return self._of_rows(publish(masks, taxonomy, settings, context).rows, seed)

    def _of_rows(self, rows: tuple[Row, ...], seed: int) -> Quality:
        wanted = Metrics(queries=SET_QUERIES, query_seed=seed, top=(100,))
        found = evaluate_sets(self._raw, rows, len(self.data.items), wanted, lambda: None)
        errors = np.array(found["relative_error"], np.float64)[[0, 2, 4]]
        return {
            "errors": tuple(errors.tolist()),
            "itemsets": (found["frequent_itemsets"][0]["utility"] or 0.0,),
            "rows": (float(len(rows)),),
        }
