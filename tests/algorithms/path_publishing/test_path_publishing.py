"""Levels, splits, recovery and samplers: the source's figures and the spec's checks.

What the source's claims miss: counterexamples on `graph-path`, absent on `complement`.

Spec: path-publishing, section 4, checks 3 and 10.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest

from algorithms.path_publishing.evaluation import (
    Candidate,
    Replay,
    candidates,
    label_posterior,
    orientable,
    prior_counts,
    replay,
    score,
    single_steps,
)
from algorithms.path_publishing.levelled_graph import (
    ABSENT,
    LINK,
    STEP,
    WORD,
    Relations,
    arranged,
    canonical_layout,
    copy_probabilities,
    drawn_copies,
    drawn_direction,
    drawn_labels,
    drawn_relations,
    epsilon_of,
    fake_probability,
    graph_path,
    off_path,
    statuses,
    wrong_threshold,
)
from algorithms.path_publishing.parameters import NoGraphPath
from reproduction.path_publishing_networks import random_network
from tacit.paths.network import NetworkMap, NetworkPath, NotAPath
from tacit.paths.published import LevelledGraph, RandomizedLabels, written
from tacit.paths.recovery import path_of, recover
from tacit.randomness import SeededRandom
from tests.algorithms.path_publishing.examples import (
    RINGS,
    RINGS_PATH,
    SIX,
    check_graph,
    named,
    nodes_of,
    random_case,
    relations,
    short,
)


def test_figures_6_2_and_6_3() -> None:
    """Spec: path-publishing, section 8, check 2."""
    shown = relations(SIX, [(1, 3)])
    pairs = {f"{i + 1}{j + 1}" for i, j in shown.pairs()}
    assert pairs == {"13", "16", "24", "25", "26", "35", "36", "46"}
    graph, done = graph_path(shown, SIX.network.vertices, 2000)
    levels, edges = short(graph)
    assert levels == {3: 0, 2: 1, 1: 2, 4: 2, 5: 2, 6: 3}
    assert edges == {"1-6", "2-4", "2-5", "2-6", "3-1", "3-5", "3-6", "4-6"}
    found = recover(SIX.network, graph)
    assert (found.paths, found.direction_confidence) == (((1, 2, 3, 4, 5, 6),), "certain")
    assert done.splits == 0
    check_graph(graph, shown, SIX)


def test_figure_6_6() -> None:
    """Spec: path-publishing, section 8, check 4: a ring of five has no transitive orientation."""
    together = [0] * 5
    for one, other in ((1, 3), (2, 3), (2, 4), (1, 5), (4, 5)):
        together[one - 1] |= 1 << other - 1
        together[other - 1] |= 1 << one - 1
    assert not orientable(together)
    shown = Relations(tuple((at, 0) for at in range(5)), 5, tuple(together))
    graph, done = graph_path(shown, range(1, 6), 2000)
    levels, edges = named(graph)
    assert levels == {"1.0.0": 0, "2.0.0": 1, "3.0.0": 2, "5.0.1": 2, "4.0.0": 3, "5.0.0": 4}
    assert {f"{a[0]}-{b[0]}.{b[4]}" for a, b in edges if b[0] == "5"} == {"1-5.0"}
    assert {(a, b) for a, b in edges} == {
        ("1.0.0", "3.0.0"),
        ("1.0.0", "5.0.0"),
        ("2.0.0", "3.0.0"),
        ("2.0.0", "4.0.0"),
        ("5.0.1", "4.0.0"),
    }
    assert done.splits == 1
    with pytest.raises(NoGraphPath) as failed:
        graph_path(shown, range(1, 6), 2000, split=False)
    assert failed.value.name == "no_graph_path"


def test_figure_6_4() -> None:
    """Spec: path-publishing, section 8, check 6."""
    shown = relations(RINGS)
    order = [(1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (2, 1), (3, 1), (6, 0)]
    assert nodes_of(shown, RINGS) == order
    assert {(order[i], order[j]) for i, j in shown.pairs()} == {
        ((2, 0), (5, 0)),
        ((1, 0), (2, 1)),
        ((3, 0), (2, 1)),
        ((2, 0), (3, 1)),
        ((4, 0), (3, 1)),
        ((3, 0), (6, 0)),
    }
    graph, _ = graph_path(shown, RINGS.network.vertices, 2000)
    found = recover(RINGS.network, graph)
    assert (found.paths, found.direction_confidence) == ((tuple(RINGS_PATH),), "certain")


@pytest.mark.parametrize("vertices", [2, 9])
def test_a_path_and_nothing_else(vertices: int) -> None:
    """Spec: path-publishing, section 8, check 5.

    No edges, levels are positions, and the direction is a coin.
    """
    ids = list(range(vertices, 0, -1))
    network = NetworkPath.of(ids, [list(pair) for pair in itertools.pairwise(ids)], ids)
    graph, _ = graph_path(relations(network), network.network.vertices, 2000)
    levels, edges = short(graph)
    assert levels == {vertices - at: at for at in range(vertices)}
    assert not edges
    found = recover(network.network, graph)
    assert score(found, network.ids()) == 0.5
    assert set(found.paths) == {network.ids(), network.ids()[::-1]}


@pytest.mark.parametrize("size", [4, 7, 10])
def test_round_trip(size: int) -> None:
    """Spec: path-publishing, section 8, check 1, a tenth of it."""
    generator, source = np.random.default_rng(size), SeededRandom(size)
    for number in range(30):
        network = random_case(size, generator, number % 3)
        epsilon_v = (None, 0.5, 1.0, 5.0)[generator.integers(4)]
        epsilon_e = (None, 0.5, 1.0, 5.0, 10.0)[generator.integers(5)]
        copies = drawn_copies(network, epsilon_v, source)
        shown = drawn_relations(network, copies, epsilon_e, source)
        graph, _ = graph_path(shown, network.network.vertices, 2000)
        check_graph(graph, shown, network)
        found = recover(network.network, graph)
        assert network.ids() in (found.paths[0], found.paths[0][::-1])
        certain = recover(network.network, graph, direction="certain")
        if len(certain.paths) == 1:
            assert certain.paths == (network.ids(),)
            assert found.paths == certain.paths
        if not network.acyclic:
            told = recover(network.network, graph, use_copy_order=True)
            assert told.paths == (network.ids(),)


@pytest.mark.parametrize("budget", [2, 100])
def test_a_small_budget_splits_and_loses_nothing(budget: int) -> None:
    generator, source = np.random.default_rng(7), SeededRandom(7)
    hits = 0
    for _ in range(25):
        network = random_network(9, 24, generator)
        shown = drawn_relations(network, (1,) * 9, 1.0, source)
        graph, done = graph_path(shown, network.network.vertices, budget)
        check_graph(graph, shown, network)
        assert network.ids() in (*recover(network.network, graph).paths, network.ids()[::-1])
        assert path_of(graph, network.network)
        hits += done.budget_hits
    assert hits > 0
    impossible = relations(SIX, [(1, 3)])
    with pytest.raises(NoGraphPath, match="early"):
        graph_path(impossible, SIX.network.vertices, 2, split=False)


def transitive_by_search(together: tuple[int, ...]) -> bool:
    """Every orientation, edge by edge, given up where two edges in a row lack their shortcut: the
    plain way."""
    size = len(together)
    edges = [(i, j) for i in range(size) for j in range(i + 1, size) if together[i] >> j & 1]
    below, above = [0] * size, [0] * size

    def place(at: int) -> bool:
        if at == len(edges):
            pairs = ((x, y) for x in range(size) for y in range(size) if below[x] >> y & 1)
            return all(not below[y] & ~below[x] for x, y in pairs)
        for a, b in (edges[at], edges[at][::-1]):
            if above[a] & ~together[b] or below[b] & ~together[a]:
                continue
            below[a] ^= 1 << b
            above[b] ^= 1 << a
            found = place(at + 1)
            below[a] ^= 1 << b
            above[b] ^= 1 << a
            if found:
                return True
        return False

    return place(0)


def graphs(size: int) -> Iterator[tuple[int, ...]]:
    """Every labelled graph of so many vertices."""
    pairs = list(itertools.combinations(range(size), 2))
    for number in range(1 << len(pairs)):
        together = [0] * size
        for at, (i, j) in enumerate(pairs):
            if number >> at & 1:
                together[i] |= 1 << j
                together[j] |= 1 << i
        yield tuple(together)


def test_orientations_of_five_vertices() -> None:
    for together in graphs(5):
        assert orientable(together) == transitive_by_search(together)


def test_what_is_arranged_without_a_split_is_orientable() -> None:
    """And nearly all that is orientable is arranged (the search tries whole levels only)."""
    generator, source = np.random.default_rng(11), SeededRandom(11)
    missed = 0
    for _ in range(400):
        network = random_network(8, int(generator.integers(7, 29)), generator)
        shown = drawn_relations(network, (1,) * 8, None, source)
        whole = not arranged(shown.together, 2000).splits
        assert orientable(shown.together) or not whole
        missed += orientable(shown.together) and not whole
    assert missed <= 8  # 0.4 % of 400 are 1.6; more than 8 once in 5,000


def test_probabilities() -> None:
    """Spec: path-publishing, sections 3.2, 4.2 and 8, check 9."""
    for epsilon, p2 in ((0.5, 0.562177), (1, 0.622459), (2, 0.731059), (5, 0.924142)):
        assert fake_probability(epsilon) == pytest.approx(p2, abs=1e-6)
    assert fake_probability(10) == pytest.approx(0.993307, abs=1e-6)
    assert fake_probability(None) == 0
    for epsilon, two in ((0.5, 0.437823), (1, 0.377541), (5, 0.075858)):
        assert copy_probabilities(1, 2, epsilon)[1] == pytest.approx(two, abs=1e-6)
    assert sum(copy_probabilities(2, 7, 0.3)) == pytest.approx(1)


def test_fake_pairs_are_drawn_as_often_as_stated() -> None:
    """Spec: path-publishing, section 8, check 9.

    200,000 draws, 4 standard errors (wrong once in 16,000).
    """
    size, drawn, fakes = 60, 0, 0
    ids = list(range(size))
    network = NetworkPath.of(ids, [[at, at + 1] for at in range(size - 1)], ids)
    source = SeededRandom(5)
    free = math.comb(size, 2) - (size - 1)
    while drawn < 200_000:
        shown = drawn_relations(network, (1,) * size, 1.0, source)
        fakes += sum(mask.bit_count() for mask in shown.together) // 2
        drawn += free
    p2 = 0.6224593312
    assert abs(fakes / drawn - p2) <= 4 * math.sqrt(p2 * (1 - p2) / drawn)


@pytest.mark.parametrize("epsilon", [0.5, 5.0])
def test_copies_are_drawn_as_often_as_stated_whatever_the_degree(epsilon: float) -> None:
    """Spec: path-publishing, section 8, check 9.

    A star's centre and its leaves alike; 4 standard errors each.
    """
    path = list(range(40))
    edges = [[at, at + 1] for at in range(39)] + [[0, at] for at in range(2, 40)]
    network = NetworkPath.of(path, edges, path)
    source, times = SeededRandom(9), 1000
    drawn = np.array([drawn_copies(network, epsilon, source) for _ in range(times)])
    assert set(np.unique(drawn)) == {1, 2}
    two = copy_probabilities(1, 2, epsilon)[1]
    for column in (drawn[:, :1], drawn[:, 1:]):
        error = math.sqrt(two * (1 - two) / column.size)
        assert abs(float((column == 2).mean()) - two) <= 4 * error


def test_thresholds_never_cost_more_than_epsilon() -> None:
    for text in ("1/1000", "0.5", "1", "ln", "5", "20"):
        epsilon = Fraction("0.693147180559945") if text == "ln" else Fraction(text)
        wrong = wrong_threshold(epsilon)
        assert 0 < wrong <= WORD // 2
        assert epsilon_of(wrong) <= epsilon
        assert epsilon_of(wrong - 1) > epsilon
        assert float(epsilon_of(wrong)) == pytest.approx(float(epsilon), rel=1e-9)
    assert epsilon_of(wrong_threshold(Fraction(0))) == 0


@pytest.mark.parametrize("epsilon", ["0.5", "2"])
def test_labels_of_any_two_statuses(epsilon: str) -> None:
    """Spec: path-publishing, section 8, check 11.

    The empirical loss of a label, 200,000 draws of each status; 5 standard errors of each log
    ratio are allowed (wrong once in 3 million).
    """
    shares = {}
    for status in (ABSENT, LINK, STEP):
        drawn = drawn_labels(
            np.full(200_000, status, np.int8), Fraction(epsilon), SeededRandom(status + 1)
        )
        shares[status] = float(drawn.mean())
    for one, other in itertools.permutations(shares, 2):
        for a, b in ((shares[one], shares[other]), (1 - shares[one], 1 - shares[other])):
            error = math.sqrt((1 - a) / a / 2e5 + (1 - b) / b / 2e5)
            assert math.log(a / b) <= float(Fraction(epsilon)) + 5 * error
    loss = math.log(shares[STEP] / shares[LINK])
    assert loss == pytest.approx(float(Fraction(epsilon)), abs=0.02)
    assert shares[ABSENT] == pytest.approx(0.5, abs=0.006)


def test_the_direction_bit() -> None:
    """A wrong bit comes with probability 1/(1+e); 5 standard errors of 4,000 draws."""
    source = SeededRandom(4)
    for smaller in (True, False):
        bits = [drawn_direction(smaller, Fraction(1), source).bit for _ in range(4_000)]
        wrong = 1 / (1 + math.e)
        found = np.mean([bit != smaller for bit in bits])
        assert abs(found - wrong) <= 5 * math.sqrt(wrong * (1 - wrong) / 4_000)


def test_statuses_are_in_the_order_of_sorted_ids() -> None:
    network = NetworkPath.of(["c", "a", "b"], [["a", "b"], ["c", "b"]], ["c", "b"])
    assert statuses(network).tolist() == [LINK, ABSENT, STEP]  # ab ac bc


def test_a_complement_is_recovered_and_another_map_never_crashes() -> None:
    """Spec: path-publishing, section 8, check 10.

    One edge more or less gives `not_a_path` or another path.
    """
    generator = np.random.default_rng(12)
    for _ in range(60):
        network = random_case(int(generator.integers(4, 11)), generator, 0)
        published = off_path(network)
        found = recover(network.network, published)
        assert network.ids() in found.paths
        size = network.network.size
        edges = {tuple(edge) for edge in network.network.edges.tolist()}
        for pair in itertools.combinations(range(size), 2):
            changed = np.array(sorted(edges ^ {pair}), np.int64).reshape(-1, 2)
            try:
                wrong = recover(NetworkMap(network.network.vertices, changed), published)
            except NotAPath:
                continue
            assert network.ids() not in wrong.paths


def test_paths_that_leave_vertices_out() -> None:
    network = NetworkPath.of(
        list("abcde"), [list(p) for p in ("ab", "bc", "cd", "de", "ae")], list("bcd")
    )
    published = off_path(network)
    assert published.edges.tolist() == [[0, 1], [0, 4], [3, 4]]
    assert tuple("bcd") in recover(network.network, published).paths


def test_a_layout_is_a_function_of_the_published_edges() -> None:
    generator = np.random.default_rng(2)
    for _ in range(20):
        network = random_case(9, generator, 0)
        published = off_path(network)
        together = [0] * 9
        for low, high in published.edges.tolist():
            together[low] |= 1 << high
            together[high] |= 1 << low
        graph = canonical_layout(together, published.vertices, 2000)
        assert graph.canonical
        found = recover(network.network, graph)
        assert network.ids() in found.paths
        assert found.direction_confidence == "none"


def test_labels_without_noise_are_the_path() -> None:
    network = random_network(9, 20, np.random.default_rng(1))
    status = statuses(network)
    labels = RandomizedLabels(network.network.vertices, status == STEP, "20")
    found = recover(network.network, labels)
    assert found.ties == 1
    assert network.ids() in found.paths


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


def test_a_complement_says_nothing_about_the_missing_edge() -> None:
    """Spec: path-publishing, section 8, check 10.

    Every admissible candidate of every step of 300 networks gives the same bytes.
    """
    generator, seen = np.random.default_rng(6), 0
    for number in range(300):
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
    assert seen > 800


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
