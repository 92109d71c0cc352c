"""Graphs that the tests of `graph-der` share."""

from __future__ import annotations

import numpy as np
import pytest

from algorithms.datasets.edge_list import EdgeList, read_snap
from algorithms.graph_der.regions import Grid, Table
from simulation.populations import shared_data

G8 = EdgeList.of(
    [(1, 6), (1, 7), (1, 8), (2, 6), (2, 7), (2, 8), (3, 6), (3, 7), (3, 4), (4, 5)],
    list(range(1, 9)),
)
"""The worked graph, built to match Figure 7.2. Spec: graph-der, section 8."""


def table_of(graph: EdgeList, grid: Grid) -> Table:
    """In the order of the vertices; the whole matrix where the grid is of it."""
    rows, columns = graph.first, graph.second
    if not grid.triangle:
        rows, columns = np.concatenate((rows, columns)), np.concatenate((columns, rows))
    return grid.table(rows, columns)


def random_graph_of(vertices: int, chance: float, seed: int) -> EdgeList:
    """A graph with some dense corner."""
    generator = np.random.default_rng(seed)
    rows, columns = np.triu_indices(vertices, 1)
    dense = (rows < vertices // 3) & (columns >= vertices // 2)
    there = generator.random(rows.size) < np.where(dense, min(1.0, 5 * chance), chance)
    ends = rows[there].astype(np.int32), columns[there].astype(np.int32)
    return EdgeList.from_pairs(np.arange(vertices), *ends)


def real(name: str) -> EdgeList:
    """A graph that lies beside the repository."""
    folder = shared_data()
    if folder is None or not (folder / f"{name}.txt").exists():
        pytest.skip(f"{name}.txt is not beside the repository")
    with (folder / f"{name}.txt").open("rb") as stream:
        return read_snap(stream)
