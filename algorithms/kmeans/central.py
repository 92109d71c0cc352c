"""The central form: queries answered from stored rows, with exact integer noise.

Spec: kmeans, sections 5 and 9. Rows are put on the grid block by block; where that takes little
memory they stay there for the next query. A query's sum is the sum over its blocks, then one draw
of noise for each coordinate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Block, Context
from algorithms.kmeans.settings import Plan
from algorithms.kmeans.steps import State, absorb, first, next_query
from algorithms.kmeans.weighted import Work
from tacit.encoders.kmeans.encoder import Floats, Grid, Ints
from tacit.encoders.kmeans.sums import Query
from tacit.noise import laplace
from tacit.randomness import NoiseSource

BLOCK_ROWS: Final = 65_536
HELD_BYTES: Final = 1 << 28
"""Of a second copy of the rows, on the grid: larger ones are put there for every query again."""


GridBlock: TypeAlias = NDArray[np.int32]
"""Rows of a block on the grid."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The private rows of a central job: values (n, d); `kept`: those that count (None: all)."""

    values: Floats
    kept: Ints | None = None

    @property
    def count(self) -> int:
        """How many rows count; private."""
        return len(self.values) if self.kept is None else len(self.kept)

    def block(self, start: int) -> Floats:
        """The block that begins at this row."""
        if self.kept is None:
            return self.values[start : start + BLOCK_ROWS]
        return self.values[self.kept[start : start + BLOCK_ROWS]]

    @property
    def starts(self) -> range:
        """Where blocks begin."""
        return range(0, self.count, BLOCK_ROWS)


def run_central(rows: Rows, grid: Grid, plan: Plan, public_seed: int, context: Context) -> State:
    """All queries of the plan, each with noise from its own secret stream."""
    state = first(plan, public_seed)
    held = on_grid(rows, grid, context) if plan.queries > 1 else None
    while (query := next_query(state)) is not None:
        place = state.answered
        source = context.noise(f"{query.kind} {place}")
        opened = exact_sums(rows, grid, query, plan, place, context, held)
        opened += noise(query, plan.records, source)
        share = (place + 1) / plan.queries
        work = Work(partial(context.progress, share, "computing"), context.map_blocks)
        state = absorb(state, query, opened, work)
    context.progress(1.0, "releasing")
    return state


def on_grid(rows: Rows, grid: Grid, context: Context) -> Sequence[GridBlock] | None:
    """All blocks on the grid; None where they would take too much memory."""
    if rows.count * grid.dimension * np.dtype(np.int32).itemsize > HELD_BYTES:
        return None
    context.progress(0.0, "reading rows")
    return context.map_blocks(partial(block_on_grid, grid), map(rows.block, rows.starts))


def block_on_grid(grid: Grid, values: Floats) -> GridBlock:
    """One block of raw rows on the grid, whose steps fit into 32 bits."""
    return grid.quantise(values).astype(np.int32)


def exact_sums(
    rows: Rows,
    grid: Grid,
    query: Query,
    plan: Plan,
    place: int,
    context: Context,
    held: Sequence[GridBlock] | None = None,
) -> Ints:
    """The query's sums over all rows, without noise; `place`: number of earlier queries; `held`:
    the rows on the grid, where they are kept."""

    def told(blocks: Iterable[Block]) -> Iterator[Block]:
        for start, block in zip(rows.starts, blocks, strict=True):
            share = (place + start / rows.count) / plan.queries
            context.progress(share, f"{query.kind} {place + 1} of {plan.queries}")
            yield block

    context.progress(place / plan.queries, f"{query.kind} {place + 1} of {plan.queries}")
    if held is None:
        raw = map(rows.block, rows.starts)
        parts = context.map_blocks(partial(raw_sums, grid, query), told(raw))
    else:
        parts = context.map_blocks(partial(grid_sums, query), told(held))
    return sum(parts, np.zeros(query.length, np.int64))


def raw_sums(grid: Grid, query: Query, values: Floats) -> Ints:
    """One block of raw rows: on the grid, then summed. Runs wherever the block is."""
    return query.sums(grid.quantise(values))


def grid_sums(query: Query, block: GridBlock) -> Ints:
    """One block that is on the grid."""
    return query.sums(block)


def noise(query: Query, records: int, source: NoiseSource) -> Ints:
    """Full discrete Laplace noise (length,) that hides this many records of one privacy unit."""
    scales = [block.scale(records) for block in query.blocks]
    drawn: Ints = laplace(source, scales, [block.dimension for block in query.blocks], 1)[0]
    return drawn


def chosen_records(curators: NDArray[np.int32], most: int, source: NoiseSource) -> Ints:
    """At most `most` rows of each curator, drawn without replacement; row numbers in order.

    Every row draws a word and a curator keeps its smallest, so that what it keeps depends on its
    own rows alone, in law: another curator's rows change nothing.
    """
    words = source.words(len(curators))
    order = np.lexsort((words, curators))
    held = curators[order]
    starts = np.flatnonzero(np.r_[True, held[1:] != held[:-1]]) if len(held) else order
    rank = np.arange(len(held)) - np.repeat(starts, np.diff(np.r_[starts, len(held)]))
    return np.sort(order[rank < most])
