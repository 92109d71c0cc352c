"""The context-free taxonomy: a tree over the ordered universe that knows nothing of the data.

Spec: set-valued, section 3.1. Leaves are the items in their order; each level is cut into
consecutive chunks of `fanout` nodes until one is left. A chunk of a single node is that node
itself: no node has one child. So the ancestors of item p at level k sit at place p // fanout^k, and
a node that is no leaf has its level as height: all chunks before the last one are full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


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
        found = self._children.get(node)
        if found is None:
            level, place = node
            first = place * self.fanout
            chunk = range(first, first + self._chunk(level, place)) if level else ()
            found = tuple(self.node(level - 1, each) for each in chunk)
            self._children[node] = found
        return found

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
