"""Flipped pairs: law, privacy, choice, forecast. Spec: graph-random-matrix, section 8, checks 13 to
18.

The first vector by noisy degrees, and jobs of which no signal is expected. Spec:
graph-random-matrix, sections 3.8 and 3.9.
"""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pytest

from algorithms.contract import Outcome, SequentialContext
from algorithms.datasets.edge_list import EdgeList
from algorithms.graph_random_matrix import Parameters, check, preview, run
from algorithms.graph_random_matrix.degree_vector import (
    COUNT_SHARE,
    noisy_degrees,
    noisy_edges,
)
from algorithms.graph_random_matrix.evaluation import eigenpairs, reference_spectrum
from algorithms.graph_random_matrix.flipping import (
    PAIRS,
    Flip,
    chosen_estimator,
    eigenvalues_needed,
    epsilon_left,
    flip_limit,
    flipped,
    flipped_spectrum,
    packed,
    pairs_of,
)
from algorithms.graph_random_matrix.parameters import (
    GraphTooLarge,
    NoSignalExpected,
    squared_cosine_of_flips,
)
from algorithms.graph_random_matrix.publication import adjacency
from reproduction.stand_in_data import power_law
from simulation.stand_in_data import blocks
from tacit.randomness import NoiseSource
from tests.algorithms.graph_der.examples import real


class Words:
    """A source that hands out given words, and counts."""

    def __init__(self, *given: int) -> None:
        self.given, self.drawn = list(given), 0

    def words(self, count: int) -> np.ndarray:
        found, self.given = self.given[:count], self.given[count:]
        self.drawn += count
        return np.array(found + [0] * (count - len(found)), np.uint64)


@pytest.mark.parametrize("epsilon", ["0.1", "1", "4"])
def test_a_coin_flips_for_exactly_its_threshold_of_words(epsilon: str) -> None:
    """Acceptance 13: a byte below the first one flips, the same byte only with fewer bits after."""
    law = Flip.of(Fraction(epsilon))
    first, rest = divmod(law.threshold, 1 << 56)
    below = Fraction(first, 256) + Fraction(1, 256) * Fraction(rest, 1 << 56)
    assert below == law.probability == Fraction(law.threshold, 1 << 64)

    def shown(octet: int, bits: int) -> bool:
        return bool(law.coins(Words(octet, bits << 8 | 0xFF), 1)[0])  # type: ignore[arg-type]

    assert all(shown(octet, (1 << 56) - 1) for octet in range(first))
    assert not any(shown(octet, 0) for octet in range(first + 1, 256))
    assert shown(first, rest - 1)
    assert not shown(first, rest)
    ratio = float(1 / law.probability - 1)
    assert ratio == pytest.approx(math.exp(float(epsilon)), rel=1e-12)
    assert law.epsilon <= Fraction(epsilon)


def test_all_graphs_of_four_vertices() -> None:
    """Acceptance 14: the law of 64 outcomes of 64 graphs, and the loss of neighbours exactly."""
    law = Flip(1 << 62)  # p = 1/4
    p = law.probability
    graphs = list(itertools.product((0, 1), repeat=6))
    chance = {
        (one, other): p**away * (1 - p) ** (6 - away)
        for one in graphs
        for other in graphs
        for away in [sum(a != b for a, b in zip(one, other, strict=True))]
    }
    worst = max(
        chance[one, seen] / chance[other, seen]
        for one, other, seen in itertools.product(graphs, repeat=3)
        if sum(a != b for a, b in zip(one, other, strict=True)) == 1
    )
    assert worst == (1 - p) / p == 3
    pairs = list(itertools.combinations(range(4), 2))
    for true in graphs[::42]:
        graph = EdgeList.of(
            [pair for pair, there in zip(pairs, true, strict=True) if there], range(4)
        )
        counted = dict.fromkeys(graphs, 0)
        for seed in range(4_000):
            found = flipped(graph, law, SequentialContext(test_seed=seed))
            seen = set(zip(found.first.tolist(), found.second.tolist(), strict=True))
            counted[tuple(int(pair in seen) for pair in pairs)] += 1
        expected = np.array([float(chance[true, seen]) * 4_000 for seen in graphs])
        statistic = float((np.square(np.array(list(counted.values())) - expected) / expected).sum())
        assert statistic < 63 + 5 * math.sqrt(2 * 63)


class Scripted(SequentialContext):
    """A context whose only stream gives these coins, each as the byte 0 (flips) or 255."""

    def __init__(self, coins: Sequence[int]) -> None:
        super().__init__(test_seed=0)
        octets = bytes(0 if coin else 255 for coin in coins).ljust(8, b"\0")
        self.source = Words(int.from_bytes(octets, "little"))

    def noise(self, stage: str, block: int = 0) -> NoiseSource:
        return self.source  # type: ignore[return-value]


def test_every_outcome_of_every_graph_of_four_vertices() -> None:
    """Acceptance 14, exactly: whatever the six coins show, R is the graph with just those pairs
    flipped. So an outcome h pairs away has the chance p^h (1 - p)^(6 - h), p that of a coin."""
    law = Flip(1 << 62)
    pairs = list(itertools.combinations(range(4), 2))
    graphs = list(itertools.product((0, 1), repeat=6))
    for true in graphs:
        edges = [pair for pair, there in zip(pairs, true, strict=True) if there]
        graph = EdgeList.of(edges, range(4))
        for coins in graphs:
            found = flipped(graph, law, Scripted(coins))
            seen = set(zip(found.first.tolist(), found.second.tolist(), strict=True))
            expected = [one ^ other for one, other in zip(true, coins, strict=True)]
            assert [int(pair in seen) for pair in pairs] == expected


@pytest.mark.parametrize("epsilon", ["0.1", "1", "4"])
def test_the_threshold_is_the_least_that_keeps_epsilon(epsilon: str) -> None:
    """ceil(2^64 / (1 + e^epsilon)), with 60 decimal digits."""
    with localcontext() as precise:
        precise.prec = 60
        exact = Decimal(1 << 64) / (1 + Decimal(epsilon).exp())
        assert Flip.of(Fraction(epsilon)).threshold == int(exact) + 1


def test_an_edge_changes_one_pair_and_nothing_else() -> None:
    """With the same coins two neighbours differ in that pair alone, also across blocks."""
    graph = power_law(3_000, 9_000, 1)  # 4.5 million pairs: two blocks
    assert pairs_of(graph.count) > PAIRS
    less = EdgeList(graph.vertices, graph.first[:-1], graph.second[:-1], True, graph.appearance)
    law = Flip.of(Fraction(4))
    one, other = (
        packed(flipped(each, law, SequentialContext(bytes(32)))) for each in (graph, less)
    )
    assert np.unpackbits(one ^ other).sum() == 1
    added = flipped(graph, law, SequentialContext(bytes(32))).edges
    p = float(law.probability)
    expected = p * (pairs_of(graph.count) - 9_000) + (1 - p) * 9_000
    assert abs(added - expected) < 5 * math.sqrt(pairs_of(graph.count) * p)


def test_what_is_drawn_does_not_depend_on_the_graph() -> None:
    """Acceptance 18: words drawn for an empty and a full graph."""
    full = EdgeList.of([(i, j) for i in range(40) for j in range(i)], range(40))
    drawn = []
    for graph in (EdgeList.of([], range(40)), full):
        context = CountingContext(bytes(32))
        flipped(graph, Flip.of(Fraction(1)), context)
        drawn.append(context.drawn)
    assert drawn[0] == drawn[1] > pairs_of(40) / 8


class Counting:
    """Counts what is drawn."""

    def __init__(self, held: NoiseSource) -> None:
        self.held, self.drawn = held, 0

    def words(self, count: int) -> np.ndarray:
        self.drawn += count
        return self.held.words(count)


class CountingContext(SequentialContext):
    """Adds up what its streams gave."""

    @cached_property
    def sources(self) -> list[Counting]:
        return []

    @property
    def drawn(self) -> int:
        return sum(each.drawn for each in self.sources)

    def noise(self, stage: str, block: int = 0) -> NoiseSource:
        self.sources.append(Counting(super().noise(stage, block)))
        return self.sources[-1]  # type: ignore[return-value]


def test_flips_from_both_ends_are_found() -> None:
    """A planted fault: a pair that each end flips on its own spends twice epsilon."""
    p = Flip.of(Fraction(1)).probability
    twice = [(1 - p) ** 2, p**2]
    assert math.log(twice[0] / twice[1]) > 1.99


@pytest.mark.parametrize(
    ("epsilon", "vertices"),
    [("0.5", 12_300), ("3", 31_000), ("6", 199_000)],
)
def test_up_to_where_auto_flips(epsilon: str, vertices: int) -> None:
    """Acceptance 15: the published examples; at epsilon 6 the pairs that may be flipped decide."""
    assert flip_limit(Parameters(epsilon=epsilon)) == pytest.approx(vertices, rel=0.02)


@pytest.mark.parametrize(
    ("epsilon", "needed"),
    [("1", 96), ("4", 14), ("8", 1.8)],
)
def test_the_eigenvalue_that_is_needed(epsilon: str, needed: float) -> None:
    """Acceptance 15, at 10,000 vertices, before anything is spent."""
    asked = Parameters(epsilon=epsilon, estimator="flip")
    assert eigenvalues_needed(asked, 10_000)["flip"] == pytest.approx(needed, rel=0.05)
    shown = preview(asked, "sound").details["method"]["eigenvalue_needed"]["10000"]
    assert shown == eigenvalues_needed(asked, 10_000)


def test_the_choice_reads_public_numbers_only() -> None:
    """Called without data; one more than the limit takes the other. A sparse graph, by the guess or
    by the noisy number of edges that replaces it, takes degrees."""
    asked = Parameters(mode="spectral", epsilon="1", mean_degree="300")
    limit = flip_limit(asked)
    assert chosen_estimator(asked, "sound").chosen is None
    assert chosen_estimator(asked, "sound", limit).chosen == "flip"
    assert chosen_estimator(asked, "sound", limit + 1).chosen == "subspace"
    assert chosen_estimator(asked, "paper", limit).chosen == "range"
    sparse = asked.model_copy(update={"mean_degree": Fraction(7)})
    for vertices in (limit, limit + 1):
        assert chosen_estimator(sparse, "sound", vertices).chosen == "degrees"
    assert chosen_estimator(asked, "sound", limit, 3 * limit).chosen == "degrees"
    assert chosen_estimator(sparse, "sound", limit, 150 * limit).chosen == "flip"
    pure = Parameters(mode="spectral", epsilon="1", delta="0")
    assert chosen_estimator(pure, "sound").chosen == "flip"
    by_sigma = Parameters(mode="spectral", sigma="6.4")
    assert chosen_estimator(by_sigma, "sound").chosen == "subspace"
    assert chosen_estimator(Parameters(), "sound", 100).chosen == "range"
    named = Parameters(estimator="auto")
    assert chosen_estimator(named, "sound", 100).chosen == "flip"


def test_the_preview_reserves_for_both() -> None:
    """Where the number of vertices decides, delta is reserved; a run that flips charges none."""
    asked = Parameters(mode="pcc", epsilon="2", k=4)
    planned = preview(asked, "sound")
    assert planned.charged is not None
    assert (planned.charged.epsilon, planned.charged.delta) == ("2", "0.000001")
    assert any("number of vertices decides" in each for each in planned.caveats)
    found = run(GRAPH, asked, "sound", SequentialContext(bytes(32)))
    assert found.result["estimator"] == "flip"
    assert found.result["noisy_edges"] == pytest.approx(GRAPH.edges, abs=400)
    assert found.report.charged is not None
    assert (found.report.charged.epsilon, found.report.charged.delta) == ("2", "0")
    (line,) = found.report.verified
    assert (line.model, line.epsilon, line.delta) == ("pure-dp", "2", "0")


def test_three_million_vertices_are_refused_before_spending() -> None:
    """Acceptance 17."""
    ids = np.arange(3_000_000)
    none = np.zeros(0, np.int32)
    graph = EdgeList(ids, none, none, True, ids.astype(np.int32))
    with pytest.raises(GraphTooLarge) as wrong:
        check(graph, Parameters(estimator="flip", epsilon="8"), "sound")
    assert wrong.value.extra["vertices"] == 3_000_000
    assert "subspace" in wrong.value.detail
    largest = int(wrong.value.extra["most_vertices"])  # type: ignore[call-overload]
    assert 100_000 < largest < 200_001


GRAPH = blocks((40,) * 4, 0.5, 0.02, 1)


def done(graph: EdgeList = GRAPH, **changes: Any) -> Outcome:
    asked = Parameters(**({"estimator": "flip", "epsilon": "3", "k": 4} | changes))
    return run(graph, asked, "sound", SequentialContext(bytes(32)))


@pytest.mark.parametrize("epsilon", ["1", "5"])
def test_the_published_graph(epsilon: str) -> None:
    """As bits where flips are likely, as edges where they are rare: the same graph."""
    outcome = done(epsilon=epsilon)
    law = Flip.of(Fraction(epsilon))
    released = flipped(GRAPH, law, SequentialContext(bytes(32)))
    content = np.load(io.BytesIO(outcome.files[0].content))
    if epsilon == "1":
        assert (content == packed(released)).all()
    else:
        assert (content == np.column_stack([released.first, released.second])).all()
    assert outcome.result["released_edges"] == released.edges
    assert outcome.result["probability"] == f"{law.threshold}/{1 << 64}"


def test_clusters_of_a_block_model() -> None:
    found = done(mode="spectral", evaluate=True)
    assert found.evaluation is not None
    assert found.evaluation["nmi"]["private"] > 0.9
    assert found.result["values_above_noise"] == 4
    assert found.report.details["not_of_the_source"] is True
    assert found.report.details["flip"]["values_above_noise"] == 4
    raw, true = found.result["eigenvalues"], found.evaluation["eigenvalues"]
    assert np.abs(raw) == pytest.approx(true, rel=0.15)


@pytest.mark.parametrize("mode", ["spectral", "pcc"])
def test_below_the_noise_there_are_no_clusters(mode: str) -> None:
    found = done(mode=mode, epsilon="0.1")
    assert found.result["signal_below_noise"]
    assert "cluster_sizes" not in found.result
    assert found.files[0].content.splitlines()[0] == b"vertex"


@pytest.mark.parametrize("edges", [[], [(1, 2)], [(1, 2), (2, 3), (1, 3)]], ids=len)
def test_tiny_graphs(edges: list[Any]) -> None:
    """More eigenvectors than vertices are as many as there are."""
    done(EdgeList.of(edges, [1, 2, 3]), mode="spectral", k=8, evaluate={"clusterings": 1})


def test_compiled_and_plain_sums_agree() -> None:
    graph = power_law(4_000, 60_000, 1)
    held = adjacency(graph, compiled=True)
    from algorithms.graph_random_matrix.compiled import neighbour_sums

    vector = np.random.default_rng(1).standard_normal(graph.count)
    plain = np.bincount(graph.first, vector[graph.second], graph.count)
    plain += np.bincount(graph.second, vector[graph.first], graph.count)
    assert neighbour_sums(held.starts, held.neighbours, vector) == pytest.approx(plain)


@pytest.mark.parametrize(
    ("name", "epsilon"),
    [("ca-GrQc", 4), ("email-Eu-core", 1)],
)
def test_the_forecast_on_real_graphs(name: str, epsilon: int) -> None:
    """Acceptance 15: cos^2 of the first eigenvector within .03 of 1 - n v / lambda^2."""
    graph = real(name)
    law = Flip.of(Fraction(epsilon))
    values, vectors = eigenpairs(adjacency(graph), 1)
    forecast = squared_cosine_of_flips(float(values[0]), graph.count * law.variance)
    found = []
    for seed in range(3):
        released = adjacency(flipped(graph, law, SequentialContext(test_seed=seed)))
        spectrum = flipped_spectrum(released, law, 1).spectrum
        found.append(float(spectrum.vectors[:, 0] @ vectors[:, 0]) ** 2)
    assert abs(np.mean(np.sqrt(found)) - math.sqrt(forecast)) < 0.03


SPARSE = power_law(3_000, 9_000, 1)


def test_an_edge_costs_epsilon() -> None:
    """All graphs of five vertices and all pairs: degrees change by 2, the number of edges by 1;
    over their scales that is epsilon, exactly, with and without the count."""
    pairs = list(itertools.combinations(range(5), 2))
    for asked, counted in ((Parameters(epsilon="3", estimator="auto"), 1), (_degrees("3"), 0)):
        left = epsilon_left(asked)
        for bits in itertools.product((0, 1), repeat=10):
            held = [pair for pair, bit in zip(pairs, bits, strict=True) if bit]
            before = np.bincount(np.array(held, np.int64).ravel(), minlength=5)
            for pair in pairs:
                other = [each for each in pairs if (each in held) != (each == pair)]
                after = np.bincount(np.array(other, np.int64).ravel(), minlength=5)
                moved = int(np.abs(before - after).sum())
                spent = moved / (2 / left)
                spent += counted * abs(len(held) - len(other)) * 3 * COUNT_SHARE
                assert spent == 3


def _degrees(epsilon: str) -> Parameters:
    return Parameters(mode="pcc", epsilon=epsilon, estimator="degrees", k=4)


def test_noise_has_the_scales_that_are_said() -> None:
    """What is drawn: mean sizes of 4,000 degrees and of 400 counts of an empty graph; half the
    noise would be 50 % off, chance a few per cent."""
    empty = EdgeList.of([], range(4_000))
    drawn = noisy_degrees(empty, Fraction(20), SequentialContext(test_seed=1))
    assert np.abs(drawn).mean() == pytest.approx(20, rel=0.1)
    counts = [
        noisy_edges(SPARSE, Fraction(1), SequentialContext(test_seed=seed)) - SPARSE.edges
        for seed in range(400)
    ]
    assert np.abs(counts).mean() == pytest.approx(50, rel=0.2)


def test_a_sparse_graph_has_its_first_vector_by_degrees() -> None:
    """Flips show nothing at epsilon 1; auto counts the edges and takes degrees. The budget is
    epsilon, with the two noises in the report."""
    truth = reference_spectrum(adjacency(SPARSE), 1)
    true = np.bincount(np.concatenate([SPARSE.first, SPARSE.second]), minlength=SPARSE.count)
    best = float(abs(true @ truth.vectors[:, 0]) / np.linalg.norm(true))
    asked = Parameters(mode="pcc", epsilon="1", k=4, evaluate=True)
    found = run(SPARSE, asked, "sound", SequentialContext(test_seed=1))
    assert found.result["estimator"] == "degrees"
    assert found.evaluation is not None
    assert found.evaluation["ev_cosine"][0] > best - 0.15
    assert found.result["values_above_noise"] == 1
    assert found.report.charged is not None
    assert (found.report.charged.epsilon, found.report.charged.delta) == ("1", "0")
    scales = [float(each.scale or 0) for each in found.report.noise]
    assert scales == [pytest.approx(100 / 49), 50]
    flipped = asked.model_copy(update={"estimator": "flip"})
    other = run(SPARSE, flipped, "sound", SequentialContext(test_seed=1))
    assert other.result["signal_below_noise"]


def test_equal_degrees_are_no_signal() -> None:
    """A ring: the first vector is even, and ranks would be noise."""
    ring = EdgeList.of([(i, (i + 1) % 500) for i in range(500)], range(500))
    found = run(ring, _degrees("1/10"), "sound", SequentialContext(test_seed=2))
    assert found.result["signal_below_noise"]


def test_no_signal_is_refused_before_spending() -> None:
    """By public numbers alone, so also for an empty graph; with `anyway` the report says so."""
    asked = Parameters(mode="spectral", epsilon="1/100", mean_degree="5")
    for graph in (SPARSE, EdgeList.of([], range(3_000))):
        with pytest.raises(NoSignalExpected) as wrong:
            check(graph, asked, "sound")
        assert wrong.value.pointer == "/params/anyway"
    found = run(
        SPARSE,
        asked.model_copy(update={"anyway": True}),
        "sound",
        SequentialContext(test_seed=1),
    )
    assert any(each.startswith("No signal expected") for each in found.report.caveats)
    check(SPARSE, asked.model_copy(update={"epsilon": Fraction(2)}), "sound")
    told = preview(asked, "sound").details["method"]["expected_cosine"]["1000"]
    assert max(told.values()) < 0.1
