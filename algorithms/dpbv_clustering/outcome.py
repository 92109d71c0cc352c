"""What a job of dpbv-clustering publishes, with its pictures.

Made of released bits, counts or points, and of public parameters alone. Plots of an evaluation
(reference labels against released ones, true sizes, scores) are for the operator only.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from algorithms.contract import Drawing, Outcome, Picture, Plot, ResultFile, with_verdict
from algorithms.dpbv_clustering.clustering_methods import KMeansResult, kmeans
from algorithms.dpbv_clustering.grid import GridClustering
from algorithms.dpbv_clustering.paper import Found
from algorithms.dpbv_clustering.parameters import BitPlan, Parameters
from algorithms.drawing import BLUE, RED, compared_bars, floats, picture
from tacit.accounting.randomised_response import delta_of_responses
from tacit.encoders.dpbv_clustering import POINT_STEPS, Box, Cells, Floats, Ints
from tacit.randomness import PublicRandom
from tacit.records.text_files import written
from tacit.report.model import PrivacyReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INCHES: Final = (5.4, 4.0)
_POINTS: Final = 100
_SHOWN: Final = 5000
_PLANE: Final = 2


def scatter(points: Floats, labels: Ints, columns: tuple[str, ...]) -> Plot:
    """Estimated or noisy points (n, d), d >= 2, by label; the first 5,000 and two attributes."""
    shown = points[:_SHOWN, :_PLANE]
    return Plot.of("scatter", points=shown, labels=labels[:_SHOWN], columns=columns[:_PLANE])


def _scatter(axes: Axes, values: Mapping[str, Any]) -> None:
    points, (first, second) = floats(values["points"]), values["columns"]
    axes.scatter(points[:, 0], points[:, 1], c=values["labels"], cmap="tab10", s=6)
    axes.set(title="Noisy records by label", xlabel=first, ylabel=second)


def grid(
    cells: Cells, counts: Floats, clustering: GridClustering, columns: tuple[str, ...]
) -> Plot:
    """Noisy counts of a grid of two axes, with the centres."""
    return Plot.of(
        "grid",
        counts=counts.reshape(cells.per_axis, cells.per_axis),
        lower=cells.box.lower,
        upper=cells.box.upper,
        centres=clustering.centres,
        columns=columns,
    )


def _grid(axes: Axes, values: Mapping[str, Any]) -> None:
    low, high, (first, second) = values["lower"], values["upper"], values["columns"]
    image = axes.imshow(
        floats(values["counts"]).T,
        origin="lower",
        extent=(low[0], high[0], low[1], high[1]),
        aspect="auto",
        cmap="Blues",
    )
    axes.figure.colorbar(image, ax=axes, label="noisy count")
    for x, y in values["centres"]:
        axes.scatter(x, y, marker="x", color=RED)
    axes.set(title="Noisy grid and centres", xlabel=first, ylabel=second)


def dendrogram(merges: Floats) -> Plot:
    """The upper merges of an average linkage."""
    from scipy.cluster.hierarchy import dendrogram as laid_out

    tree = laid_out(merges, truncate_mode="lastp", p=30, no_labels=True, no_plot=True)
    return Plot.of(
        "dendrogram", places=tree["icoord"], heights=tree["dcoord"], colours=tree["color_list"]
    )


def _dendrogram(axes: Axes, values: Mapping[str, Any]) -> None:
    for places, heights, colour in zip(
        values["places"], values["heights"], values["colours"], strict=True
    ):
        axes.plot(places, heights, color=colour)
    axes.set_ylim(bottom=0)
    axes.set_xticks([])
    axes.set(title="Average linkage", ylabel="decoded distance")


def delta_curve(plan: BitPlan) -> Plot:
    """The true delta over epsilon of the accounted bits; needs flips."""
    bit = Fraction(plan.flip.epsilon)
    epsilons = np.linspace(0, plan.differing * plan.flip.epsilon, _POINTS)
    deltas = [
        float(delta_of_responses(plan.differing, bit, Fraction(epsilon)))
        for epsilon in epsilons.tolist()
    ]
    return Plot.of("delta", epsilons=epsilons, deltas=deltas)


def _delta(axes: Axes, values: Mapping[str, Any]) -> None:
    axes.plot(values["epsilons"], values["deltas"], color=BLUE)
    axes.set(title="What holds for a record", xlabel="epsilon", ylabel="delta", ylim=(0, 1.02))


DRAWINGS: Final = {
    "scatter": Drawing(_scatter),
    "grid": Drawing(_grid),
    "dendrogram": Drawing(_dendrogram),
    "delta": Drawing(_delta),
}


def is_plane(dimension: int) -> bool:
    """Whether there are two axes to draw."""
    return dimension >= _PLANE


# Spec: jobs, section "Result". Visible only to the operator; drawn where the evaluation is read.

_NAME: Final = "dpbv-clustering"


def evaluation_pictures(
    evaluation: Mapping[str, Any], summary: Mapping[str, Any]
) -> tuple[Picture, ...]:
    """Those that the evaluation has figures for."""
    drawn = []
    if "agreement" in evaluation:
        table = evaluation["agreement"]
        drawn.append(picture(_NAME, "agreement", lambda axes: _agreement(axes, table), _INCHES))
    if summary.get("masses") and "rows" in evaluation:
        rows, masses = evaluation["rows"], summary["masses"]
        drawn.append(picture(_NAME, "sizes", lambda axes: _sizes(axes, rows, masses), _INCHES))
    baselines = evaluation.get("baselines", {})
    scored = {name: scores for name, scores in baselines.items() if "nmi" in scores}
    if scored and "nmi" in evaluation:
        scores = {"this job": evaluation, **scored}
        drawn.append(picture(_NAME, "scores", lambda axes: _scores(axes, scores), _INCHES))
    return tuple(drawn)


def _agreement(axes: Axes, table: Mapping[str, Any]) -> None:
    axes.set_title("Rows by reference and released label (private)")
    counts = np.array(table["rows"], np.float64)
    shown = axes.imshow(counts, cmap="Blues", aspect="auto", vmin=0)
    axes.set_xticks(range(len(table["labels"])), [str(label) for label in table["labels"]])
    axes.set_yticks(
        range(len(table["reference"])), [str(reference) for reference in table["reference"]]
    )
    axes.set_xlabel("released label (-1: noise)")
    axes.set_ylabel("reference label")
    axes.figure.colorbar(shown, ax=axes, label="rows")


def _sizes(axes: Axes, rows: Mapping[str, int], masses: list[float]) -> None:
    axes.set_title("Rows of each cluster (private)")
    names = [str(place) for place in range(len(masses))]
    true = [rows.get(name, 0) for name in names]
    compared_bars(axes, names, {"true": true, "released": masses})
    axes.set_xlabel("cluster")
    axes.set_ylabel("rows")


def _scores(axes: Axes, scores: Mapping[str, Mapping[str, float]]) -> None:
    axes.set_title("Agreement with the reference labels (private)")
    series = {
        "mutual information": [figures["nmi"] for figures in scores.values()],
        "adjusted Rand index": [figures["ari"] for figures in scores.values()],
    }
    compared_bars(axes, list(scores), series)
    axes.set_ylabel("score (1: the same)")


# Spec: dpbv-clustering, section 2 ("Outputs"); jobs, "Result". The central and the federated form
# call this module with the same values.

Owners: TypeAlias = Sequence[tuple[str, str]] | None
"""Curator and record of each label, where curators encoded them; None: a table's rows in order."""


def labelled_outcome(
    columns: tuple[str, ...],
    params: Parameters,
    plan: BitPlan,
    clustering: Found,
    report: PrivacyReport,
    owners: Owners = None,
    evaluation: Mapping[str, Any] | None = None,
) -> Outcome:
    """What is published of labels that were found on bits."""
    plots: list[Plot] = []
    points = clustering.points
    if points is not None and is_plane(len(columns)):
        plots.append(scatter(plan.box.raw(points), clustering.labels, columns))
    merges = clustering.merges
    if merges is not None:
        plots.append(dendrogram(merges))
    if plan.flip.threshold and params.partition == "horizontal":
        plots.append(delta_curve(plan))
    clusters = np.unique(clustering.labels[clustering.labels >= 0])
    summary: dict[str, Any] = {
        "method": "dpbv" if report.stance == "paper" else "dpbv-exact",
        "k": int(clusters.size),
        "sizes": [int((clustering.labels == cluster).sum()) for cluster in clusters.tolist()],
        "noise_records": int((clustering.labels < 0).sum()),
        "objective": clustering.objective,
        "iterations": list(clustering.iterations),
        "converged": clustering.converged,
        "consistency": plan.consistency,
        "unreached_pairs": clustering.unreached,
        "warning": (report.error or {}).get("warning"),
    }
    return Outcome(
        summary,
        report,
        (_labels_file(clustering.labels, owners),),
        tuple(plots),
        {"r_seed": params.r_seed, "public_seed": params.public_seed},
        evaluation or None,
    )


@dataclass(frozen=True, eq=False)
class PointClustering:
    """k-means of noisy points, `places` (n, d) after the box's map."""

    box: Box
    places: Floats
    found: KMeansResult


def cluster_points(steps: Ints, box: Box, params: Parameters) -> PointClustering:
    """Clusters of noisy steps (n, d)."""
    assert params.k is not None
    ends = np.array(box.ranges)
    places = ends[:, 0] + steps * ((ends[:, 1] - ends[:, 0]) / POINT_STEPS)
    generator = PublicRandom(params.public_seed).generator
    fitted = kmeans(places, params.k, generator, params.n_init, params.max_iter)
    return PointClustering(box, places, fitted)


def points_outcome(
    clustering: PointClustering,
    columns: tuple[str, ...],
    params: Parameters,
    report: PrivacyReport,
    owners: Owners = None,
    evaluation: Mapping[str, Any] | None = None,
) -> Outcome:
    """What is published of noisy points and their clusters."""
    box, fitted = clustering.box, clustering.found
    plots: list[Plot] = []
    if is_plane(len(columns)):
        plots.append(scatter(box.raw(clustering.places), fitted.labels, columns))
    return Outcome(
        {
            "method": "laplace-points",
            "k": len(fitted.centres),
            "centres": box.raw(fitted.centres).tolist(),
            "columns": list(columns),
            "sizes": np.bincount(fitted.labels, minlength=len(fitted.centres)).tolist(),
        },
        report,
        (_labels_file(fitted.labels, owners),),
        tuple(plots),
        {"public_seed": params.public_seed},
        evaluation,
    )


def grid_outcome(
    cells: Cells,
    counts: Floats,
    clustering: GridClustering,
    columns: tuple[str, ...],
    params: Parameters,
    report: PrivacyReport,
    local: bool = False,
    evaluation: dict[str, Any] | None = None,
) -> Outcome:
    """What is published of noisy counts (cells,) and their clusters."""
    if not clustering.clusters:
        nothing = with_verdict(report.error or {}, "noise", "no cell stands out from the noise")
        report = report.model_copy(update={"error": nothing})
    plots: list[Plot] = []
    if len(columns) == 2:
        plots.append(grid(cells, counts, clustering, columns))
    return Outcome(
        {
            "method": "grid-ldp" if local else "grid-core",
            "form": "density" if params.clusterer == "dbscan" else "kmeans",
            "k": clustering.clusters,
            "columns": list(columns),
            "centres": clustering.centres.tolist(),
            "masses": clustering.masses.tolist(),
            "cells_per_axis": cells.per_axis,
            "kept_cells": clustering.kept,
            "warning": None if clustering.clusters else "no_cell_above_the_noise",
        },
        report,
        (_grid_file(cells, counts, clustering, columns),),
        tuple(plots),
        {"public_seed": params.public_seed},
        evaluation or None,
    )


def _labels_file(labels: Ints, owners: Owners) -> ResultFile:
    about = "the cluster of each record in order; -1 is noise"
    lines: list[tuple[object, ...]] = [("label",), *((label,) for label in labels.tolist())]
    if owners is not None:
        about = "the cluster of each curator's records, by number; -1 is noise"
        named = zip(owners, labels.tolist(), strict=True)
        lines = [("curator", "record", "label"), *((*whose, label) for whose, label in named)]
    return ResultFile.csv("labels.csv", written(lines), about)


def _grid_file(
    cells: Cells, counts: Floats, clustering: GridClustering, columns: tuple[str, ...]
) -> ResultFile:
    lines = io.StringIO()
    lines.write(written([(*columns, "noisy_count", "label")]))
    for middle, count, label in zip(
        cells.centres().tolist(), counts.tolist(), clustering.labels.tolist(), strict=True
    ):
        lines.write(",".join(map(repr, middle)) + f",{count!r},{label}\n")
    return ResultFile.csv(
        "grid.csv",
        lines.getvalue(),
        "the middle of each cell, its noisy count and its label; curators label their own rows",
    )
