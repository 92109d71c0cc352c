"""The book's chapter 11, Tables 11.5, 11.9, Figure 11.11: its baseline of random walks (RW).

Spec: graph-random-matrix, sections 5 and 6. The source's graphs are not shipped, so its figures are
shown next to those of facebook_combined, but not compared; what its text states about RW is checked
on that graph.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from algorithms.datasets.edge_list import EdgeList
from algorithms.graph_random_matrix.evaluation import reference_spectrum
from algorithms.graph_random_matrix.linear_algebra import Adjacency, Spectrum
from algorithms.graph_random_matrix.publication import adjacency
from reproduction.experiment import Experiment, Outcome, Row, Run, marked, quoted, trend
from reproduction.graph_random_matrix import NOT_SHIPPED, SOURCE
from reproduction.graph_random_matrix_data import MOST, Network, facebook
from reproduction.graph_random_matrix_figures import LNPP, TOPS
from reproduction.graph_random_matrix_printed import (
    CLUSTERS,
    DISTANCES_OF_WALKS,
    NMI_OF_WALKS,
)
from reproduction.graph_random_matrix_study import (
    baseline,
    distance,
    mean,
    nmi,
    runs_of,
    top_share,
)
from simulation.plots import Line, Panel, Plot
from tacit.randomness import SeededRandom

STEPS: Final = 2
"""The source's t."""
RETRIES: Final = 10
_LEAST_NMI: Final = 0.70
"""The lowest of RW that is printed for Facebook."""
_SIGNIFICANT: Final = 10
"""How many times closer than LNPP the text's "significantly better" is taken to be."""


# RW: each edge u - v is replaced by u - z, where z ends a random walk from v. Source: P. Mittal, C.
# Papamanthou, D. Song, "Preserving link privacy in social network based systems", arXiv 1208.6189.


def random_walk_graph(graph: Adjacency, steps: int, retries: int, source: SeededRandom) -> EdgeList:
    """Each vertex's edges moved to where a walk of steps - 1 >= 0 from its neighbours ends.

    A walk that ends at the vertex itself or at one joined to it already is repeated, at most
    `retries` times. The first edge of a vertex is kept for sure, each later one with probability
    (degree / 2 - 1) / (degree - 1), so that the number of edges stays about the same. Not private.
    """
    generator = source.generator
    starts, neighbours = graph.starts.tolist(), graph.neighbours.tolist()
    joined: list[set[int]] = [set() for _ in range(graph.count)]
    for vertex in range(graph.count):
        begin, end = starts[vertex], starts[vertex + 1]
        later = (end - begin) / 2 - 1
        for place in range(begin, end):
            for _ in range(retries):
                reached = neighbours[place]
                for _ in range(steps - 1):
                    low, high = starts[reached], starts[reached + 1]
                    reached = neighbours[low + int(generator.random() * (high - low))]
                if reached != vertex and reached not in joined[vertex]:
                    break
            else:
                continue
            if place > begin and generator.random() * (end - begin - 1) >= later:
                continue
            joined[vertex].add(reached)
            joined[reached].add(vertex)
    pairs = np.array(
        [(one, other) for one, found in enumerate(joined) for other in found if one < other],
        np.int32,
    ).reshape(-1, 2)
    return EdgeList.from_pairs(np.arange(graph.count), pairs[:, 0], pairs[:, 1])


def walked(network: Network, run: Run, seed: int) -> Spectrum:
    """The spectrum of the graph whose edges random walks have moved."""
    moved = random_walk_graph(network.graph, STEPS, RETRIES, run.source("walks", seed))
    return reference_spectrum(adjacency(moved), MOST)


def table_11_5(run: Run) -> Outcome:
    """NMI between clusters of the graph and of the one that walks have moved."""
    network, of_walks = _walks(run)
    values = [mean([nmi(network, each, k) for each in of_walks]) for k in CLUSTERS]
    of_lnpp = [nmi(network, baseline(network, k, run.source("lnpp", k, 0)), k) for k in CLUSTERS]
    rows = _shown(network, values, NMI_OF_WALKS)
    kept = f"{network.name}: RW keeps the clusters, NMI at least {_LEAST_NMI:.2f} for every k"
    rows += [
        trend(kept, min(values) >= _LEAST_NMI)
        if network.real
        else quoted(kept, min(values) >= _LEAST_NMI),
        trend(
            f"{network.name}: RW is better than LNPP for every k",
            all(one > other for one, other in zip(values, of_lnpp, strict=True)),
        ),
    ]
    run.progress(1.0)
    return _outcome(network, "book-table-11.5", "NMI", rows, values, NMI_OF_WALKS)


def table_11_9(run: Run) -> Outcome:
    """n * MSE of the centrality scores of the graph that walks have moved."""
    network, of_walks = _walks(run)
    values = [mean([distance(network, each, k) for each in of_walks]) for k in CLUSTERS]
    of_lnpp = [
        distance(network, baseline(network, k, run.source("lnpp", k, 0)), k) for k in CLUSTERS
    ]
    ours = distance(network, network.estimate(200, "1", 1), CLUSTERS[0])
    rows = _shown(network, values, DISTANCES_OF_WALKS)
    rows += [
        trend(
            f"{network.name}: RW is {_SIGNIFICANT} times closer than LNPP for every k",
            all(_SIGNIFICANT * one < other for one, other in zip(values, of_lnpp, strict=True)),
        ),
        quoted(f"{network.name}, random matrix, sigma 1, m = 200, k = 2", ours),
        Row(
            f"{network.name}: random matrices are closer than RW at k = 2, as the text says",
            False,
            "trend",
            ours < values[0],
        ),
    ]
    run.progress(1.0)
    return _outcome(network, "book-table-11.9", "n * MSE", rows, values, DISTANCES_OF_WALKS)


def figure_11_11(run: Run) -> Outcome:
    """Common vertices in the heads of the rankings of the graph and of the moved one."""
    network, of_walks = _walks(run)
    kept = {
        (k, top): mean([top_share(network, each, k, top) for each in of_walks])
        for k in CLUSTERS
        for top in TOPS
    }
    of_matrix = top_share(network, network.estimate(200, "1", 1), CLUSTERS[0], TOPS[-1])
    rows = [quoted(f"{network.name}, RW, k = {k}: top {top}", kept[k, top]) for k, top in kept]
    rows += [
        trend(
            f"{network.name}: RW keeps at least 0.88 of the top 1000 for every k",
            min(kept[k, TOPS[-1]] for k in CLUSTERS) >= 0.88,
        ),
        Row(
            f"{network.name}: RW keeps fewer of the top 1000 than random matrices (sigma 1) at "
            "k = 2: it does not preserve ranks, the text says",
            False,
            "trend",
            kept[CLUSTERS[0], TOPS[-1]] < of_matrix,
        ),
    ]
    lines = tuple(
        Line(f"k = {k}", tuple(map(float, TOPS)), tuple(kept[k, top] for top in TOPS))
        for k in CLUSTERS
    )
    panel = Panel("random walks, t = 2, not private", "size of the head", "share", lines)
    plot = Plot("book-fig-11.11", "The baseline of random walks: common vertices", (panel,))
    run.progress(1.0)
    if not network.real:
        rows = [quoted(row.name, row.measured, stand_in=True) for row in rows]
    return Outcome(tuple(rows), (plot,), (network.provenance,), (NOT_SHIPPED, _RW))


def _walks(run: Run) -> tuple[Network, list[Spectrum]]:
    network, found = facebook(run.data), []
    runs = runs_of(run)
    for seed in range(runs):
        found.append(walked(network, run, seed))
        run.progress(0.7 * (seed + 1) / runs)
    return network, found


def _shown(network: Network, values: list[float], printed: tuple[float, ...]) -> list[Row]:
    return [
        quoted(f"{network.name}, RW, k = {k} (printed for Facebook: {of_facebook:g})", value)
        for k, value, of_facebook in zip(CLUSTERS, values, printed, strict=True)
    ]


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
    panel = Panel("random walks, t = 2, not private", "components k", measure, lines)
    plot = Plot(name, f"The baseline of random walks: {measure}", (panel,))
    rows = marked(rows, stand_in=not network.real)
    return Outcome(tuple(rows), (plot,), (network.provenance,), (NOT_SHIPPED, _RW, LNPP))


_RW: Final = (
    "RW has no theorem of differential privacy; t = 2 is the source's, 10 retries are ours."
)
EXPERIMENTS: Final = (
    Experiment(
        "book-fig-11.11",
        f"{SOURCE}, Figure 11.11",
        "influential vertices found, by the baseline of random walks",
        30,
        figure_11_11,
        "facebook_combined.txt (--data)",
    ),
    Experiment(
        "book-table-11.5",
        f"{SOURCE}, Table 11.5",
        "clusters by the baseline of random walks",
        28,
        table_11_5,
    ),
    Experiment(
        "book-table-11.9",
        f"{SOURCE}, Table 11.9",
        "centrality by the baseline of random walks",
        15,
        table_11_9,
    ),
)
