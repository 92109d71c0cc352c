"""The tree of one keeper's sequences.

Spec: sequential-prefix-tree, section 3 (build); federated-counting, section 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from algorithms.contract import Context
from algorithms.counts.contract import Question, drive
from algorithms.counts.empties import skipped
from algorithms.counts.keeper import KeeperSource
from algorithms.sequential_prefix_tree.counts import COUNTING, first, planned
from algorithms.sequential_prefix_tree.laws import source_of
from algorithms.sequential_prefix_tree.settings import Settings
from algorithms.sequential_prefix_tree.tree import Tree
from tacit.encoders.sequential_prefix_tree_counts import COUNTER
from tacit.randomness import NoiseSource
from tacit.records.sequences import Sequences

BLOCK_SEQUENCES: Final = 1 << 18


@dataclass(frozen=True)
class Grown:
    """A tree; occupied: nodes of each level with sequences behind them, private."""

    tree: Tree
    occupied: tuple[int, ...]


def grow(dataset: Sequences, settings: Settings, context: Context) -> Grown:
    """The tree of a dataset over the layout's items. Raises TreeTooLarge, Cancelled."""

    def streams(question: Question) -> tuple[NoiseSource, NoiseSource]:
        counted, empty = context.noise(question.stage), context.noise(f"empty {question.stage}")
        return source_of(counted, settings.stance), source_of(empty, settings.stance)

    blocks = dataset.lists.blocks(BLOCK_SEQUENCES)
    steps = planned(settings)
    source = KeeperSource(context, COUNTER, blocks, streams, empties=skipped, steps=steps)
    tree = drive(COUNTING, first(settings), source).tree
    of_items = [seen for seen in source.seen if seen.question.document.pairs is not None]
    occupied = [int(np.count_nonzero(seen.counts.of(seen.passed[0].cells))) for seen in of_items]
    return Grown(tree, tuple(occupied[: len(tree.levels)]))
