"""A run from sequences to what is published: tree, consistent counts, copies of prefixes.

Each child's count is below its parent's, and so is the sum of all children.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Final

import numpy as np

from algorithms.contract import Context, Stance
from algorithms.sequential_prefix_tree.counts import Floats, Indices, Tree, grow
from algorithms.sequential_prefix_tree.parameters import Settings
from tacit.records.items import Sequences

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
    """Of each node the mean of its fitted values over all paths from a leaf through it."""
    sums = [np.zeros(level.size) for level in tree.levels]
    paths = [np.zeros(level.size) for level in tree.levels]
    for depth, leaves in enumerate(tree.leaves(), start=1):
        for first in range(0, leaves.size, _PATHS):
            beat()
            chain = tree.chain(depth, leaves[first : first + _PATHS])
            places = list(zip(range(depth - 1, -1, -1), chain, strict=True))
            held = np.stack([tree.levels[at].counts[place] for at, place in places], axis=1)
            fitted = isotonic(held.astype(float))
            for column, (at, place) in enumerate(places):
                sums[at] += np.bincount(place, fitted[:, column], sums[at].size)
                paths[at] += np.bincount(place, minlength=sums[at].size)
    return [total / number for total, number in zip(sums, paths, strict=True)]


def consistent(tree: Tree, values: list[Floats], stance: Stance) -> list[Floats]:
    """Top down, from consolidated counts. `paper`: as printed, which can leave a child above its
    parent and counts below 0."""
    if not values:
        return []
    found = [values[0]]
    for level, below in zip(tree.levels[1:], values[1:], strict=True):
        adjust = projected if stance == "sound" else shifted
        found.append(adjust(below, level.parents, found[-1]))
    return found


def shifted(values: Floats, parents: Indices, above: Floats) -> Floats:
    """What the children of a parent have together beyond its count, taken from each alike."""
    sums = np.bincount(parents, values, above.size)
    children = np.maximum(np.bincount(parents, minlength=above.size), 1)
    found: Floats = values + np.minimum(0, (above - sums) / children)[parents]
    return found


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
    found: Floats = np.where((sums > above)[parents], cut, positive)
    return np.minimum(found, above[parents])


def surplus(tree: Tree, values: list[Floats]) -> list[Floats]:
    """Of each node its count less its children's: sequences that end there."""
    found = [level.copy() for level in values]
    for at, (_, below) in enumerate(pairwise(tree.levels)):
        found[at] -= np.bincount(below.parents, values[at + 1], found[at].size)
    return found


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
        return int(sum(int(each.sum()) for each in self.copies))

    @property
    def rows(self) -> int:
        """How many distinct ones."""
        return int(sum(np.count_nonzero(each) for each in self.copies))

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
