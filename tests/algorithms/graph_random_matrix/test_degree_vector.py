"""The first vector by noisy degrees, and jobs of which no signal is expected. Spec:
graph-random-matrix, sections 3.8 and 3.9."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from algorithms.contract import SequentialContext
from algorithms.datasets.edge_list import EdgeList
from algorithms.graph_random_matrix import Parameters, preview, run
from algorithms.graph_random_matrix.algorithm import check
from algorithms.graph_random_matrix.degree_vector import (
    COUNT_SHARE,
    noisy_degrees,
    noisy_edges,
)
from algorithms.graph_random_matrix.evaluation import reference_spectrum
from algorithms.graph_random_matrix.flipping import epsilon_left
from algorithms.graph_random_matrix.parameters import NoSignalExpected
from algorithms.graph_random_matrix.publication import adjacency
from reproduction.stand_in_data import power_law
from simulation.stand_in_data import blocks

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


def test_dense_communities_still_flip() -> None:
    graph = blocks((40,) * 4, 0.5, 0.02, 1)
    asked = Parameters(mode="spectral", epsilon="2", k=4)
    found = run(graph, asked, "sound", SequentialContext(test_seed=1))
    assert found.result["estimator"] == "flip"
    assert found.result["noisy_edges"] == pytest.approx(graph.edges, abs=400)
