"""The tree of one keeper's sequences.

Spec: sequential-ngram, section 3, steps 1 to 4; federated-counting, section 2.
"""

from __future__ import annotations

from typing import Final

from algorithms.contract import Context
from algorithms.counts.contract import drive
from algorithms.counts.keeper import Add, KeeperSource
from algorithms.sequential_ngram.counts import COUNTING, State, planned
from algorithms.sequential_ngram.tree import Tree
from tacit.encoders.sequential_ngram_counts import COUNTER
from tacit.records.sequences import Sequences

BLOCK_SYMBOLS: Final = 1 << 20
"""Symbols of a block of sequences, at most (unless one sequence has more)."""


def grow(dataset: Sequences, state: State, add: Add, context: Context) -> Tree:
    """The noisy tree. Raises TreeTooLarge, Cancelled."""
    longest = state.settings(0).l_max if state.search is None else state.search.cap
    blocks = dataset.lists.blocks(max(BLOCK_SYMBOLS // (longest + 1), 1))
    source = KeeperSource(context, COUNTER, blocks, add=add, steps=planned(state))
    tree = drive(COUNTING, state, source).tree
    assert tree is not None
    return tree
