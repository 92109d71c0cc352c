"""Comparison with the true graph: visible only to the operator, never published.

Spec: graph-der, section 5. A uniform random graph with the true number of edges is measured, too:
on random sets it answers cut queries as well as the release.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from algorithms.contract import Context
from algorithms.datasets.edge_list import EdgeList
from algorithms.graph_der.baselines import cell_of, uniform_places
from algorithms.graph_der.block_graph import BlockRelease
from algorithms.graph_der.labelling import labelled, neighbours_adjacent
from algorithms.graph_der.metrics import (
    SHARES,
    Cuts,
    Drawn,
    Ends,
    assortativity,
    clustering,
    degree_divergence,
    mean_distance,
    relative_error,
)
from algorithms.graph_der.parameters import Metrics
from algorithms.graph_der.publication import Release
from tacit.randomness import SeededRandom


def random_ends(vertices: int, edges: int, seed: int) -> Ends:
    """A uniform graph with this many edges, for comparison."""
    pairs = vertices * (vertices - 1) // 2
    row, column = cell_of(uniform_places(pairs, edges, SeededRandom(seed)), vertices)
    return row.astype("int32"), column.astype("int32")


def evaluate(
    graph: EdgeList, release: Release | BlockRelease, metrics: Metrics, context: Context
) -> dict[str, Any]:
    """All metrics, of the release and of a random graph; null where nothing can be measured."""
    beat = partial(context.progress, 0.98, "evaluating")
    true: Ends = labelled(graph, release.order)
    found = {
        "release": (release.low, release.high),
        "random": random_ends(graph.count, graph.edges, metrics.query_seed),
    }
    adjacent, base = neighbours_adjacent(graph, release.order)
    result: dict[str, Any] = {
        "vertices": graph.count,
        "edges": graph.edges,
        "loops_dropped": graph.loops,
        "duplicates_merged": graph.duplicates,
        "edges_ratio": release.edges / graph.edges if graph.edges else None,
        "common_edges": release.common,
        "labelling_leak": {"adjacent_consecutive_labels": adjacent, "base_rate": base},
        "query_seed": metrics.query_seed,
    }
    if metrics.queries:
        result["cut_queries"] = _cuts(true, found, graph, metrics, context)
    if metrics.degrees:
        result["degree_divergence"] = {
            name: degree_divergence(true, ends, graph.count) for name, ends in found.items()
        }
    if metrics.structure:
        result["structure"] = {
            name: {
                "mean_distance": mean_distance(ends, graph.count, metrics.query_seed, beat),
                "clustering": clustering(ends, graph.count, beat),
                "assortativity": assortativity(ends, graph.count),
            }
            for name, ends in {"true": true, **found}.items()
        }
    return result


def _cuts(
    true: Ends, found: dict[str, Ends], graph: EdgeList, metrics: Metrics, context: Context
) -> list[dict[str, Any]]:
    """Relative errors by how sets are drawn and by their largest size."""
    beat = partial(context.progress, 0.98, "evaluating")
    kinds: tuple[Drawn, ...] = ("random", "range")
    rows = []
    for drawn in kinds:
        for share in SHARES:
            largest = max(1, round(share * graph.count))
            cuts = Cuts.of(graph.count, largest, metrics.queries, drawn, metrics.query_seed)
            answers = cuts.answers([true, *found.values()], beat)
            errors = {
                name: relative_error(answers[0], answers[place], graph.edges)
                for place, name in enumerate(found, start=1)
            }
            rows.append({"sets": drawn, "largest_size": largest, **errors})
    return rows
