"""Recovery by a holder of the exact map, for every form.

Spec: path-publishing, sections 3.7 to 3.10.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tacit.crypto.seal_keys import SealKey
from tacit.errors import Invalid
from tacit.paths.decoding import MOST_VERTICES, best_paths, map_weights
from tacit.paths.levelled import Confidence, Rule, copy_order, path_of, sides, start
from tacit.paths.network import Ints, NetworkMap, NetworkPath, VertexId, sorted_codes, without
from tacit.paths.problems import (
    MalformedPublication,
    MapMismatch,
    MapTooLarge,
    NotAPath,
    NotARecipient,
)
from tacit.paths.published import (
    ComplementEdges,
    Direction,
    LevelledGraph,
    Published,
    RandomizedLabels,
    SealedPath,
    read,
)
from tacit.paths.sealed import opened
from tacit.paths.walking import walked

DEFAULT_RULE: Final[Rule] = "combined"


@dataclass(frozen=True)
class Recovered:
    """paths: one sequence of ids where the direction is decided, else it and its reverse.

    direction_confidence: `certain` is never wrong. ties: how many paths are as likely as this one
    (1 in every form but randomized labels, where the path itself is a guess).
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
    """The path behind a publication, from the map it was made of. Nothing leaves this process.

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
    own = network.codes()
    low, high = np.divmod(without(own, codes), size)
    if low.size + codes.size != own.size:
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
    places = {each: place for place, each in enumerate(network.vertices)}
    if not set(ids) <= places.keys():
        raise MapMismatch
    try:
        path = NetworkPath(network, np.array([places[each] for each in ids], np.int64))
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
