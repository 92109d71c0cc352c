"""A simple undirected graph: who called whom, which stations a trip joins, which papers share
authors.

Spec: jobs, section "Datasets" (kind `edge-list`); graph-der and graph-random-matrix, section 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

MAX_VERTICES: Final = 10**7
MAX_EDGES: Final = 10**8

Items: TypeAlias = NDArray[Any]
"""Ids: an array of int64, or of `numpy.dtypes.StringDType`."""


@dataclass(frozen=True, eq=False)
class EdgeList:
    """Kind `edge-list`, cleaned: no direction, no loops, no edge twice. No edges at all are legal.

    vertices (n,): distinct ids in the order of rows, int64 where every id is an integer, else text;
    first, second (m,): the ends of each edge as places in `vertices`, first < second, sorted by
    both; declared: whether the vertex set was given, and not taken from the edges; appearance (n,):
    places in order of first appearance in the file, those that never appear last.
    loops, duplicates: lines that were dropped as self-loops, and merged with another one; like the
    number of edges, visible only to the operator. Raises ValueError for arrays that do not fit.
    """

    vertices: Items
    first: NDArray[np.int32]
    second: NDArray[np.int32]
    declared: bool
    appearance: NDArray[np.int32]
    loops: int = 0
    duplicates: int = 0

    def __post_init__(self) -> None:
        count = self.count
        if self.vertices.ndim != 1 or not _differ(self.vertices):
            raise ValueError("ids differ")
        if self.first.shape != self.second.shape or self.first.ndim != 1:
            raise ValueError("an edge has two ends")
        if self.edges:
            if self.first.min() < 0 or self.second.max() >= count:
                raise ValueError("an end is a place in the list of vertices")
            if (self.first >= self.second).any():
                raise ValueError("the first end is the smaller one")
            rises = np.diff(self.first)
            if (rises < 0).any() or ((rises == 0) & (np.diff(self.second) <= 0)).any():
                raise ValueError("edges rise")
        if self.appearance.shape != (count,):
            raise ValueError("an appearance for each vertex")

    @property
    def count(self) -> int:
        """How many vertices there are."""
        return self.vertices.size

    @property
    def edges(self) -> int:
        """How many edges there are; private."""
        return self.first.size

    def degrees(self) -> NDArray[np.int64]:
        """(n,) edges at each vertex; private."""
        ends = np.bincount(self.first, minlength=self.count)
        return ends + np.bincount(self.second, minlength=self.count)

    @classmethod
    def from_pairs(
        cls,
        vertices: ArrayLike,
        left: NDArray[np.int32],
        right: NDArray[np.int32],
        *,
        declared: bool = True,
    ) -> EdgeList:
        """Pairs of places (lines,), as they were read: in any direction, repeated, with loops."""
        ids = np.asarray(vertices)
        ids = ids if ids.dtype.kind in "iT" else ids.astype(np.dtypes.StringDType())
        places = np.empty(2 * left.size, np.int32)
        places[0::2], places[1::2] = left, right
        seen = np.full(ids.size, places.size, np.int64)
        seen[places[::-1]] = np.arange(places.size - 1, -1, -1)
        keys = np.minimum(left, right).astype(np.int64)
        keys *= ids.size
        keys += np.maximum(left, right)
        keys = keys[left != right]
        proper = keys.size
        keys.sort()
        if proper:
            keys = keys[np.concatenate(([True], keys[1:] != keys[:-1]))]
        first = keys // max(1, ids.size)
        return cls(
            ids,
            first.astype(np.int32),
            (keys - first * ids.size).astype(np.int32),
            declared,
            np.argsort(seen, kind="stable").astype(np.int32),
            left.size - proper,
            proper - keys.size,
        )

    @classmethod
    def of(
        cls, edges: Iterable[tuple[Any, Any]], vertices: Sequence[Any] | None = None
    ) -> EdgeList:
        """A small graph of pairs of ids. Raises KeyError for an id that is not in `vertices`."""
        pairs = list(edges)
        ids = sorted({end for pair in pairs for end in pair}) if vertices is None else vertices
        places = {each: place for place, each in enumerate(ids)}
        ends = np.array([[places[end] for end in pair] for pair in pairs], np.int32).reshape(-1, 2)
        listed = np.array(ids if len(ids) else [], None if len(ids) else np.int64)
        return cls.from_pairs(listed, ends[:, 0], ends[:, 1], declared=vertices is not None)


def _differ(ids: Items) -> bool:
    if (ids[1:] > ids[:-1]).all():
        return True
    return bool(np.unique(ids).size == ids.size)
