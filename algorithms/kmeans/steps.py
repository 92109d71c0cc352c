"""The sound run as pure steps: the next query, the effect of an opened noisy sum, the result.

Spec: kmeans, sections 5 and 6; jobs, "Federated jobs". A `State` holds published values only. The
central form answers each query from its rows with noise added (`central`); a federated conductor
answers it by a round of secure aggregation. The steps do not know which.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from algorithms.kmeans.settings import LIFT_RADIUS, LIFT_SPLIT, ZONE_SPLIT, Plan
from algorithms.kmeans.starts import (
    Start,
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
from algorithms.kmeans.weighted import ALONE, Work
from algorithms.kmeans.zone_round import ZoneEstimate, combined, estimate
from tacit.encoders.kmeans.encoder import (
    Floats,
    Histogram,
    Ints,
    Lift,
    Marginals,
    Projection,
    Zone,
    spent,
)
from tacit.encoders.kmeans.fine_cells import FineCells
from tacit.encoders.kmeans.sums import Query


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
        """How many queries were."""
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
    """Before any query."""
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
    """The state after the noisy sum (length,) of `query`, which `next_query` gave, was opened.

    `work`: how the clusterings of a synopsis are run.
    """
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
            found = estimate(query, opened, plan.inflation)
            stopped = plan.may_stop_early and found.no_signal
            return replace(after, rounds=(*state.rounds, found), stopped=stopped)


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
