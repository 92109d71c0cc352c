"""Labels 0 to n - 1 of the vertices: rows and columns of the matrix.

Spec: graph-der, sections 2 and 4.2. A labelling has to be independent of the edges: the order of
first appearance in a file is not, and its neighbours are often edges.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from algorithms.datasets.edge_list import EdgeList
from algorithms.graph_der.geometry import Labels
from algorithms.graph_der.parameters import Labelling
from tacit.randomness import PublicRandom


def order_of(graph: EdgeList, labelling: Labelling, seed: int) -> NDArray[np.int32]:
    """(n,) the vertex with each label."""
    if labelling == "first_appearance":
        return graph.appearance
    if labelling == "random":
        return PublicRandom(seed).generator.permutation(graph.count).astype(np.int32)
    if labelling == "id":
        return np.argsort(graph.vertices, kind="stable").astype(np.int32)
    return np.arange(graph.count, dtype=np.int32)


def labelled(graph: EdgeList, order: NDArray[np.int32]) -> tuple[Labels, Labels]:
    """(m,) smaller and larger label of each edge; private."""
    labels = np.empty(graph.count, np.int32)
    labels[order] = np.arange(graph.count, dtype=np.int32)
    first, second = labels[graph.first], labels[graph.second]
    return np.minimum(first, second), np.maximum(first, second)


def neighbours_adjacent(graph: EdgeList, order: NDArray[np.int32]) -> tuple[float, float]:
    """Share of consecutive labels that are an edge, and that of all pairs; private."""
    low, high = labelled(graph, order)
    pairs = graph.count * (graph.count - 1) / 2
    return float((high - low == 1).sum()) / (graph.count - 1), graph.edges / pairs
