"""What only the owner may know of a run: effort, self-tests, attacks on the own result.

What an adversary finds in a publication, and whether a graph is a comparability graph (its edges
can be directed transitively). Never published.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np

from algorithms.contract import Context
from algorithms.path_publishing.levelled_graph import (
    Arrangement,
    Relations,
    VertexCopy,
    drawn_labels,
    graph_path,
    insertion_order,
    sorted_ids,
    statuses,
)
from tacit.paths.network import Ints, NetworkPath, VertexId, pair_codes
from tacit.paths.published import ComplementEdges, LevelledGraph, Published, RandomizedLabels
from tacit.paths.recovery import Recovered, best_paths, map_weights, merged_pairs, recover
from tacit.randomness import NoiseSource, SeededRandom

Pair: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class Candidate:
    """A pair of vertices that may be the missing edge, and the paths that it would make."""

    pair: Pair
    paths: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Replay:
    """The remaining candidates: at first, after checking the pairs, after checking the levels.
    The true one comes first and is always among them."""

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
    known_edges = {_pair(*edge) for edge in network.network.edges.tolist()} - {missing}
    paths_of: dict[Pair, dict[tuple[int, ...], None]] = {}
    for one in (first, first[::-1]):
        for other in (second, second[::-1]):
            pair = _pair(one[-1], other[0])
            if pair[0] == pair[1] or pair in known_edges:
                continue
            whole_path = tuple(one + other)
            paths_of.setdefault(pair, {}).update(dict.fromkeys((whole_path, whole_path[::-1])))
    return tuple(Candidate(pair, tuple(paths)) for pair, paths in paths_of.items())


def replay(
    graph: LevelledGraph,
    network: NetworkPath,
    step: int,
    search_budget: int,
    beat: Callable[[], None] = lambda: None,
) -> Replay:
    """Run the deterministic part of the algorithm on every candidate, and compare."""
    vertices = network.network.vertices
    places = {vertex: place for place, vertex in enumerate(vertices)}
    joined = {frozenset((places[base], sub) for base, sub in pair) for pair in merged_pairs(graph)}
    copies = Counter(places[base] for base, _ in {(node.base, node.sub) for node in graph.nodes})
    shown = tuple(copies[place] for place in range(len(vertices)))
    candidate_edges = candidates(network, step)
    edges = {_pair(*edge) for edge in network.network.edges.tolist()} - {candidate_edges[0].pair}
    after_pairs, after_levels = [], []
    for candidate in candidate_edges:
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
    pairs = tuple(candidate.pair for candidate in candidate_edges)
    return Replay(step, pairs, tuple(after_pairs), tuple(after_levels))


def _read(
    path: Sequence[int],
    copies: tuple[int, ...],
    joined: set[frozenset[VertexCopy]],
    edges: set[Pair],
) -> Relations | None:
    """The relations that a publication shows, in the insertion order of a path; None if they
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
    """What a reader without any map learns when the nodes are sorted by their levels."""

    whole_path: bool
    edges_read: float


def level_sort(graph: LevelledGraph, path: Sequence[VertexId]) -> LevelSort:
    """Share of the path's edges among neighbours in that order, and whether it is the path."""
    first = [node for node in graph.nodes if node.piece == 0]
    read = [node.base for node in sorted(first, key=lambda node: node.level)]
    true = {frozenset(pair) for pair in pairwise(path)}
    guessed = {frozenset(pair) for pair in pairwise(read)}
    whole_path = list(path)
    return LevelSort(read in (whole_path, whole_path[::-1]), len(true & guessed) / len(true))


def label_posterior(
    published: RandomizedLabels, network: NetworkPath, step: int, epsilon: float
) -> dict[Pair, float]:
    """How likely each candidate is behind the labels, all being as likely before.

    A candidate's own pair reports H with probability 1 - q; the pairs of the others are fair coins.
    """
    size = len(published.vertices)
    shown = np.zeros((size, size), np.bool_)
    shown[np.triu_indices(size, 1)] = published.labels
    rank = {vertex: place for place, vertex in enumerate(published.vertices)}
    ids = network.network.vertices
    wrong = 1 / (1 + math.exp(epsilon))
    weights = {}
    for candidate in candidates(network, step):
        ends = sorted(rank[ids[place]] for place in candidate.pair)
        weights[candidate.pair] = 1 - wrong if shown[ends[0], ends[1]] else wrong
    total = sum(weights.values())
    return {pair: weight / total for pair, weight in weights.items()}


def prior_counts(network: NetworkPath) -> Ints:
    """How many candidates there are for each edge that the path takes once."""
    size, path, codes = network.network.size, network.path, network.network.codes()
    first, last = np.full(path.size - 1, path[0]), np.full(path.size - 1, path[-1])
    ends, starts = path[:-1], path[1:]
    pair_columns = [pair_codes(ends, starts, size)]
    for one, other in ((first, starts), (ends, last), (first, last)):
        pairs = pair_codes(one, other, size)
        pair_columns.append(
            np.where((one == other) | np.isin(pairs, codes), pair_columns[0], pairs)
        )
    listed = np.sort(np.stack(pair_columns, axis=1), axis=1)
    distinct: Ints = 1 + (listed[:, 1:] != listed[:, :-1]).sum(axis=1)
    counted: Ints = distinct[single_steps(network)]
    return counted


def _pair(one: int, other: int) -> Pair:
    return (one, other) if one < other else (other, one)


# An object of one node for each vertex exists exactly then (spec: path-publishing, section 7).
# Edges ab and ac without an edge bc force each other: both leave a, or both enter it. A graph has a
# transitive orientation if and only if no chain of such steps forces an edge both ways.
# Source: M. C. Golumbic, Algorithmic Graph Theory and Perfect Graphs, theorem 5.1.


def orientable(adjacent: Sequence[int]) -> bool:
    """adjacent[i]: bit mask of the neighbours of vertex i, symmetric, without loops."""
    outgoing = [0] * len(adjacent)
    incoming = [0] * len(adjacent)
    for first, neighbours in enumerate(adjacent):
        rest = neighbours & ~(outgoing[first] | incoming[first]) & (-2 << first)
        while rest:
            second = rest & -rest
            stack = [(first, second.bit_length() - 1)]
            outgoing[first] |= second
            incoming[second.bit_length() - 1] |= 1 << first
            while stack:
                tail, head = stack.pop()
                tail_bit, head_bit = 1 << tail, 1 << head
                leaving = adjacent[tail] & ~adjacent[head] & ~head_bit
                entering = adjacent[head] & ~adjacent[tail] & ~tail_bit
                if leaving & incoming[tail] or entering & outgoing[head]:
                    return False
                new = leaving & ~outgoing[tail]
                outgoing[tail] |= new
                while new:
                    bit = new & -new
                    new ^= bit
                    other = bit.bit_length() - 1
                    incoming[other] |= tail_bit
                    stack.append((tail, other))
                new = entering & ~incoming[head]
                incoming[head] |= new
                while new:
                    bit = new & -new
                    new ^= bit
                    other = bit.bit_length() - 1
                    outgoing[other] |= head_bit
                    stack.append((other, head))
            rest = neighbours & ~(outgoing[first] | incoming[first]) & (-2 << first)
    return True


# Spec: path-publishing, sections 2.4, 8 (check 3) and 9. All of it needs the true path.

_SIMULATED_WORK: Final = 1 << 22
_MOST_SIMULATED: Final = 200
_SIMULATION_SEED: Final = 1


def score(recovered: Recovered, true: tuple[Any, ...]) -> float:
    """1 where the direction is decided rightly, 0.5 undecided, 0 wrong."""
    if len(recovered.paths) == 2:
        return 0.5
    return float(recovered.paths[0] == true)


def self_test(network: NetworkPath, published: Published) -> dict[str, Any]:
    """What a holder of the map recovers."""
    true = network.ids()
    recovered = recover(network.network, published)
    return {
        "recovered": true in (recovered.paths[0], recovered.paths[0][::-1]),
        "direction_confidence": recovered.direction_confidence,
        "good_output": score(recovered, true),
        "ties": recovered.ties,
    }


def graph_path_evaluation(
    network: NetworkPath,
    graph: LevelledGraph,
    relations: Relations,
    done: Arrangement,
    search_budget: int,
    context: Context,
) -> dict[str, Any]:
    """The evaluation of mode graph-path, with both attacks."""
    size, steps = network.network.size, single_steps(network)
    warnings = []
    if len(network.network.edges) == size * (size - 1) // 2:
        warnings.append("the map is complete: the levels are the path")
    attacked = None
    if steps:
        word = int(context.noise("attacked step").words(1)[0])
        attacked = replay(
            graph, network, steps[word % len(steps)], search_budget, _beat(context, 0.6)
        )
    sorted_by_level = level_sort(graph, network.ids())
    return {
        "usable_without_split": orientable(relations.together),
        "splits": done.splits,
        "budget_hits": done.budget_hits,
        "search_steps": done.steps,
        "pieces": len(graph.nodes),
        "self_test": self_test(network, graph),
        "adversary_prior": _prior(network),
        "attack": {
            "replay": None if attacked is None else replay_shown(attacked),
            "candidates_left_of": None if attacked is None else baselines_shown(attacked),
            "level_sort": {
                "whole_path": sorted_by_level.whole_path,
                "share_of_path_edges": sorted_by_level.edges_read,
            },
        },
        "warnings": warnings,
    }


def replay_shown(replayed: Replay) -> dict[str, Any]:
    """Candidates for the missing edge of a step, counted from 0."""
    return {
        "step": replayed.step,
        "candidates": len(replayed.prior),
        "after_pairs": len(replayed.after_pairs),
        "after_levels": len(replayed.after_levels),
        "identified": len(replayed.after_levels) == 1,
    }


def baselines_shown(replayed: Replay) -> dict[str, int]:
    """How many candidates for the same missing edge other publications would have left: the
    pairs alone in a separate layout show what the fakes reveal without the levels."""
    return {
        "sealed": len(replayed.prior),
        "complement": len(replayed.prior),
        "g_only_canonical_layout": len(replayed.after_pairs),
        "graph-path": len(replayed.after_levels),
    }


def complement_evaluation(network: NetworkPath, published: ComplementEdges) -> dict[str, Any]:
    """The evaluation of mode complement."""
    return {
        "self_test": self_test(network, published),
        "adversary_prior": _prior(network),
    }


def randomized_evaluation(
    network: NetworkPath, published: RandomizedLabels, epsilon: Any, context: Context
) -> dict[str, Any]:
    """Of the mode randomized: how often such a map's path is found at all, by simulation."""
    steps = single_steps(network)
    word = int(context.noise("attacked step").words(1)[0])
    posterior = label_posterior(published, network, steps[word % len(steps)], float(epsilon))
    return {
        "self_test": self_test(network, published),
        "adversary_prior": _prior(network),
        "posterior_of_the_true_edge": next(iter(posterior.values())),
        "estimated_recovery": recovery_rate(
            network, epsilon, repetitions(network.network.size), SeededRandom(_SIMULATION_SEED),
            _beat(context, 0.8),
        ),
    }  # fmt: skip


def repetitions(size: int) -> int:
    """As many simulated publications as take a few seconds."""
    return max(3, min(_MOST_SIMULATED, _SIMULATED_WORK // (size << size)))


def recovery_rate(
    network: NetworkPath,
    epsilon: Any,
    times: int,
    source: NoiseSource,
    beat: Callable[[], None] = lambda: None,
) -> float:
    """The share of publications in which a holder of the map finds the path, without its
    direction; a tie among k best paths counts 1/k."""
    status = statuses(network)
    ids, _ = sorted_ids(network.network.vertices)
    rank = {vertex: place for place, vertex in enumerate(ids)}
    path = np.array([rank[vertex] for vertex in network.ids()])
    rate = 0.0
    for _ in range(times):
        beat()
        drawn = RandomizedLabels(ids, drawn_labels(status, epsilon, source), "")
        weights = map_weights(network.network, drawn)
        best = best_paths(weights)
        assert best is not None
        if int(weights[path[:-1], path[1:]].sum()) == best.weight:
            rate += 1 / best.count
    return rate / times


def _prior(network: NetworkPath) -> dict[str, Any] | None:
    counts = prior_counts(network)
    if not counts.size:
        return None
    return {"mean": float(counts.mean()), "max": int(counts.max())}


def _beat(context: Context, share: float) -> Callable[[], None]:
    return lambda: context.progress(share, "attacking the own result")
