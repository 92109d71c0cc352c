"""Counts of sets of items in the partitions of a public taxonomy, the taxonomy itself, and counts
of lengths and items.

The context-free taxonomy: a tree over the ordered universe that knows nothing of the data.

Spec: set-valued, section 3.1. Leaves are the items in their order; each level is cut into
consecutive chunks of `fanout` nodes until one is left. A chunk of a single node is that node
itself: no node has one child. So the ancestors of item p at level k sit at place p // fanout^k, and
a node that is no leaf has its level as height: all chunks before the last one are full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tacit.encoders.count_sums import CountSum, read_with, whole_number, whole_numbers
from tacit.encoders.counts import Counter, Ints, Layer, Lists, Paths, places_among, sorted_sets


class Node(NamedTuple):
    """A node by its height (0: an item) and its place among the nodes of that level."""

    level: int
    place: int


@dataclass(frozen=True)
class Taxonomy:
    """The tree over `size` >= 2 items with at most `fanout` >= 2 children a node."""

    size: int
    fanout: int

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """How many nodes each level has, single ones of the level below included."""
        widths = [self.size]
        while widths[-1] > 1:
            widths.append(-(-widths[-1] // self.fanout))
        return tuple(widths)

    @cached_property
    def _internal(self) -> tuple[NDArray[np.int64], ...]:
        counts = [np.zeros(self.size, np.int64)]
        for width in self.widths[1:]:
            below = counts[-1]
            starts = np.arange(width) * self.fanout
            chunk = np.minimum(self.fanout, below.size - starts)
            counts.append(np.add.reduceat(below, starts) + (chunk > 1))
        return tuple(counts)

    @property
    def root(self) -> Node:
        """The node above all items."""
        return self.node(len(self.widths) - 1, 0)

    def node(self, level: int, place: int) -> Node:
        """The node at a place of a level; where a chunk has one node, that one."""
        while level and self._chunk(level, place) == 1:
            level, place = level - 1, place * self.fanout
        return Node(level, place)

    def _chunk(self, level: int, place: int) -> int:
        return min(self.fanout, self.widths[level - 1] - place * self.fanout)

    @cached_property
    def _children(self) -> dict[Node, tuple[Node, ...]]:
        return {}

    def children(self, node: Node) -> tuple[Node, ...]:
        """The children in order, at least two; none of an item. Bit i of a mask is child i."""
        children_of_node = self._children.get(node)
        if children_of_node is None:
            level, place = node
            first = place * self.fanout
            chunk = range(first, first + self._chunk(level, place)) if level else ()
            children_of_node = tuple(self.node(level - 1, chunk_node) for chunk_node in chunk)
            self._children[node] = children_of_node
        return children_of_node

    def internal(self, node: Node) -> int:
        """How many nodes of the subtree are no items, the node itself included."""
        return int(self._internal[node.level][node.place])

    def leaf_mask(self, node: Node) -> int:
        """The children that are items, as bits."""
        return sum(1 << bit for bit, child in enumerate(self.children(node)) if not child.level)

    @property
    def single_at_end(self) -> Sequence[bool]:
        """For each level from 1 on: whether its last place is a node of the level below."""
        levels = range(1, len(self.widths))
        return [self._chunk(level, self.widths[level] - 1) == 1 for level in levels]


# Counts of records by their length, of items and of sets of a few items (spec: set-valued, section
# 10). A record keeps at
# most `most` of its items, by words that are a function of the record and a public salt: nobody
# else's records change what it keeps, so that it moves the counts by `most` at most, whatever the
# salt.

MOST_LENGTH: Final = 64
"""Longer records count as this long."""
MOST_BASIS: Final = 12
"""Items of a basis: 2^12 cells."""
MOST_PAIR_ITEMS: Final = 64
"""Items whose pairs are counted: 2,016 pairs."""
MOST_PAIRS_OF: Final = 6
"""Of these a record keeps at most this many: 15 pairs."""
SALTS: Final = 1 << 63
_ODD: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))
_LAST: Final = np.uint64(0x94D049BB133111EB)


@dataclass(frozen=True, eq=False)
class Lengths:
    """Asks how many records have 1, 2, ... items; the last cell: 64 and more."""

    items: int

    @property
    def sizes(self) -> Ints:
        """One group."""
        return np.array([MOST_LENGTH])

    def json(self) -> dict[str, Any]:
        """As JSON."""
        return {"kind": "lengths", "items": self.items}

    def counted(self, lists: Lists) -> tuple[Ints, Ints]:
        """Records and cells of each count of 1; empty records have none."""
        records, _ = sorted_sets(lists, self.items)
        lengths = np.minimum(np.bincount(records, minlength=lists.count), MOST_LENGTH)
        nonempty = np.flatnonzero(lengths)
        return nonempty, lengths[nonempty] - 1


@dataclass(frozen=True, eq=False)
class KeptItems:
    """Asks how many records have each item, of which a record keeps at most `most`."""

    items: int
    most: int
    salt: int

    @property
    def sizes(self) -> Ints:
        """One group."""
        return np.array([self.items])

    def json(self) -> dict[str, Any]:
        """As JSON."""
        return {"kind": "items", "items": self.items, "most": self.most, "salt": self.salt}

    def counted(self, lists: Lists) -> tuple[Ints, Ints]:
        """Records and cells of each count of 1."""
        records, places = sorted_sets(lists, self.items)
        mixed = _mixed(places.astype(np.uint64) ^ np.uint64(self.salt))
        mixes = np.zeros(lists.count, np.uint64)
        np.add.at(mixes, records, mixed)
        order = np.lexsort((places, _mixed(mixes[records] ^ mixed), records))
        sizes = np.bincount(records, minlength=lists.count)
        rank = np.arange(records.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        first = order[rank < self.most]
        return records[first], places[first].astype(np.int64)


@dataclass(frozen=True, eq=False)
class BasisCells:
    """Asks how many records have each subset of a few items: a record is in one cell, bit i of
    which is item i of `chosen` (rising). Empty records are in none."""

    items: int
    chosen: Ints

    @property
    def sizes(self) -> Ints:
        """One group."""
        return np.array([1 << self.chosen.size])

    def json(self) -> dict[str, Any]:
        """As JSON."""
        return {"kind": "basis", "items": self.items, "chosen": self.chosen.tolist()}

    def counted(self, lists: Lists) -> tuple[Ints, Ints]:
        """Records and cells of each count of 1."""
        records, places = sorted_sets(lists, self.items)
        bit = np.zeros(self.items, np.int64)
        bit[self.chosen] = 1 << np.arange(self.chosen.size)
        cells = np.bincount(records, bit[places], lists.count).astype(np.int64)
        nonempty = np.flatnonzero(np.bincount(records, minlength=lists.count))
        return nonempty, cells[nonempty]


@dataclass(frozen=True, eq=False)
class KeptPairs:
    """Asks how many records have both of two items, for all pairs of `chosen` (rising), of which a
    record keeps at most `most`, as it keeps items. Pair j (j - 1) / 2 + i: places i < j there."""

    items: int
    chosen: Ints
    most: int
    salt: int

    @property
    def sizes(self) -> Ints:
        """One group."""
        return np.array([pair_count(self.chosen.size)])

    @property
    def reach(self) -> int:
        """By how much a record moves the counts at most."""
        return pair_count(self.most)

    def json(self) -> dict[str, Any]:
        """As JSON."""
        chosen = self.chosen.tolist()
        named = {"items": self.items, "chosen": chosen, "most": self.most, "salt": self.salt}
        return {"kind": "pairs", **named}

    def counted(self, lists: Lists) -> tuple[Ints, Ints]:
        """Records and cells of each count of 1."""
        records, places = sorted_sets(lists, self.items)
        places_there = places_among(self.chosen, places)
        there = places_there >= 0
        sizes = np.bincount(records[there], minlength=lists.count)
        starts = np.concatenate(([0], np.cumsum(sizes)))
        inside = Lists(places_there[there].astype(np.int32), starts)
        return pairs_inside(*KeptItems(self.chosen.size, self.most, self.salt).counted(inside))


def pair_count(items: int) -> int:
    """Pairs of this many items."""
    return items * (items - 1) // 2


def pairs_inside(records: Ints, places: Ints) -> tuple[Ints, Ints]:
    """Records and numbers of the pairs of entries (entries,) of the same record; an entry is there
    once."""
    order = np.lexsort((places, records))
    records, places = records[order], places[order]
    rank = np.arange(records.size) - np.searchsorted(records, records)
    later = np.repeat(np.arange(records.size), rank)
    before = np.arange(later.size) - np.repeat(np.cumsum(rank) - rank, rank)
    earlier = later - rank[later] + before
    high, low = places[later], places[earlier]
    return records[later], high * (high - 1) // 2 + low


Margin: TypeAlias = Lengths | KeptItems | BasisCells | KeptPairs


def read_margin(document: Mapping[str, Any], most_items: int) -> Margin:
    """The document. Raises ValueError, TypeError or KeyError for an invalid document."""
    items = whole_number(document["items"], most_items)
    if document["kind"] == "lengths":
        return Lengths(items)
    if document["kind"] in ("basis", "pairs"):
        chosen = whole_numbers(document["chosen"], items)
        fewest, largest = (1, MOST_BASIS) if document["kind"] == "basis" else (2, MOST_PAIR_ITEMS)
        if not fewest <= chosen.size <= largest or (np.diff(chosen) <= 0).any():
            raise ValueError("a basis has few items, rising")
        if document["kind"] == "basis":
            return BasisCells(items, chosen)
        most = whole_number(document["most"], MOST_PAIRS_OF)
        if most < fewest:
            raise ValueError("a pair has two items")
        return KeptPairs(items, chosen, most, whole_number(document["salt"], SALTS - 1))
    if document["kind"] != "items":
        raise ValueError("there is no such question")
    most = whole_number(document["most"], MOST_LENGTH)
    return KeptItems(items, most, whole_number(document["salt"], SALTS - 1))


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Words that look unlike each other, one to one (G. Steele and others, "SplitMix", 2014)."""
    mixed = words + _ODD[0]
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _ODD[1]
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _LAST
    return mixed ^ (mixed >> np.uint64(31))


# Counts of sets of items in the partitions of a public taxonomy (spec: set-valued, sections 3.3, 7
# and 10; federated-counting, section 2). A record touches a node
# when it has an item below it, and its mask there says under which children. Its touched nodes in
# the order (height falling, place rising) are split in exactly this order along the record's chain:
# a parent comes before its children. All records of a partition have touched the same nodes so far,
# hence the mask of the node that is split next is at the same place for all of them, and a split is
# one gather.

_MASK_BITS: Final = 16
_FIELDS: Final = ("parents", "masks", "places", "children", "ends")
FANOUTS: Final = range(2, _MASK_BITS + 1)
MOST_ITEMS: Final = 200_000
MOST_DEPTH: Final = 4_096


@dataclass(frozen=True, eq=False)
class Masks:
    """masks (touched nodes of all records,); starts (records + 1,): where each record begins.

    Empty records are omitted; `kept`: the numbers of the others. `merged`: duplicates inside
    records; `empty`: records without items. All of it is private.
    """

    masks: NDArray[np.uint16]
    starts: Ints
    kept: Ints
    merged: int
    empty: int

    @property
    def records(self) -> int:
        """How many records with items."""
        return self.kept.size


@dataclass(frozen=True, eq=False)
class Generation:
    """Partitions of one depth (P,), sorted by parent and mask: the partition on the depth before
    and the mask there that they are (the first depth has one, which is no other's part); `places`:
    of the node that is split, among the masks of their records; `children`: how many masks a split
    has; `ends`: the children that are items if a subset of them alone ends the chain, else 0."""

    parents: Ints
    masks: Ints
    places: Ints
    children: Ints
    ends: Ints

    @cached_property
    def keys(self) -> Ints:
        """Parent and mask as one number, rising."""
        return self.parents << _MASK_BITS | self.masks

    def json(self) -> dict[str, list[int]]:
        """As JSON."""
        return {name: getattr(self, name).tolist() for name in _FIELDS}


@dataclass(frozen=True, eq=False)
class Splits:
    """Asks for the masks of the partitions of the last depth.

    Groups: the masks of each partition that are split further, then those of each that end the
    chain, as itemsets.
    """

    taxonomy: Taxonomy
    generations: tuple[Generation, ...]

    @property
    def items(self) -> int:
        """How many items there are."""
        return self.taxonomy.size

    @property
    def last(self) -> Generation:
        """What is asked about."""
        return self.generations[-1]

    def json(self) -> dict[str, Any]:
        """As JSON."""
        generations = [generation.json() for generation in self.generations]
        return {"items": self.items, "fanout": self.taxonomy.fanout, "generations": generations}

    @cached_property
    def sizes(self) -> Ints:
        """Cells of each group (2 P,)."""
        ending = (1 << np.bitwise_count(self.last.ends).astype(np.int64)) - 1
        return np.concatenate((self.last.children - ending, ending))

    @cached_property
    def bounds(self) -> Ints:
        """(2 P + 1,): the first cell of each group, and the number of cells."""
        return np.concatenate(([0], np.cumsum(self.sizes)))

    def cells(self, partitions: Ints, masks: Ints) -> Ints:
        """Cells of masks. Of a node that has other children too at most one child is an item."""
        ends, all_children = self.last.ends[partitions], self.last.children[partitions]
        ending = (masks & ~ends) == 0
        inner = masks - 1 - ((ends > 0) & (masks > ends))
        groups = partitions + ending * self.last.ends.size
        cells_of_walk: Ints = self.bounds[groups] + np.where(
            ending, np.where(ends == all_children, masks - 1, 0), inner
        )
        return cells_of_walk

    def named(self, cells: Ints) -> tuple[Ints, Ints]:
        """Partitions and masks of cells."""
        groups = np.searchsorted(self.bounds, cells, side="right") - 1
        count = self.last.ends.size
        within = cells - self.bounds[groups]
        partitions = groups % count
        ends, all_children = self.last.ends[partitions], self.last.children[partitions]
        inner = within + 1 + ((ends > 0) & (within + 1 >= ends))
        ending = np.where(ends == all_children, within + 1, ends)
        return partitions, np.where(groups < count, inner, ending)


@dataclass(frozen=True, eq=False)
class Walk:
    """Records that are still in a partition: their rows, and the partition of each on a depth."""

    masks: Masks
    rows: NDArray[np.int32]
    partitions: Ints
    depth: int

    def seen(self, document: Splits) -> Ints:
        """The mask that each record has of the node that its partition splits here; 0 where it has
        none, which no honest question asks for: nothing of another record is ever read."""
        at = self.masks.starts[self.rows] + document.generations[self.depth].places[self.partitions]
        exists = at < self.masks.starts[self.rows + 1]
        masks_seen: Ints = self.masks.masks[np.where(exists, at, 0)].astype(np.int64)
        return np.where(exists, masks_seen, 0)


def follow(walk: Lists | Masks | Walk, document: Splits | Margin) -> Lists | Masks | Walk:
    """The walk at the partitions of the last depth. Lengths and items are counted before it
    begins."""
    if isinstance(document, Margin):
        return walk
    if isinstance(walk, Lists):
        walk = joined_masks([block_masks(document.taxonomy, walk)])
    if isinstance(walk, Masks):
        rows = np.arange(walk.records, dtype=np.int32)
        walk = Walk(walk, rows, np.zeros(rows.size, np.int64), 0)
    for generation in document.generations[walk.depth + 1 :]:
        keys = walk.partitions << _MASK_BITS | walk.seen(document)
        next_places = places_among(generation.keys, keys)
        kept = np.flatnonzero(next_places >= 0)
        walk = Walk(walk.masks, walk.rows[kept], next_places[kept], walk.depth + 1)
    return walk


def cells(walk: Any, document: Splits | Margin) -> tuple[partial[Ints], Ints]:
    """Records, on demand, and cells of each count of 1."""
    if isinstance(document, Margin):
        records, cells_of_walk = document.counted(walk)
        return partial(np.asarray, records), cells_of_walk
    masks_of_walk = walk.seen(document)
    some = masks_of_walk > 0
    cells_of_walk = document.cells(walk.partitions[some], masks_of_walk[some])
    return partial(np.take, walk.masks.kept, walk.rows[some]), cells_of_walk


def paths(document: Splits | Margin) -> Paths | None:
    """Partitions are known by their masks: below a partition first those masks that end the chain
    or those that do not, then each. Where it is split, and which masks end, must stay the same."""
    if isinstance(document, Margin):
        return None
    layers: list[Layer] = []
    for generation in document.generations:
        parents = generation.parents
        if layers:
            before = document.generations[len(layers) // 2 - 1]
            ending = (generation.masks & ~before.ends[parents]) == 0
            parents = parents + ending * before.ends.size
        marks = generation.places << _MASK_BITS | generation.ends
        layers.append(Layer.of(parents, generation.masks, marks))
        count = generation.parents.size
        layers.append(Layer.of(np.tile(np.arange(count), 2), np.repeat(np.arange(2), count)))
    walk = f"sets {document.items} {document.taxonomy.fanout}"
    return Paths(walk, tuple(layers), np.arange(document.sizes.size))


COUNTER: Final = Counter(follow, cells, paths)


def read(document: Mapping[str, Any]) -> CountSum:
    """The sum of a document. Raises ValueError, TypeError or KeyError for an invalid document."""
    return read_with(COUNTER, _asked, document)


def _asked(document: Mapping[str, Any]) -> Splits | Margin:
    if "kind" in document:
        return read_margin(document, MOST_ITEMS)
    items, fanout = whole_number(document["items"], MOST_ITEMS), document["fanout"]
    if items < 2 or fanout not in FANOUTS or type(fanout) is not int:
        raise ValueError("no taxonomy")
    generations: list[Generation] = []
    if not 1 <= len(document["generations"]) <= MOST_DEPTH:
        raise ValueError("more depths than questions can have asked")
    for generation_document in document["generations"]:
        before = generations[-1].parents.size if generations else 1
        generation = Generation(
            whole_numbers(generation_document["parents"], before),
            *(whole_numbers(generation_document[name], 1 << _MASK_BITS) for name in _FIELDS[1:]),
        )
        _check(generation, first=not generations)
        generations.append(generation)
    return Splits(Taxonomy(items, fanout), tuple(generations))


def _check(generation: Generation, *, first: bool) -> None:
    """Raises ValueError for what is no generation."""
    count = generation.parents.size
    if any(getattr(generation, name).shape != (count,) for name in _FIELDS):
        raise ValueError("a partition has a number of each kind")
    if count < 1 or (np.diff(generation.keys) <= 0).any() or (generation.children < 1).any():
        raise ValueError("partitions are sorted by parent and mask")
    if (first and (count, int(generation.masks[0])) != (1, 0)) or (
        not first and (generation.masks < 1).any()
    ):
        raise ValueError("all records are one partition first, then partitions have masks")


def joined_masks(parts: Sequence[tuple[NDArray[np.uint16], Ints, int]]) -> Masks:
    """The masks of all blocks."""
    touched = np.concatenate([counts for _, counts, _ in parts] or [np.zeros(0, np.int64)])
    nonempty = np.flatnonzero(touched)
    return Masks(
        np.concatenate([masks for masks, _, _ in parts] or [np.zeros(0, np.uint16)]),
        np.concatenate(([0], np.cumsum(touched[nonempty]))),
        nonempty,
        sum(merged for _, _, merged in parts),
        int(touched.size - nonempty.size),
    )


def block_masks(taxonomy: Taxonomy, lists: Lists) -> tuple[NDArray[np.uint16], Ints, int]:
    """Masks of some records, touched nodes of each record (0: it is empty), duplicates.

    Items of a record are in order, so those below one node are adjacent on every level: a mask is
    an OR over a run.
    """
    count, fanout = lists.count, taxonomy.fanout
    records, places = sorted_sets(lists, taxonomy.size)
    merged = lists.items.size - places.size
    levels: list[tuple[Ints, NDArray[np.uint16]]] = []
    for single, width in zip(taxonomy.single_at_end, taxonomy.widths[1:], strict=True):
        if not places.size:
            break
        above = places // fanout
        bits = np.left_shift(1, places - above * fanout).astype(np.uint16)
        new = (np.diff(above) != 0) | (np.diff(records) != 0)
        runs = np.concatenate(([0], np.flatnonzero(new) + 1))
        masks = np.bitwise_or.reduceat(bits, runs)
        records, places = records[runs], above[runs]
        if single:  # the last place is a node of the level below, which has its mask already
            real = places != width - 1
            levels.append((records[real], masks[real]))
        else:
            levels.append((records, masks))
    touched = [np.bincount(rows_of_level, minlength=count) for rows_of_level, _ in levels]
    total = np.sum(touched, axis=0) if touched else np.zeros(count, np.int64)
    fill = np.cumsum(total) - total
    packed = np.empty(int(total.sum()), np.uint16)
    for (rows_of_level, masks), sizes in zip(levels[::-1], touched[::-1], strict=True):
        rank = np.arange(rows_of_level.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        packed[fill[rows_of_level] + rank] = masks
        fill += sizes
    return packed, total, merged
