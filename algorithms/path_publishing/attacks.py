"""What an adversary finds in a publication: visible only to the owner, never published.

Spec: path-publishing, sections 4.1, 4.4 and 4.7. The adversary knows the map and the path but for
one edge e of the path: N' = (V, E - e) and the two halves of the path. What could be e joins an end
of one half with an end of the other and is no edge of N': at most four pairs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from algorithms.path_publishing.assembly import graph_path
from algorithms.path_publishing.relations import Node, Relations, insertion_order
from tacit.paths.levelled import merged_pairs
from tacit.paths.network import Ints, NetworkPath, VertexId, pair_codes
from tacit.paths.published import LevelledGraph, RandomizedLabels

Pair: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class Candidate:
    """A pair of vertices that may be the missing edge, and the paths that it would make."""

    pair: Pair
    paths: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Replay:
    """Which candidates are left: at first, after checking the pairs, after checking the levels. The
    true one comes first and is among them all."""

    step: int
    prior: tuple[Pair, ...]
    after_pairs: tuple[Pair, ...]
    after_levels: tuple[Pair, ...]


def single_steps(network: NetworkPath) -> list[int]:
    """The steps whose edge the path takes only once."""
    codes = network.step_codes().tolist()
    often = Counter(codes)
    return [step for step, code in enumerate(codes) if often[code] == 1]


def candidates(network: NetworkPath, step: int) -> tuple[Candidate, ...]:
    """All that the edge of a step may be, the true one first."""
    path = network.path.tolist()
    first, second = path[: step + 1], path[step + 1 :]
    missing = _pair(first[-1], second[0])
    known = {_pair(*edge) for edge in network.network.edges.tolist()} - {missing}
    found: dict[Pair, dict[tuple[int, ...], None]] = {}
    for one in (first, first[::-1]):
        for other in (second, second[::-1]):
            pair = _pair(one[-1], other[0])
            if pair[0] == pair[1] or pair in known:
                continue
            whole = tuple(one + other)
            found.setdefault(pair, {}).update(dict.fromkeys((whole, whole[::-1])))
    return tuple(Candidate(pair, tuple(paths)) for pair, paths in found.items())


def replay(
    graph: LevelledGraph,
    network: NetworkPath,
    step: int,
    search_budget: int,
    beat: Callable[[], None] = lambda: None,
) -> Replay:
    """Run the deterministic part of the algorithm on every candidate, and compare."""
    vertices = network.network.vertices
    places = {each: place for place, each in enumerate(vertices)}
    joined = {frozenset((places[base], sub) for base, sub in pair) for pair in merged_pairs(graph)}
    copies = Counter(places[base] for base, _ in {(node.base, node.sub) for node in graph.nodes})
    shown = tuple(copies[place] for place in range(len(vertices)))
    found = candidates(network, step)
    edges = {_pair(*edge) for edge in network.network.edges.tolist()} - {found[0].pair}
    after_pairs, after_levels = [], []
    for candidate in found:
        fitting = [
            relations
            for path in candidate.paths
            if (relations := _read(path, shown, joined, edges | {candidate.pair})) is not None
        ]
        if fitting:
            after_pairs.append(candidate.pair)
        for relations in fitting:
            if graph_path(relations, vertices, search_budget, beat=beat)[0] == graph:
                after_levels.append(candidate.pair)
                break
    pairs = tuple(candidate.pair for candidate in found)
    return Replay(step, pairs, tuple(after_pairs), tuple(after_levels))


def _read(
    path: Sequence[int],
    copies: tuple[int, ...],
    joined: set[frozenset[Node]],
    edges: set[Pair],
) -> Relations | None:
    """The relations that a publication shows, in the insertion order of a path; None where they
    cannot be those of this path and map."""
    order, real = insertion_order(list(path), copies)
    together = [0] * len(order)
    for i, one in enumerate(order):
        for j in range(i + 1, len(order)):
            other = order[j]
            there = frozenset((one, other)) in joined
            if j == i + 1 < real:
                if there:
                    return None
            elif not there and _pair(one[0], other[0]) in edges:
                return None
            if there:
                together[i] |= 1 << j
                together[j] |= 1 << i
    return Relations(order, real, tuple(together))


@dataclass(frozen=True)
class LevelSort:
    """What a stranger without any map reads when the nodes are sorted by their levels."""

    whole_path: bool
    edges_read: float


def level_sort(graph: LevelledGraph, path: Sequence[VertexId]) -> LevelSort:
    """Share of the path's edges among neighbours in that order, and whether it is the path."""
    first = [node for node in graph.nodes if node.piece == 0]
    read = [node.base for node in sorted(first, key=lambda node: node.level)]
    true = {frozenset(pair) for pair in pairwise(path)}
    guessed = {frozenset(pair) for pair in pairwise(read)}
    whole = list(path)
    return LevelSort(read in (whole, whole[::-1]), len(true & guessed) / len(true))


def label_posterior(
    published: RandomizedLabels, network: NetworkPath, step: int, epsilon: float
) -> dict[Pair, float]:
    """How likely each candidate is behind the labels, all being as likely before.

    A candidate's own pair reports H with probability 1 - q; the pairs of the others are fair coins.
    """
    size = len(published.vertices)
    shown = np.zeros((size, size), np.bool_)
    shown[np.triu_indices(size, 1)] = published.labels
    rank = {each: place for place, each in enumerate(published.vertices)}
    ids = network.network.vertices
    wrong = 1 / (1 + math.exp(epsilon))
    weights = {}
    for candidate in candidates(network, step):
        ends = sorted(rank[ids[place]] for place in candidate.pair)
        weights[candidate.pair] = 1 - wrong if shown[ends[0], ends[1]] else wrong
    whole = sum(weights.values())
    return {pair: weight / whole for pair, weight in weights.items()}


def prior_counts(network: NetworkPath) -> Ints:
    """How many candidates there are for each edge that the path takes once."""
    size, path, codes = network.network.size, network.path, network.network.codes()
    first, last = np.full(path.size - 1, path[0]), np.full(path.size - 1, path[-1])
    ends, starts = path[:-1], path[1:]
    found = [pair_codes(ends, starts, size)]
    for one, other in ((first, starts), (ends, last), (first, last)):
        pairs = pair_codes(one, other, size)
        found.append(np.where((one == other) | np.isin(pairs, codes), found[0], pairs))
    listed = np.sort(np.stack(found, axis=1), axis=1)
    distinct: Ints = 1 + (listed[:, 1:] != listed[:, :-1]).sum(axis=1)
    counted: Ints = distinct[single_steps(network)]
    return counted


def _pair(one: int, other: int) -> Pair:
    return (one, other) if one < other else (other, one)
