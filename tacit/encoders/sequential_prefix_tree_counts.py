"""Counts of sequences by their first items, level by level, and the layout of the public universe.

The public universe as the tree sees it: items in groups and time bins.

Spec: sequential-prefix-tree, sections 2 and 3. A node is asked for its groups first (where there
are some) and then for the items of each group that passed. With time bins the universe lists the
places of the first bin, then those of the second, and so on; below a node only its own bin and
later ones are candidates, hence in each group all items from some rank on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from hashlib import sha256
from math import comb
from typing import Any, Final

import numpy as np

from tacit.encoders.count_sums import (
    MOST_CELLS,
    CountSum,
    read_levels,
    read_with,
    whole_number,
    whole_numbers,
)
from tacit.encoders.counts import Counter, Ints, Layer, Level, Lists, Paths, places_among


@dataclass(frozen=True, eq=False)
class Layout:
    """groups (items,): the group of each item, from 0, none empty; None: the items are one group
    that is never queried. bins: how many parts of `items` / bins consecutive items there are."""

    items: int
    groups: Ints | None = None
    bins: int = 1

    @classmethod
    def of_names(cls, names: Sequence[str]) -> Layout:
        """From the name of each item's group."""
        places = {name: place for place, name in enumerate(dict.fromkeys(names))}
        return cls(len(names), np.array([places[name] for name in names], np.int64))

    @cached_property
    def group_of(self) -> Ints:
        """The group of each item."""
        return np.zeros(self.items, np.int64) if self.groups is None else self.groups

    @cached_property
    def count(self) -> int:
        """How many groups."""
        return int(self.group_of.max()) + 1

    @property
    def mean_size(self) -> Fraction:
        """Items of a group, f in the source."""
        return Fraction(self.items, self.count)

    @cached_property
    def sizes(self) -> Ints:
        """Items of each group."""
        return np.bincount(self.group_of, minlength=self.count)

    @cached_property
    def order(self) -> Ints:
        """The items by group, rising inside each."""
        return np.argsort(self.group_of, kind="stable")

    @cached_property
    def starts(self) -> Ints:
        """Where each group begins in `order`."""
        return np.cumsum(self.sizes) - self.sizes

    @cached_property
    def rank(self) -> Ints:
        """The place of each item in its group."""
        rank = np.empty(self.items, np.int64)
        rank[self.order] = np.arange(self.items) - self.starts[self.group_of[self.order]]
        return rank

    def paths(self, length: int) -> int:
        """Sequences of this many items whose bins do not fall."""
        per_bin = self.items // self.bins
        return int(per_bin**length * comb(self.bins + length - 1, length))

    def bin_of(self, items: Ints) -> Ints:
        """The time bin of items."""
        return items // (self.items // self.bins)

    @cached_property
    def _bins_in_order(self) -> Ints:
        """Group and bin of each item of `order`, as one number: rising."""
        found: Ints = self.group_of[self.order] * self.bins + self.bin_of(self.order)
        return found

    def earlier(self, groups: Ints, bins: Ints) -> Ints:
        """How many items of a group lie in earlier bins."""
        places: Ints = np.searchsorted(self._bins_in_order, groups * self.bins + bins)
        return places - self.starts[groups]

    @cached_property
    def earlier_groups(self) -> Ints:
        """(bins,): how many groups, from the first one on, have items of earlier bins alone."""
        last = np.zeros(self.count, np.int64)
        np.maximum.at(last, self.group_of, self.bin_of(np.arange(self.items)))
        return np.searchsorted(np.maximum.accumulate(last), np.arange(self.bins))


# Counts of sequences by their first items, level by level (spec: sequential-prefix-tree, section 7;
# federated-counting, section 2). A sequence is counted once: by the item after the kept prefix that
# it begins with.


@dataclass(frozen=True, eq=False)
class Below:
    """Asks what follows the kept prefixes of the last level (without levels: the empty prefix): the
    group of the next item, or that item itself in pairs of prefix and group.

    levels: each sorted by (parent, item); asked: prefixes whose groups are asked, rising; pairs:
    those whose items are asked, prefix times groups plus group, rising; None where groups are.
    """

    layout: Layout
    levels: tuple[Level, ...]
    asked: Ints
    pairs: Ints | None = None

    @property
    def items(self) -> int:
        """How many items there are, at all times."""
        return self.layout.items

    @property
    def prefixes(self) -> int:
        """How many prefixes there are, asked or not."""
        return self.levels[-1].items.size if self.levels else 1

    @cached_property
    def earlier(self) -> Ints:
        """Of each pair's items how many lie in earlier time bins than its prefix."""
        assert self.pairs is not None
        prefix, group = np.divmod(self.pairs, self.layout.count)
        items_before: Ints = self.layout.earlier(group, self._bins[prefix])
        return items_before

    @cached_property
    def _bins(self) -> Ints:
        """The time bin of each prefix."""
        last: Ints = (
            self.levels[-1].items.astype(np.int64) if self.levels else np.zeros(1, np.int64)
        )
        return self.layout.bin_of(last)

    @cached_property
    def first_groups(self) -> Ints:
        """Of each asked prefix the first group that may have items of its time bin or later."""
        groups_before: Ints = self.layout.earlier_groups[self._bins[self.asked]]
        return groups_before

    @cached_property
    def sizes(self) -> Ints:
        """Cells of each prefix (groups), or of each pair (items)."""
        if self.pairs is None:
            return self.layout.count - self.first_groups
        return self.layout.sizes[self.pairs % self.layout.count] - self.earlier

    @cached_property
    def firsts(self) -> Ints:
        """The first cell of each."""
        return np.cumsum(self.sizes) - self.sizes

    def json(self) -> dict[str, Any]:
        """As JSON."""
        groups, pairs = self.layout.groups, self.pairs
        return {
            "items": self.layout.items,
            "bins": self.layout.bins,
            "groups": None if groups is None else groups.tolist(),
            "levels": [level.json() for level in self.levels],
            "asked": self.asked.tolist(),
            "pairs": None if pairs is None else pairs.tolist(),
        }

    def pairs_of(self, cells: Ints) -> Ints:
        """Cells of groups as pairs."""
        rows = np.searchsorted(self.firsts, cells, side="right") - 1
        groups = cells - self.firsts[rows] + self.first_groups[rows]
        pairs: Ints = self.asked[rows] * self.layout.count + groups
        return pairs

    def named(self, cells: Ints) -> tuple[Ints, Ints]:
        """Prefixes and items of cells."""
        assert self.pairs is not None
        # The pair of a cell: the last one that begins there; pairs without items begin too.
        pair = np.searchsorted(self.firsts, cells, side="right") - 1
        prefix, group = np.divmod(self.pairs[pair], self.layout.count)
        within = cells - self.firsts[pair] + self.earlier[pair]
        return prefix, self.layout.order[self.layout.starts[group] + within]


@dataclass(frozen=True, eq=False)
class Walk:
    """Sequences that are still in the tree.

    lists: all of the block; at, ends: places of the next item, and of the sequence's end; prefixes:
    of the last level, `depth`.
    """

    lists: Lists
    at: Ints
    ends: Ints
    prefixes: Ints
    depth: int


def follow(walk: Lists | Walk, document: Below) -> Walk:
    """The walk, advanced to the level of prefixes that `document` kept last."""
    if isinstance(walk, Lists):
        at, ends = walk.starts[:-1], walk.starts[1:]
        walk = _in_tree(Walk(walk, at, ends, np.zeros(walk.count, np.int64), 0))
    for level in document.levels[walk.depth :]:
        size = document.layout.items
        keys = walk.prefixes * size + walk.lists.items[walk.at]
        next_places = places_among(level.parents * np.int64(size) + level.items, keys)
        kept = np.flatnonzero(next_places >= 0)
        at, ends = walk.at[kept] + 1, walk.ends[kept]
        walk = _in_tree(Walk(walk.lists, at, ends, next_places[kept], walk.depth + 1))
    return walk


def _in_tree(walk: Walk) -> Walk:
    """Without the sequences that have ended."""
    on = np.flatnonzero(walk.at < walk.ends)
    return Walk(walk.lists, walk.at[on], walk.ends[on], walk.prefixes[on], walk.depth)


def cells(walk: Walk, document: Below) -> tuple[partial[Ints], Ints]:
    """Records, on demand, and cells of each count of 1."""
    layout, at = document.layout, walk.at
    items = walk.lists.items[at]
    groups = 0 if layout.groups is None else layout.groups[items]
    if document.pairs is None:
        place = places_among(document.asked, walk.prefixes, document.prefixes)
        group = groups - np.append(document.first_groups, 0)[place]
        first = np.append(document.firsts, 0)[place]
        cells_of_walk = np.where((place < 0) | (group < 0), -1, first + group)
    else:
        keys = walk.prefixes * layout.count + groups
        pair = places_among(document.pairs, keys, document.prefixes * layout.count)
        outside = pair < 0
        if layout.bins > 1:  # times that fall count nowhere
            outside |= layout.rank[items] < np.append(document.earlier, 0)[pair]
        first = np.append(document.firsts - document.earlier, 0)[pair]
        cells_of_walk = np.where(outside, -1, first + layout.rank[items])
    kept = cells_of_walk >= 0
    if not kept.all():
        cells_of_walk, at = cells_of_walk[kept], at[kept]
    return partial(_records, walk.lists.starts, at), cells_of_walk


def _records(starts: Ints, at: Ints) -> Ints:
    return np.searchsorted(starts, at, side="right") - 1


def paths(document: Below) -> Paths:
    """Prefixes are identified by their items, pairs by a prefix and a group: a sequence is in
    one prefix of a level, and continues by one item in one group."""
    layout = document.layout
    layers: list[Layer] = []
    for level in document.levels:
        keys = level.parents.astype(np.int64) * layout.count + layout.group_of[level.items]
        pairs, places = np.unique(keys, return_inverse=True)
        layers += [Layer.of(*np.divmod(pairs, layout.count)), Layer.of(places, level.items)]
    asked_places = document.asked
    if document.pairs is not None:
        layers.append(Layer.of(*np.divmod(document.pairs, layout.count)))
        asked_places = np.arange(document.pairs.size)
    public = [layout.items, layout.bins, layout.group_of.tolist()]
    walk = sha256(json.dumps(public).encode()).hexdigest()
    return Paths(f"prefixes {walk}", tuple(layers), asked_places)


COUNTER: Final = Counter(follow, cells, paths)


def read(document: Mapping[str, Any]) -> CountSum:
    """The sum of a document. Raises ValueError, TypeError or KeyError for an invalid document."""
    return read_with(COUNTER, _asked, document)


def _asked(document: Mapping[str, Any]) -> Below:
    items = whole_number(document["items"], MOST_CELLS)
    bins = whole_number(document["bins"], items)
    if items % bins:
        raise ValueError("time bins have as many items each")
    groups = document["groups"]
    if groups is not None:
        groups = whole_numbers(groups, items)
        if groups.size != items or np.unique(groups).size != int(groups.max()) + 1:
            raise ValueError("every item has a group, and every group an item")
    layout = Layout(items, groups, bins)
    levels = read_levels(document["levels"], items)
    below = Below(layout, levels, np.zeros(0, np.int64))
    asked_places = _rising(document["asked"], below.prefixes)
    if document["pairs"] is None:
        return replace(below, asked=asked_places)
    pairs = _rising(document["pairs"], below.prefixes * layout.count)
    return replace(below, asked=asked_places, pairs=pairs)


def _rising(listed: Any, below: int) -> Ints:
    numbers = whole_numbers(listed, below)
    if (np.diff(numbers) <= 0).any():
        raise ValueError("numbers rise")
    return numbers
