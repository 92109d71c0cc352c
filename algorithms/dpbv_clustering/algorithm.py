"""One run of dpbv-clustering: plan, release, cluster what was released, report.

Also the catalogue's entry. Spec: dpbv-clustering.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from algorithms.contract import Algorithm, Context, Outcome, Stance
from algorithms.datasets.tables import NumericTable
from algorithms.dpbv_clustering.clustering_methods import adp, kmeans, rsp, scores
from algorithms.dpbv_clustering.distances import Combination, point_distances
from algorithms.dpbv_clustering.federated import REPORTS, ROUNDS
from algorithms.dpbv_clustering.grid import (
    absorb,
    cluster_grid,
    first,
    is_adaptive,
    plan_of,
    published,
    release_grid,
    unary_estimate,
)
from algorithms.dpbv_clustering.outcome import (
    DRAWINGS,
    cluster_points,
    evaluation_pictures,
    grid_outcome,
    labelled_outcome,
    points_outcome,
)
from algorithms.dpbv_clustering.paper import (
    cluster_bits,
    cluster_exact,
    cluster_vertical,
    encode_blocks,
)
from algorithms.dpbv_clustering.parameters import (
    BadParameter,
    Pair,
    Parameters,
    RowOutside,
    check_rows,
    check_stance,
    make_box,
    plan_bits,
    resolve_method,
)
from algorithms.dpbv_clustering.report import (
    NAME,
    adaptive_report,
    exact_report,
    paper_report,
    sound_report,
    unplanned_report,
)
from algorithms.kmeans.algorithm import DRAWINGS as DRAWINGS_OF_CENTRES
from tacit.encoders.dpbv_clustering import (
    BLOCK_COINS,
    Cells,
    Flip,
    Floats,
    Ints,
    noisy_points,
    unary_reports,
)
from tacit.encoders.kmeans import nearest
from tacit.noise import DiscreteLaplace
from tacit.randomness import PublicRandom, SeededRandom
from tacit.report.model import PrivacyReport

_MOST_COMPARED: Final = 2000
"""Rows whose distances an evaluation compares."""
_MOST_REFERENCE: Final = 256
"""Reference labels that an evaluation counts one by one."""
_POINT_ROWS: Final = 1 << 16


def run(dataset: NumericTable, params: Parameters, stance: Stance, context: Context) -> Outcome:
    """Cluster a table. Raises BadParameter."""
    columns, values = _chosen(dataset, params)
    check_stance(params, stance)
    check_rows(params, stance, len(values))
    reproducible = isinstance(context.noise("stance"), SeededRandom)
    context.progress(0.0, "planning")
    if stance == "paper":
        return _paper(dataset, columns, values, params, context, reproducible)
    assert params.bounds is not None
    method, per_axis = resolve_method(params, len(values))
    if method == "dpbv-exact":
        return _exact(dataset, columns, values, params, context, reproducible)
    if method == "grid-core" and is_adaptive(params):
        report = adaptive_report(params, reproducible=reproducible)
        outcome = published(values, columns, params, report, context)
        if not params.evaluate:
            return outcome
        labels = _nearest(values, np.array(outcome.result["centres"]), params)
        return replace(outcome, evaluation=_compared(dataset, labels))
    report = sound_report(params, method, per_axis, len(values), reproducible=reproducible)
    if method == "laplace-points":
        return _points(dataset, columns, values, params, context, report)
    return _grid(
        dataset, columns, values, params, context, report, per_axis, local=method != "grid-core"
    )


def _nearest(values: Floats, centres: Floats, params: Parameters) -> Ints:
    """(n,) the nearest centre of each row, columns scaled as the clustering has them."""
    assert params.bounds is not None
    low, high = np.array(params.bounds).T
    return nearest((values - low) / (high - low), (centres - low) / (high - low))


def check(dataset: NumericTable, params: Parameters, stance: Stance) -> None:
    """Refuse a table that does not fit the parameters. Raises BadParameter."""
    columns, values = _chosen(dataset, params)
    check_stance(params, stance)
    check_rows(params, stance, len(values))
    if stance == "paper":
        bounds = _paper_bounds(columns, values, params)
        plan_bits(params, stance, make_box(params, bounds), len(values))
        return
    assert params.bounds is not None
    method, _ = resolve_method(params, len(values))
    if method == "grid-core" and is_adaptive(params):
        plan_of(params, len(values))
    if method == "dpbv-exact":
        plan_bits(params, stance, make_box(params, params.bounds), len(values))


def check_outline(outline: Mapping[str, Any], params: Parameters, stance: Stance) -> None:
    """Check that there are no more clusters than rows (paper). Raises BadParameter."""
    check_stance(params, stance)
    check_rows(params, stance, outline["rows"])


def preview(params: Parameters, stance: Stance) -> PrivacyReport:
    """The report that a result would carry, from the parameters alone. Raises BadParameter."""
    check_stance(params, stance)
    if params.bounds is None:
        return unplanned_report(params)
    if stance == "paper":
        plan = plan_bits(params, stance, make_box(params, params.bounds), None)
        return paper_report(params, plan, reproducible=False)
    method, per_axis = resolve_method(params, None)
    if method == "dpbv-exact":
        plan = plan_bits(params, stance, make_box(params, params.bounds), None)
        return exact_report(params, plan, reproducible=False)
    if method == "grid-core" and is_adaptive(params):
        return adaptive_report(params, reproducible=False)
    return sound_report(params, method, per_axis, params.n_hint, reproducible=False)


# ---------------------------------------------------------------------------------- what goes in


def _chosen(dataset: NumericTable, params: Parameters) -> tuple[tuple[str, ...], Floats]:
    columns = params.columns or dataset.columns
    places = []
    for name in columns:
        if name not in dataset.columns:
            raise BadParameter("columns", f"there is no column {name!r}")
        places.append(dataset.columns.index(name))
    if params.bounds is not None and len(params.bounds) != len(columns):
        raise BadParameter("bounds", "one pair for every attribute")
    return columns, dataset.values[:, places]


def _paper_bounds(columns: tuple[str, ...], values: Floats, params: Parameters) -> tuple[Pair, ...]:
    """Declared, or the data's own. Raises BadParameter for a row outside the declared ones."""
    if params.bounds is None:
        ends = list(zip(values.min(axis=0).tolist(), values.max(axis=0).tolist(), strict=True))
        for name, (low, high) in zip(columns, ends, strict=True):
            if not low < high:
                raise BadParameter("bounds", f"column {name!r} has one value only: declare a range")
        return tuple(ends)
    limits = np.array(params.bounds)
    outside = np.argwhere((values < limits[:, 0]) | (values > limits[:, 1]))
    if outside.size:
        row, column = outside[0].tolist()
        raise RowOutside(columns[column], "a value outside the bounds", row)
    return params.bounds


# ----------------------------------------------------------------------------------- the stances


def _paper(
    dataset: NumericTable,
    columns: tuple[str, ...],
    values: Floats,
    params: Parameters,
    context: Context,
    reproducible: bool,
) -> Outcome:
    box = make_box(params, _paper_bounds(columns, values, params))
    plan = plan_bits(params, "paper", box, len(values))
    mapped = box.apply(values)
    if params.partition == "horizontal":
        words = encode_blocks(mapped, plan, context)
        clustering = cluster_bits(words, params, plan, context)
    else:
        clustering = cluster_vertical(mapped, params, plan, context)
    report = paper_report(params, plan, reproducible=reproducible)
    evaluation: dict[str, Any] = {}
    if params.evaluate:
        evaluation |= _compared(dataset, clustering.labels)
        if clustering.matrix is not None:
            evaluation["distance_error"] = _distance_error(clustering.matrix, mapped, params)
    if params.baselines:
        evaluation["baselines"] = _baselines(dataset, values, params)
    return labelled_outcome(columns, params, plan, clustering, report, evaluation=evaluation)


def _exact(
    dataset: NumericTable,
    columns: tuple[str, ...],
    values: Floats,
    params: Parameters,
    context: Context,
    reproducible: bool,
) -> Outcome:
    assert params.bounds is not None
    box = make_box(params, params.bounds)
    plan = plan_bits(params, "sound", box, len(values))
    words = encode_blocks(box.apply(values), plan, context)
    clustering = cluster_exact(words, params, plan, context)
    report = exact_report(params, plan, reproducible=reproducible)
    evaluation = _compared(dataset, clustering.labels) if params.evaluate else {}
    return labelled_outcome(columns, params, plan, clustering, report, evaluation=evaluation)


def _points(
    dataset: NumericTable,
    columns: tuple[str, ...],
    values: Floats,
    params: Parameters,
    context: Context,
    report: PrivacyReport,
) -> Outcome:
    assert params.bounds is not None
    box = make_box(params, params.bounds)

    def part(start: int) -> Ints:
        context.progress(0.5 * start / len(values), "noise")
        source = context.noise("points", start // _POINT_ROWS)
        return noisy_points(values[start : start + _POINT_ROWS], box, params.epsilon, source)

    blocks = context.map_blocks(part, range(0, len(values), _POINT_ROWS))
    steps = np.concatenate(blocks) if blocks else np.empty(values.shape, np.int64)
    context.progress(0.6, "clustering")
    clustering = cluster_points(steps, box, params)
    evaluation = None
    if params.evaluate:
        from scipy.spatial import cKDTree

        evaluation = _compared(dataset, clustering.found.labels)
        if len(values):
            nearest = cKDTree(clustering.found.centres).query(box.apply(values))[1]
            evaluation["own_rows"] = _compared(dataset, nearest)
    return points_outcome(clustering, columns, params, report, evaluation=evaluation)


def _grid(
    dataset: NumericTable,
    columns: tuple[str, ...],
    values: Floats,
    params: Parameters,
    context: Context,
    report: PrivacyReport,
    per_axis: int,
    *,
    local: bool,
) -> Outcome:
    assert params.bounds is not None
    state = first(params, per_axis)
    cells = state.cells
    if local:
        counts, deviation = _unary_counts(cells, values, params, context)
        context.progress(0.7, "clustering")
        clustering = cluster_grid(cells, counts, deviation, params)
    else:
        noise = DiscreteLaplace(state.scale).draw(context.noise("counts"), cells.count)
        opened = cells.sums(values) + noise
        counts = opened.astype(np.float64)
        context.progress(0.7, "clustering")
        clustering = release_grid(absorb(state, opened))
    evaluation = None
    if params.evaluate:
        evaluation = _compared(dataset, clustering.labels[cells.places(values)])
    return grid_outcome(cells, counts, clustering, columns, params, report, local, evaluation)


def _unary_counts(
    cells: Cells, values: Floats, params: Parameters, context: Context
) -> tuple[Floats, float]:
    flip = Flip.of_epsilon(params.epsilon)
    places = cells.places(values)
    rows = max(1, BLOCK_COINS // cells.count)

    def part(start: int) -> Ints:
        context.progress(0.6 * start / len(places), "reports")
        source = context.noise("reports", start // rows)
        reports = unary_reports(places[start : start + rows], cells.count, flip, source)
        ones: Ints = reports.sum(axis=0)
        return ones

    ones = sum(
        context.map_blocks(part, range(0, len(places), rows)), np.zeros(cells.count, np.int64)
    )
    return unary_estimate(ones, len(places), flip)


# --------------------------------------------------------------------------------- the evaluation


def _compared(dataset: NumericTable, labels: Ints) -> dict[str, Any]:
    """True sizes of the released clusters, and the agreement with reference labels, if any."""
    released, rows = np.unique(labels, return_counts=True)
    sizes = dict(zip(map(str, released.tolist()), rows.tolist(), strict=True))
    result: dict[str, Any] = {"rows": sizes, **_scored(dataset, labels)}
    if dataset.labels is None:
        return result
    reference = dataset.labels.values
    if len(reference) <= _MOST_REFERENCE:
        table = np.zeros((len(reference), released.size), np.int64)
        np.add.at(table, (dataset.labels.codes, np.searchsorted(released, labels)), 1)
        result["agreement"] = {
            "reference": list(reference),
            "labels": released.tolist(),
            "rows": table.tolist(),
        }
    return result


def _scored(dataset: NumericTable, labels: Ints) -> dict[str, Any]:
    """Against the reference labels, where the table has them."""
    if dataset.labels is None:
        return {}
    return dict(scores(dataset.labels.codes.astype(np.int64), labels))


def _distance_error(
    estimated: Floats | Any, mapped: Floats, params: Parameters
) -> dict[str, float]:
    rows = min(len(mapped), _MOST_COMPARED)
    true = point_distances(mapped[:rows], Combination(params.metric))
    pairs = np.triu_indices(rows, 1)
    if not len(pairs[0]):
        return {}
    errors = (estimated[:rows, :rows] - true)[pairs].astype(np.float64)
    return {
        "mean_absolute": float(np.abs(errors).mean()),
        "bias": float(errors.mean()),
        "largest": float(np.abs(errors).max()),
    }


def _baselines(dataset: NumericTable, values: Floats, params: Parameters) -> dict[str, Any]:
    """Scores (or sizes) of the baselines on the true rows; private."""
    if params.k is None:
        raise BadParameter("k", "the baselines need the number of clusters")
    result: dict[str, Any] = {}
    dimensions = params.rsp_dimensions or max(1, values.shape[1] // 2)
    for name in params.baselines:
        generator = PublicRandom(params.public_seed).generator
        match name:
            case "kmeans":
                labels = kmeans(values, params.k, generator, params.n_init, params.max_iter).labels
            case "adp":
                sigma = float(params.adp_sigma)
                labels = adp(values, sigma, params.k, generator, params.n_init).labels
            case "rsp":
                labels = rsp(values, dimensions, params.k, generator, params.n_init).labels
        result[name] = _scored(dataset, labels) or {"sizes": np.bincount(labels).tolist()}
    return result


# The catalogue's entry.

ALGORITHM = Algorithm(
    name=NAME,
    title="Clustering of encoded or gridded records",
    source="L. Sun, J. Zhao, X. Ye, Distributed Clustering in the Anonymized Space with Local "
    "Differential Privacy: equations 1 to 23, Algorithms 1 and 2",
    purpose="Several custodians cluster the union of their numeric records. Sound: a noisy grid, "
    "whose labels each custodian gives to its own rows. Paper: flipped bit vectors and kCluster.",
    dataset_kind="numeric-table",
    params=Parameters,
    stances=("sound", "paper"),
    run=run,
    preview=preview,
    result={
        "method": "what was released",
        "k": "clusters found",
        "centres": "of the clusters, in data units (grids and noisy points)",
        "plan": "mode, start and budget of each query (grid-core, adaptive)",
        "truncated": "whether an aborted round ended the run (grid-core, adaptive, over curators)",
        "masses": "noisy number of records of each cluster (grids)",
        "sizes": "records of each cluster, counted over noisy labels (bits and noisy points)",
        "objective": "sum of mean distances to the own cluster, equation 17 (kCluster)",
        "iterations": "of each restart",
        "converged": "whether the best restart ended by itself",
        "unreached_pairs": "pairs that no closure reached (paper)",
        "warning": "no_utility_expected, or no_cell_above_the_noise",
    },
    complexity="grids: O(n + G^d); kCluster: O(n^2 (s d / 64 + k)); one attribute: O(n s k)",
    rounds=ROUNDS,
    reports=REPORTS,
    check=check,
    check_outline=check_outline,
    drawings={**DRAWINGS, **DRAWINGS_OF_CENTRES},
    evaluation_pictures=evaluation_pictures,
)
