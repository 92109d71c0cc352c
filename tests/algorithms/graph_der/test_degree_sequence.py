"""Sorted degrees alone, aim `degree_sequence`. Spec: graph-der, section 10.2."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.contract import Outcome, SequentialContext
from algorithms.datasets.edge_list import EdgeList
from algorithms.graph_der import Parameters, preview, run
from algorithms.graph_der.block_graph import publish_blocks
from algorithms.graph_der.degree_sequence import estimated_sequence, likeliest_numbers
from algorithms.graph_der.degrees import DegreeLaw
from algorithms.graph_der.parameters import block_plan_of
from algorithms.graph_der.regions import Ints, measure
from bench.utility.graph_peers import degrees_of, isotonic_degrees, noisy_degrees
from reproduction.stand_in_data import power_law
from simulation.stand_in_data import blocks
from tests.algorithms.graph_der.test_blocks import real
from tests.property_examples import examples


def released(graph: EdgeList, epsilon: str, seed: int) -> Ints:
    """Sorted degrees of the graph that is released."""
    asked = Parameters(epsilon=epsilon, aim="degree_sequence")
    plan = block_plan_of(asked, graph.count)
    found = publish_blocks(graph, plan, "id", 0, SequentialContext(test_seed=seed))
    return np.sort(degrees_of((found.low, found.high), graph.count))


@given(
    st.lists(st.integers(-4, 9), min_size=1, max_size=5),
    st.sampled_from([0.4, 1.0, 4.0]),
    st.lists(st.floats(0.01, 1), min_size=10, max_size=10),
)
@examples(150)
def test_estimates_are_medians_over_every_rising_sequence(
    values: list[int], scale: float, drawn: list[float]
) -> None:
    noisy, law = np.array(values), np.array(drawn[: max(*values, 0) + 1]) / sum(drawn)
    degrees = min(law.size, noisy.size)
    sequences = np.array(list(itertools.combinations_with_replacement(range(degrees), noisy.size)))
    away = np.abs(sequences - noisy).sum(axis=1)
    expected = np.maximum(law * noisy.size, 0.01)
    counted = np.prod((expected / (1 + expected))[sequences], axis=1)
    weights = counted * np.exp((away.min() - away) / scale)
    found = estimated_sequence(noisy, scale, law)
    half = weights.sum() / 2
    for degree in range(degrees):
        numbers = (sequences <= degree).sum(axis=1)
        number = int((found <= degree).sum())
        assert weights[numbers < number].sum() <= half * (1 + 1e-9)
        assert weights[numbers <= number].sum() >= half * (1 - 1e-9)
    likeliest = np.searchsorted(
        likeliest_numbers(noisy, degrees), np.arange(noisy.size), side="right"
    )
    assert np.abs(likeliest - noisy).sum() == away.min()


def test_few_numbers_are_weighed_near_the_likeliest() -> None:
    """With a fifth of all numbers the estimates are the same here; with hardly any they differ from
    the likeliest by one vertex a degree at most."""
    graph = power_law(3_000, 9_000, 1)
    true = np.sort(degrees_of((graph.first, graph.second), 3_000))
    noisy = true + np.random.default_rng(1).integers(-3, 4, true.size)
    law = DegreeLaw.of(noisy, 2.0).law
    numbers = likeliest_numbers(noisy, law.size)
    every, some, one = (
        np.searchsorted(
            estimated_sequence(noisy, 2.0, law, most), np.arange(law.size), side="right"
        )
        for most in (1 << 30, 3_000 * law.size // 5, 1)
    )
    assert (every == some).all()
    assert np.abs(every - numbers).max() > 1
    assert np.abs(one - numbers).max() <= 1


@pytest.mark.parametrize(
    "graph",
    [power_law(3_000, 9_000, 1), power_law(1_500, 30_000, 2), blocks((80,) * 10, 0.3, 0.02, 1)],
)
@pytest.mark.parametrize("epsilon", ["1/10", "1/2", "2"])
def test_as_good_as_the_better_of_isotonic_regression_and_degrees_alone(
    graph: EdgeList, epsilon: str
) -> None:
    compare(graph, epsilon)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["ca-GrQc", "ca-HepTh", "wiki-Vote", "facebook_combined", "email-Eu-core"]
)
@pytest.mark.parametrize("epsilon", ["1/2", "1", "2"])
def test_the_same_on_real_graphs(name: str, epsilon: str) -> None:
    compare(real(name), epsilon)


def compare(graph: EdgeList, epsilon: str) -> None:
    """Mean error over three fixed seeds, so that there is no false alarm."""
    true = degrees_of((graph.first, graph.second), graph.count)
    budget, own, peers = float(Fraction(epsilon)), 0.0, np.zeros(2)
    for seed in range(3):
        own += np.abs(released(graph, epsilon, seed) - np.sort(true)).mean()
        for place, peer in enumerate((isotonic_degrees, noisy_degrees)):
            found = np.sort(peer(true, budget, seed))
            peers[place] += np.abs(found - np.sort(true)).mean()
    assert own <= 1.1 * peers.min()


def test_a_release_is_a_function_of_the_sorted_degrees() -> None:
    """A graph whose ids are dealt out again has the same release: ids say nothing of a degree."""
    graph = power_law(300, 1_500, 1)
    ids = np.random.default_rng(1).permutation(300)
    other = EdgeList.of(
        list(zip(ids[graph.first].tolist(), ids[graph.second].tolist(), strict=True)), range(300)
    )
    plan = block_plan_of(Parameters(epsilon="1", aim="degree_sequence"), 300)
    one, two = (
        publish_blocks(each, plan, "id", 0, SequentialContext(test_seed=3))
        for each in (graph, other)
    )
    assert (one.low == two.low).all() and (one.high == two.high).all()
    ends = degrees_of((one.low, one.high), 300)
    assert one.degrees is not None
    assert (np.diff(one.degrees) >= 0).all()
    assert np.abs(ends - one.degrees).sum() <= ends.sum() / 100
    exact = block_plan_of(Parameters(epsilon="100", aim="degree_sequence"), 300)
    labels = graph.first.astype(np.int32), graph.second.astype(np.int32)
    seen = measure(*labels, exact, SequentialContext(test_seed=3)).degrees
    assert seen is not None
    assert np.abs(seen - np.sort(degrees_of(labels, 300))).max() <= 1  # scale 1/50: e^-50 for 1


def test_it_is_said_that_ids_tell_nothing() -> None:
    def done() -> Outcome:
        asked = Parameters(epsilon="2", k=2, aim="degree_sequence")
        return run(power_law(500, 3_000, 1), asked, "sound", SequentialContext(bytes(range(32))))

    outcome = done()
    planned = preview(Parameters(epsilon="2", k=2, aim="degree_sequence"), "sound")
    for report in (planned, outcome.report):
        assert any("Ids in the released graph say nothing" in each for each in report.caveats)
        assert report.details["spent"] == {
            "sorted degrees": {"epsilon": "2", "sensitivity": 4, "scale": "2"}
        }
        assert [line.epsilon for line in report.verified] == ["1", "2"]
    assert (planned.error or {})["verdict"].startswith("unknown: needs the number of vertices")
    assert (outcome.report.error or {})["verdict"].startswith("useful: a sorted degree errs by")
    degrees = next(each for each in outcome.files if each.name == "degrees.csv")
    assert degrees.content.startswith(b"place,noisy,degree\n1,")
