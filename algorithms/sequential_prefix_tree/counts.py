"""The prefix tree as adaptive counting: groups and items of the kept prefixes, level by level.

The noisy tree has levels of nodes, each with its parent, its last item and its noisy count. It is
the same for one keeper's sequences and for curators.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context, Stance, floating_source
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
from algorithms.sequential_prefix_tree.parameters import Settings
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
        """The number of nodes."""
        return self.items.size


@dataclass(frozen=True, eq=False)
class Tree:
    """Levels 1 to the deepest that kept a node. The root is none of them."""

    levels: tuple[Level, ...]

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return sum(level.size for level in self.levels)

    def leaves(self) -> list[Indices]:
        """Places of the nodes without children, by level."""
        ends = [
            np.flatnonzero(np.bincount(below.parents, minlength=level.size) == 0)
            for level, below in pairwise(self.levels)
        ]
        return ends + [np.arange(level.size) for level in self.levels[-1:]]

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
    """levels: of the tree so far; open: nodes of the last one that are asked next; pairs: of
    node and group that are asked next, None if groups are; ended: a level kept nothing."""

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
        """The next question."""
        levels = tuple(encoder.Level(level.parents, level.items) for level in self.levels)
        return Below(self.settings.layout, levels, self.open, self.pairs)

    @property
    def test(self) -> CountTest:
        """The test that counts of the next question must pass."""
        if self.pairs is not None:
            return self.settings.item_test
        assert self.settings.group_test is not None
        return self.settings.group_test


def first(settings: Settings) -> State:
    """The state before any question."""
    return _with_open(settings, (), np.zeros(1, np.int64))


def planned(settings: Settings) -> int:
    """Questions at most."""
    return settings.height * (1 if settings.group_test is None else 2)


def ask(state: State) -> Question | None:
    """Ask for groups, or items. Raises TreeTooLarge if too many are to be expected."""
    if state.ended or len(state.levels) == state.settings.height:
        return None
    document, test = state.document, state.test
    sizes = document.sizes
    if not sizes.sum():  # no item is left in the time bins, or max_cells leaves none
        return None
    state.settings.check_nodes(int(sizes.sum()) * float(test.chance) + state.tree.nodes)
    counted = "groups" if state.pairs is None else "items"
    stage = f"{counted} of level {len(state.levels) + 1}"
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
        document_of_pairs = replace(document, pairs=pairs)
        return replace(
            state, pairs=pairs[within(passed.counts, document_of_pairs.sizes, settings.max_cells)]
        )
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
        if settings.stance == "sound":
            return counted, empty
        return floating_source(counted), floating_source(empty)

    blocks = dataset.lists.blocks(BLOCK_SEQUENCES)
    steps = planned(settings)
    source = KeeperSource(context, COUNTER, blocks, streams, empties=skipped, steps=steps)
    tree = drive(COUNTING, first(settings), source).tree
    of_items = [
        seen_level for seen_level in source.seen if seen_level.question.document.pairs is not None
    ]
    occupied = [
        int(np.count_nonzero(seen_level.counts.of(seen_level.passed[0].cells)))
        for seen_level in of_items
    ]
    return Grown(tree, tuple(occupied[: len(tree.levels)]))


Beat = Callable[[], None]
_PATHS: Final = 1 << 15


def isotonic(values: Floats) -> Floats:
    """The non-decreasing rows nearest in L2 to rows (n, p): min over j >= m of max over i <= j of
    the mean of values i to j (Hay et al., VLDB 2010, Theorem 1)."""
    paths, length = values.shape
    sums = np.zeros((paths, length + 1))
    np.cumsum(values, axis=1, out=sums[:, 1:])
    highest = np.empty_like(values)
    for last in range(1, length + 1):
        means = (sums[:, last, None] - sums[:, :last]) / np.arange(last, 0, -1)
        highest[:, last - 1] = means.max(axis=1)
    return np.minimum.accumulate(highest[:, ::-1], axis=1)[:, ::-1]


def consolidated(tree: Tree, beat: Beat = lambda: None) -> list[Floats]:
    """For each node the mean of its fitted values over all paths from a leaf through it."""
    sums = [np.zeros(level.size) for level in tree.levels]
    paths = [np.zeros(level.size) for level in tree.levels]
    for depth, leaves in enumerate(tree.leaves(), start=1):
        for first in range(0, leaves.size, _PATHS):
            beat()
            chain = tree.chain(depth, leaves[first : first + _PATHS])
            places = list(zip(range(depth - 1, -1, -1), chain, strict=True))
            counts_on_path = np.stack(
                [tree.levels[at].counts[place] for at, place in places], axis=1
            )
            fitted = isotonic(counts_on_path.astype(float))
            for column, (at, place) in enumerate(places):
                sums[at] += np.bincount(place, fitted[:, column], sums[at].size)
                paths[at] += np.bincount(place, minlength=sums[at].size)
    return [total / number for total, number in zip(sums, paths, strict=True)]


def consistent(tree: Tree, values: list[Floats], stance: Stance) -> list[Floats]:
    """Top down, from consolidated counts.

    `paper`: as printed, which can leave a child above its parent and counts below 0.
    """
    if not values:
        return []
    result = [values[0]]
    for level, below in zip(tree.levels[1:], values[1:], strict=True):
        adjust = projected if stance == "sound" else shifted
        result.append(adjust(below, level.parents, result[-1]))
    return result


def shifted(values: Floats, parents: Indices, above: Floats) -> Floats:
    """The excess of the children of a parent over its count is subtracted from each equally."""
    sums = np.bincount(parents, values, above.size)
    children = np.maximum(np.bincount(parents, minlength=above.size), 1)
    result: Floats = values + np.minimum(0, (above - sums) / children)[parents]
    return result


def projected(values: Floats, parents: Indices, above: Floats) -> Floats:
    """The children of each parent (rising) projected on {x >= 0, sum x <= the parent's count}."""
    positive = np.maximum(values, 0)
    sums = np.bincount(parents, positive, above.size)
    order = np.lexsort((-positive, parents))
    sizes = np.bincount(parents, minlength=above.size)
    begins = np.cumsum(sizes) - sizes
    ahead = np.concatenate(([0.0], np.cumsum(positive[order])))
    rank = np.arange(1, order.size + 1) - begins[parents]
    surplus = ahead[1:] - ahead[begins[parents]] - above[parents]
    # The largest ones stay above what is taken from each of them; with a count of 0 above, none.
    staying = positive[order] * rank > surplus
    number = np.bincount(parents[staying], minlength=above.size)
    last = np.maximum(begins + number - 1, 0)
    taken = np.full(above.size, np.inf)
    some = number > 0
    taken[some] = surplus[last[some]] / number[some]
    cut = np.maximum(positive - taken[parents], 0)
    positive_counts: Floats = np.where((sums > above)[parents], cut, positive)
    return np.minimum(positive_counts, above[parents])


def surplus(tree: Tree, values: list[Floats]) -> list[Floats]:
    """Of each node its count less its children's: sequences that end there."""
    result = [level.copy() for level in values]
    for at, (_, below) in enumerate(pairwise(tree.levels)):
        result[at] -= np.bincount(below.parents, values[at + 1], result[at].size)
    return result


# Spec: sequential-prefix-tree, section 3.


@dataclass(frozen=True, eq=False)
class Release:
    """By level: consolidated and consistent counts, and how often a prefix is a synthetic sequence.

    occupied: nodes of each level with sequences behind them; visible only to the operator.
    """

    tree: Tree
    consolidated: list[Floats]
    consistent: list[Floats]
    copies: list[Indices]
    occupied: tuple[int, ...]

    @property
    def sequences(self) -> int:
        """How many synthetic sequences there are."""
        return int(sum(int(copy.sum()) for copy in self.copies))

    @property
    def rows(self) -> int:
        """The number of distinct synthetic sequences."""
        return int(sum(np.count_nonzero(copy) for copy in self.copies))

    def synthetic(self, universe: tuple[str, ...]) -> tuple[Sequences, Indices]:
        """The distinct sequences by length and prefix, and how often each is there."""
        values, lengths, counts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], []
        for depth, copies in enumerate(self.copies, start=1):
            chosen = np.flatnonzero(copies)
            values.append(self.tree.prefixes(depth, chosen).ravel())
            lengths.append(np.full(chosen.size, depth))
            counts.append(copies[chosen])
        starts = np.concatenate(([0], np.cumsum(np.concatenate(lengths))))
        items = np.concatenate(values).astype(np.int32)
        return Sequences(universe, items, starts), np.concatenate([*counts, lengths[0]])


def publish(dataset: Sequences, settings: Settings, context: Context) -> Release:
    """A release of a dataset over the layout's items. Raises TreeTooLarge, Cancelled."""
    context.progress(0.0, "counting")
    grown = grow(dataset, settings, context)
    return released(grown.tree, settings.stance, context, grown.occupied)


def released(
    tree: Tree, stance: Stance, context: Context, occupied: tuple[int, ...] = ()
) -> Release:
    """What a noisy tree releases. Raises Cancelled."""
    beat = partial(context.progress, 0.65, "making counts consistent")
    fitted = consolidated(tree, beat)
    beat()
    counts = consistent(tree, fitted, stance)
    copies = [
        np.floor(np.maximum(rest, 0) + 0.5).astype(np.int64) for rest in surplus(tree, counts)
    ]
    return Release(tree, fitted, counts, copies, occupied)
