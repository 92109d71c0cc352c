"""One path out of a levelled graph and the exact map. Spec: path-publishing, section 3.7.

A pair of sub-vertices whose bases are joined in the map and that are not on one branch of the graph
is a step of the path. Rule 5 determines which end is the start: the real sub-vertex of smallest
path position is among the roots.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, TypeAlias

import numpy as np

from tacit.paths.network import NetworkMap, VertexId
from tacit.paths.problems import MapMismatch, NotAPath
from tacit.paths.published import LevelledGraph
from tacit.paths.walking import walked

Rule = Literal["combined", "certain", "nearest-root"]
Confidence = Literal["certain", "likely", "none"]
SubVertex: TypeAlias = tuple[VertexId, int]


@dataclass(frozen=True)
class Side:
    """What an end of the path is judged by: steps to the nearest root and to the nearest leaf."""

    root: float
    leaf: float

    @property
    def consistent(self) -> bool:
        """Whether it may be the start: the true one always may."""
        return self.root <= self.leaf


def merged_pairs(graph: LevelledGraph) -> set[frozenset[SubVertex]]:
    """The pairs of different sub-vertices of which some pieces are joined."""
    owners = [(node.base, node.sub) for node in graph.nodes]
    return {frozenset((owners[one], owners[other])) for one, other in graph.edges}


def path_of(graph: LevelledGraph, network: NetworkMap) -> list[SubVertex]:
    """The path, in one of its directions. Raises MapMismatch, NotAPath."""
    subs: dict[VertexId, list[SubVertex]] = {}
    for node in dict.fromkeys((node.base, node.sub) for node in graph.nodes):
        subs.setdefault(node[0], []).append(node)
    if subs.keys() != set(network.vertices):
        raise MapMismatch
    joined = merged_pairs(graph)
    steps = [
        (one, other)
        for low, high in network.edges.tolist()
        for one in subs[network.vertices[low]]
        for other in subs[network.vertices[high]]
        if frozenset((one, other)) not in joined
    ]
    nodes = list(dict.fromkeys(chain.from_iterable(steps)))
    places = {node: place for place, node in enumerate(nodes)}
    ends = np.array([(places[a], places[b]) for a, b in steps], np.int64).reshape(-1, 2)
    path = [nodes[place] for place in walked(ends[:, 0], ends[:, 1], len(nodes)).tolist()]
    if not graph.canonical and {base for base, _ in path} != subs.keys():
        raise NotAPath("the path does not visit every vertex")
    return path


def sides(graph: LevelledGraph, path: Sequence[SubVertex]) -> tuple[Side, Side]:
    """The first and the last of a path."""
    lower, upper = {edge[1] for edge in graph.edges}, {edge[0] for edge in graph.edges}
    roots = {(n.base, n.sub) for at, n in enumerate(graph.nodes) if at not in lower}
    leaves = {(n.base, n.sub) for at, n in enumerate(graph.nodes) if at not in upper}

    def nearest(order: Sequence[SubVertex], group: set[SubVertex]) -> float:
        return next((step for step, node in enumerate(order) if node in group), math.inf)

    turned = path[::-1]
    return (
        Side(nearest(path, roots), nearest(path, leaves)),
        Side(nearest(turned, roots), nearest(turned, leaves)),
    )


def start(first: Side, last: Side, rule: Rule) -> tuple[int | None, Confidence]:
    """Which end is the start, 0 or -1 (None: undecided), and how sure that is.

    `certain` is never wrong: the start is consistent, so that the only consistent end is it.
    """
    if rule != "nearest-root" and first.consistent != last.consistent:
        return (0 if first.consistent else -1), "certain"
    if rule != "certain" and first.root != last.root:
        return (0 if first.root < last.root else -1), "likely"
    return None, "none"


def copy_order(path: Sequence[SubVertex]) -> int | None:
    """The start by copy numbers, which count a vertex's visits: 0 or -1, None without copies."""
    seen: dict[VertexId, int] = {}
    for base, sub in path:
        if base in seen:
            return 0 if sub > seen[base] else -1
        seen[base] = sub
    return None
