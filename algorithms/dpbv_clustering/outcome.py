"""What a job of dpbv-clustering publishes: made of released bits, counts or points, and of public
parameters alone.

Spec: dpbv-clustering, section 2 ("Outputs"); jobs, "Result". The central and the federated form
call this module with the same values.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from algorithms.contract import Outcome, Plot, ResultFile
from algorithms.dpbv_clustering import pictures
from algorithms.dpbv_clustering.grid import GridClustering
from algorithms.dpbv_clustering.paper import Found
from algorithms.dpbv_clustering.parameters import BitPlan, Parameters
from algorithms.dpbv_clustering.points import KMeansResult, kmeans
from algorithms.drawing import can_draw
from tacit.encoders.dpbv_clustering.cells import POINT_STEPS, Cells
from tacit.encoders.dpbv_clustering.encoder import Box, Floats, Ints
from tacit.randomness import PublicRandom
from tacit.records.delimited import written
from tacit.report.model import PrivacyReport

Owners: TypeAlias = Sequence[tuple[str, str]] | None
"""Curator and record of each label, where curators encoded them; None: a table's rows in order."""


def labelled_outcome(
    columns: tuple[str, ...],
    params: Parameters,
    plan: BitPlan,
    found: Found,
    report: PrivacyReport,
    owners: Owners = None,
    evaluation: Mapping[str, Any] | None = None,
) -> Outcome:
    """What is published of labels that were found on bits."""
    drawn: list[Callable[[], Plot]] = []
    points = found.points
    if points is not None and pictures.is_plane(len(columns)):
        drawn.append(lambda: pictures.scatter(plan.box.raw(points), found.labels, columns))
    merges = found.merges
    if merges is not None:
        drawn.append(lambda: pictures.dendrogram(merges))
    if plan.flip.threshold and params.partition == "horizontal":
        drawn.append(lambda: pictures.delta_curve(plan))
    clusters = np.unique(found.labels[found.labels >= 0])
    summary: dict[str, Any] = {
        "method": "dpbv" if report.stance == "paper" else "dpbv-exact",
        "k": int(clusters.size),
        "sizes": [int((found.labels == each).sum()) for each in clusters.tolist()],
        "noise_records": int((found.labels < 0).sum()),
        "objective": found.objective,
        "iterations": list(found.iterations),
        "converged": found.converged,
        "consistency": plan.consistency,
        "unreached_pairs": found.unreached,
        "warning": (report.error or {}).get("warning"),
    }
    return Outcome(
        summary,
        report,
        (_labels_file(found.labels, owners),),
        _draw(drawn),
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
    found = kmeans(places, params.k, generator, params.n_init, params.max_iter)
    return PointClustering(box, places, found)


def points_outcome(
    clustering: PointClustering,
    columns: tuple[str, ...],
    params: Parameters,
    report: PrivacyReport,
    owners: Owners = None,
    evaluation: Mapping[str, Any] | None = None,
) -> Outcome:
    """What is published of noisy points and their clusters."""
    box, found = clustering.box, clustering.found
    drawn: list[Callable[[], Plot]] = []
    if pictures.is_plane(len(columns)):
        drawn.append(lambda: pictures.scatter(box.raw(clustering.places), found.labels, columns))
    return Outcome(
        {
            "method": "laplace-points",
            "k": len(found.centres),
            "centres": box.raw(found.centres).tolist(),
            "columns": list(columns),
            "sizes": np.bincount(found.labels, minlength=len(found.centres)).tolist(),
        },
        report,
        (_labels_file(found.labels, owners),),
        _draw(drawn),
        {"public_seed": params.public_seed},
        evaluation,
    )


def grid_outcome(
    cells: Cells,
    counts: Floats,
    found: GridClustering,
    columns: tuple[str, ...],
    params: Parameters,
    report: PrivacyReport,
    local: bool = False,
    evaluation: dict[str, Any] | None = None,
) -> Outcome:
    """What is published of noisy counts (cells,) and their clusters."""
    drawn: list[Callable[[], Plot]] = []
    if len(columns) == 2:
        drawn.append(lambda: pictures.grid(cells, counts, found, columns))
    return Outcome(
        {
            "method": "grid-ldp" if local else "grid-core",
            "form": "density" if params.clusterer == "dbscan" else "kmeans",
            "k": found.clusters,
            "columns": list(columns),
            "centres": found.centres.tolist(),
            "masses": found.masses.tolist(),
            "cells_per_axis": cells.per_axis,
            "kept_cells": found.kept,
            "warning": None if found.clusters else "no_cell_above_the_noise",
        },
        report,
        (_grid_file(cells, counts, found, columns),),
        _draw(drawn),
        {"public_seed": params.public_seed},
        evaluation or None,
    )


def _draw(drawn: list[Callable[[], Plot]]) -> tuple[Plot, ...]:
    return tuple(each() for each in drawn) if can_draw() else ()


def _labels_file(labels: Ints, owners: Owners) -> ResultFile:
    about = "the cluster of each record in order; -1 is noise"
    lines: list[tuple[object, ...]] = [("label",), *((label,) for label in labels.tolist())]
    if owners is not None:
        about = "the cluster of each curator's records, by number; -1 is noise"
        named = zip(owners, labels.tolist(), strict=True)
        lines = [("curator", "record", "label"), *((*whose, label) for whose, label in named)]
    return ResultFile("labels.csv", "text/csv", written(lines).encode(), about)


def _grid_file(
    cells: Cells, counts: Floats, found: GridClustering, columns: tuple[str, ...]
) -> ResultFile:
    lines = io.StringIO()
    lines.write(written([(*columns, "noisy_count", "label")]))
    for middle, count, label in zip(
        cells.centres().tolist(), counts.tolist(), found.labels.tolist(), strict=True
    ):
        lines.write(",".join(map(repr, middle)) + f",{count!r},{label}\n")
    return ResultFile(
        "grid.csv",
        "text/csv",
        lines.getvalue().encode(),
        "the middle of each cell, its noisy count and its label; curators label their own rows",
    )
