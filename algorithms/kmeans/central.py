"""The central form: queries answered from stored rows, with exact integer noise.

Spec: kmeans, sections 5 and 9. Rows are put on the grid block by block, so that no second copy of
the data is held; a query's sum is the sum over its blocks, then one draw of noise for each
coordinate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from algorithms.contract import Context
from algorithms.kmeans.settings import Plan
from algorithms.kmeans.steps import State, absorb, first, next_query
from tacit.encoders.kmeans.encoder import Floats, Grid, Ints
from tacit.encoders.kmeans.sums import Query
from tacit.noise import laplace
from tacit.randomness import NoiseSource

BLOCK_ROWS: Final = 65_536


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


def run_central(rows: Rows, grid: Grid, plan: Plan, public_seed: int, context: Context) -> State:
    """All queries of the plan, each with noise from its own secret stream."""
    state = first(plan, public_seed)
    while (query := next_query(state)) is not None:
        place = state.answered
        source = context.noise(f"{query.kind} {place}")
        opened = exact_sums(rows, grid, query, plan, place, context)
        opened += noise(query, plan.records, source)
        share = (place + 1) / plan.queries
        state = absorb(state, query, opened, partial(context.progress, share, "computing"))
    context.progress(1.0, "releasing")
    return state


def exact_sums(
    rows: Rows, grid: Grid, query: Query, plan: Plan, place: int, context: Context
) -> Ints:
    """The query's sums over all rows, without noise; `place`: number of earlier queries."""

    def blocks() -> Iterator[Floats]:
        for start in range(0, rows.count, BLOCK_ROWS):
            share = (place + start / rows.count) / plan.queries
            context.progress(share, f"{query.kind} {place + 1} of {plan.queries}")
            yield rows.block(start)

    context.progress(place / plan.queries, f"{query.kind} {place + 1} of {plan.queries}")
    total = np.zeros(query.length, np.int64)
    for part in context.map_blocks(partial(block_sums, grid, query), blocks()):
        total += part
    return total


def block_sums(grid: Grid, query: Query, values: Floats) -> Ints:
    """One block of raw rows: on the grid, then summed. Runs wherever the block is."""
    return query.sums(grid.quantise(values))


def noise(query: Query, records: int, source: NoiseSource) -> Ints:
    """Full discrete Laplace noise (length,) that hides this many records of one privacy unit."""
    scales = [block.scale(records) for block in query.blocks]
    drawn: Ints = laplace(source, scales, [block.dimension for block in query.blocks], 1)[0]
    return drawn


def chosen_records(curators: Ints, most: int, source: NoiseSource) -> Ints:
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
