"""The prefix tree as adaptive counting: groups and items of the kept prefixes, level by level.

The noisy tree has levels of nodes, each with its parent, its last item and its noisy count. It is
the same for one keeper's sequences and for curators.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context
from algorithms.counts.contract import (
    AdaptiveCounting,
    Answer,
    CountTest,
    Ints,
    Passed,
    Question,
    drive,
    within,
)
from algorithms.counts.keeper import KeeperSource, skipped
from algorithms.sequential_prefix_tree.parameters import Settings, source_of
from tacit.encoders import counts as encoder
from tacit.encoders.sequential_prefix_tree_counts import COUNTER, Below
from tacit.randomness import NoiseSource
from tacit.records.items import Sequences

Indices = NDArray[np.int64]
Floats = NDArray[np.float64]
Numbers = NDArray[np.int64] | NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Level:
    """Nodes of one depth, by (parent, item): hence in the order of their prefixes.

    parents: places in the level above (0 in the first one); items; counts: noisy.
    """

    parents: Indices
    items: Indices
    counts: Numbers

    @property
    def size(self) -> int:
        """How many nodes."""
        return self.items.size


@dataclass(frozen=True, eq=False)
class Tree:
    """Levels 1 to the deepest that kept a node. The root is none of them."""

    levels: tuple[Level, ...]

    @property
    def nodes(self) -> int:
        """How many there are."""
        return sum(level.size for level in self.levels)

    def leaves(self) -> list[Indices]:
        """Places of the nodes without children, by level."""
        found = [
            np.flatnonzero(np.bincount(below.parents, minlength=level.size) == 0)
            for level, below in pairwise(self.levels)
        ]
        return found + [np.arange(level.size) for level in self.levels[-1:]]

    def chain(self, depth: int, places: Indices) -> list[Indices]:
        """For nodes of a depth: their own places, then their parents', up to level 1."""
        chain = [places]
        for level in reversed(self.levels[1:depth]):
            chain.append(level.parents[chain[-1]])
        return chain

    def prefixes(self, depth: int, places: Indices) -> Indices:
        """(nodes, depth): the items of each prefix, first one first."""
        chain = self.chain(depth, places)[::-1]
        columns = [level.items[at] for level, at in zip(self.levels, chain, strict=False)]
        return np.stack(columns, axis=1)


# Spec: federated-counting, section 2; sequential-prefix-tree, section 3 (build). What is kept, and
# when a run is too large, follow from noisy counts and public numbers alone.


@dataclass(frozen=True, eq=False)
class State:
    """levels: of the tree so far; open: nodes of the last one that are asked next; pairs: of node
    and group that are asked next, None where groups are; ended: a level kept nothing."""

    settings: Settings
    levels: tuple[Level, ...]
    open: Ints
    pairs: Ints | None
    ended: bool = False

    @property
    def tree(self) -> Tree:
        """As it is known."""
        return Tree(self.levels)

    @property
    def document(self) -> Below:
        """What is asked next."""
        levels = tuple(encoder.Level(level.parents, level.items) for level in self.levels)
        return Below(self.settings.layout, levels, self.open, self.pairs)

    @property
    def test(self) -> CountTest:
        """What counts of the next question must reach."""
        if self.pairs is not None:
            return self.settings.item_test
        assert self.settings.group_test is not None
        return self.settings.group_test


def first(settings: Settings) -> State:
    """Before any question."""
    return _with_open(settings, (), np.zeros(1, np.int64))


def planned(settings: Settings) -> int:
    """Questions at most."""
    return settings.height * (1 if settings.group_test is None else 2)


def ask(state: State) -> Question | None:
    """Groups, or items. Raises TreeTooLarge where too many are to be expected."""
    if state.ended or len(state.levels) == state.settings.height:
        return None
    document, test = state.document, state.test
    sizes = document.sizes
    if not sizes.sum():  # no item is left in the time bins, or max_cells leaves none
        return None
    state.settings.check_nodes(int(sizes.sum()) * float(test.chance) + state.tree.nodes)
    what = "groups" if state.pairs is None else "items"
    stage = f"{what} of level {len(state.levels) + 1}"
    return Question(stage, document, 1, sizes, (test.rate,), np.zeros(sizes.size, np.int64))


def absorb(state: State, question: Question, answer: Answer) -> State:
    """With the pairs, or the level, that passed. Raises TreeTooLarge."""
    settings, document = state.settings, question.document
    passed = _passed(state, question, answer)
    settings.check_nodes(passed.cells.size + state.tree.nodes)
    if not passed.cells.size:
        return replace(state, ended=True)
    if state.pairs is None:
        pairs = document.pairs_of(passed.cells)
        asked = replace(document, pairs=pairs)
        return replace(state, pairs=pairs[within(passed.counts, asked.sizes, settings.max_cells)])
    prefixes, items = document.named(passed.cells)
    order = np.lexsort((items, prefixes))
    level = Level(prefixes[order], items[order], passed.counts[order])
    cells = settings.layout.count if settings.group_test else settings.layout.items
    open_ = within(level.counts, np.full(level.size, cells), settings.max_cells)
    return _with_open(settings, (*state.levels, level), open_)


def _with_open(settings: Settings, levels: tuple[Level, ...], open_: Ints) -> State:
    """Without groups each node is a pair."""
    return State(settings, levels, open_, open_ if settings.group_test is None else None)


def _passed(state: State, question: Question, answer: Answer) -> Passed:
    every = np.arange(question.sizes.size)
    return answer.passing(every, (state.test,), np.zeros_like(every), state.settings.check_nodes)


def truncated(state: State) -> State | None:
    """Without what is still to be asked; None before the first level."""
    return replace(state, ended=True) if state.levels else None


COUNTING: Final = AdaptiveCounting(ask, absorb)


# Spec: sequential-prefix-tree, section 3 (build); federated-counting, section 2.

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
