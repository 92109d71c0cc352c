"""A synthetic graph from what `blocks` measured: post-processing, no budget.

Spec: graph-der, section 10.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context
from algorithms.datasets.edge_list import EdgeList
from algorithms.graph_der.degree_sequence import estimated_sequence
from algorithms.graph_der.degrees import DegreeLaw, possible
from algorithms.graph_der.exploration import rounded
from algorithms.graph_der.parameters import Labelling
from algorithms.graph_der.publication import labelled, order_of
from algorithms.graph_der.regions import BlockPlan, Ints, Labels, Measured, measure
from algorithms.simplex import on_simplex, on_simplices
from tacit.encoders.graph_der_blocks import Fine
from tacit.randomness import NoiseSource


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
        is_free = np.ones(total, np.bool_)
        is_free[left_out] = False
        return np.flatnonzero(is_free)
    limit = np.uint64((1 << 64) // total * total - 1)
    result = np.zeros(0, np.int64)
    while result.size < count:
        words = source.words(count - result.size)
        drawn = (words[words <= limit] % np.uint64(total)).astype(np.int64)
        result = np.unique(np.concatenate((result, drawn)))
    return result


Floats = NDArray[np.float64]

ROUNDS: Final = 60
"""Of drawing pairs again that are a loop or there already."""
_LEAST_WEIGHT: Final = 1 / 20
"""Of a vertex, as a part of the mean degree."""
_AT_ONCE: Final = 1 << 20
"""Pairs that are drawn together: with all of them the work arrays would hold the most."""
_VALUE_BITS: Final = 24
"""Of a label; the others of a word are random."""


@dataclass(frozen=True, eq=False)
class BlockRelease:
    """counts (parts,): edges that lie in each; degrees (n,): estimates by label, ascending ones if
    sorted degrees are measured, None where none are; low, high (m,): labels of the synthetic edges;
    order (n,): the vertex with each label; common: true edges among them, for the operator only
    (None: no one has the graph)."""

    plan: BlockPlan
    labelling: Labelling
    measured: Measured
    counts: Ints
    degrees: Floats | None
    low: Labels
    high: Labels
    order: NDArray[np.int32]
    common: int | None

    @property
    def edges(self) -> int:
        """How many synthetic edges."""
        return self.low.size

    @property
    def bounds(self) -> Ints:
        """Parts (n, 4) in labels: rows from, to, columns from, to (exclusive)."""
        return self.measured.fine.bounds

    @property
    def room(self) -> Ints:
        """(parts,) the number of pairs in each part."""
        return self.measured.fine.room

    @property
    def vertices(self) -> int:
        """The number of vertices."""
        return self.plan.vertices

    @property
    def triangle(self) -> bool:
        """True: parts are above the diagonal."""
        return True


def publish_blocks(
    graph: EdgeList, plan: BlockPlan, labelling: Labelling, seed: int, context: Context
) -> BlockRelease:
    """A release of a graph. seed: of a random labelling. Raises Cancelled."""
    context.progress(0.0, "labelling")
    order = order_of(graph, labelling, seed)
    low, high = labelled(graph, order)
    measured = measure(low, high, plan, context)
    published = synthetic(measured, plan, labelling, order, context)
    keys = np.empty(low.size + published.edges, np.int64)
    _keys(low, high, plan.vertices, keys[: low.size])
    _keys(published.low, published.high, plan.vertices, keys[low.size :])
    keys.sort()
    return replace(published, common=int((keys[1:] == keys[:-1]).sum()))


def synthetic(
    measured: Measured,
    plan: BlockPlan,
    labelling: Labelling,
    order: NDArray[np.int32],
    context: Context,
) -> BlockRelease:
    """The release that follows from what was measured. Raises Cancelled."""
    context.progress(0.55, "making counts consistent")
    degrees: Floats | None = None
    clear = False
    if measured.degrees is not None:
        scale, share = float(plan.scale(1)), float(plan.noise_share)
        noisy = possible(measured.degrees, scale, plan.vertices - 1, share)
        law = DegreeLaw.of(noisy, scale, share)
        # Where noise is more than what degrees differ by, their order is one of noise.
        clear = not plan.grid or law.variance > law.noise_variance
        ranked = law.ranked(noisy, context.noise("equal degrees"))
        degrees = ranked if clear else law.means(noisy)
        if plan.sorted_degrees:
            degrees = estimated_sequence(noisy, scale, law.law).astype(np.float64)
    counts = whole_counts(measured, plan, degrees, context.noise("rounding"))
    keys = drawn_pairs(measured.fine, counts, vertex_weights(degrees, plan.vertices), context)
    if degrees is not None and clear:
        keys = fitted_to_degrees(keys, measured.fine, degrees.astype(np.int64), context)
    ends = _low_high(keys, plan.vertices)
    return BlockRelease(plan, labelling, measured, counts, degrees, *ends, order, None)


def whole_counts(
    measured: Measured, plan: BlockPlan, degrees: Floats | None, source: NoiseSource
) -> Ints:
    """(parts,) whole numbers of edges, each from 0 to the part's room; degrees: estimates.

    First the coarse cells are projected on the simplex of their total, then the parts of each on
    that of its cell: this removes what noise adds to empty regions there, and not from the dense
    ones.
    """
    fine, cells = measured.fine, measured.coarse.size
    if not plan.grid:
        assert degrees is not None
        return np.minimum(int(degrees.sum()) // 2, fine.room)
    parts = measured.parts.astype(np.float64)
    number = np.bincount(fine.coarse, minlength=cells)
    lack = measured.coarse - np.bincount(fine.coarse, parts, cells)
    one, other = float(plan.scale(2)) ** 2, float(plan.scale(3)) ** 2 * number
    spread = lack * other / (one + other) / np.maximum(number, 1)
    parts += spread[fine.coarse]
    # Variances of the cells as they are now, by half; so are those of the size and of the degrees.
    left = one * other / (one + other)
    total, weight = parts.sum() / left.sum(), 1 / left.sum()
    for size, variance in _sizes(measured, plan):
        total, weight = total + size / variance, weight + 1 / variance
    spread = (total / weight - parts.sum()) * left / left.sum() / np.maximum(number, 1)
    parts += spread[fine.coarse]
    totals = on_simplex(np.bincount(fine.coarse, parts, cells).astype(np.float64))
    counts_kept = on_simplices(parts, fine.coarse, totals)
    return rounded(np.minimum(counts_kept, fine.room), fine.room, source)


def _sizes(measured: Measured, plan: BlockPlan) -> Iterator[tuple[float, float]]:
    """Other estimates of the number of edges, with half their variance."""
    yield measured.size, float(plan.scale(0)) ** 2
    if measured.degrees is not None:
        variance = measured.degrees.size * float(plan.scale(1)) ** 2
        yield float(measured.degrees.sum()) / 2, variance / 4


def vertex_weights(degrees: Floats | None, vertices: int) -> Floats:
    """(n,) above 0: degrees, raised if far below the mean; equal without degrees."""
    if degrees is None or not degrees.any():
        return np.ones(vertices)
    weights: Floats = np.maximum(degrees, degrees.mean() * _LEAST_WEIGHT)
    return weights


@dataclass(frozen=True, eq=False)
class EndLaw:
    """What ends are drawn by. sums (n + 2,): of the weights before each vertex, their total and
    infinity; guide: where the search for a sum begins, for each 1 / scale of the total. scale: a
    power of two, so that products with it are exact."""

    sums: Floats
    guide: Labels
    scale: float

    @classmethod
    def of(cls, weights: Floats) -> EndLaw:
        """Of weights (n,) above 0; a step of the guide is about their mean."""
        scale = 2.0 ** -math.ceil(math.log2(weights.mean()))
        sums = np.concatenate(([0.0], np.cumsum(weights), [np.inf]))
        starts: Ints = np.ceil(sums[:-1] * scale).astype(np.int64)
        numbers = np.diff(starts)
        numbers[-1] += 1  # a draw may be rounded to the total
        return cls(sums, np.repeat(np.arange(weights.size, dtype=np.int32), numbers), scale)

    def draw(self, first: Ints, last: Ints, source: NoiseSource) -> Labels:
        """(m,) a vertex from `first` on and before `last`, by weight."""
        drawn = _uniform(first.size, source)
        drawn *= self.sums[last] - self.sums[first]
        drawn += self.sums[first]
        places = self.guide[(drawn * self.scale).astype(np.int32)]
        behind = np.flatnonzero(self.sums[places + 1] <= drawn)
        while behind.size:
            places[behind] += 1
            behind = behind[self.sums[places[behind] + 1] <= drawn[behind]]
        return np.clip(places, first, last - 1).astype(np.int32)


def drawn_pairs(fine: Fine, counts: Ints, weights: Floats, context: Context) -> Ints:
    """Sorted keys low * n + high of this many different pairs in each part, ends by weight."""
    n = weights.size
    source = context.noise("edges")
    need = np.repeat(np.arange(counts.size, dtype=np.int32), counts)
    keys_drawn = np.zeros(0, np.int64)
    for law in (weights, np.ones(n)):
        ends = EndLaw.of(law)
        for number in range(ROUNDS):
            if not need.size:
                break
            context.progress(0.6 + 0.2 * number / ROUNDS, "drawing edges")
            keys = np.empty(need.size, np.int64)
            for start in range(0, need.size, _AT_ONCE):
                part = need[start : start + _AT_ONCE]
                one, other = (
                    ends.draw(fine.bounds[part, side], fine.bounds[part, side + 1], source)
                    for side in (0, 2)
                )
                span = _keys(one, other, n, keys[start : start + _AT_ONCE])
                span[one == other] = -1
            loops = need[keys < 0]
            keys.sort()
            keys_drawn = np.concatenate((keys_drawn, keys[loops.size :]))
            del keys, need
            keys_drawn.sort(kind="stable")
            new = _differ(keys_drawn)
            repeated = fine.place(*_low_high(keys_drawn[~new], n))
            keys_drawn = keys_drawn[new]
            need = np.sort(np.concatenate((loops, repeated)))
    return _filled(
        fine.bounds, need, keys_drawn, n, source, lambda: context.progress(0.85, "filling")
    )


def fitted_to_degrees(keys: Ints, fine: Fine, degrees: Ints, context: Context) -> Ints:
    """Edges (keys, sorted) moved within their part, one end at a time, from vertices with more
    than their degree to vertices with fewer, as long as that is possible; the counts of parts do
    not change."""
    n, edges, source = degrees.size, keys.size, context.noise("fitting degrees")
    ends = np.concatenate(_low_high(keys, n))  # that of edge e: e and e + edges
    lack = degrees - np.bincount(ends[:edges], minlength=n)
    lack = (lack - np.bincount(ends[edges:], minlength=n)).astype(np.int32)
    movable = np.flatnonzero((lack < 0)[ends]).astype(np.int32)
    edge = movable % edges
    place = fine.place(ends[edge], ends[edge + edges])
    column = np.where(movable < edges, np.int8(0), np.int8(2))
    first, last = (fine.bounds[place, column + side].astype(np.int32) for side in (0, 1))
    del edge, place, column
    coin = (source.words(edges) >> np.uint64(63)).astype(np.bool_)
    added = np.zeros(0, np.int64)
    labels, sums = np.arange(n, dtype=np.int32), np.zeros(n + 1, np.int32)
    for number in range(ROUNDS):
        context.progress(0.85 + 0.02 * number / ROUNDS, "fitting degrees")
        missing = np.maximum(lack, 0)
        np.cumsum(missing, out=sums[1:])
        # An end that cannot be moved can be moved in no later round: vertices only get nearer.
        left = (lack < 0)[ends[movable]] & (sums[last] > sums[first])
        movable, first, last = movable[left], first[left], last[left]
        if not movable.size:
            break
        turn = (movable < edges) ^ (coin[movable % edges] == number % 2)  # one end of an edge
        turn[turn] = _at_most(lack, ends[movable[turn]], source)
        moved, begin = movable[turn], sums[first[turn]]
        begin += (_uniform(moved.size, source) * (sums[last[turn]] - begin)).astype(np.int32)
        drawn = np.repeat(labels, missing)[begin]
        kept = ends[np.where(moved < edges, moved + edges, moved - edges)]
        new = _keys(drawn, kept, n, np.empty(drawn.size, np.int64))
        # A pair that an edge has left stays taken, so that all keys are sorted once.
        good = (drawn != kept) & _new(new, keys, added)
        good[good] = _at_most(lack, drawn[good], source)
        moved, drawn = moved[good], drawn[good]
        np.add.at(lack, ends[moved], 1)
        np.subtract.at(lack, drawn, 1)
        ends[moved] = drawn
        added = np.sort(np.concatenate((added, new[good])))
    keys = _keys(ends[:edges], ends[edges:], n, keys)
    keys.sort()
    return keys


def _keys(one: Labels, other: Labels, vertices: int, out: Ints) -> Ints:
    """low * n + high of each pair."""
    np.multiply(np.minimum(one, other), vertices, out=out, dtype=np.int64)
    out += np.maximum(one, other)
    return out


def _low_high(keys: Ints, vertices: int) -> tuple[Labels, Labels]:
    """Both ends of each key."""
    low = (keys // vertices).astype(np.int32)
    return low, (keys - np.multiply(low, vertices, dtype=np.int64)).astype(np.int32)


def _at_most(lack: Labels, values: Labels, source: NoiseSource) -> NDArray[np.bool_]:
    """(m,) whether each is among the first |lack[value]| of its equals, in a random order."""
    keys = source.words(values.size) >> np.uint64(_VALUE_BITS)
    keys |= values.astype(np.uint64) << np.uint64(64 - _VALUE_BITS)
    ordered = np.append(np.sort(keys), np.iinfo(np.uint64).max)
    value = (ordered[:-1] >> np.uint64(64 - _VALUE_BITS)).astype(np.int32)
    starts = np.flatnonzero(_differ(value))
    value = value[starts]
    # Nothing of what is not among the values is read: that would be a pass over all vertices.
    limit = np.empty(lack.size, np.uint64)
    limit[value] = ordered[
        np.minimum(starts + np.abs(lack[value]), np.append(starts[1:], values.size))
    ]
    return keys < limit[values]


def _uniform(count: int, source: NoiseSource) -> Floats:
    uniform: Floats = np.multiply(source.words(count) >> np.uint64(11), 2.0**-53)
    return uniform


def _differ(keys: Ints | Labels) -> NDArray[np.bool_]:
    """Whether each sorted key is the first of its kind."""
    result = np.ones(keys.size, np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=result[1:])
    return result


def _new(keys: Ints, *held: Ints) -> NDArray[np.bool_]:
    """Whether each key is the first of its kind, and not held, sorted, yet."""
    result = np.zeros(keys.size, np.bool_)
    if not keys.size:
        return result
    order = np.argsort(keys)
    keys = keys[order]
    starts = np.flatnonzero(_differ(keys))
    first, keys = np.minimum.reduceat(order, starts), keys[starts]
    new = np.ones(keys.size, np.bool_)
    for other in held:
        if other.size:  # sorted look-ups stay in the cache
            new &= other[np.minimum(np.searchsorted(other, keys), other.size - 1)] != keys
    result[first[new]] = True
    return result


def _filled(
    bounds: Ints,
    need: Labels,
    keys_kept: Ints,
    vertices: int,
    source: NoiseSource,
    beat: Callable[[], None],
) -> Ints:
    """Crowded parts that are still short: uniformly among their free pairs."""
    keys_of_blocks = [keys_kept]
    for part, count in zip(*np.unique(need, return_counts=True), strict=True):
        beat()
        top, bottom, left, right = bounds[part].tolist()
        rows, columns = np.divmod(np.arange((bottom - top) * (right - left)), right - left)
        rows, columns = rows + top, columns + left
        keys = (rows * vertices + columns)[rows < columns]
        free = np.setdiff1d(keys, keys_kept, assume_unique=True)
        keys_of_blocks.append(free[uniform_places(free.size, int(count), source)])
    return np.sort(np.concatenate(keys_of_blocks))
