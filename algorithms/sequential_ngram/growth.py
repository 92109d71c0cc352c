"""The tree of a dataset: the steps of `tree`, each answered by counts with noise.

Spec: sequential-ngram, section 3, steps 1 to 4. Counts of a level are sums over blocks of sequences
of one matrix per block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TypeVar

from algorithms.contract import Context
from algorithms.datasets.sequences import Sequences
from algorithms.sequential_ngram.counting import (
    Ints,
    Walk,
    advance,
    blocks_of,
    single_counts,
)
from algorithms.sequential_ngram.noise import Add
from algorithms.sequential_ngram.settings import Settings
from algorithms.sequential_ngram.tree import (
    Expansion,
    Tree,
    expansion_table,
    grown,
    next_expansion,
    planted,
    root,
)

Part = TypeVar("Part")


def grow(
    dataset: Sequences,
    settings: Settings,
    add: Add,
    context: Context,
) -> Tree:
    """The noisy tree. Raises TreeTooLarge, Cancelled."""
    beat = partial(context.progress, 0.1, "drawing noise")
    count = partial(single_counts, l_max=settings.l_max)
    blocks = _told(blocks_of(dataset, settings.l_max), context, 0, settings.n_max)
    parts = context.map_blocks(count, blocks)
    walks = [walk for walk, _ in parts]
    first = root(settings)
    items = add(_total(parts)[None, :-1], first, context.noise("level 1"), beat)
    tree = planted(settings, first, items)
    while (expansion := next_expansion(tree)) is not None:
        counts, walks = _counted(tree, expansion, walks, context)
        source = context.noise(f"level {tree.depth + 1}")
        tree = grown(tree, expansion, add(counts, expansion, source, beat))
    return tree


def _counted(
    tree: Tree, expansion: Expansion, walks: list[Walk], context: Context
) -> tuple[Ints, list[Walk]]:
    symbols = tree.settings.symbols
    table = expansion_table(tree, expansion)
    count = partial(advance, table=table, length=tree.depth, rows=expansion.rows, symbols=symbols)
    report_progress = _told(walks, context, tree.depth, tree.settings.n_max)
    parts = context.map_blocks(count, report_progress)
    return _total(parts).reshape(expansion.rows, symbols), [walk for walk, _ in parts]


def _total(parts: Sequence[tuple[Walk, Ints]]) -> Ints:
    total = parts[0][1].copy()
    for _, counts in parts[1:]:
        total += counts
    return total


def _told(blocks: list[Part], context: Context, level: int, levels: int) -> Iterator[Part]:
    for place, block in enumerate(blocks):
        context.progress(0.6 * (level + place / len(blocks)) / levels, "counting")
        yield block
