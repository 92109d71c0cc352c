"""The noisy tree of a dataset, level by level.

Spec: sequential-prefix-tree, section 3 (build). The candidates of a level are numbered: (node,
group) pairs as node * groups + group; items as the ranks in the kept pairs, one pair after the
other. What is kept, and when a run is too large, follow from noisy counts and public numbers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context
from algorithms.counts.empties import heads, without
from algorithms.datasets.sequences import Sequences
from algorithms.sequential_prefix_tree.counting import (
    BLOCK_SEQUENCES,
    Counts,
    Kept,
    Walk,
    in_groups,
    in_items,
    together,
)
from algorithms.sequential_prefix_tree.laws import CountTest, source_of
from algorithms.sequential_prefix_tree.settings import Settings
from algorithms.sequential_prefix_tree.tree import Level, Numbers, Tree

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Passed:
    """Candidates that passed: their numbers (rising) and noisy counts; how many were occupied is
    visible only to the operator."""

    keys: Ints
    counts: Numbers
    occupied: int


@dataclass(frozen=True)
class Grown:
    """A tree; occupied: nodes of each level with sequences behind them, private."""

    tree: Tree
    occupied: tuple[int, ...]


def grow(dataset: Sequences, settings: Settings, context: Context) -> Grown:
    """The tree of a dataset over the layout's items. Raises TreeTooLarge, Cancelled."""
    work = _Growth(settings, context)
    bounds = [*range(0, dataset.count, BLOCK_SEQUENCES), dataset.count]
    pairs = pairwise(bounds) if dataset.count else ((0, 0),)
    walks: Sequence[Walk] = [Walk.start(dataset, first, last) for first, last in pairs]
    levels: list[Level] = []
    occupied: list[int] = []
    nodes = Kept.all(1)
    while len(levels) < settings.height:
        level, held, nodes, walks = work.next_level(levels, nodes, walks)
        if not level.size:
            break
        levels.append(level)
        occupied.append(held)
    return Grown(Tree(tuple(levels)), tuple(occupied))


@dataclass(frozen=True)
class _Growth:
    settings: Settings
    context: Context

    def next_level(
        self, levels: Sequence[Level], nodes: Kept, walks: Sequence[Walk]
    ) -> tuple[Level, int, Kept, Sequence[Walk]]:
        """One level more; `nodes`: those of the last one by their candidates' numbers."""
        layout, number = self.settings.layout, len(levels) + 1
        so_far = sum(level.size for level in levels)
        count = partial(in_groups, nodes=nodes, layout=layout)
        counts, walks = self._counted(count, walks, number)
        if self.settings.group_test is None:
            cells = np.arange(nodes.keys.size)
        else:
            every = nodes.keys.size * layout.count
            stage = f"groups of level {number}"
            cells = self._passed(counts, every, self.settings.group_test, stage, so_far).keys
        node, group = np.divmod(cells, layout.count)
        bins = layout.bin_of(levels[-1].items) if levels else np.zeros(1, np.int64)
        earlier = layout.earlier[group, bins[node]]
        sizes = layout.sizes[group] - earlier
        begins = np.cumsum(sizes) - sizes
        total = int(sizes.sum())
        kept = Kept(cells, np.arange(cells.size), nodes.keys.size * layout.count)
        count_items: Any = partial(
            in_items, cells=kept, firsts=begins - earlier, total=total, layout=layout
        )
        counts, walks = self._counted(count_items, walks, number)
        stage = f"items of level {number}"
        passed = self._passed(counts, total, self.settings.item_test, stage, so_far)
        # The cell of a candidate: the last one that begins there; cells without items begin too.
        cell = np.searchsorted(begins, passed.keys, side="right") - 1
        within = passed.keys - begins[cell] + earlier[cell]
        items = layout.order[layout.starts[group[cell]] + within]
        order = np.lexsort((items, node[cell]))
        places = np.empty_like(order)
        places[order] = np.arange(order.size)
        level = Level(node[cell][order], items[order], passed.counts[order])
        return level, passed.occupied, Kept(passed.keys, places, total), walks

    def _passed(
        self, counts: Counts, candidates: int, test: CountTest, stage: str, so_far: int
    ) -> Passed:
        """Both kinds of candidates, the occupied ones by their counts."""
        self.settings.check_nodes(candidates * float(test.chance) + so_far)
        occupied, true = counts
        stance = self.settings.stance
        source = source_of(self.context.noise(stage), stance)
        noisy = test.noisy(true, source)
        live = noisy >= test.threshold
        source = source_of(self.context.noise(f"empty {stage}"), stance)
        shown = without(heads(candidates, test.chance, source, self._beat(stage)), occupied)
        keys = np.concatenate((occupied[live], shown))
        values: Numbers = np.concatenate((noisy[live], test.passing(shown.size, source)))  # type: ignore[assignment]
        self.settings.check_nodes(keys.size + so_far)
        order = np.argsort(keys)
        return Passed(keys[order], values[order], int(live.sum()))

    def _counted(
        self,
        count: Callable[[Walk], tuple[Walk, Counts]],
        walks: Sequence[Walk],
        number: int,
    ) -> tuple[Counts, Sequence[Walk]]:
        parts = self.context.map_blocks(count, self._told(walks, number))
        return together([counts for _, counts in parts]), [walk for walk, _ in parts]

    def _told(self, walks: Sequence[Walk], number: int) -> Iterator[Walk]:
        for walk in walks:
            self.context.progress(0.6 * (number - 1) / self.settings.height, "counting")
            yield walk

    def _beat(self, stage: str) -> Callable[[], None]:
        share = 0.6 * (int(stage.rpartition(" ")[2]) - 1) / self.settings.height
        return partial(self.context.progress, share, "drawing noise")
