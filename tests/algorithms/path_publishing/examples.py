"""Worked networks of the source, and relations with chosen fake pairs."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, pairwise

import numpy as np

from algorithms.path_publishing.levelled_graph import Relations, VertexCopy, drawn_relations
from reproduction.path_publishing_networks import random_network
from tacit.paths.network import NetworkPath
from tacit.paths.published import LevelledGraph
from tacit.paths.recovery import merged_pairs
from tacit.randomness import SeededRandom

Edges = set[tuple[str, str]]

SIX = NetworkPath.of(
    list(range(1, 7)),
    [list(pair) for pair in combinations(range(1, 7), 2) if pair not in ((1, 3), (1, 4), (1, 5))],
    list(range(1, 7)),
)
"""Figures 6.2 and 6.3."""

RINGS_PATH = [1, 2, 3, 4, 5, 2, 3, 6]
RINGS = NetworkPath.of(
    list(range(1, 7)),
    [list(pair) for pair in sorted({tuple(sorted(pair)) for pair in pairwise(RINGS_PATH)})],
    RINGS_PATH,
)
"""Figure 6.4."""


def relations(network: NetworkPath, fakes: Iterable[tuple[int, int]] = ()) -> Relations:
    """Without noise, but for these pairs of ids that are put into G."""
    visits = np.bincount(network.path, minlength=network.network.size).tolist()
    plain = drawn_relations(network, tuple(visits), None, SeededRandom(0))
    places = {network.network.vertices[base]: at for at, (base, _) in enumerate(plain.order)}
    together = list(plain.together)
    for one, other in fakes:
        together[places[one]] |= 1 << places[other]
        together[places[other]] |= 1 << places[one]
    return Relations(plain.order, plain.real, tuple(together))


def named(graph: LevelledGraph) -> tuple[dict[str, int], Edges]:
    """Levels and edges by names such as 5.0.1 (id, copy, piece)."""
    names = [f"{node.base}.{node.sub}.{node.piece}" for node in graph.nodes]
    levels = {name: node.level for name, node in zip(names, graph.nodes, strict=True)}
    return levels, {(names[one], names[other]) for one, other in graph.edges}


def short(graph: LevelledGraph) -> tuple[dict[int, int], set[str]]:
    """The same of a graph without copies and pieces: levels by id, edges such as 1-3."""
    levels, edges = named(graph)
    return (
        {int(name.partition(".")[0]): level for name, level in levels.items()},
        {f"{a.partition('.')[0]}-{b.partition('.')[0]}" for a, b in edges},
    )


def check_graph(graph: LevelledGraph, shown: Relations, network: NetworkPath) -> None:
    """Edges go down, are transitive, and join pieces exactly of the pairs with r = 2."""
    edges = set(graph.edges)
    assert list(graph.edges) == sorted(edges)
    assert min(node.level for node in graph.nodes) == 0
    order = [(node.base, node.sub, node.piece) for node in graph.nodes]
    assert order == sorted(order)
    for upper, lower in edges:
        assert graph.nodes[upper].level < graph.nodes[lower].level
    assert all((a, d) in edges for a, b in edges for c, d in edges if b == c)
    ids = network.network.vertices

    def node(at: int) -> tuple[object, int]:
        base, copy = shown.order[at]
        return ids[base], copy

    assert merged_pairs(graph) == {frozenset((node(i), node(j))) for i, j in shown.pairs()}


def random_case(size: int, generator: np.random.Generator, extra_visits: int) -> NetworkPath:
    """A network of so many vertices and any possible number of edges."""
    while True:
        edges = int(generator.integers(size - 1, size * (size - 1) // 2 + 1))
        try:
            return random_network(size, edges, generator, extra_visits)
        except ValueError:
            continue


def nodes_of(shown: Relations, network: NetworkPath) -> list[VertexCopy]:
    """The insertion order by ids (whole numbers)."""
    return [(int(network.network.vertices[base]), copy) for base, copy in shown.order]
