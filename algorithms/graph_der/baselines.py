"""What the source compares with: a random graph, and noise on every cell.

Spec: graph-der, section 6. Edges come as smaller and larger ends, places 0 to vertices - 1.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Stance
from algorithms.counts.empties import heads
from algorithms.datasets.edge_list import EdgeList
from algorithms.graph_der.geometry import Ints
from tacit.noise import DiscreteLaplace
from tacit.noise.alias import PRECISE, decimal
from tacit.randomness import NoiseSource

Ends = tuple[NDArray[np.int32], NDArray[np.int32]]


def cell_of(places: Ints, vertices: int) -> tuple[Ints, Ints]:
    """Row and column of cells of the strict upper triangle, numbered row after row."""
    pairs = vertices * (vertices - 1) // 2
    after = pairs - 1 - places  # cells behind it: rows counted from the last one
    back = ((np.sqrt(8.0 * after + 1) - 1) // 2).astype(np.int64)
    back += (back + 1) * (back + 2) // 2 <= after
    back -= back * (back + 1) // 2 > after
    column = vertices - 1 - (after - back * (back + 1) // 2)
    return vertices - 2 - back, column


def uniform_places(total: int, count: int, source: NoiseSource) -> Ints:
    """This many different places below total, sorted; every choice equally likely."""
    if not 0 <= count <= total:
        raise ValueError("there are not this many places")
    if 2 * count > total:
        left_out = uniform_places(total, total - count, source)
        held = np.ones(total, np.bool_)
        held[left_out] = False
        return np.flatnonzero(held)
    limit = np.uint64((1 << 64) // total * total - 1)
    found = np.zeros(0, np.int64)
    while found.size < count:
        words = source.words(count - found.size)
        drawn = (words[words <= limit] % np.uint64(total)).astype(np.int64)
        found = np.unique(np.concatenate((found, drawn)))
    return found


def random_graph(graph: EdgeList, epsilon: Fraction, stance: Stance, source: NoiseSource) -> Ends:
    """A uniform graph with as many edges; `sound`: with a noisy number of them, epsilon-DP for one
    edge. `paper` is not private."""
    pairs, edges = graph.count * (graph.count - 1) // 2, graph.edges
    if stance == "sound":
        noise = int(DiscreteLaplace(1 / epsilon).draw(source, 1)[0])
        edges = min(max(edges + noise, 0), pairs)
    row, column = cell_of(uniform_places(pairs, edges, source), graph.count)
    return row.astype(np.int32), column.astype(np.int32)


def flip_chance(epsilon: Fraction) -> Fraction:
    """That Laplace noise of scale 1 / epsilon takes a cell across 1/2: e^(-epsilon / 2) / 2."""
    return Fraction(PRECISE.exp(decimal(-epsilon / 2))) / 2


def laplace_graph(
    graph: EdgeList, epsilon: Fraction, source: NoiseSource, beat: Callable[[], None] = lambda: None
) -> Ends:
    """Noise on each cell, an edge where it exceeds 1/2: each cell flips on its own.

    epsilon-DP for one edge. Cells that do not flip are skipped: time and memory grow with the
    flips and the edges.
    """
    pairs = graph.count * (graph.count - 1) // 2
    flips = heads(pairs, flip_chance(epsilon), source, beat)
    first, second = graph.first.astype(np.int64), graph.second.astype(np.int64)
    true = first * graph.count - first * (first + 1) // 2 + second - first - 1
    row, column = cell_of(np.setxor1d(true, flips, assume_unique=True), graph.count)
    return row.astype(np.int32), column.astype(np.int32)
