"""`grid-core` by the plan of k-means, in place of one fixed grid.

The fixed grid has 16 cells a side whatever the number of records, and its centres are as coarse as
its cells. The plan of `kmeans` at epsilon / 2 chooses grid and start by the number of rows, which
is public here (over curators a hint is), and moves the centres in a zone round. A record that is
replaced is one that leaves and one that comes: twice epsilon / 2. Over curators the same is said as
all of epsilon, with noise that hides two records.

Spec: dpbv-clustering, section 3.10; kmeans, sections 5.3 to 5.7.
"""

from __future__ import annotations

from fractions import Fraction

from algorithms.contract import Context, Outcome
from algorithms.dpbv_clustering.parameters import Parameters
from algorithms.dpbv_clustering.problems import BadParameter
from algorithms.kmeans.algorithm import centres_file
from algorithms.kmeans.central import Rows, run_central
from algorithms.kmeans.pictures import pictures
from algorithms.kmeans.report import planned_split, start_name
from algorithms.kmeans.settings import LOW_DIMENSION, Plan, PlanImpossible, make_plan
from algorithms.kmeans.steps import State, release
from tacit.encoders.dpbv_clustering.encoder import Floats
from tacit.encoders.kmeans.encoder import Grid
from tacit.encoders.sums import SWAP
from tacit.report.model import PrivacyReport


def is_adaptive(params: Parameters) -> bool:
    """Whether `grid-core` takes this form: unless another one is asked for. Raises BadParameter."""
    assert params.bounds is not None
    own_scale = params.rescale_to is None or params.rescale_global
    fits = (
        params.clusterer == "kcluster"
        and params.cells_per_axis is None
        and not own_scale
        and len(params.bounds) <= LOW_DIMENSION
    )
    if params.grid == "adaptive" and not fits:
        raise BadParameter(
            "grid",
            "adaptive goes with kcluster, at most 6 columns, rescale_to of each attribute, and no "
            "cells_per_axis",
        )
    return fits and params.grid != "fixed"


def plan_of(
    params: Parameters, rows: int, noise_share: Fraction | None = None, max_cells: int = 65_536
) -> Plan:
    """The queries for this many rows; noise_share: of sums over curators, in units of noise that
    hides two records, None for stored rows. Raises BadParameter."""
    assert params.bounds is not None
    assert params.k is not None
    try:
        return make_plan(
            size=max(1, rows),
            dimension=len(params.bounds),
            clusters=params.k,
            epsilon=params.epsilon / 2 if noise_share is None else params.epsilon,
            max_cells=max_cells,
            noise_share=noise_share or Fraction(1),
            records=1 if noise_share is None else SWAP,
            start="auto",
        )
    except PlanImpossible as problem:
        field = problem.field if problem.field in ("epsilon", "k") else "k"
        raise BadParameter(field, problem.reason) from None


def published(
    values: Floats,
    columns: tuple[str, ...],
    params: Parameters,
    report: PrivacyReport,
    context: Context,
) -> Outcome:
    """What is published of rows (n, d). Raises BadParameter, Cancelled."""
    plan = plan_of(params, len(values))
    grid = grid_of(params, plan)
    state = run_central(Rows(values), grid, plan, params.public_seed, context)
    return outcome_of(state, grid, columns, params, report)


def grid_of(params: Parameters, plan: Plan) -> Grid:
    """The declared box in the plan's steps."""
    assert params.bounds is not None
    lower, upper = zip(*params.bounds, strict=True)
    return Grid(lower, upper, plan.steps)


def outcome_of(
    state: State, grid: Grid, columns: tuple[str, ...], params: Parameters, report: PrivacyReport
) -> Outcome:
    """Centres, to the nearest of which everybody counts its own rows, and their noisy masses."""
    plan, found = state.plan, release(state)
    centres = grid.raw(found.centres)
    return Outcome(
        {
            "method": "grid-core",
            "form": "kmeans",
            "k": len(centres),
            "columns": list(columns),
            "centres": centres.tolist(),
            "masses": found.counts.tolist(),
            "cells_per_axis": None,
            "kept_cells": None,
            "plan": {"mode": plan.mode, "start": start_name(plan), "split": planned_split(plan)},
            "warning": None,
        },
        report,
        (centres_file(centres, columns, found.counts),),
        pictures(state, found, grid, columns),
        {"public_seed": params.public_seed},
    )
