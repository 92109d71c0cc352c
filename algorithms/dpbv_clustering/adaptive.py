"""`grid-core` of stored rows by the plan of k-means, in place of one fixed grid.

The fixed grid has 16 cells a side whatever the number of records, and its centres are as coarse as
its cells. The plan of `kmeans` at epsilon / 2 chooses grid and start by the number of rows, which
is public here, and moves the centres in a zone round. A record that is replaced is one that leaves
and one that comes: twice epsilon / 2.

Spec: dpbv-clustering, section 3.10; kmeans, sections 5.3 to 5.7.
"""

from __future__ import annotations

from algorithms.contract import Context, Outcome
from algorithms.dpbv_clustering.parameters import Parameters
from algorithms.dpbv_clustering.problems import BadParameter
from algorithms.kmeans.algorithm import centres_file
from algorithms.kmeans.central import Rows, run_central
from algorithms.kmeans.pictures import pictures
from algorithms.kmeans.report import planned_split, start_name
from algorithms.kmeans.settings import LOW_DIMENSION, Plan, PlanImpossible, make_plan
from algorithms.kmeans.steps import release
from tacit.encoders.dpbv_clustering.encoder import Floats
from tacit.encoders.kmeans.encoder import Grid
from tacit.report.model import PrivacyReport


def is_adaptive(params: Parameters) -> bool:
    """Whether `grid-core` of stored rows takes this form: unless another one is asked for."""
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


def plan_of(params: Parameters, rows: int) -> Plan:
    """The queries for this many rows. Raises BadParameter."""
    assert params.bounds is not None
    assert params.k is not None
    try:
        return make_plan(
            size=max(1, rows),
            dimension=len(params.bounds),
            clusters=params.k,
            epsilon=params.epsilon / 2,
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
    """What is published of rows (n, d): centres, to the nearest of which everybody counts its own
    rows, and their noisy masses. Raises BadParameter, Cancelled."""
    assert params.bounds is not None
    plan = plan_of(params, len(values))
    lower, upper = zip(*params.bounds, strict=True)
    grid = Grid(lower, upper, plan.steps)
    state = run_central(Rows(values), grid, plan, params.public_seed, context)
    found = release(state)
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
