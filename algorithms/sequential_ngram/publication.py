"""A run from sequences to what is published: tree, consistent counts, longer grams, copies.

Spec: sequential-ngram, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context
from algorithms.counts.keeper import Add
from algorithms.sequential_ngram.consistency import adjusted
from algorithms.sequential_ngram.counts import first
from algorithms.sequential_ngram.generation import Ints, copies
from algorithms.sequential_ngram.grams import Grams, extended, released_grams
from algorithms.sequential_ngram.growth import grow
from algorithms.sequential_ngram.root_row import with_clear_root
from algorithms.sequential_ngram.settings import Settings
from algorithms.sequential_ngram.tree import Tree
from tacit.records.sequences import Sequences

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Transcript:
    """What may be published of the tree: figures of noisy counts and budgets alone.

    nodes: expanded grams; draws: counts with noise; most_spent: the largest sum of budgets on a
    path; budgets: the distinct ones, falling.
    """

    settings: Settings
    nodes: int
    draws: int
    most_spent: Fraction
    budgets: tuple[Fraction, ...]

    @classmethod
    def of(cls, tree: Tree) -> Transcript:
        """Of a tree."""
        settings = tree.settings
        return cls(
            settings,
            tree.nodes,
            settings.items + (tree.nodes - 1) * settings.symbols,
            settings.epsilon - min(spend.left for spend in tree.spends),
            tuple(sorted({spend.budget for spend in tree.spends}, reverse=True)),
        )


@dataclass(frozen=True, eq=False)
class Release:
    """What a run publishes: grams with the longer ones, how often each is a synthetic sequence."""

    grams: Grams
    copies: Ints
    transcript: Transcript
    root: Floats
    """Noisy counts of single items, before anything was made of them."""

    @property
    def items(self) -> Ints:
        """How often each item of the universe is in the synthetic sequences."""
        found = np.zeros(self.root.size)
        for length, (begin, end) in enumerate(pairwise(self.grams.bounds), start=1):
            chosen = begin + np.flatnonzero(self.copies[begin:end])
            listed = self.grams.listed(chosen, length).ravel()
            found += np.bincount(
                listed, np.repeat(self.copies[chosen], length), minlength=found.size
            )
        return found.astype(np.int64)


def publish(dataset: Sequences, settings: Settings, add: Add, context: Context) -> Release:
    """A release of a dataset over the universe. Raises TreeTooLarge, Cancelled."""
    return released(grow(dataset, first(settings), add, context), context)


def released(tree: Tree, context: Context) -> Release:
    """What a noisy tree releases. Raises TreeTooLarge, Cancelled."""
    settings = tree.settings
    root = tree.noisy[0, :-1].astype(np.float64)
    context.progress(0.65, "making counts consistent")
    if settings.root == "threshold":
        tree = with_clear_root(tree, context.noise("root"))
    short = released_grams(tree, adjusted(tree))
    beat = partial(context.progress, 0.7, "extending grams")
    grams = extended(short, settings.l_max, settings.max_nodes, beat, settings.max_rows)
    beat = partial(context.progress, 0.8, "generating sequences")
    given = copies(grams, settings.generation, beat)
    return Release(grams, given, Transcript.of(tree), root)
