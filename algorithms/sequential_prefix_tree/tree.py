"""The noisy tree: levels of nodes, each with its parent, its last item and its noisy count."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Numbers = NDArray[np.int64] | NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Level:
    """Nodes of one depth, by (parent, item): hence in the order of their prefixes.

    parents: places in the level above (0 in the first one); items; counts: noisy.
    """

    parents: Ints
    items: Ints
    counts: Numbers

    @property
    def size(self) -> int:
        """How many nodes."""
        return self.items.size


@dataclass(frozen=True, eq=False)
class Tree:
    """Levels 1 to the deepest that kept a node. The root is none of them."""

    levels: tuple[Level, ...]

    @property
    def nodes(self) -> int:
        """How many there are."""
        return sum(level.size for level in self.levels)

    def leaves(self) -> list[Ints]:
        """Places of the nodes without children, by level."""
        found = [
            np.flatnonzero(np.bincount(below.parents, minlength=level.size) == 0)
            for level, below in pairwise(self.levels)
        ]
        return found + [np.arange(level.size) for level in self.levels[-1:]]

    def chain(self, depth: int, places: Ints) -> list[Ints]:
        """For nodes of a depth: their own places, then their parents', up to level 1."""
        chain = [places]
        for level in reversed(self.levels[1:depth]):
            chain.append(level.parents[chain[-1]])
        return chain

    def prefixes(self, depth: int, places: Ints) -> Ints:
        """(nodes, depth): the items of each prefix, first one first."""
        chain = self.chain(depth, places)[::-1]
        columns = [level.items[at] for level, at in zip(self.levels, chain, strict=False)]
        return np.stack(columns, axis=1)
