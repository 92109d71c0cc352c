"""What the source's claims miss: counterexamples on `graph-path`, absent on `complement`.

Spec: path-publishing, section 4, checks 3 and 10.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from algorithms.path_publishing.evaluation import (
    Candidate,
    Replay,
    candidates,
    label_posterior,
    prior_counts,
    replay,
    single_steps,
)
from algorithms.path_publishing.levelled_graph import (
    drawn_copies,
    drawn_relations,
    graph_path,
    off_path,
)
from reproduction.path_publishing_networks import random_network
from tacit.paths.network import NetworkMap, NetworkPath
from tacit.paths.published import LevelledGraph, RandomizedLabels, written
from tacit.paths.recovery import recover
from tacit.randomness import SeededRandom
from tests.algorithms.path_publishing.examples import (
    RINGS,
    SIX,
    random_case,
    relations,
    short,
)

BUDGET = 2000


def with_edge(network: NetworkPath, candidate: Candidate) -> NetworkPath:
    """The input that the adversary thinks of: this pair in place of the missing edge."""
    true = candidates_of_truth(network, candidate)
    edges = {tuple(edge) for edge in network.network.edges.tolist()} - {true} | {candidate.pair}
    changed = NetworkMap(network.network.vertices, np.array(sorted(edges), np.int64))
    return NetworkPath(changed, np.array(candidate.paths[0], np.int64))


def candidates_of_truth(network: NetworkPath, candidate: Candidate) -> tuple[int, int]:
    """The edge that the candidate's paths lack."""
    size = network.network.size
    path = np.array(candidate.paths[0])
    low, high = np.minimum(path[:-1], path[1:]), np.maximum(path[:-1], path[1:])
    missing = set(network.step_codes().tolist()) - set((low * size + high).tolist())
    return divmod(missing.pop(), size) if missing else candidate.pair


def test_candidates_of_the_worked_example() -> None:
    """Spec: path-publishing, section 8, check 3.

    The missing edge 34 may be 14 or 34, and nothing else.
    """
    found = candidates(SIX, 2)
    assert [candidate.pair for candidate in found] == [(2, 3), (0, 3)]
    assert set(found[0].paths) == {tuple(range(6)), tuple(range(5, -1, -1))}
    assert set(found[1].paths) == {(2, 1, 0, 3, 4, 5), (5, 4, 3, 0, 1, 2)}
    assert len(candidates(SIX, 0)) <= 2
    assert max(prior_counts(SIX)) <= 4


def test_an_edge_that_is_taken_twice_is_not_missing_once() -> None:
    assert single_steps(RINGS) == [0, 2, 3, 4, 6]
    walk = NetworkPath.of([1, 2, 3], [[1, 2], [2, 3]], [1, 2, 3, 2, 1])
    assert single_steps(walk) == []
    assert prior_counts(walk).size == 0


def test_replay_of_the_worked_example() -> None:
    """Spec: path-publishing, section 8, check 3."""
    graph, _ = graph_path(relations(SIX, [(1, 3)]), SIX.network.vertices, BUDGET)
    found = replay(graph, SIX, 2, BUDGET)
    assert found == Replay(2, ((2, 3), (0, 3)), ((2, 3), (0, 3)), ((2, 3),))
    other = NetworkPath(
        NetworkMap(SIX.network.vertices, with_edge(SIX, candidates(SIX, 2)[1]).network.edges),
        np.array([2, 1, 0, 3, 4, 5]),
    )
    levels, _ = short(graph_path(relations(other, [(1, 3)]), range(1, 7), BUDGET)[0])
    assert levels == {3: 0, 2: 1, 1: 2, 4: 3, 5: 4, 6: 5}


def test_a_replay_never_loses_the_true_edge() -> None:
    """With rings, copies and fake pairs too."""
    generator, source = np.random.default_rng(1), SeededRandom(1)
    for number in range(60):
        network = random_case(int(generator.integers(4, 9)), generator, number % 3)
        copies = drawn_copies(network, (None, 0.5, 1.0)[generator.integers(3)], source)
        epsilon_e = (None, 0.5, 5.0)[generator.integers(3)]
        shown = drawn_relations(network, copies, epsilon_e, source)
        graph, _ = graph_path(shown, network.network.vertices, 500)
        for step in single_steps(network)[:3]:
            found = replay(graph, network, step, 500)
            assert found.prior[0] in found.after_levels
            assert set(found.after_levels) <= set(found.after_pairs) <= set(found.prior)
            assert len(found.prior) <= 4


def complements(networks: int) -> int:
    """Every admissible candidate of every step gives the same bytes; how many there were."""
    generator, seen = np.random.default_rng(6), 0
    for number in range(networks):
        size = 4 + number % 7
        edges = int(generator.integers(size - 1, size * (size - 1) // 2 + 1))
        network = random_network(size, edges, generator)
        published = written(off_path(network))
        assert network.ids() in recover(network.network, published).paths
        for step in range(size - 1):
            for candidate in candidates(network, step)[1:]:
                other = with_edge(network, candidate)
                assert written(off_path(other)) == published
                assert other.ids() in recover(other.network, published).paths
                seen += 1
    return seen


def test_a_complement_says_nothing_about_the_missing_edge() -> None:
    """Spec: path-publishing, section 8, check 10.

    The counterexamples above are absent; 300 networks.
    """
    assert complements(300) > 800


def test_the_same_pairs_tell_on_a_levelled_graph() -> None:
    """On `graph-path` the very same candidates are told apart."""
    generator, told, seen = np.random.default_rng(6), 0, 0
    for _ in range(40):
        network = random_network(8, 14, generator)
        for candidate in candidates(network, int(generator.integers(7)))[1:]:
            other = with_edge(network, candidate)
            graphs: list[LevelledGraph] = []
            for each in (network, other):
                shown = drawn_relations(each, (1,) * 8, None, SeededRandom(1))
                graphs.append(graph_path(shown, each.network.vertices, BUDGET)[0])
            told += graphs[0] != graphs[1]
            seen += 1
    assert seen > 20
    assert told / seen > 0.9


def test_labels_tell_at_most_their_epsilon() -> None:
    generator = np.random.default_rng(9)
    for epsilon in (0.5, 2.0):
        for _ in range(50):
            network = random_network(7, 12, generator)
            labels = RandomizedLabels(
                network.network.vertices, generator.random(21) < 0.5, str(epsilon)
            )
            found = label_posterior(labels, network, int(generator.integers(6)), epsilon)
            assert sum(found.values()) == pytest.approx(1)
            assert max(found.values()) <= min(found.values()) * math.exp(epsilon) * (1 + 1e-9)
