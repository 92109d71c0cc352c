"""The adjacency matrix of a graph, row by row.

Spec: graph-random-matrix, section 7, lever 4.
"""

from __future__ import annotations

import numpy as np

from algorithms.datasets.edge_list import EdgeList
from algorithms.graph_random_matrix.rows import Adjacency


def adjacency(graph: EdgeList, *, compiled: bool = False) -> Adjacency:
    """Both directions of each edge. compiled: by numba, which has to be installed."""
    starts = np.concatenate(([0], np.cumsum(graph.degrees())))
    if compiled:
        from algorithms.graph_random_matrix.compiled import both_directions

        return Adjacency(starts, both_directions(starts, graph.first, graph.second))
    rows = np.concatenate([graph.second, graph.first])
    order = np.argsort(rows, kind="stable")
    ends = np.concatenate([graph.first, graph.second])
    return Adjacency(starts, ends[order])
