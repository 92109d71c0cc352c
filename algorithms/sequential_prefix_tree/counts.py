"""The prefix tree as adaptive counting: groups and items of the kept prefixes, level by level.

Spec: federated-counting, section 2; sequential-prefix-tree, section 3 (build). What is kept, and
when a run is too large, follow from noisy counts and public numbers alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from algorithms.counts.contract import (
    AdaptiveCounting,
    Answer,
    CountTest,
    Ints,
    Passed,
    Question,
    within,
)
from algorithms.sequential_prefix_tree.settings import Settings
from algorithms.sequential_prefix_tree.tree import Level, Tree
from tacit.encoders import counts as encoder
from tacit.encoders.sequential_prefix_tree_counts import Below


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
