"""The sound run as pure steps: the next query, the effect of an opened noisy sum, the result.

An opened zone round gives steps, their noise, the next centres and radii. In the central form the
queries are answered from stored rows, with exact integer noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Block, Context
from algorithms.kmeans.plan import LIFT_RADIUS, LIFT_SPLIT, ZONE_SPLIT, Plan
from algorithms.kmeans.starts import (
    ALONE,
    LEAST_RADIUS,
    Start,
    Work,
    boxed,
    lifted,
    on_grid,
    packing,
    projected_centres,
    public_projection,
    radii_on_grid,
    synopsis,
    two_level_synopsis,
)
from tacit.encoders.kmeans import (
    Floats,
    Grid,
    Histogram,
    Ints,
    Lift,
    Marginals,
    Projection,
    Zone,
    spent,
)
from tacit.encoders.kmeans_sums import FineCells, Query
from tacit.noise import laplace
from tacit.randomness import NoiseSource

WIDENING: Final = 1.6
"""The next radius over the noisy mean distance."""
_LEAST_SHARE: Final = 0.02
_STARVED_SCALES: Final = 2
_AGREEING: Final = 16
_STARVED_WEIGHT: Final = 1e-9


@dataclass(frozen=True, eq=False)
class ZoneEstimate:
    """One round: what was requested (`zone`), and the result for each of k clusters.

    counts (k,): noisy numbers of records; estimates (k, d): centre plus noisy mean offset, the
    offset limited to the zone and the sum to the box; variances (k,): of the noise of one
    coordinate; gains (k,): the share of the step that is trusted; starved (k,); mean_distances
    (k,): noisy mean L1 distances; centres (k, d), radii (k,): the next ones.
    """

    zone: Zone
    counts: Floats
    estimates: Floats
    variances: Floats
    gains: Floats
    starved: NDArray[np.bool_]
    mean_distances: Floats
    centres: Floats
    radii: Floats

    @property
    def no_signal(self) -> bool:
        """Whether no step is distinguishable from its noise."""
        return not self.gains.any()


def estimate(zone: Zone, opened: Ints, inflation: float) -> ZoneEstimate:
    """Read the opened sums (k (d + 2),) of a zone; `inflation`: nu B of the plan."""
    clusters, dimension = zone.centres.shape
    rows = opened.reshape(clusters, dimension + 2).astype(np.float64)
    offsets, counts, distances = rows[:, :dimension], rows[:, dimension], rows[:, dimension + 1]
    old = zone.centres / zone.steps
    radii = zone.radii / zone.steps
    least = _STARVED_SCALES * inflation / float(zone.epsilon_counts)

    safe_counts = np.maximum(counts, max(least, 1.0))
    steps = offsets / (zone.steps * safe_counts[:, None])
    scales = inflation * radii / float(zone.epsilon_sums)
    variances = 2 * np.square(scales / safe_counts)
    lengths = np.square(steps).sum(axis=1)
    noise = dimension * variances
    gains = np.where(lengths > noise, 1 - noise / np.maximum(lengths, noise), 0.0)
    starved = counts < least
    gains[starved] = 0.0

    moves = _limited(gains[:, None] * steps, radii)
    share = np.clip(distances / (zone.levels * safe_counts), _LEAST_SHARE, 1.0)
    widened = np.maximum(WIDENING * radii * share, LEAST_RADIUS * dimension)
    return ZoneEstimate(
        zone=zone,
        counts=np.maximum(counts, 0.0),
        estimates=np.clip(old + _limited(steps, radii), -1, 1),
        variances=variances,
        gains=gains,
        starved=starved,
        mean_distances=radii * np.clip(distances / (zone.levels * safe_counts), 0.0, 1.0),
        centres=np.where(starved[:, None], old, np.clip(old + moves, -1, 1)),
        radii=np.where(starved, radii, np.minimum(widened, radii)),
    )


def combined(rounds: Sequence[ZoneEstimate]) -> Floats:
    """The centres (k, d) of a run: those of its only round, or the weighted mean over several.

    Weights are inverse variances, over the rounds whose estimate lies within four standard
    deviations of the last centre. The last always counts, a starved round hardly.
    """
    last = rounds[-1]
    if len(rounds) == 1:
        return last.centres
    dimension = last.centres.shape[1]
    total = np.zeros_like(last.centres)
    mass = np.zeros(len(total))
    for earlier in rounds:
        gaps = np.square(earlier.estimates - last.centres).sum(axis=1)
        agrees = gaps <= _AGREEING * dimension * earlier.variances
        if earlier is last:
            agrees = np.ones_like(agrees)
        weights = np.where(agrees, 1 / earlier.variances, 0.0)
        weights *= np.where(earlier.starved, _STARVED_WEIGHT, 1.0)
        total += weights[:, None] * earlier.estimates
        mass += weights
    return total / mass[:, None]


def _limited(steps: Floats, radii: Floats) -> Floats:
    """Steps (k, d), those longer than their zone's L1 radius (k,) scaled down to it."""
    norms = np.abs(steps).sum(axis=1)
    factors = np.where(norms > radii, radii / np.maximum(norms, radii), 1.0)
    limited: Floats = steps * factors[:, None]
    return limited


# Spec: kmeans, sections 5 and 6; jobs, "Federated jobs". A `State` holds published values only. The
# central form answers each query from its rows with noise added (`central`); a federated conductor
# answers it by a round of secure aggregation. The steps do not know which.


@dataclass(frozen=True, eq=False)
class State:
    """The state of a run. Everything in it was published or follows from published values.

    `asked`: the queries answered so far. `view`, `histogram`, `projected`: of the synopsis; `start`
    as soon as zones can begin.
    """

    plan: Plan
    public_seed: int
    asked: tuple[Query, ...] = ()
    view: Projection | None = None
    histogram: Ints | None = None
    projected: Ints | None = None
    start: Start | None = None
    rounds: tuple[ZoneEstimate, ...] = ()
    stopped: bool = False

    @property
    def spent(self) -> Fraction:
        """The epsilon of all queries answered so far."""
        return sum((spent(query.blocks) for query in self.asked), Fraction(0))

    @property
    def answered(self) -> int:
        """The number of queries answered so far."""
        return len(self.asked)


@dataclass(frozen=True, eq=False)
class Release:
    """What a run publishes, in half sides of the box: centres (k, d) on the grid, counts (k,)
    and mean L1 distances (k,) with noise, and the noise (k,) of one coordinate of a centre (its
    standard deviation; None without a zone round)."""

    centres: Floats
    counts: Floats
    distances: Floats
    deviations: Floats | None
    starved: tuple[int, ...]


def first(plan: Plan, public_seed: int) -> State:
    """The state before any query."""
    state = State(plan, public_seed)
    if plan.mode == "packing+zone":
        return replace(state, start=packing(plan, public_seed))
    if plan.mode == "projection+zone":
        return replace(state, view=public_projection(plan, public_seed))
    return state


def next_query(state: State) -> Query | None:
    """The next sum to open; None when the run is over."""
    plan = state.plan
    if state.start is not None:
        if state.stopped or len(state.rounds) == plan.rounds:
            return None
        return _zone(state)
    if plan.two_level is not None:
        choices = plan.two_level
        if state.histogram is None:
            return Histogram(choices.per_side, plan.dimension, plan.steps, choices.epsilon_coarse)
        return choices.fine(state.histogram, plan.steps)
    if state.view is None:
        assert plan.per_side is not None
        assert plan.epsilon_histogram is not None
        return Histogram(plan.per_side, plan.dimension, plan.steps, plan.epsilon_histogram)
    if state.view.box is None:
        assert plan.epsilon_marginals is not None
        return Marginals(state.view, plan.epsilon_marginals)
    if state.projected is None:
        assert plan.per_side is not None
        assert plan.epsilon_histogram is not None
        view = state.view
        return Histogram(plan.per_side, 2, plan.steps, plan.epsilon_histogram, view)
    assert plan.epsilon_lift is not None
    sums, counts = (plan.epsilon_lift * share for share in LIFT_SPLIT)
    radius = int(LIFT_RADIUS * plan.dimension * plan.steps)
    return Lift(state.view, state.projected, max(radius, 1), sums, counts)


def absorb(state: State, query: Query, opened: Ints, work: Work = ALONE) -> State:
    """The state after the noisy sum (length,) of `query`, which `next_query` returned, was
    opened. `work`: how the clusterings of a synopsis are computed."""
    plan, seed = state.plan, state.public_seed
    if opened.shape != (query.length,):
        raise ValueError("an opened sum has the length of its query")
    after = replace(state, asked=(*state.asked, query))
    match query:
        case Marginals():
            assert state.view is not None
            return replace(after, view=boxed(state.view, opened, plan))
        case Histogram() if query.view is not None:
            projected = projected_centres(opened, plan, seed, work)
            return replace(after, histogram=opened, projected=projected)
        case Histogram() if plan.two_level is not None:
            return replace(after, histogram=opened)
        case FineCells():
            assert state.histogram is not None
            start = two_level_synopsis(state.histogram, query, opened, plan, seed, work)
            return replace(after, start=start)
        case Histogram():
            return replace(after, histogram=opened, start=synopsis(opened, plan, seed, work))
        case Lift():
            return replace(
                after, start=lifted(opened, float(query.epsilon_counts), plan, seed, work)
            )
        case Zone():
            estimated = estimate(query, opened, plan.inflation)
            stopped = plan.may_stop_early and estimated.no_signal
            return replace(after, rounds=(*state.rounds, estimated), stopped=stopped)


def release(state: State) -> Release:
    """What is published; also of a run that ended before its plan did, once it has a start.

    Raises ValueError before that.
    """
    if state.start is None:
        raise ValueError("nothing can be released before there are centres")
    plan = state.plan
    if not state.rounds:
        start = state.start
        nothing = np.zeros(plan.clusters)
        return Release(
            on_grid(start.centres, plan.steps) / plan.steps,
            nothing if start.counts is None else start.counts,
            nothing if start.distances is None else start.distances,
            None,
            (),
        )
    last = state.rounds[-1]
    return Release(
        on_grid(combined(state.rounds), plan.steps) / plan.steps,
        last.counts,
        last.mean_distances,
        np.sqrt(last.variances),
        tuple(np.flatnonzero(last.starved).tolist()),
    )


def _zone(state: State) -> Zone:
    plan = state.plan
    assert state.start is not None
    source = state.rounds[-1] if state.rounds else state.start
    sums, counts, distances = (plan.epsilon_round * share for share in ZONE_SPLIT)
    radii = radii_on_grid(source.radii, plan.steps)
    if state.rounds:  # no zone grows, not by rounding either
        radii = np.minimum(radii, state.rounds[-1].zone.radii)
    return Zone(
        on_grid(source.centres, plan.steps), radii, plan.steps, sums, counts, distances, plan.levels
    )


# Spec: kmeans, sections 5 and 9. Rows are put on the grid block by block; where that takes little
# memory they stay there for the next query. A query's sum is the sum over its blocks, then one draw
# of noise for each coordinate.

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
        """The first row of each block."""
        return range(0, self.count, BLOCK_ROWS)


def run_central(rows: Rows, grid: Grid, plan: Plan, public_seed: int, context: Context) -> State:
    """All queries of the plan, each with noise from its own secret stream."""
    state = first(plan, public_seed)
    grid_rows = rows_on_grid(rows, grid, context) if plan.queries > 1 else None
    while (query := next_query(state)) is not None:
        place = state.answered
        source = context.noise(f"{query.kind} {place}")
        opened = exact_sums(rows, grid, query, plan, place, context, grid_rows)
        opened += noise(query, plan.records, source)
        share = (place + 1) / plan.queries
        work = Work(partial(context.progress, share, "computing"), context.map_blocks)
        state = absorb(state, query, opened, work)
    context.progress(1.0, "releasing")
    return state


def rows_on_grid(rows: Rows, grid: Grid, context: Context) -> Sequence[GridBlock] | None:
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
    grid_blocks: Sequence[GridBlock] | None = None,
) -> Ints:
    """The query's sums over all rows, without noise; `place`: number of earlier queries; `held`:
    the rows on the grid, if they are stored."""

    def counted(blocks: Iterable[Block]) -> Iterator[Block]:
        for start, block in zip(rows.starts, blocks, strict=True):
            share = (place + start / rows.count) / plan.queries
            context.progress(share, f"{query.kind} {place + 1} of {plan.queries}")
            yield block

    context.progress(place / plan.queries, f"{query.kind} {place + 1} of {plan.queries}")
    if grid_blocks is None:
        raw = map(rows.block, rows.starts)
        parts = context.map_blocks(partial(raw_sums, grid, query), counted(raw))
    else:
        parts = context.map_blocks(query.sums, counted(grid_blocks))
    return sum(parts, np.zeros(query.length, np.int64))


def raw_sums(grid: Grid, query: Query, values: Floats) -> Ints:
    """One block of raw rows: on the grid, then summed. Runs on the worker that has the block."""
    return query.sums(grid.quantise(values))


def noise(query: Query, records: int, source: NoiseSource) -> Ints:
    """Full discrete Laplace noise (length,) that hides this many records of one privacy unit."""
    scales = [block.scale(records) for block in query.blocks]
    drawn: Ints = laplace(source, scales, [block.dimension for block in query.blocks], 1)[0]
    return drawn


def chosen_records(curators: NDArray[np.int32], most: int, source: NoiseSource) -> Ints:
    """At most `most` rows of each curator, drawn without replacement; row numbers in order.

    Every row draws a word and a curator keeps its smallest, so that the law of what it keeps
    depends on its own rows only: another curator's rows change nothing.
    """
    words = source.words(len(curators))
    order = np.lexsort((words, curators))
    owners = curators[order]
    starts = np.flatnonzero(np.r_[True, owners[1:] != owners[:-1]]) if len(owners) else order
    rank = np.arange(len(owners)) - np.repeat(starts, np.diff(np.r_[starts, len(owners)]))
    return np.sort(order[rank < most])
