"""A network (map) and a path in it: their files, edges in the order of a path, and what recovery
refuses. Spec: path-publishing, section 2.3. No error names a vertex.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, BinaryIO, Final, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tacit.compression import MalformedContent
from tacit.errors import Invalid, TooLarge


class MalformedPublication(Invalid):
    """Not a published object of a known form."""

    name = "malformed_publication"
    title = "This is not a published path"


class MapMismatch(Invalid):
    """A published vertex is not in the map, or the other way round."""

    name = "map_mismatch"
    title = "The publication and the map have different vertices"


class NotAPath(Invalid):
    """The map's edges without the published ones are not one simple path: the map is not the
    publisher's."""

    name = "not_a_path"
    title = "The map and the publication do not determine one path"


class NotARecipient(Invalid):
    """No key fits, or the sealed object was altered."""

    name = "not_a_recipient"
    title = "The sealed path does not open with this key"


class MapTooLarge(TooLarge):
    """More vertices than the exact decoder takes."""

    name = "too_large"
    title = "The map is too large to be decoded exactly"


# A network (map) and a path in it (spec: path-publishing, section 2.1; jobs, section "Datasets",
# kind `network-path`). In memory a vertex is its place in the list of vertices; ids are for people
# and in published files.

Ints = NDArray[np.int64]
VertexId: TypeAlias = int | str

MAX_VERTICES: Final = 10**7
MAX_EDGES: Final = 10**8
MAX_ID_CHARACTERS: Final = 64
MAX_ID: Final = (1 << 63) - 1


class EmptyNetwork(Invalid):
    name = "empty_network"
    title = "A network has two vertices at least"


class MalformedNetwork(Invalid):
    name = "malformed_row"
    title = "The network is not written as it should be"


class DuplicateVertex(Invalid):
    name = "duplicate_vertex"
    title = "A vertex is listed twice"


class UnknownVertex(Invalid):
    name = "unknown_vertex"
    title = "A vertex is not in the list of vertices"


class SelfLoop(Invalid):
    name = "self_loop"
    title = "An edge joins a vertex with itself"


class DuplicateEdge(Invalid):
    name = "duplicate_edge"
    title = "An edge is listed twice"


class TooFewEdges(Invalid):
    name = "too_few_edges"
    title = "A network has at least as many edges as vertices less one"


class PathTooShort(Invalid):
    name = "path_too_short"
    title = "A path has two vertices at least"


class PathStepNotAnEdge(Invalid):
    name = "path_step_not_an_edge"
    title = "A step of the path is not an edge of the network"


class PathRepeatsConsecutively(Invalid):
    name = "path_repeats_consecutively"
    title = "The path stays at a vertex"


class NetworkTooLarge(TooLarge):
    name = "too_large"
    title = "The network is too large"


@dataclass(frozen=True, eq=False)
class NetworkMap:
    """n vertices and m undirected edges, (m, 2) places of vertices, the smaller first, none twice.

    Raises ValueError for edges that are not so.
    """

    vertices: tuple[VertexId, ...]
    edges: Ints

    def __post_init__(self) -> None:
        if self.edges.ndim != 2 or self.edges.shape[1] != 2:
            raise ValueError("an edge has two ends")
        low, high = self.edges[:, 0], self.edges[:, 1]
        if self.edges.size and not (low.min() >= 0 and high.max() < self.size):
            raise ValueError("an end is the place of a vertex")
        if (low >= high).any():
            raise ValueError("the smaller end of an edge comes first")

    @property
    def size(self) -> int:
        """How many vertices there are."""
        return len(self.vertices)

    def codes(self) -> Ints:
        """One number for each edge, `low * n + high`, in order."""
        return sorted_codes(self.edges[:, 0], self.edges[:, 1], self.size)

    @classmethod
    def of(cls, vertices: Sequence[Any], edges: Sequence[Any]) -> NetworkMap:
        """From ids and pairs of ids, in any order.

        Raises EmptyNetwork, MalformedNetwork, DuplicateVertex, UnknownVertex, SelfLoop,
        DuplicateEdge, TooFewEdges, NetworkTooLarge; each names the place, never an id.
        """
        places = _places(vertices)
        return cls(tuple(vertices), _edges(edges, places))


@dataclass(frozen=True, eq=False)
class NetworkPath:
    """Kind `network-path`: a map and a path in it, (L,) places of vertices, L >= 2."""

    network: NetworkMap
    path: Ints

    def __post_init__(self) -> None:
        if self.path.ndim != 1 or self.path.size < 2:
            raise ValueError("a path has two vertices at least")
        if not 0 <= self.path.min() <= self.path.max() < self.network.size:
            raise ValueError("a path is made of places of vertices")

    @property
    def acyclic(self) -> bool:
        """Whether no vertex is visited twice."""
        return bool(np.unique(self.path).size == self.path.size)

    @property
    def spanning(self) -> bool:
        """Whether every vertex is visited."""
        return bool(np.unique(self.path).size == self.network.size)

    def step_codes(self) -> Ints:
        """One number for each step, `low * n + high`, in the order of the path."""
        return pair_codes(self.path[:-1], self.path[1:], self.network.size)

    def ids(self) -> tuple[VertexId, ...]:
        """The path as ids."""
        return tuple(self.network.vertices[place] for place in self.path.tolist())

    @classmethod
    def of(cls, vertices: Sequence[Any], edges: Sequence[Any], path: Sequence[Any]) -> NetworkPath:
        """From ids. Raises what `NetworkMap.of` raises, PathTooShort, PathRepeatsConsecutively,
        PathStepNotAnEdge."""
        network = NetworkMap.of(vertices, edges)
        return cls(network, _path(path, network))


def pair_codes(one: Ints, other: Ints, size: int) -> Ints:
    """`low * size + high` of each pair (m,), whichever end is named first: below 10^14, exact."""
    codes: Ints = np.minimum(one, other) * np.int64(size) + np.maximum(one, other)
    return codes


def sorted_codes(one: Ints, other: Ints, size: int) -> Ints:
    """The same in order."""
    codes = pair_codes(one, other, size)
    if (codes[1:] < codes[:-1]).any():
        codes.sort()
    return codes


def without(codes: Ints, codes_taken: Ints) -> Ints:
    """Sorted codes without those in `taken`. Taken codes that are not among them are ignored."""
    is_left = np.ones(codes.size, np.bool_)
    codes_taken = np.sort(codes_taken)  # looked up in order, neighbours are in the cache
    at = np.searchsorted(codes, codes_taken)
    is_present = at < codes.size
    is_present[is_present] = codes[at[is_present]] == codes_taken[is_present]
    is_left[at[is_present]] = False
    return codes[is_left]


def _places(vertices: Sequence[Any]) -> dict[VertexId, int]:
    if not isinstance(vertices, list | tuple):
        raise MalformedNetwork("a list of vertices is expected", pointer="/vertices")
    if len(vertices) < 2:
        raise EmptyNetwork(pointer="/vertices")
    if len(vertices) > MAX_VERTICES:
        raise NetworkTooLarge(f"at most {MAX_VERTICES} vertices", pointer="/vertices")
    _check_ids(vertices)
    places = dict(zip(vertices, range(len(vertices)), strict=True))
    if len(places) < len(vertices):
        before: set[VertexId] = set()
        place = next(
            at
            for at, vertex in enumerate(vertices)
            if vertex in before or before.add(vertex)  # type: ignore[func-returns-value]
        )
        raise DuplicateVertex(
            f"vertex {place} was listed before", pointer=f"/vertices/{place}", extra={"at": place}
        )
    return places


def _check_ids(vertices: Sequence[Any]) -> None:
    kinds = set(map(type, vertices))
    if kinds == {int}:
        if min(vertices) >= -MAX_ID and max(vertices) <= MAX_ID:
            return
        bad = next(at for at, vertex in enumerate(vertices) if not -MAX_ID <= vertex <= MAX_ID)
        reason = "a number lies between -2^63 and 2^63"
    elif kinds == {str}:
        lengths = set(map(len, vertices))
        if min(lengths) >= 1 and max(lengths) <= MAX_ID_CHARACTERS:
            return
        bad = next(at for at, vertex in enumerate(vertices) if not 1 <= len(vertex) <= 64)
        reason = f"a text has 1 to {MAX_ID_CHARACTERS} characters"
    else:
        first = type(vertices[0]) if type(vertices[0]) in (int, str) else None
        bad = next(at for at, vertex in enumerate(vertices) if type(vertex) is not first)
        reason = "ids are texts, or whole numbers, all of one sort"
    raise MalformedNetwork(f"vertex {bad}: {reason}", pointer=f"/vertices/{bad}")


def _found(ids: Sequence[Any], places: Mapping[VertexId, int]) -> Ints:
    """The place of each id, -1 for an unknown one."""
    if not set(map(type, ids)) <= {int, str}:
        ids = [vertex if type(vertex) in (int, str) else None for vertex in ids]
    place_of = map(places.get, ids, repeat(-1))
    return np.fromiter(place_of, np.int64, len(ids))


def _edges(edges: Sequence[Any], places: Mapping[VertexId, int]) -> Ints:
    if not isinstance(edges, list | tuple):
        raise MalformedNetwork("a list of edges is expected", pointer="/edges")
    if len(edges) > MAX_EDGES:
        raise NetworkTooLarge(f"at most {MAX_EDGES} edges", pointer="/edges")
    if not set(map(type, edges)) <= {list, tuple} or not set(map(len, edges)) <= {2}:
        bad = next(
            at for at, edge in enumerate(edges) if type(edge) not in (list, tuple) or len(edge) != 2
        )
        raise MalformedNetwork(f"edge {bad}: two ids are expected", pointer=f"/edges/{bad}")
    ends = _found(list(chain.from_iterable(edges)), places).reshape(-1, 2)
    _refuse(UnknownVertex, np.any(ends < 0, axis=1), "edge {}: an end is not a vertex", "/edges")
    _refuse(SelfLoop, np.equal(ends[:, 0], ends[:, 1]), "edge {}: its ends are the same", "/edges")
    codes = pair_codes(ends[:, 0], ends[:, 1], len(places))
    order = np.argsort(codes, kind="stable")
    again = np.zeros(len(codes), np.bool_)
    again[order[1:]] = np.diff(codes[order]) == 0
    _refuse(DuplicateEdge, again, "edge {} was listed before", "/edges")
    if len(edges) < len(places) - 1:
        raise TooFewEdges(pointer="/edges")
    return np.stack(np.divmod(codes, len(places)), axis=1)


def _path(path: Sequence[Any], network: NetworkMap) -> Ints:
    if not isinstance(path, list | tuple):
        raise MalformedNetwork("a list of ids is expected", pointer="/path")
    if len(path) < 2:
        raise PathTooShort(pointer="/path")
    places = dict(zip(network.vertices, range(network.size), strict=True))
    place_of = _found(path, places)
    _refuse(UnknownVertex, place_of < 0, "position {} of the path is not a vertex", "/path")
    stays = np.equal(place_of[1:], place_of[:-1])
    _refuse(PathRepeatsConsecutively, stays, "step {} of the path stays where it is", "/path")
    is_edge = np.isin(NetworkPath(network, place_of).step_codes(), network.codes())
    _refuse(PathStepNotAnEdge, ~is_edge, "step {} of the path is not an edge", "/path")
    return place_of


def _refuse(problem: type[Invalid], bad: NDArray[np.bool_], text: str, pointer: str) -> None:
    """Raise for the first place that is bad, counted from 0."""
    if bad.any():
        at = int(bad.argmax())
        raise problem(text.format(at), pointer=f"{pointer}/{at}", extra={"at": at})


# Reader of a network with a path: `{"vertices": [...], "edges": [...], "path": [...]}` (spec:
# path-publishing, sections 2.1 and 2.3). Edges are pairs of ids; errors name positions,
# counted from 0, and never an id.


def read_json(stream: BinaryIO) -> NetworkPath:
    """A map with a path. Raises MalformedContent, and what `NetworkPath.of` raises."""
    document = _document(stream, ("vertices", "edges", "path"))
    return NetworkPath.of(document["vertices"], document["edges"], document["path"])


def read_map(stream: BinaryIO) -> NetworkMap:
    """A map; a path in the same file is ignored.

    Raises MalformedContent, and what `NetworkMap.of` raises.
    """
    document = _document(stream, ("vertices", "edges"))
    return NetworkMap.of(document["vertices"], document["edges"])


def _document(stream: BinaryIO, needed: tuple[str, ...]) -> dict[str, Any]:
    try:
        document = json.loads(stream.read(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise MalformedContent("the content is not a JSON object") from None
    if not isinstance(document, dict):
        raise MalformedContent("the content is not a JSON object")
    for name in needed:
        if name not in document:
            raise MalformedNetwork("the field is missing", pointer=f"/{name}")
    for name in sorted(document):
        if name not in ("vertices", "edges", "path"):
            raise MalformedNetwork("a network has the fields vertices, edges and path alone")
    return document


def _refuse_constant(_name: str) -> NoReturn:
    raise ValueError


# Edges put in the order of the simple path that they are. Spec: path-publishing, section 3.7.


def walked(low: Ints, high: Ints, size: int) -> Ints:
    """The vertices (edges + 1,) of the path that these edges (m,) over `size` vertices are, from
    the end of smaller number. Raises NotAPath where they are not one simple path.

    A vertex of degree 2 needs only the sum of its neighbours: that sum minus the previous vertex is
    the next vertex.
    """
    if not low.size:
        raise NotAPath("no edge is left")
    ends = np.concatenate((low, high))
    degrees = np.bincount(ends, minlength=size)
    if degrees.max() > 2 or np.count_nonzero(degrees == 1) != 2:
        raise NotAPath
    # sums of two places stay far below 2^53, so that floats hold them exactly
    sums = np.bincount(ends, np.concatenate((high, low)), size).astype(np.int64).tolist()
    start, end = np.flatnonzero(degrees == 1).tolist()
    before, here, path = 0, start, [start]
    while here != end:
        before, here = here, sums[here] - (before if len(path) > 1 else 0)
        path.append(here)
    if len(path) != low.size + 1:
        raise NotAPath("the edges contain a ring besides the path")
    return np.array(path, np.int64)
