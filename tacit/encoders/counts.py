"""Counts of private lists in the cells of a public question, and what a job's questions spend along
each path.

What a job's questions spend along each path: public, from the questions alone.

Spec: federated-counting, section 6.2. A path is what a record may go along: from the empty gram or
prefix item by item, from all sets mask by mask. A question's group is a node of that tree, known
by its items or masks and never by a number that a coordinator gives it. A record that goes along a
path spends at most the rates of its nodes times `width` over reach, `width` counts being what one
record may have. Questions of trees that contradict each other, and questions that are no tree, may
move the same record: their figures add up.

Privacy does not rest on it: the spend filter (`tacit.accounting.charges`) holds whatever is
asked. It shows publicly that a coordinator asks what no honest one asks.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Numbers = NDArray[np.integer[Any]]
Exacts = NDArray[Any]
"""Python's whole numbers, of any size."""

MOST_NODES: Final = 1 << 22
MOST_BITS: Final = 4_096
"""Of the common denominator of a job's rates."""
_LABELS: Final = 1 << 32


class NoSuchPaths(ValueError):
    """More nodes, or stranger rates, than a job can be checked with."""


@dataclass(frozen=True, eq=False)
class Layer:
    """Nodes of one depth (n,): each below a node of the layer before (0: the root), which differ in
    `labels`, 0 to 2^32 - 1; marks: what must be the same whenever a node is named."""

    parents: Ints
    labels: Ints
    marks: Ints

    @classmethod
    def of(cls, parents: Numbers, labels: Numbers, marks: Ints | None = None) -> Layer:
        """Without marks: all 0."""
        numbers = np.zeros(parents.size, np.int64) if marks is None else marks
        return cls(parents.astype(np.int64), labels.astype(np.int64), numbers)

    @property
    def keys(self) -> Ints:
        """Parent and label as one number."""
        return self.parents * _LABELS + self.labels

    def only(self, rows: Ints) -> Layer:
        """These nodes."""
        return Layer(self.parents[rows], self.labels[rows], self.marks[rows])


@dataclass(frozen=True, eq=False)
class Paths:
    """The groups of a question as nodes. walk: what the tree is of; layers: from the root down;
    groups (G,): the node of each group, in the last layer (without layers: the root); width: counts
    of one record at most."""

    walk: str
    layers: tuple[Layer, ...]
    groups: Ints
    width: int = 1


@dataclass(frozen=True, eq=False)
class Tree:
    """Nodes that were asked or are ancestors of one, and what each spends itself: own[0] (1,) of
    the root, own[d] (n,) of the nodes of layers[d - 1]."""

    walk: str
    layers: tuple[Layer, ...]
    own: tuple[Exacts, ...]

    @classmethod
    def bare(cls, walk: str) -> Tree:
        """A root that spends nothing."""
        return cls(walk, (), (_zeros(1),))

    @property
    def nodes(self) -> int:
        """How many."""
        return sum(spent.size for spent in self.own)

    @property
    def most(self) -> int:
        """Along the path that spends most."""
        best = self.own[-1]
        for layer, spent in zip(reversed(self.layers), reversed(self.own[:-1]), strict=True):
            above = spent.copy()
            if best.size:
                order = np.argsort(layer.parents, kind="stable")
                parents = layer.parents[order]
                firsts = np.flatnonzero(np.diff(parents, prepend=-1))
                above[parents[firsts]] += np.maximum.reduceat(best[order], firsts)
            best = above
        return int(best[0])

    def scaled(self, factor: int) -> Tree:
        """The same over a denominator that is this many times as large."""
        return replace(self, own=tuple(spent * factor for spent in self.own))

    def asked(self, paths: Paths, groups: Ints, spends: Exacts) -> Tree | None:
        """The tree after a question's groups (k,), which have cells and spend this much (k,);
        None if the question's tree contradicts this one."""
        nodes = paths.groups[groups]
        needed = [np.unique(nodes)]
        for layer in paths.layers[::-1]:
            needed.append(np.unique(layer.parents[needed[-1]]))
        layers, spent = list(self.layers), [spent_of_layer.copy() for spent_of_layer in self.own]
        places, count = np.zeros(1, np.int64), 1
        for depth, (layer, rows) in enumerate(zip(paths.layers, needed[-2::-1], strict=True)):
            part = layer.only(rows)
            named = Layer(places[part.parents], part.labels, part.marks)
            if depth == len(layers):
                layers.append(Layer.of(named.parents[:0], named.labels[:0]))
                spent.append(_zeros(0))
            merged, rows_of_layer = _merged(layers[depth], named)
            if merged is None:
                return None
            layers[depth] = merged
            spent[depth + 1] = np.append(
                spent[depth + 1], _zeros(merged.labels.size - spent[depth + 1].size)
            )
            count = layer.labels.size
            places = np.full(count, -1)
            places[rows] = rows_of_layer
        np.add.at(spent[len(paths.layers)], places[nodes], spends)
        return Tree(self.walk, tuple(layers), tuple(spent))


def _zeros(count: int) -> Exacts:
    zeros = np.empty(count, object)
    zeros[:] = 0
    return zeros


def _merged(layer: Layer, named: Layer) -> tuple[Layer | None, Ints]:
    """A layer with these nodes added, and their indices in it; None if one of them has another
    mark there."""
    order = np.argsort(layer.keys)
    present, keys = layer.keys[order], named.keys
    at = np.searchsorted(present, keys)
    is_known = np.zeros(keys.size, np.bool_)
    inside = at < present.size
    is_known[inside] = present[at[inside]] == keys[inside]
    places = np.empty(keys.size, np.int64)
    places[is_known] = order[at[is_known]]
    if (layer.marks[places[is_known]] != named.marks[is_known]).any():
        return None, places
    new = np.flatnonzero(~is_known)
    places[new] = layer.labels.size + np.arange(new.size)
    more = named.only(new)
    joined = Layer(
        np.append(layer.parents, more.parents),
        np.append(layer.labels, more.labels),
        np.append(layer.marks, more.marks),
    )
    return joined, places


@dataclass(frozen=True, eq=False)
class PathSpends:
    """What all questions of a job spend: `trees`, over a denominator; `loose`: of questions without
    paths. Figures of trees of which none contradicts itself add up."""

    denominator: int = 1
    loose: int = 0
    trees: tuple[Tree, ...] = ()

    @property
    def most(self) -> Fraction:
        """What a record spends at most, whatever its path is."""
        return Fraction(self.loose + sum(tree.most for tree in self.trees), self.denominator)

    def after(
        self, paths: Paths | None, sizes: Ints, rate_of: Ints, rates: Sequence[Fraction], reach: int
    ) -> PathSpends:
        """After one more question: cells and the rate of each group (G,), as its index in
        `rates`. Raises NoSuchPaths."""
        if paths is None:
            return self.with_loose(sum(rates, Fraction(0)))
        larger, units = self._over([rate * paths.width / reach for rate in rates])
        trees = larger.trees
        groups = np.flatnonzero(sizes)
        spends = np.array([0, *units], object)[1 + rate_of[groups]]
        for place, tree in enumerate((*trees, Tree.bare(paths.walk))):
            grown = tree.asked(paths, groups, spends) if tree.walk == paths.walk else None
            if grown is not None:
                trees = (*trees[:place], grown, *trees[place + 1 :])
                break
        if sum(tree.nodes for tree in trees) > MOST_NODES:
            raise NoSuchPaths("the questions name more groups than can be followed")
        return replace(larger, trees=trees)

    def with_loose(self, epsilon: Fraction) -> PathSpends:
        """After one more question that may move each record by all of its epsilon. Raises
        NoSuchPaths."""
        larger, (unit,) = self._over([epsilon])
        return replace(larger, loose=larger.loose + unit)

    def _over(self, costs: Sequence[Fraction]) -> tuple[PathSpends, list[int]]:
        """These and the given figures over a common denominator. Raises NoSuchPaths."""
        denominator = math.lcm(self.denominator, *(cost.denominator for cost in costs))
        if denominator.bit_length() > MOST_BITS:
            raise NoSuchPaths("the rates have no common denominator of a sensible size")
        factor = denominator // self.denominator
        units = [cost.numerator * (denominator // cost.denominator) for cost in costs]
        trees = tuple(tree.scaled(factor) for tree in self.trees) if factor > 1 else self.trees
        return PathSpends(denominator, self.loose * factor, trees), units

    def packed(self) -> bytes:
        """As bytes."""
        trees = [
            {
                "walk": tree.walk,
                "layers": [
                    [layer.parents.tolist(), layer.labels.tolist(), layer.marks.tolist()]
                    for layer in tree.layers
                ],
                "own": [spent.tolist() for spent in tree.own],
            }
            for tree in self.trees
        ]
        document = {"denominator": self.denominator, "loose": self.loose, "trees": trees}
        return zlib.compress(json.dumps(document, separators=(",", ":")).encode(), 1)

    @classmethod
    def unpacked(cls, packed: bytes) -> PathSpends:
        """From `packed`."""
        document = json.loads(zlib.decompress(packed))
        trees = tuple(
            Tree(
                tree["walk"],
                tuple(
                    Layer(*(np.array(numbers, np.int64) for numbers in layer))
                    for layer in tree["layers"]
                ),
                tuple(np.array([0, *spent], object)[1:] for spent in tree["own"]),
            )
            for tree in document["trees"]
        )
        return cls(document["denominator"], document["loose"], trees)


# Counts of private lists in the cells of a public question (spec: federated-counting, section 2).
# The cells are numbered group by group. A document, which is public, defines them. It has one level
# for each question before, so that the holder of the lists needs only the document; a holder that
# answers question after question continues where it was (`Counter.follow`).

Places = NDArray[np.int32]

_SPARSE: Final = 4
"""A histogram is dense up to this many cells for each count."""
_SMALL: Final = 1 << 12
_TABLE: Final = range(1 << 16, 1 << 23)
"""Cells of a table from keys to places: always up to the first, never from the last on."""
_DENSE: Final = 32
"""In between, up to this many cells for each key."""


@dataclass(frozen=True, eq=False)
class Lists:
    """Private records: items (total,) places in the universe, record after record; starts (n + 1,):
    where each begins and the last one ends."""

    items: Places
    starts: Ints

    @property
    def count(self) -> int:
        """How many records."""
        return self.starts.size - 1

    def over(self, items: int) -> Lists:
        """The same records, empty where an item is no place below `items`."""
        outside = (self.items < 0) | (self.items >= items)
        if not outside.any():
            return self
        lengths = np.diff(self.starts)
        owners = np.repeat(np.arange(self.count), lengths)
        kept = np.ones(self.count, bool)
        kept[owners[outside]] = False
        return self.only(kept)

    def only(self, is_kept: NDArray[np.bool_]) -> Lists:
        """The same records, emptied if they are not kept (n,): each keeps its number."""
        lengths = np.diff(self.starts)
        inside = np.repeat(is_kept, lengths)
        return Lists(self.items[inside], np.concatenate(([0], np.cumsum(lengths * is_kept))))

    def blocks(self, size: int) -> list[Lists]:
        """The records in blocks of this many, at least one block."""
        bounds = [*range(0, max(self.count, 1), size), self.count]
        return [self._part(first, last) for first, last in pairwise(bounds)]

    def _part(self, first: int, last: int) -> Lists:
        starts = self.starts[first : last + 1]
        return Lists(self.items[starts[0] : starts[-1]], starts - starts[0])


def sorted_sets(lists: Lists, size: int) -> tuple[Ints, Ints]:
    """The pairs (record, place in the universe) in order, each once; size: of the universe."""
    keys = np.repeat(np.arange(lists.count) * size, np.diff(lists.starts)) + lists.items
    steps = np.diff(keys)
    if (steps <= 0).any():
        keys.sort()
        keys = keys[np.concatenate(([True], np.diff(keys) > 0))]
    records = keys // size
    return records, keys - records * size


@dataclass(frozen=True, eq=False)
class Level:
    """What a document keeps of the question before, (n,): for each kept prefix or gram its
    parent on the level before (0 on the first level), and its last item."""

    parents: NDArray[np.integer]
    items: NDArray[np.integer]

    def json(self) -> dict[str, list[int]]:
        """As JSON."""
        return {"parents": self.parents.tolist(), "items": self.items.tolist()}


@dataclass(frozen=True, eq=False)
class Counts:
    """Occupied cells (rising), and how often each is."""

    cells: Ints
    counts: Ints

    def of(self, cells: Ints) -> Ints:
        """The counts of these cells."""
        at = places_among(self.cells, cells)
        return np.where(at < 0, 0, np.append(self.counts, 0)[at])


@dataclass(frozen=True)
class Counter:
    """Counts private records by functions of an algorithm's encoder.

    `follow(walk, document) -> walk`: through the levels of the document that the walk has not
    passed yet; lists are the first walk. `cells(walk, document) -> (records, cells)`: one entry
    for each count of 1; records only on request. Walks are private. `paths(document)`: its
    groups as nodes of the tree that records follow; None if they are no tree.
    """

    follow: Callable[[Any, Any], Any]
    cells: Callable[[Any, Any], tuple[Callable[[], Ints], Ints]]
    paths: Callable[[Any], Paths | None] = lambda _document: None

    def of(self, lists: Lists, document: Any) -> tuple[Ints, Ints]:
        """Records and cells of all counts that a document asks of lists, from the start."""
        records, cells = self.cells(self.follow(lists, document), document)
        return records(), cells

    def counted(self, walk: Any, document: Any, size: int) -> tuple[Any, Counts]:
        """After one more question: the walk, and the counts of its `size` cells."""
        walk = self.follow(walk, document)
        return walk, occupied(self.cells(walk, document)[1], size)


def occupied(cells: NDArray[Any], size: int) -> Counts:
    """Which of `size` cells have a count, and how many."""
    if size <= max(_SPARSE * cells.size, _SMALL):
        counts = np.bincount(cells, minlength=size)
        cells_with_rows = np.flatnonzero(counts)
        return Counts(cells_with_rows, counts[cells_with_rows])
    cells_with_rows, counts = np.unique(cells, return_counts=True)
    return Counts(cells_with_rows.astype(np.int64), counts)


def together(parts: Sequence[Counts], size: int) -> Counts:
    """The counts of all blocks."""
    if len(parts) == 1:
        return parts[0]
    cells = np.concatenate([part.cells for part in parts])
    counts = np.concatenate([part.counts for part in parts])
    if size <= max(_SPARSE * cells.size, _SMALL):
        total = np.zeros(size, np.int64)
        np.add.at(total, cells, counts)
        cells_with_rows = np.flatnonzero(total)
        return Counts(cells_with_rows, total[cells_with_rows])
    cells_with_rows, back = np.unique(cells, return_inverse=True)
    total = np.zeros(cells_with_rows.size, np.int64)
    np.add.at(total, back, counts)
    return Counts(cells_with_rows, total)


def places_among(keys_kept: Ints, keys: NDArray[np.int64], size: int | None = None) -> Ints:
    """The index of each key among the kept ones (ascending), -1 if it was not kept; size: one
    more than the greatest possible key, if known."""
    if keys_kept.size == size:
        return keys
    if not keys_kept.size:
        return np.full(keys.size, -1)
    if keys_kept[-1] < min(max(_DENSE * keys.size, _TABLE.start), _TABLE.stop):
        table = np.full(int(keys_kept[-1]) + 2, -1)
        table[keys_kept] = np.arange(keys_kept.size)
        return table[np.minimum(keys, table.size - 1)]
    at = np.minimum(np.searchsorted(keys_kept, keys), keys_kept.size - 1)
    return np.where(keys_kept[at] == keys, at, -1)


def ranges(firsts: Ints, sizes: Ints) -> Ints:
    """firsts[0], firsts[0] + 1, ... `sizes[0]` of them, then those from firsts[1] on, ..."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if ends.size else 0
    cells: Ints = np.arange(total) + np.repeat(firsts - (ends - sizes), sizes)
    return cells
