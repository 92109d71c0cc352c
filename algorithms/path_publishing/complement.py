"""Publish the map's edges off the path, and nothing else. Spec: path-publishing, section 3.8.

The result is a function of the vertices and of E minus E_P: inputs that agree in those give the
same bytes, whatever the path is. A holder of E subtracts.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from algorithms.path_publishing.assembly import canonical_layout
from tacit.paths.network import Ints, NetworkPath, VertexId, pair_codes, sorted_codes, without
from tacit.paths.published import ComplementEdges, LevelledGraph

LAYOUT_BUDGET = 2000


def off_path(network: NetworkPath, beat: Callable[[], None] = lambda: None) -> ComplementEdges:
    """Sorted ids and the sorted edges off the path, without a direction. `beat` is called between
    its steps."""
    size = network.network.size
    ids, rank = sorted_ids(network.network.vertices)
    edges, path = network.network.edges, rank[network.path]
    if ids != network.network.vertices:
        edges = rank[edges]
    beat()
    codes = sorted_codes(edges[:, 0], edges[:, 1], size)
    beat()
    left = without(codes, pair_codes(path[:-1], path[1:], size))
    beat()
    return ComplementEdges(ids, np.stack(np.divmod(left, size), axis=1))


def sorted_ids(vertices: tuple[VertexId, ...]) -> tuple[tuple[VertexId, ...], Ints]:
    """The ids in order, and the rank (n,) of each."""
    ordered = tuple(sorted(vertices))
    if ordered == vertices:
        return vertices, np.arange(len(vertices))
    order = sorted(range(len(vertices)), key=vertices.__getitem__)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return ordered, rank


def layout_of(published: ComplementEdges) -> LevelledGraph:
    """The published edges on levels, from them alone."""
    together = [0] * len(published.vertices)
    for low, high in published.edges.tolist():
        together[low] |= 1 << high
        together[high] |= 1 << low
    return canonical_layout(together, published.vertices, LAYOUT_BUDGET)
