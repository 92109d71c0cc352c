"""Error over epsilon, one picture for each better method."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np

from algorithms.contract import SequentialContext
from algorithms.datasets.tables import NumericTable
from algorithms.dpbv_clustering.algorithm import run as run_grid
from algorithms.dpbv_clustering.parameters import Parameters as GridParameters
from algorithms.drawing import COLOURS, picture
from algorithms.graph_der import Parameters as GraphParameters
from algorithms.kmeans.algorithm import best_cost, cost
from bench.utility.clusters import centres, unbalanced
from bench.utility.graphs import blocks, cut_errors, der, graphs
from bench.utility.reports import bounded_reports, laplace_reports
from bench.utility.sequences import long_tail, released_sequences
from bench.utility.sets import released_sets
from bench.utility.spectra import spectral
from reproduction.stand_in_data import stm_like_diffuse
from simulation.stand_in_data import blocks as communities
from tacit.encoders.kmeans import Floats

EPSILONS: Final = ("0.5", "1", "2", "4", "8")
PICTURED: Final = 5
"""Runs of each point of a picture: their mean, in a band from the least to the largest."""

WIDE: Final = 5
"""Errors that differ by more than this factor are drawn on a logarithmic axis."""


@dataclass(frozen=True)
class Curves:
    """A picture of error over epsilon: what runs, by method, the source's or today's first."""

    name: str
    title: str
    measure: str
    methods: dict[str, Callable[[str, int], float]]


def pictures() -> Iterator[Curves]:
    """One for each better method."""
    name, data = next(graphs())
    asked = GraphParameters(epsilon="1", labelling="id")
    yield Curves(
        "graph-der",
        f"Edges between ranges of labels, {name}",
        "mean relative error",
        {
            "der (the source)": lambda epsilon, seed: cut_errors(
                data, der(data, asked.model_copy(update={"epsilon": Fraction(epsilon)}), seed)
            )["error of range cuts"],
            "blocks": lambda epsilon, seed: cut_errors(
                data, blocks(data, asked.model_copy(update={"epsilon": Fraction(epsilon)}), seed)
            )["error of range cuts"],
        },
    )
    groups = communities((80,) * 8, 0.4, 0.02, 1)
    yield Curves(
        "graph-random-matrix",
        "Eight communities of 80 vertices",
        "1 - share of the subspace",
        {
            estimator: lambda epsilon, seed, estimator=estimator: (  # type: ignore[misc]
                1 - spectral(groups, epsilon, estimator, seed)["+ share of the subspace"]
            )
            for estimator in ("range", "subspace", "flip")
        },
    )
    points = unbalanced(2, 4_000, 12, 120, 2, 1)
    best = best_cost(points, 14)
    yield Curves(
        "kmeans",
        "Two dense clusters and twelve light ones",
        "inertia over the best",
        {
            start: lambda epsilon, seed, start=start: (  # type: ignore[misc]
                cost(points, centres(points, 14, epsilon, start, seed)) / best
            )
            for start in ("grid", "two-level")
        },
    )
    table = NumericTable(("a", "b"), points)
    yield Curves(
        "dpbv-clustering",
        "The same points, a record replaced",
        "inertia over the best",
        {
            f"grid-core, {grid}": lambda epsilon, seed, grid=grid: (  # type: ignore[misc]
                cost(points, grid_centres(table, 14, epsilon, grid, seed)) / best
            )
            for grid in ("fixed", "adaptive")
        },
    )
    records = stm_like_diffuse(50_000).dataset
    yield Curves(
        "set-valued",
        "Counts of single items, fare-card-like records",
        "mean relative error",
        {
            method: lambda epsilon, seed, method=method: released_sets(  # type: ignore[misc]
                records, method, seed, epsilon, whole=False
            )["error of items"]
            for method in ("diffpart", "diffpart+rest")
        },
    )
    readings = np.random.default_rng(1).beta(2, 5, 2_000)
    edges = np.linspace(0, 1, 21)
    yield Curves(
        "crowd-tasking",
        "Shares of 20 buckets, 2,000 readings",
        "half the L1 distance",
        {
            "laplace (the source)": lambda epsilon, seed: laplace_reports(
                readings, edges, float(epsilon), seed
            )["error of shares"],
            "subset": lambda epsilon, seed: bounded_reports(readings, edges, float(epsilon), seed)[
                "error of shares"
            ],
        },
    )
    drawn = long_tail(1_000, 8_000)
    yield Curves(
        "sequential-ngram",
        "Counts of single items, 1,000 items and 8,000 sequences",
        "mean relative error",
        {
            kind: lambda epsilon, seed, kind=kind: released_sequences(  # type: ignore[misc]
                drawn, kind, seed, epsilon
            )["error of items"]
            for kind in ("all", "threshold")
        },
    )


def grid_centres(table: NumericTable, k: int, epsilon: str, grid: Any, seed: int) -> Floats:
    """Of `grid-core` on points of the unit box."""
    asked = GridParameters(
        bounds=((0.0, 1.0),) * len(table.columns),
        k=k,
        method="grid-core",
        epsilon=Fraction(epsilon),
        grid=grid,
    )
    outcome = run_grid(table, asked, "sound", SequentialContext(test_seed=seed))
    return np.array(outcome.result["centres"])


def draw(folder: Path, only: Collection[str]) -> None:
    """These pictures, or all where none is named, as utility-<algorithm>.svg."""
    for curves in pictures():
        if only and curves.name not in only:
            continue
        lines = {
            label: np.array(
                [[run(epsilon, seed) for seed in range(PICTURED)] for epsilon in EPSILONS]
            )
            for label, run in curves.methods.items()
        }

        def fill(axes: Any, curves: Curves = curves, lines: Any = lines) -> None:
            places = [float(each) for each in EPSILONS]
            for colour, (label, values) in zip(COLOURS[::-1][2:], lines.items(), strict=False):
                axes.plot(places, values.mean(1), "o-", color=colour, markersize=3, label=label)
                least, largest = values.min(axis=1), values.max(axis=1)
                axes.fill_between(places, least, largest, color=colour, alpha=0.2, linewidth=0)
            axes.set_xscale("log", base=2)
            every = np.stack(list(lines.values()))
            if every.max() > WIDE * every.min():
                axes.set_yscale("log")
            axes.set_xticks(places, EPSILONS)
            axes.set_xlabel(f"epsilon (mean, least and largest of {PICTURED} runs)")
            axes.set_ylabel(curves.measure)
            axes.set_title(curves.title)
            axes.grid(which="major", color="#dddddd", linewidth=0.6)
            axes.legend(frameon=False)

        plot = picture(curves.name, "utility", fill, (5.4, 3.4))
        (folder / f"utility-{curves.name}.svg").write_bytes(plot.svg)
        print(
            curves.name,
            {label: np.round(each.mean(1), 4).tolist() for label, each in lines.items()},
        )
