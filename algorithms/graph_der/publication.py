"""A run from a graph to what is published: noisy tree, whole counts of leaves, synthetic edges.

Source: Chen's thesis, Algorithm 7.1 DER. Spec: graph-der, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context
from algorithms.datasets.edge_list import EdgeList
from algorithms.graph_der.arrangement import Arranged, Leaves, Space, arrange
from algorithms.graph_der.consistency import consistent, nearest, rounded
from algorithms.graph_der.exploration import Tree, explore
from algorithms.graph_der.geometry import Ints, leaf_map
from algorithms.graph_der.labelling import labelled, order_of
from algorithms.graph_der.parameters import Labelling
from algorithms.graph_der.settings import Plan
from tacit.randomness import NoiseSource


@dataclass(frozen=True, eq=False)
class Release:
    """tree: of regions; counts (leaves,): whole numbers of ones in them; low, high (m,): labels of
    the synthetic edges; order (n,): the vertex with each label. common: true edges among them,
    visible only to the operator, as are the tree's true counts.
    """

    plan: Plan
    labelling: Labelling
    tree: Tree
    counts: Ints
    low: NDArray[np.int32]
    high: NDArray[np.int32]
    order: NDArray[np.int32]
    common: int

    @property
    def edges(self) -> int:
        """How many synthetic edges."""
        return self.low.size

    @property
    def bounds(self) -> Ints:
        """Leaves (n, 4) in labels: rows from, to, columns from, to (exclusive)."""
        return self.plan.grid.edges(self.tree.bounds[self.tree.leaves])

    @property
    def room(self) -> Ints:
        """(leaves,) cells of each."""
        return self.tree.cells[self.tree.leaves]

    @property
    def vertices(self) -> int:
        """How many."""
        return self.plan.grid.vertices

    @property
    def triangle(self) -> bool:
        """Whether regions lie above the diagonal only."""
        return self.plan.grid.triangle


def publish(
    graph: EdgeList, plan: Plan, labelling: Labelling, seed: int, context: Context
) -> Release:
    """A release of a graph. seed: of a random labelling. Raises Cancelled."""
    context.progress(0.0, "labelling")
    order = order_of(graph, labelling, seed)
    low, high = labelled(graph, order)
    rows, columns = low, high
    if not plan.grid.triangle:
        rows, columns = np.concatenate((low, high)), np.concatenate((high, low))
    context.progress(0.03, "counting")
    table = plan.grid.table(rows, columns, lambda: context.progress(0.05, "counting"))
    tree = explore(table, plan, context)
    del table
    context.progress(0.6, "making counts consistent")
    counts = whole_counts(tree, plan, context)
    held = leaf_map(plan.grid, tree.bounds[tree.leaves])
    leaf = held[rows // plan.grid.step, columns // plan.grid.step]
    del held
    space = Space(plan.grid.vertices, plan.grid.triangle)
    found = arrange(_asked(tree, counts, plan), rows, columns, leaf, space, context)
    first, second = np.divmod(found.keys, plan.grid.vertices)
    if not plan.grid.triangle:
        first, second = symmetric(found, plan.grid.vertices, context.noise("symmetry"))
    context.progress(0.86, "arranging")
    ends = first.astype(np.int32), second.astype(np.int32)
    return Release(plan, labelling, tree, counts, *ends, order, found.kept)


def whole_counts(tree: Tree, plan: Plan, context: Context) -> Ints:
    """(leaves,) how many ones each leaf gets, between 0 and the cells that can hold one."""
    leaves = tree.leaves
    room = tree.cells[leaves] - plan.grid.diagonal(tree.bounds[leaves])
    if not plan.consistency:
        return nearest(tree.estimate[leaves], room)
    return rounded(consistent(tree)[leaves], room, context.noise("rounding"))


def _asked(tree: Tree, counts: Ints, plan: Plan) -> Leaves:
    leaves = tree.leaves
    bounds = tree.bounds[leaves]
    by_depth = np.array([float(plan.budget.arrangement(d)) for d in range(plan.height + 1)])
    return Leaves(
        plan.grid.edges(bounds),
        tree.cells[leaves] - plan.grid.diagonal(bounds),
        counts,
        by_depth[tree.depth[leaves]] / plan.sensitivity(bounds),
    )


def symmetric(found: Arranged, vertices: int, source: NoiseSource) -> tuple[Ints, Ints]:
    """Edges of a matrix that need not be symmetric: a pair with one of its two cells is an edge or
    none with the same chance."""
    row, column = np.divmod(found.keys, vertices)
    keys = np.minimum(row, column) * vertices + np.maximum(row, column)
    pairs, cells = np.unique(keys, return_counts=True)
    coin = source.words(pairs.size) >> np.uint64(63)
    first, second = np.divmod(pairs[(cells == 2) | (coin == 1)], vertices)
    return first, second
