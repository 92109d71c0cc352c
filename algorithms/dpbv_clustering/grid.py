"""Clusters of a noisy grid: weighted k-means on kept cells, or dense components.

Also its pure steps (the query, the effect of an opened noisy sum, the result), and `grid-core` by
the plan of k-means in place of one fixed grid. Spec: dpbv-clustering, section 3.10.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np

from algorithms.contract import Context, Outcome
from algorithms.dpbv_clustering.clustering_methods import kmeans
from algorithms.dpbv_clustering.parameters import BadParameter, Parameters, make_box
from algorithms.kmeans.algorithm import centres_file, plots_of
from algorithms.kmeans.plan import LOW_DIMENSION, Plan, PlanImpossible, make_plan
from algorithms.kmeans.report import error_of_centres, planned_split, start_name
from algorithms.kmeans.sound_run import Rows, State, release, run_central
from tacit.encoders.dpbv_clustering import Cells, Flip, Floats, Ints
from tacit.encoders.kmeans import Grid
from tacit.encoders.sums import SWAP
from tacit.randomness import PublicRandom
from tacit.report.model import PrivacyReport

KEPT_DEVIATIONS: Final = 2
DENSE_DEVIATIONS: Final = 3
SMALLEST_SHARE: Final = 0.05
_QUARTER: Final = 0.25


def laplace_deviation(scale: Fraction) -> float:
    """The standard deviation of a discrete Laplace: sqrt(2a) / (1 - a), a = e^(-1/scale)."""
    rate = float(1 / scale)
    return math.sqrt(2) * math.exp(-rate / 2) / -math.expm1(-rate)


def unary_deviation(flip: float, reports: int) -> float:
    """Of a count estimated from unary reports of an empty cell: sqrt(n q (1-q)) / (1/2 - q)."""
    return math.sqrt(reports * flip * (1 - flip)) / (0.5 - flip)


def unary_counts(ones: Ints, reports: int, flip: float) -> Floats:
    """Estimated counts from the ones of each cell: (ones - n q) / (1/2 - q)."""
    return (ones.astype(np.float64) - reports * flip) / (0.5 - flip)


def unary_estimate(ones: Ints, reports: int, flip: Flip) -> tuple[Floats, float]:
    """Estimated counts (cells,) from the ones of each cell, and their standard deviation."""
    probability = float(flip.probability)
    return unary_counts(ones, reports, probability), unary_deviation(probability, reports)


@dataclass(frozen=True, eq=False)
class GridClustering:
    """labels (cells,) of all cells, centres (k, d) in raw units with their noisy mass (k,).

    centres: of k-means, or the middle of mass of a component. `kept`: cells above the noise.
    """

    labels: Ints
    centres: Floats
    masses: Floats
    kept: int

    @property
    def clusters(self) -> int:
        """k, the number of clusters found."""
        return len(self.centres)


def by_kmeans(
    cells: Cells,
    counts: Floats,
    deviation: float,
    clusters: int,
    generator: np.random.Generator,
    restarts: int,
    max_iter: int,
) -> GridClustering:
    """Weighted k-means on the middles of cells that have more than two standard deviations."""
    kept = np.flatnonzero(counts > KEPT_DEVIATIONS * deviation)
    if not kept.size:
        return _nothing(cells)
    places = cells.box.apply(cells.centres())
    fitted = kmeans(
        places[kept], min(clusters, kept.size), generator, restarts, max_iter, counts[kept]
    )
    nearest = np.argmin(np.square(places[:, None, :] - fitted.centres).sum(axis=2), axis=1)
    masses: Floats = np.bincount(fitted.labels, counts[kept], minlength=len(fitted.centres)).astype(
        np.float64
    )
    return GridClustering(nearest, cells.box.raw(fitted.centres), masses, len(kept))


def by_density(cells: Cells, counts: Floats, deviation: float) -> GridClustering:
    """Components of touching dense cells; those below 5 % of the mass are dropped, and every
    cell gets the label of the nearest remaining one."""
    from scipy.ndimage import generate_binary_structure, label
    from scipy.spatial import cKDTree

    dimension, per_axis = cells.box.dimension, cells.per_axis
    ranked = np.sort(counts)[::-1]
    threshold = max(DENSE_DEVIATIONS * deviation, _QUARTER * float(ranked[per_axis - 1]))
    dense = counts > threshold
    shape = (per_axis,) * dimension
    touching = generate_binary_structure(dimension, dimension)
    components = label(dense.reshape(shape), touching)[0].ravel()
    masses: Floats = np.bincount(components, counts * dense).astype(np.float64)
    masses[0] = 0
    large = np.flatnonzero(masses > SMALLEST_SHARE * masses.sum())
    if not large.size:
        return _nothing(cells)
    renamed = np.full(len(masses), -1)
    renamed[large] = np.arange(large.size)
    labels = renamed[components]
    kept = np.flatnonzero(labels >= 0)
    middles = cells.centres()
    places = cells.box.apply(middles)
    labels = labels[kept][cKDTree(places[kept]).query(places)[1]]
    large_masses = masses[large]
    sums = [
        np.bincount(labels[kept], counts[kept] * column, minlength=large.size)
        for column in middles[kept].T
    ]
    return GridClustering(
        labels, np.stack(sums, axis=1) / large_masses[:, None], large_masses, len(kept)
    )


def _nothing(cells: Cells) -> GridClustering:
    """No cell is distinguishable from the noise."""
    empty = np.empty((0, cells.box.dimension))
    return GridClustering(np.full(cells.count, -1), empty, np.empty(0), 0)


# Spec: dpbv-clustering, section 3.9 (a); jobs, "Federated jobs". One query: the counts of all
# cells, to which a record adds 1 in one cell. The central form answers it from its rows with noise
# added, a federated conductor by a round of secure aggregation; curators then label their own rows
# from the release. A `State` holds public and published values only.

REPLACED: Final = 2
"""How far a record that is replaced moves the counts (L1): out of one cell and into another."""


@dataclass(frozen=True, eq=False)
class GridState:
    """params; the grid; `noise_share`: total noise in units of one full discrete Laplace of scale
    2 / epsilon (central: 1); counts (cells,): opened, None before."""

    params: Parameters
    cells: Cells
    noise_share: Fraction = Fraction(1)
    counts: Ints | None = None

    @property
    def scale(self) -> Fraction:
        """The scale of the noise of a count."""
        return REPLACED / self.params.epsilon

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise of a count."""
        return laplace_deviation(self.scale) * math.sqrt(self.noise_share)


def first(params: Parameters, per_axis: int, noise_share: Fraction = Fraction(1)) -> GridState:
    """The state before any question. The bounds are declared."""
    assert params.bounds is not None
    return GridState(params, Cells(make_box(params, params.bounds), per_axis), noise_share)


def next_query(state: GridState) -> Cells | None:
    """The grid to count on; None when it has been counted."""
    return state.cells if state.counts is None else None


def absorb(state: GridState, opened: Ints) -> GridState:
    """Take the opened noisy counts (cells,). Raises ValueError for another length."""
    if opened.shape != (state.cells.count,):
        raise ValueError("one count for every cell")
    return replace(state, counts=opened)


def release_grid(state: GridState) -> GridClustering:
    """The clusters, in the form that the clusterer names."""
    if state.counts is None:
        raise ValueError("the grid has not been counted")
    counts = state.counts.astype(np.float64)
    return cluster_grid(state.cells, counts, state.deviation, state.params)


def cluster_grid(
    cells: Cells, counts: Floats, deviation: float, params: Parameters
) -> GridClustering:
    """Clusters of noisy counts (cells,) of this standard deviation."""
    if params.clusterer == "dbscan":
        return by_density(cells, counts, deviation)
    assert params.k is not None
    generator = PublicRandom(params.public_seed).generator
    return by_kmeans(cells, counts, deviation, params.k, generator, params.n_init, params.max_iter)


# The fixed grid has 16 cells a side whatever the number of records, and its centres are as coarse
# as its cells. The plan of `kmeans` at epsilon / 2 chooses grid and start by the number of rows,
# which is public here (over curators a hint is), and moves the centres in a zone round. A record
# that is replaced is one that leaves and one that comes: twice epsilon / 2. Over curators the same
# is said as all of epsilon, with noise that hides two records. Spec: dpbv-clustering, section 3.10;
# kmeans, sections 5.3 to 5.7.


def is_adaptive(params: Parameters) -> bool:
    """Whether `grid-core` has this form: unless another one is requested. Raises BadParameter."""
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
    return outcome_of(state, grid, columns, params, report, len(values))


def grid_of(params: Parameters, plan: Plan) -> Grid:
    """The declared box in the plan's steps."""
    assert params.bounds is not None
    lower, upper = zip(*params.bounds, strict=True)
    return Grid(lower, upper, plan.steps)


def outcome_of(
    state: State,
    grid: Grid,
    columns: tuple[str, ...],
    params: Parameters,
    report: PrivacyReport,
    size: int | None,
) -> Outcome:
    """Centres, to the nearest of which a curator assigns its rows, and their noisy masses. size:
    public number of records, or its hint."""
    plan, clusters_released = state.plan, release(state)
    centres = grid.raw(clusters_released.centres)
    error = error_of_centres(size, grid, plan, clusters_released)
    return Outcome(
        {
            "method": "grid-core",
            "form": "kmeans",
            "k": len(centres),
            "columns": list(columns),
            "centres": centres.tolist(),
            "masses": clusters_released.counts.tolist(),
            "cells_per_axis": None,
            "kept_cells": None,
            "plan": {"mode": plan.mode, "start": start_name(plan), "split": planned_split(plan)},
            "warning": None,
        },
        report.model_copy(update={"error": error}),
        (centres_file(centres, columns, clusters_released.counts),),
        plots_of(state, clusters_released, grid, columns),
        {"public_seed": params.public_seed},
    )
