"""The public universe as the tree sees it: items in groups and time bins.

Spec: sequential-prefix-tree, sections 2 and 3. A node is asked for its groups first (where there
are some) and then for the items of each group that passed. With time bins the universe lists the
places of the first bin, then those of the second, and so on; below a node only its own bin and
later ones are candidates, hence in each group all items from some rank on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Layout:
    """groups (items,): the group of each item, from 0, none empty; None: the items are one group
    that is never queried. bins: how many parts of `items` / bins consecutive items there are."""

    items: int
    groups: Ints | None = None
    bins: int = 1

    @classmethod
    def of_names(cls, names: Sequence[str], bins: int = 1) -> Layout:
        """From the name of each item's group."""
        places = {name: place for place, name in enumerate(dict.fromkeys(names))}
        return cls(len(names), np.array([places[name] for name in names], np.int64), bins)

    @classmethod
    def of_fan_out(cls, items: int, fan_out: int, bins: int = 1) -> Layout:
        """Consecutive items in groups of this size; the last one may be smaller."""
        return cls(items, np.arange(items) // fan_out, bins)

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

    def bin_of(self, items: Ints) -> Ints:
        """The time bin of items."""
        return items // (self.items // self.bins)

    @cached_property
    def earlier(self) -> Ints:
        """(groups, bins): how many items of a group lie in earlier bins."""
        held = np.zeros((self.count, self.bins), np.int64)
        np.add.at(held, (self.group_of, self.bin_of(np.arange(self.items))), 1)
        return np.cumsum(held, axis=1) - held
