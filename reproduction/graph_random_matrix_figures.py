"""The book's chapter 11, Figures 11.2 to 11.9, and its baseline LNPP.

Spec: graph-random-matrix, sections 5 and 6. Figures 11.2 to 11.4 show NMI of clusters, 11.5 to
11.7 their sizes, 11.8 and 11.9 overlap of rankings, each for one of the source's graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from algorithms.graph_random_matrix.linear_algebra import Spectrum
from reproduction.experiment import Experiment, Outcome, Row, Run, marked, quoted, trend
from reproduction.graph_random_matrix import (
    CAPPED,
    NOT_SHIPPED,
    SOURCE,
    compared,
)
from reproduction.graph_random_matrix_data import Network, facebook
from reproduction.graph_random_matrix_printed import (
    CLUSTERS,
    DISTANCES_OF_BASELINE,
    NMI_OF_BASELINE,
    PROTOTYPE_BASELINE,
    PROTOTYPE_NMI,
    PROTOTYPE_TOP_100,
)
from reproduction.graph_random_matrix_study import (
    SIGMAS,
    baseline,
    distance,
    mean,
    nmi,
    private_clusters,
    runs_of,
    shares,
    top_share,
    true_clusters,
)
from simulation.plots import Line, Panel, Plot, Scale

Measure = Callable[[Network, Spectrum, int], float]

COLUMNS: Final = (20, 200)
FEW: Final = 2
"""Releases with 20 columns, which are compared with those with 200 only."""
TOPS: Final = (10, 100, 1000)
PRIVATE: Final = SIGMAS[-1]
"""Sigma at epsilon 1."""
LNPP: Final = (
    "LNPP is not private: its noise follows the data's own eigengap. Its epsilon is read as 7.29, "
    "that of an exact Gaussian with sigma 1."
)


def figure_11_2(run: Run) -> Outcome:
    """NMI between clusters of true and of noisy eigenvectors."""
    network, runs = facebook(run.data), runs_of(run)
    found: dict[tuple[int, str, int], list[float]] = {}
    done, whole = 0, len(COLUMNS) * len(SIGMAS)
    for columns in COLUMNS:
        for sigma in SIGMAS:
            some = runs - 2 if columns == 200 else FEW
            estimates = [network.estimate(columns, sigma, seed) for seed in range(1, some + 1)]
            for k in CLUSTERS:
                if 2 * k <= columns:
                    found[columns, sigma, k] = [nmi(network, each, k) for each in estimates]
            done += 1
            run.progress(done / whole)
    rows = [
        compared(
            network,
            f"{network.name}, m = 200, sigma {sigma}, k = {k}",
            expected,
            found[200, sigma, k],
        )
        for (sigma, k), expected in PROTOTYPE_NMI.items()
    ]
    rows += _statements(network, found)
    rows = marked(rows, stand_in=not network.real)
    lines = {
        columns: tuple(
            Line(
                f"k = {k}",
                tuple(float(sigma) for sigma in SIGMAS),
                tuple(mean(found[columns, sigma, k]) for sigma in SIGMAS),
            )
            for k in CLUSTERS
            if 2 * k <= columns
        )
        for columns in COLUMNS
    }
    panels = tuple(
        Panel(f"{network.name}, m = {columns}", "sigma", "NMI", each, "log", "linear")
        for columns, each in lines.items()
    )
    plot = Plot("book-fig-11.2", "Clusters of true and of noisy eigenvectors", panels)
    return Outcome(tuple(rows), (plot,), (network.provenance,), (NOT_SHIPPED, CAPPED))


def _statements(network: Network, runs: dict[tuple[int, str, int], list[float]]) -> list[Row]:
    """What the text states about its figures."""
    found = {place: mean(each) for place, each in runs.items()}
    better = all(found[200, sigma, 4] > found[20, sigma, 4] for sigma in SIGMAS[:3])
    rows = [
        trend(
            f"{network.name}: m = 200 is better than 20 (k = 4, the source's sigmas)",
            better,
            stand_in=not network.real,
        )
    ]
    for k in CLUSTERS:
        name = f"{network.name}, m = 200, sigma 1, k = {k} (printed: at least 0.70)"
        rows.append(Row(name, None, "quoted", found[200, "1", k]))
    nothing = max(found[200, PRIVATE, k] for k in CLUSTERS[:2])
    rows.append(
        Row(
            f"m = 200, sigma {PRIVATE} (epsilon 1): nothing is left, at most 0.1 for k = 2, 4",
            True,
            "trend",
            nothing <= 0.1,
        )
    )
    return rows


def figure_11_5(run: Run) -> Outcome:
    """Shares of the vertices by cluster, largest first, of true and of noisy eigenvectors."""
    network = facebook(run.data)
    rows, panels = [], []
    for sigma in ("1", PRIVATE):
        estimates = [network.estimate(200, sigma, seed) for seed in range(1, FEW + 3)]
        for k in CLUSTERS:
            truth = shares(true_clusters(network, k)[0], k)
            noisy = [shares(private_clusters(each, k), k) for each in estimates]
            moved = mean([float(np.abs(truth - each).sum() / 2) for each in noisy])
            name = f"{network.name}, m = 200, sigma {sigma}, k = {k}"
            rows.append(quoted(f"{name}: share of the vertices in other places", moved))
            if sigma != PRIVATE:
                said = ", as the text says" if k <= 4 else ""
                alike = f"{name}: clusters have the same shares, within 0.02{said}"
                rows.append(Row(alike, k <= 4, "trend", moved <= 0.02))
                places = tuple(map(float, range(1, k + 1)))
                lines = (
                    Line("original", places, tuple(truth)),
                    Line("published", places, tuple(noisy[0])),
                )
                panels.append(Panel(f"k = {k}", "cluster", "share", lines, "linear", "linear"))
            elif k <= 4:
                rows.append(
                    trend(f"{name} (epsilon 1): at least 0.3 in other places", moved >= 0.3)
                )
            run.progress(len(rows) / (2 * len(CLUSTERS) + 6))
    run.progress(1.0)
    if not network.real:
        rows = [quoted(row.name, row.measured, stand_in=True) for row in rows]
    plot = Plot("book-fig-11.5", "Vertices by cluster, sigma 1", tuple(panels))
    return Outcome(tuple(rows), (plot,), (network.provenance,), (NOT_SHIPPED, CAPPED))


def figure_11_8(run: Run) -> Outcome:
    """The share of common vertices in the heads of the true and the noisy ranking."""
    network, runs = facebook(run.data), runs_of(run)
    found: dict[tuple[str, int], list[float]] = {}
    for place, sigma in enumerate(SIGMAS):
        estimates = [network.estimate(200, sigma, seed) for seed in range(1, runs + 1)]
        for top in TOPS:
            found[sigma, top] = [top_share(network, each, 2, top) for each in estimates]
        run.progress(0.8 * (place + 1) / len(SIGMAS))
    of_baseline = [
        mean(
            [
                top_share(network, baseline(network, 2, run.source("lnpp", 2, seed)), 2, top)
                for seed in range(runs)
            ]
        )
        for top in TOPS
    ]
    rows = [
        compared(
            network,
            f"{network.name}, k = 2, sigma {sigma}: top 100 (printed: at least 0.80)",
            expected,
            found[sigma, 100],
        )
        for sigma, expected in PROTOTYPE_TOP_100.items()
    ]
    rows.append(
        Row(
            f"{network.name}, sigma {PRIVATE} (epsilon 1): top 100 at most 0.15",
            True,
            "trend",
            mean(found[PRIVATE, 100]) <= 0.15,
        )
    )
    rows += [
        Row(
            f"{network.name}, k = 2, sigma {sigma}: top {top}",
            None,
            "quoted",
            mean(found[sigma, top]),
        )
        for sigma in SIGMAS
        for top in TOPS
        if top != 100
    ]
    rows.append(
        Row(
            f"{network.name}, LNPP: top 100 at most 0.10 (printed: below 0.01)",
            True,
            "trend",
            of_baseline[1] <= 0.10,
        )
    )
    rows = marked(rows, stand_in=not network.real)
    run.progress(1.0)
    places = tuple(map(float, TOPS))
    lines = (
        *(
            Line(f"sigma {sigma}", places, tuple(mean(found[sigma, top]) for top in TOPS))
            for sigma in SIGMAS
        ),
        Line("LNPP", places, tuple(of_baseline), kind="ours"),
    )
    plot = Plot(
        "book-fig-11.8",
        "Heads of true and noisy rankings: common vertices",
        (
            Panel(
                f"{network.name}, m = 200, k = 2",
                "size of the head",
                "share",
                lines,
                "log",
                "linear",
            ),
        ),
    )
    return Outcome(tuple(rows), (plot,), (network.provenance,), (NOT_SHIPPED, CAPPED, LNPP))


def table_11_3(run: Run) -> Outcome:
    """NMI of the baseline."""
    network, runs = _baseline(run, nmi)
    values = [mean(each) for each in runs]
    rows = []
    for k, printed, found in zip(CLUSTERS, NMI_OF_BASELINE, values, strict=True):
        name = f"{network.name}, LNPP, k = {k} (printed for Facebook: {printed:g})"
        rows.append(Row(name, None, "quoted", found))
        if k <= 8:
            rows.append(
                Row(
                    f"{network.name}, LNPP, k = {k}: at most 0.03",
                    True,
                    "trend",
                    found <= 0.03,
                )
            )
    return _outcome(network, "book-table-11.3", "NMI", rows, values, NMI_OF_BASELINE)


def table_11_7(run: Run) -> Outcome:
    """n * MSE of the baseline."""
    network, runs = _baseline(run, distance)
    values = [mean(each) for each in runs]
    rows = []
    for k, printed, found in zip(CLUSTERS, DISTANCES_OF_BASELINE, runs, strict=True):
        name = f"{network.name}, LNPP, k = {k} (printed for Facebook: {printed:g})"
        rows.append(compared(network, name, PROTOTYPE_BASELINE[k], found))
    return _outcome(network, "book-table-11.7", "n * MSE", rows, values, DISTANCES_OF_BASELINE)


def _baseline(run: Run, measure: Measure) -> tuple[Network, list[list[float]]]:
    network, runs = facebook(run.data), runs_of(run)
    values = []
    for place, k in enumerate(CLUSTERS):
        found = [
            measure(network, baseline(network, k, run.source("lnpp", k, seed)), k)
            for seed in range(runs)
        ]
        values.append(found)
        run.progress((place + 1) / len(CLUSTERS))
    return network, values


def _outcome(
    network: Network,
    name: str,
    measure: str,
    rows: list[Row],
    values: list[float],
    printed: tuple[float, ...],
) -> Outcome:
    places = tuple(map(float, CLUSTERS))
    lines = (
        Line(network.name, places, tuple(values)),
        Line("printed for Facebook", places, printed, kind="ours"),
    )
    scale: Scale = "log" if measure == "NMI" else "linear"
    panel = Panel("LNPP, not private", "components k", measure, lines, y_scale=scale)
    plot = Plot(name, f"The baseline: {measure}", (panel,))
    rows = marked(rows, stand_in=not network.real)
    return Outcome(tuple(rows), (plot,), (network.provenance,), (NOT_SHIPPED, LNPP))


EXPERIMENTS: Final = (
    Experiment(
        "book-fig-11.2",
        f"{SOURCE}, Figures 11.2 to 11.4",
        "clusters of true and of noisy eigenvectors, by noise",
        100,
        figure_11_2,
    ),
    Experiment(
        "book-fig-11.5",
        f"{SOURCE}, Figures 11.5 to 11.7",
        "shares of the vertices by cluster, original and published",
        50,
        figure_11_5,
        "facebook_combined.txt (--data)",
    ),
    Experiment(
        "book-fig-11.8",
        f"{SOURCE}, Figures 11.8 and 11.9",
        "influential vertices found, by noise",
        20,
        figure_11_8,
    ),
    Experiment(
        "book-table-11.3",
        f"{SOURCE}, Table 11.3",
        "clusters by the baseline LNPP",
        30,
        table_11_3,
    ),
    Experiment(
        "book-table-11.7",
        f"{SOURCE}, Table 11.7",
        "centrality by the baseline LNPP",
        10,
        table_11_7,
        "facebook_combined.txt (--data)",
    ),
)
