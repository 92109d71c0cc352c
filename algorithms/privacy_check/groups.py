"""Rows equal on all quasi-identifiers, and what each group of them satisfies.

How often each group has each sensitive value, one number for each group and model, and earth
mover's distances of the groups' distributions to the table's, for t-closeness.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.datasets.tables import Texts
from algorithms.privacy_check.parameters import (
    BadDistance,
    Distance,
    EqualDistance,
    MatrixDistance,
    OrderedDistance,
    TreeDistance,
)
from tacit.records.text_files import exact_number

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_WIDEST: Final = 1 << 62


@dataclass(frozen=True, eq=False)
class Groups:
    """of (n,): the group of each row; sizes (g,); `first` (g,): a row of each."""

    of: Ints
    sizes: Ints
    first: Ints


@dataclass(frozen=True, eq=False)
class Counts:
    """How often groups have values: entries (group, value, count), by group, then value.

    starts (g + 1,): the entries of group i are starts[i]..starts[i + 1]. totals (m,): of the table.
    """

    starts: Ints
    values: Ints
    counts: Ints
    sizes: Ints
    totals: Ints

    @property
    def groups(self) -> Ints:
        """The group of each entry."""
        return np.repeat(np.arange(len(self.sizes)), np.diff(self.starts))

    @property
    def shares(self) -> Floats:
        """Of each entry: its share of its group."""
        result: Floats = self.counts / self.sizes[self.groups]
        return result

    def dense(self, start: int, stop: int) -> Floats:
        """Shares (stop - start, m) of all values in these groups."""
        result = np.zeros((stop - start, len(self.totals)))
        part = slice(self.starts[start], self.starts[stop])
        result[self.groups[part] - start, self.values[part]] = self.shares[part]
        return result


def grouped(columns: Sequence[Texts], rows: int) -> Groups:
    """The groups of these columns; without columns all rows are one."""
    keys = np.zeros(rows, np.int64)
    size = 1
    for column in columns:
        width = max(len(column.values), 1)
        if size * width >= _WIDEST:
            different, keys = np.unique(keys, return_inverse=True)
            size = len(different)
        keys = keys * width + column.codes
        size *= width
    _, first, of, sizes = np.unique(
        keys, return_index=True, return_inverse=True, return_counts=True
    )
    return Groups(of.reshape(-1), sizes, first)


def counted(groups: Groups, sensitive: Texts) -> Counts:
    """How often each group has each value."""
    width = len(sensitive.values)
    keys, counts = np.unique(groups.of * width + sensitive.codes, return_counts=True)
    starts = np.searchsorted(keys // width, np.arange(len(groups.sizes) + 1))
    totals = np.bincount(sensitive.codes, minlength=width)
    return Counts(starts, keys % width, counts, groups.sizes, totals)


# Spec: trajectory-kcl, section 10.1. Sources: Chen's thesis, chapter 2; for t-closeness Lu's
# thesis, chapter 2. All take the entries of `Counts` and give an array (g,).


def distinct(counts: Counts) -> Ints:
    """Different sensitive values of each group."""
    return np.diff(counts.starts)


def entropy_diversity(counts: Counts) -> Floats:
    """exp of the entropy of each group's distribution: 1 where there is one value."""
    shares = counts.shares
    entropies = np.add.reduceat(-shares * np.log(shares), counts.starts[:-1])
    result: Floats = np.exp(entropies)
    return result


def recursive_factor(counts: Counts, least: int) -> Floats:
    """The infimum of c for which a group is recursive (c, l)-diverse with l = `least`.

    f_1 / (f_l + ... + f_m), frequencies in falling order; infinite where there are fewer than l.
    """
    groups = counts.groups
    order = np.lexsort((-counts.counts, groups))
    falling = counts.counts[order]
    rank = np.arange(len(falling)) - counts.starts[groups]
    rest = np.add.reduceat(np.where(rank >= least - 1, falling, 0), counts.starts[:-1])
    most = falling[counts.starts[:-1]]
    result: Floats = np.divide(most, rest, out=np.full(len(most), np.inf), where=rest > 0)
    return result


def confidences(counts: Counts, value: int) -> tuple[Ints, Ints]:
    """Rows of each group with the value, and rows of each group."""
    found = np.zeros(len(counts.sizes), np.int64)
    chosen = counts.values == value
    found[counts.groups[chosen]] = counts.counts[chosen]
    return found, counts.sizes


def discernibility(sizes: Ints) -> int:
    """DM: the sum of the squares of the groups' sizes."""
    return sum(size * size for size in sizes.tolist())


def outside_majority(counts: Counts) -> float:
    """Classification metric: the share of rows outside the largest class of their group."""
    most = np.maximum.reduceat(counts.counts, counts.starts[:-1])
    return 1 - int(most.sum()) / int(counts.sizes.sum())


# Spec: trajectory-kcl, section 10.1. Closed forms where there are some: total variation (equal),
# cumulative differences (ordered), the flow over each edge (tree); else the transport programme, by
# HiGHS (scipy, imported inside).

_CELLS: Final = 1 << 20


def closeness(
    counts: Counts, column: Texts, distance: Distance, beat: Callable[[], None] = lambda: None
) -> Floats:
    """The distance (g,) of each group. Raises BadDistance where a value has no place in it."""
    whole = counts.totals / counts.totals.sum()
    if isinstance(distance, EqualDistance):
        return _equal(counts, whole)
    result = np.empty(len(counts.sizes))
    measure = _measure(column, distance, whole, beat)
    step = max(_CELLS // len(whole), 1)
    for start in range(0, len(result), step):
        beat()
        stop = min(start + step, len(result))
        result[start:stop] = measure(counts.dense(start, stop))
    return result


def _equal(counts: Counts, whole: Floats) -> Floats:
    """Total variation, from the values that a group has alone."""
    own = whole[counts.values]
    apart = np.add.reduceat(np.abs(counts.shares - own), counts.starts[:-1])
    absent = 1 - np.add.reduceat(own, counts.starts[:-1])
    result: Floats = np.maximum((apart + absent) / 2, 0)
    return result


def _measure(
    column: Texts, distance: Distance, whole: Floats, beat: Callable[[], None]
) -> Callable[[Floats], Floats]:
    if isinstance(distance, OrderedDistance):
        order, starts = _order(column, distance)

        def row(shares: Floats) -> Floats:
            result: Floats = np.add.reduceat(shares[..., order], starts, axis=-1)
            return result

        return lambda shares: ordered(row(shares), row(whole))
    if isinstance(distance, TreeDistance):
        below, lengths = _edges(column, distance)
        return lambda shares: np.abs((shares - whole) @ below) @ lengths
    assert isinstance(distance, MatrixDistance)
    matrix = _matrix(column, distance)

    def each(shares: Floats) -> Floats:
        result = np.empty(len(shares))
        for place, row in enumerate(shares):
            beat()
            result[place] = transport(row, whole, matrix)
        return result

    return each


def ordered(shares: Floats, whole: Floats) -> Floats:
    """Of distributions (g, m) over values in a row, neighbours 1 / (m - 1) apart."""
    size = shares.shape[1]
    if size == 1:
        return np.zeros(len(shares))
    result: Floats = np.abs(np.cumsum(shares - whole, axis=1)).sum(axis=1) / (size - 1)
    return result


def transport(one: Floats, other: Floats, distances: Floats) -> float:
    """The least cost of moving a distribution (m,) to another, distances (m, m)."""
    from scipy.optimize import linprog
    from scipy.sparse import eye_array, kron, vstack

    size = len(one)
    ones = np.ones((1, size))
    sums = vstack([kron(eye_array(size), ones), kron(ones, eye_array(size))], format="csr")
    found = linprog(
        distances.reshape(-1),
        A_eq=sums[:-1],
        b_eq=np.concatenate((one, other))[:-1],
        method="highs",
    )
    return max(float(found.fun), 0.0)


def _order(column: Texts, distance: OrderedDistance) -> tuple[list[int], list[int]]:
    """The codes of the column in the order of the distance, and where in them each place of the row
    begins: texts that write one number share a place."""
    if distance.order is None:
        numbers = [exact_number(text) for text in column.values]
        if any(number is None for number in numbers):
            raise BadDistance("texts need an order", pointer="/params/ground_distance")
        known = [number for number in numbers if number is not None]
        order = sorted(range(len(known)), key=known.__getitem__)
        ranked = [known[code] for code in order]
        starts = [at for at in range(len(order)) if not at or ranked[at] != ranked[at - 1]]
        return order, starts
    places = _places(column, distance.order)
    if len(distance.order) != len(column.values):
        raise BadDistance(
            "the order has the column's values, once", pointer="/params/ground_distance"
        )
    return np.argsort(places).tolist(), list(range(len(places)))


def _places(column: Texts, names: tuple[str, ...]) -> list[int]:
    at = {name: place for place, name in enumerate(names)}
    if len(at) != len(names) or not set(column.values) <= set(at):
        raise BadDistance("a value of the column is missing", pointer="/params/ground_distance")
    return [at[text] for text in column.values]


def _edges(column: Texts, distance: TreeDistance) -> tuple[Floats, Floats]:
    """Which values lie below each edge (m, e), and the edges' lengths (e,)."""
    above = {child: (parent, place) for place, (child, parent, _) in enumerate(distance.edges)}
    below = np.zeros((len(column.values), len(distance.edges)))
    for code in range(len(column.values)):
        node = column.values[code]
        if node not in above:
            reason = "a value of the column is no leaf"
            raise BadDistance(reason, pointer="/params/ground_distance")
        while node in above:
            node, edge = above[node]
            below[code, edge] = 1
    return below, np.array([length for *_, length in distance.edges])


def _matrix(column: Texts, distance: MatrixDistance) -> Floats:
    places = _places(column, distance.values)
    result: Floats = np.array(distance.distances)[np.ix_(places, places)]
    return result
