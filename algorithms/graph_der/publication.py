"""A run from a graph to what is published: noisy tree, whole counts of leaves, synthetic edges.

Vertices get the labels 0 to n - 1. Inside a leaf some true edges are kept, by Fisher's noncentral
hypergeometric law, and the others are placed anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context
from algorithms.datasets.edge_list import EdgeList
from algorithms.graph_der.exploration import Tree, consistent, explore, nearest, rounded
from algorithms.graph_der.parameters import Labelling, Plan
from algorithms.graph_der.regions import Ints, Labels, leaf_map
from tacit.randomness import NoiseSource, PublicRandom

Floats = NDArray[np.float64]

DEVIATIONS: Final = 12
BESIDE: Final = 40
CUT_MASS: Final = 1e-30
_BATCH: Final = 1 << 20
"""Numbers in one block of logarithms."""


def support(cells: Ints, ones: Ints, draws: Ints) -> tuple[Ints, Ints]:
    """The least and the largest number of true ones that can be kept."""
    return np.maximum(0, draws - (cells - ones)), np.minimum(ones, draws)


def _step(cells: Ints, ones: Ints, draws: Ints, log_odds: Floats, shared: Ints) -> Floats:
    """log P(kept + 1) / P(kept)."""
    with np.errstate(divide="ignore"):
        up = np.log((ones - shared).astype(float)) + np.log((draws - shared).astype(float))
        down = np.log(shared + 1.0) + np.log((cells - ones - draws + shared + 1).astype(float))
    slope: Floats = log_odds + up - down
    return slope


def mode(cells: Ints, ones: Ints, draws: Ints, log_odds: Floats) -> Ints:
    """The most likely number, by bisection on the ratio of neighbours, which falls."""
    low, high = support(cells, ones, draws)
    while (low < high).any():
        middle = (low + high) // 2
        rises = (low < high) & (_step(cells, ones, draws, log_odds, middle) > 0)
        low, high = np.where(rises, middle + 1, low), np.where(rises, high, middle)
    return low


def window(cells: Ints, ones: Ints, draws: Ints, log_odds: Floats) -> tuple[Ints, Ints]:
    """First number that is examined, and how many are."""
    low, high = support(cells, ones, draws)
    top = mode(cells, ones, draws, log_odds)
    curved = (
        1 / (ones - top + 0.5)
        + 1 / (draws - top + 0.5)
        + 1 / (top + 0.5)
        + 1 / (cells - ones - draws + top + 0.5)
    )
    beside = np.ceil(DEVIATIONS / np.sqrt(curved)).astype(np.int64) + BESIDE
    first = np.maximum(low, top - beside)
    return first, np.minimum(high, top + beside) - first + 1


def weights(
    cells: Ints, ones: Ints, draws: Ints, log_odds: Floats, first: Ints, size: int
) -> Floats:
    """(n, size) masses from `first` on, the largest of a row 1; 0 beyond the support."""
    kept = first[:, None] + np.arange(size)
    beyond = kept > support(cells, ones, draws)[1][:, None]
    steps = _step(
        cells[:, None],
        ones[:, None],
        draws[:, None],
        log_odds[:, None],
        np.where(beyond, first[:, None], kept),
    )
    logs = np.zeros(kept.shape)
    np.cumsum(np.where(beyond, -np.inf, steps)[:, :-1], axis=1, out=logs[:, 1:])
    logs[beyond] = -np.inf
    masses: Floats = np.exp(logs - logs.max(axis=1, keepdims=True))
    return masses


def draw(
    cells: Ints,
    ones: Ints,
    draws: Ints,
    log_odds: Floats,
    source: NoiseSource,
    beat: Callable[[], None] = lambda: None,
) -> Ints:
    """(n,) numbers of true ones that are kept; all arguments (n,), 0 <= asked <= cells.

    By the inverse of the distribution function, in extended precision and with 64-bit uniforms.
    """
    first, sizes = window(cells, ones, draws, log_odds)
    uniform = source.words(len(cells)).astype(np.longdouble) / np.longdouble(2.0**64)
    drawn = first.copy()
    # rows of about the same width together
    widths = np.ceil(np.log2(np.maximum(sizes, 1))).astype(np.int64)
    for width in np.unique(widths[sizes > 1]).tolist():
        rows = np.flatnonzero((widths == width) & (sizes > 1))
        size = int(sizes[rows].max())
        for start in range(0, rows.size, max(1, _BATCH // size)):
            beat()
            batch = rows[start : start + max(1, _BATCH // size)]
            mass = weights(
                cells[batch], ones[batch], draws[batch], log_odds[batch], first[batch], size
            )
            mass[np.arange(size) >= sizes[batch, None]] = 0
            sums = np.cumsum(mass, axis=1, dtype=np.longdouble)
            target = uniform[batch] * sums[:, -1]
            place = (sums <= target[:, None]).sum(axis=1)
            drawn[batch] += np.minimum(place, sizes[batch] - 1)
    return drawn


# Edges inside leaves: some true ones are kept, the rest lie anywhere. Source: Chen's thesis,
# section 7.4.2, ArrangeEdge. Spec: graph-der, section 3. All leaves of a block are arranged
# together. A cell is the number row * vertices + column of its labels.

BLOCK_EDGES: Final = 1 << 20
"""Most true and requested edges that are arranged together; larger graphs are split into blocks."""
_CROWDED: Final = 5
"""Cells are listed, not tried, where at least one in this many free ones is needed."""


@dataclass(frozen=True, eq=False)
class Leaves:
    """(n,) each, and bounds (n, 4) in labels. cells: those that may hold an edge; asked: ones to be
    placed; log_odds: budget over sensitivity."""

    bounds: Ints
    cells: Ints
    asked: Ints
    log_odds: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Block:
    """Some leaves and their true cells, leaf by leaf; private. starts (n + 1,)."""

    number: int
    leaves: Leaves
    keys: Ints
    starts: Ints


@dataclass(frozen=True)
class Space:
    """The matrix: vertices on each side; triangle: only cells above the diagonal, else all but the
    diagonal."""

    vertices: int
    triangle: bool


@dataclass(frozen=True, eq=False)
class Arranged:
    """Cells with an edge; kept: how many are true, private. Only a sorted list may be published:
    blocks list the true ones first."""

    keys: Ints
    kept: int


def arrange(
    leaves: Leaves,
    rows: Labels,
    columns: Labels,
    leaf: Labels,
    space: Space,
    context: Context,
) -> Arranged:
    """An arrangement of all leaves, sorted. rows, columns, leaf (m,): true cells, and where they
    lie.

    Raises Cancelled.
    """
    order = np.argsort(leaf, kind="stable")
    context.progress(0.65, "arranging")
    keys = rows[order].astype(np.int64) * space.vertices + columns[order]
    starts = np.concatenate(([0], np.cumsum(np.bincount(leaf, minlength=len(leaves.asked)))))
    blocks = list(_blocks(leaves, keys, starts))
    function = partial(arranged, space=space, context=context, blocks=len(blocks))
    parts = context.map_blocks(function, blocks)
    all_keys = np.concatenate([part.keys for part in parts])
    all_keys.sort()
    return Arranged(all_keys, sum(part.kept for part in parts))


def _blocks(leaves: Leaves, keys: Ints, starts: Ints) -> Iterator[Block]:
    work = np.cumsum(leaves.asked + np.diff(starts)) // BLOCK_EDGES
    bounds = np.flatnonzero(np.diff(work, prepend=-1)).tolist()
    for number, (first, last) in enumerate(pairwise([*bounds, work.size])):
        span = slice(first, last)
        part = Leaves(
            leaves.bounds[span], leaves.cells[span], leaves.asked[span], leaves.log_odds[span]
        )
        begin, end = starts[first], starts[last]
        yield Block(number, part, keys[begin:end], starts[first : last + 1] - begin)


def arranged(block: Block, space: Space, context: Context, blocks: int) -> Arranged:
    """One block. Raises Cancelled."""
    beat = partial(context.progress, 0.65 + 0.2 * block.number / blocks, "arranging")
    beat()
    leaves, ones = block.leaves, np.diff(block.starts)
    source = context.noise("kept", block.number)
    number = draw(leaves.cells, ones, leaves.asked, leaves.log_odds, source, beat)
    beat()
    kept = block.keys[_some(ones, number, context.noise("which", block.number))]
    beat()
    true = np.sort(block.keys)
    zeros = _Zeros(leaves, space, true, context.noise("zeros", block.number))
    needed = leaves.asked - number
    crowded = needed * _CROWDED > leaves.cells - ones
    listed = zeros.listed(needed, np.flatnonzero(crowded & (needed > 0)))
    tried = zeros.tried(np.where(crowded, 0, needed), beat)
    return Arranged(np.concatenate((kept, listed, tried)), int(number.sum()))


def _some(ones: Ints, number: Ints, source: NoiseSource) -> NDArray[np.bool_]:
    """Which true cells are kept: a given number of each leaf, all choices equally likely."""
    leaf = np.repeat(np.arange(ones.size), ones)
    chosen: NDArray[np.bool_] = (number == ones)[leaf]
    open_ = np.flatnonzero(((number > 0) & (number < ones))[leaf])
    leaf_of_open = leaf[open_]
    order = np.lexsort((source.words(open_.size), leaf_of_open))
    rank = np.arange(open_.size) - np.searchsorted(leaf_of_open, leaf_of_open)
    chosen[open_[order]] = rank < number[leaf_of_open]
    return chosen


class _Zeros:
    """Cells without a true edge, drawn uniformly and without repetition. true: sorted cells."""

    def __init__(self, leaves: Leaves, space: Space, true: Ints, source: NoiseSource) -> None:
        self._space, self._true, self._source = space, true, source
        self._top, self._bottom, self._left, self._right = leaves.bounds.T
        if space.triangle:  # rows and columns without a cell are omitted: at least half are cells
            self._bottom = np.minimum(self._bottom, self._right - 1)
            self._left = np.maximum(self._left, self._top + 1)
        self._width = self._right - self._left
        self._area = np.maximum(1, self._width * (self._bottom - self._top))

    def tried(self, needed: Ints, beat: partial[None]) -> Ints:
        """By rejection: cells are drawn until each leaf has its number."""
        still_needed = needed.copy()
        result = np.zeros(0, np.int64)
        # words from here on would favour the first cells of an area
        limit = (1 << 64) // self._area.astype(object) * self._area.astype(object) - 1
        limits = limit.astype(np.uint64)
        areas = self._area.astype(np.uint64)
        while still_needed.any():
            beat()
            leaf = np.repeat(np.arange(still_needed.size, dtype=np.int32), still_needed)
            words = self._source.words(leaf.size)
            good = words <= limits[leaf]
            place = (words % areas[leaf]).astype(np.int64)
            keys, good = self._keys(leaf, place, good)
            keys, leaf = keys[good], leaf[good]
            order = np.argsort(keys)
            keys, leaf = keys[order], leaf[order]
            beat()
            good = ~_within(keys, self._true) & ~_within(keys, result)
            good[1:] &= keys[1:] != keys[:-1]
            still_needed = still_needed - np.bincount(leaf[good], minlength=still_needed.size)
            result = np.concatenate((result, keys[good]))
            if still_needed.any():
                result.sort()
        return result

    def listed(self, needed: Ints, leaves: Ints) -> Ints:
        """All free cells of these leaves in a random order, and the first of them."""
        area = self._area[leaves]
        leaf = np.repeat(leaves, area)
        place = np.arange(leaf.size) - np.repeat(np.cumsum(area) - area, area)
        keys, good = self._keys(leaf, place, np.ones(leaf.size, np.bool_))
        good &= ~_within(keys, self._true)
        keys, leaf = keys[good], leaf[good]
        order = np.lexsort((self._source.words(leaf.size), leaf))
        rank = np.arange(leaf.size) - np.searchsorted(leaf, leaf)
        return keys[order][rank < needed[leaf]]

    def _keys(
        self, leaf: NDArray[np.integer], place: Ints, good: NDArray[np.bool_]
    ) -> tuple[Ints, NDArray[np.bool_]]:
        """Cells at places of their leaves' areas, and which of the good ones are cells at all."""
        row, column = np.divmod(place, self._width[leaf])
        row += self._top[leaf]
        column += self._left[leaf]
        good = good & ((row < column) if self._space.triangle else (row != column))
        row *= self._space.vertices
        row += column
        return row, good


def _within(keys: Ints, keys_kept: Ints) -> NDArray[np.bool_]:
    """Which keys are among sorted ones."""
    if not keys_kept.size:
        return np.zeros(keys.size, np.bool_)
    place = np.searchsorted(keys_kept, keys)
    place[place == keys_kept.size] = 0
    result: NDArray[np.bool_] = keys_kept[place] == keys
    return result


# Labels 0 to n - 1 of the vertices: rows and columns of the matrix. Spec: graph-der, sections 2 and
# 4.2. A labelling has to be independent of the edges: the order of first appearance in a file is
# not, and its neighbours are often edges.


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


# Source: Chen's thesis, Algorithm 7.1 DER. Spec: graph-der, section 3.


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
        """The number of vertices."""
        return self.plan.grid.vertices

    @property
    def triangle(self) -> bool:
        """Whether regions are above the diagonal only."""
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
    leaf_of_block = leaf_map(plan.grid, tree.bounds[tree.leaves])
    leaf = leaf_of_block[rows // plan.grid.step, columns // plan.grid.step]
    del leaf_of_block
    space = Space(plan.grid.vertices, plan.grid.triangle)
    arranged = arrange(_asked(tree, counts, plan), rows, columns, leaf, space, context)
    first, second = np.divmod(arranged.keys, plan.grid.vertices)
    if not plan.grid.triangle:
        first, second = symmetric(arranged, plan.grid.vertices, context.noise("symmetry"))
    context.progress(0.86, "arranging")
    ends = first.astype(np.int32), second.astype(np.int32)
    return Release(plan, labelling, tree, counts, *ends, order, arranged.kept)


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


def symmetric(arranged: Arranged, vertices: int, source: NoiseSource) -> tuple[Ints, Ints]:
    """Edges of a matrix that need not be symmetric: a pair with one of its two cells is an edge
    with probability 1/2."""
    row, column = np.divmod(arranged.keys, vertices)
    keys = np.minimum(row, column) * vertices + np.maximum(row, column)
    pairs, cells = np.unique(keys, return_counts=True)
    coin = source.words(pairs.size) >> np.uint64(63)
    first, second = np.divmod(pairs[(cells == 2) | (coin == 1)], vertices)
    return first, second
