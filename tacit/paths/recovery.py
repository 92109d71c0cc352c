"""Recovery by a holder of the exact map, for every form: from levelled graphs, and from noisy
labels.

The likeliest path behind noisy labels: maximum-weight Hamiltonian paths, exactly.

Spec: path-publishing, section 3.9. An edge of the map weighs +1 where its label says "not in G",
-1 where it says "in G"; the likelihood of a path grows with the sum over its edges, whatever
epsilon is. M. Held and R. M. Karp, "A dynamic programming approach to sequencing problems" (1962):
O(2^n n^2) time and O(2^n n) memory, over all subsets of one size at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tacit.crypto.sealing import SealKey
from tacit.errors import Invalid
from tacit.paths.network import (
    Ints,
    MalformedPublication,
    MapMismatch,
    MapTooLarge,
    NetworkMap,
    NetworkPath,
    NotAPath,
    NotARecipient,
    VertexId,
    sorted_codes,
    walked,
    without,
)
from tacit.paths.published import (
    ComplementEdges,
    Direction,
    LevelledGraph,
    Published,
    RandomizedLabels,
    SealedPath,
    opened,
    read,
)

Weights = NDArray[np.int8]

MOST_VERTICES: Final = 18
NO_EDGE: Final = -100
"""Below every sum of 17 weights of -1."""


@dataclass(frozen=True)
class Best:
    """One of the heaviest paths, from the end of smaller number; how many there are, and their
    weight."""

    path: tuple[int, ...]
    count: int
    weight: int


def map_weights(network: NetworkMap, published: RandomizedLabels) -> Weights:
    """(n, n) weights of the map's edges over the published order of ids; NO_EDGE elsewhere."""
    size = network.size
    places = {each: place for place, each in enumerate(published.vertices)}
    moved = np.array([places[each] for each in network.vertices], np.int64)
    label = np.zeros((size, size), np.bool_)
    label[np.triu_indices(size, 1)] = published.labels
    ends = np.sort(moved[network.edges], axis=1)
    weights = np.full((size, size), NO_EDGE, np.int8)
    direction = np.where(label[ends[:, 0], ends[:, 1]], 1, -1)
    weights[ends[:, 0], ends[:, 1]] = weights[ends[:, 1], ends[:, 0]] = direction
    return weights


def best_paths(weights: Weights) -> Best | None:
    """The heaviest Hamiltonian paths of (n, n) symmetric weights, n >= 2; None where there is no
    such path."""
    size = len(weights)
    best, count = _tables(weights)
    every_vertex = (1 << size) - 1
    weight = int(best[every_vertex].max())
    if weight < -size:
        return None
    last = int(best[every_vertex].argmax())
    ways = int(count[every_vertex][best[every_vertex] == weight].sum()) // 2
    path, open_set = [last], every_vertex
    while open_set & (open_set - 1):
        here = path[-1]
        open_set ^= 1 << here
        reached = best[open_set].astype(np.int64) + weights[:, here]
        path.append(int((reached == best[open_set | 1 << here, here]).argmax()))
    ordered = path if path[0] < path[-1] else path[::-1]
    return Best(tuple(ordered), ways, weight)


def _tables(weights: Weights) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    """For each set of vertices and each end in it: the heaviest path through the set to that end,
    and how many there are."""
    size = len(weights)
    subsets = np.arange(1 << size, dtype=np.int64)
    sizes = np.bitwise_count(subsets)
    best = np.full((1 << size, size), NO_EDGE, np.int8)
    count = np.zeros((1 << size, size), np.int64)
    single = 1 << np.arange(size)
    best[single, np.arange(size)] = 0
    count[single, np.arange(size)] = 1
    for length in range(2, size + 1):
        layer = subsets[sizes == length]
        for end in range(size):
            ending_here = layer[(layer >> end) & 1 == 1]
            rest = ending_here ^ (1 << end)
            reached = best[rest].astype(np.int16) + weights[:, end]
            most = reached.max(axis=1)
            reachable = most >= -size
            best[ending_here[reachable], end] = most[reachable]
            ways = np.where(reached == most[:, None], count[rest], 0).sum(axis=1)
            count[ending_here[reachable], end] = ways[reachable]
    return best, count


# The path in a levelled graph, with the exact map (spec: path-publishing, section 3.7). A pair of
# sub-vertices whose bases are joined in the map and that are not on one branch of the graph is a
# step of the path. Rule 5 determines which end is the start: the real sub-vertex of smallest path
# position is among the roots.

Rule = Literal["combined", "certain", "nearest-root"]
Confidence = Literal["certain", "likely", "none"]
SubVertex: TypeAlias = tuple[VertexId, int]


@dataclass(frozen=True)
class Side:
    """What decides which end of the path is the start: steps to the nearest root and to the
    nearest leaf."""

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
    """Which end is the start, 0 or -1 (None: undecided), and how certain that is.

    `certain` is never wrong: the true start is always consistent, so an end that alone is
    consistent is the start.
    """
    if rule != "nearest-root" and first.consistent != last.consistent:
        return (0 if first.consistent else -1), "certain"
    if rule != "certain" and first.root != last.root:
        return (0 if first.root < last.root else -1), "likely"
    return None, "none"


def copy_order(path: Sequence[SubVertex]) -> int | None:
    """The start by copy numbers, which count a vertex's visits: 0 or -1, None without copies."""
    sub_of: dict[VertexId, int] = {}
    for base, sub in path:
        if base in sub_of:
            return 0 if sub > sub_of[base] else -1
        sub_of[base] = sub
    return None


# Recovery by a holder of the exact map, for every form (spec: path-publishing, sections 3.7 to
# 3.10).

DEFAULT_RULE: Final[Rule] = "combined"


@dataclass(frozen=True)
class Recovered:
    """paths: one sequence of ids if the direction is decided, else it and its reverse.

    direction_confidence: `certain` is never wrong. ties: how many paths are as likely as this
    one (1 in every form except randomized labels, where the path itself is a guess).
    """

    paths: tuple[tuple[VertexId, ...], ...]
    direction_confidence: Confidence
    ties: int = 1


def recover(
    network: NetworkMap,
    published: Published | bytes | str | dict[str, Any],
    *,
    direction: Rule = DEFAULT_RULE,
    use_copy_order: bool = False,
    private_key: SealKey | None = None,
) -> Recovered:
    """The path behind a publication, from the map of which it was made. Nothing leaves this
    process.

    direction, use_copy_order: how the start is determined in a levelled graph. private_key: for
    sealed paths. Raises MalformedPublication, MapMismatch, NotAPath, NotARecipient, MapTooLarge.
    """
    if isinstance(published, bytes | str | dict):
        published = read(published)
    match published:
        case LevelledGraph():
            return _levelled(network, published, direction, use_copy_order)
        case ComplementEdges():
            return _complement(network, published)
        case RandomizedLabels():
            return _randomized(network, published)
        case SealedPath():
            return _sealed(network, published, private_key)


def _levelled(
    network: NetworkMap, graph: LevelledGraph, rule: Rule, use_copy_order: bool
) -> Recovered:
    path = path_of(graph, network)
    ids = tuple(base for base, _ in path)
    begin = copy_order(path) if use_copy_order and not graph.canonical else None
    if begin is not None:
        return _directed(ids, begin, "certain")
    if graph.canonical:
        return _directed(ids, None, "none")
    return _directed(ids, *start(*sides(graph, path), rule))


def _complement(network: NetworkMap, published: ComplementEdges) -> Recovered:
    size = network.size
    codes = _in_map_order(network, published.vertices, published.edges)
    own_codes = network.codes()
    low, high = np.divmod(without(own_codes, codes), size)
    if low.size + codes.size != own_codes.size:
        raise NotAPath("a published edge is not in the map")
    path = walked(low, high, size)
    ids = tuple(network.vertices[place] for place in path.tolist())
    return _directed(ids, *_told(ids, published.direction))


def _randomized(network: NetworkMap, published: RandomizedLabels) -> Recovered:
    if network.size > MOST_VERTICES:
        raise MapTooLarge(f"at most {MOST_VERTICES} vertices")
    if set(published.vertices) != set(network.vertices):
        raise MapMismatch
    best = best_paths(map_weights(network, published))
    if best is None:
        raise NotAPath("the map has no path through all vertices")
    ids = tuple(published.vertices[place] for place in best.path)
    begin, confidence = _told(ids, published.direction)
    paths = _directed(ids, begin, confidence).paths
    return Recovered(paths, confidence, best.count)


def _sealed(network: NetworkMap, published: SealedPath, private_key: SealKey | None) -> Recovered:
    if private_key is None:
        raise NotARecipient("a sealed path needs a recipient's private key")
    ids = opened(published, private_key)
    places = {vertex: place for place, vertex in enumerate(network.vertices)}
    if not set(ids) <= places.keys():
        raise MapMismatch
    try:
        path = NetworkPath(network, np.array([places[vertex] for vertex in ids], np.int64))
    except (ValueError, Invalid):
        raise NotAPath from None
    if not np.isin(path.step_codes(), network.codes()).all():
        raise NotAPath("a step of the sealed path is not an edge of the map")
    return _directed(ids, 0, "certain")


def _in_map_order(network: NetworkMap, vertices: tuple[VertexId, ...], edges: Ints) -> Ints:
    """Codes of published edges over the map's own places, sorted, each once."""
    if len(vertices) != network.size:
        raise MapMismatch
    if vertices != network.vertices:
        places = dict(zip(network.vertices, range(network.size), strict=True))
        if not places.keys() >= set(vertices):
            raise MapMismatch
        moved = np.fromiter(map(places.__getitem__, vertices), np.int64, len(vertices))
        edges = moved[edges]
    codes = sorted_codes(edges[:, 0], edges[:, 1], network.size)
    if (codes[1:] == codes[:-1]).any():
        raise MalformedPublication("an edge is listed twice")
    return codes


def _told(ids: tuple[VertexId, ...], direction: Direction | None) -> tuple[int | None, Confidence]:
    if direction is None:
        return None, "none"
    first_smaller = ids[0] < ids[-1]  # type: ignore[operator]
    return (0 if first_smaller == bool(direction.bit) else -1), "likely"


def _directed(ids: tuple[VertexId, ...], begin: int | None, confidence: Confidence) -> Recovered:
    if begin is None:
        return Recovered((ids, ids[::-1]), confidence)
    return Recovered((ids if begin == 0 else ids[::-1],), confidence)
