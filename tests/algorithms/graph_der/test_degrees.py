"""Degrees from noisy ones, and graphs that are fitted to them. Spec: graph-der, section 10.2.

Sorted degrees alone, aim `degree_sequence`. Spec: graph-der, section 10.2.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.contract import Outcome, SequentialContext
from algorithms.datasets.edge_list import EdgeList
from algorithms.graph_der import Parameters, preview, run
from algorithms.graph_der.block_graph import fitted_to_degrees, publish_blocks
from algorithms.graph_der.degree_sequence import estimated_sequence, likeliest_numbers
from algorithms.graph_der.degrees import (
    CLOSE,
    LEAST_STEPS,
    MOST_STEPS,
    DegreeLaw,
    laplace_variance,
    possible,
)
from algorithms.graph_der.parameters import BLOCK_SHARES, block_plan_of
from algorithms.graph_der.regions import BlockPlan, Coarse, Fine, Ints, measure
from bench.utility.graph_peers import degrees_of, isotonic_degrees, noisy_degrees
from reproduction.stand_in_data import power_law
from simulation.stand_in_data import blocks
from tacit.noise import DiscreteLaplace
from tacit.randomness import SeededRandom
from tests.algorithms.graph_der.examples import real
from tests.property_examples import examples


def noisy(true: Ints, scale: int, seed: int) -> Ints:
    return np.asarray(true + DiscreteLaplace(Fraction(scale)).draw(SeededRandom(seed), true.size))


def test_the_law_is_that_of_expectation_maximisation_with_the_whole_matrix() -> None:
    true = np.repeat([1, 2, 9, 40], [3000, 2000, 800, 200])
    seen = noisy(true, 3, 1)
    degrees = np.arange(seen.max() + 1)
    places = np.arange(seen.min() - 90, seen.max() + 91)
    ratio = math.exp(-1 / 3)
    matrix = (1 - ratio) / (1 + ratio) * ratio ** np.abs(places[:, None] - degrees)
    counts = np.bincount(seen - places[0], minlength=places.size) / seen.size
    law = np.bincount(np.clip(seen, 0, None), minlength=degrees.size) / seen.size
    for steps in range(MOST_STEPS):
        expected = matrix @ law
        distance = np.abs(expected.cumsum() - counts.cumsum()).max()
        if steps >= LEAST_STEPS and distance <= CLOSE / math.sqrt(seen.size):
            break
        law = law * (matrix.T @ (counts / expected))
        law /= law.sum()
    assert LEAST_STEPS < steps < MOST_STEPS - 1
    found = DegreeLaw.of(seen, 3.0)
    assert found.law == pytest.approx(law, abs=1e-9)
    means = (matrix * law) @ degrees / (matrix @ law)
    assert found.means(seen) == pytest.approx(means[seen - places[0]], abs=1e-6)


def test_the_noise_of_two_draws_is_one_draw_convolved_with_itself() -> None:
    law = DegreeLaw.of(np.array([0, 5]), 2.0, 2.0)
    ratio = math.exp(-1 / 2)
    one = (1 - ratio) / (1 + ratio) * ratio ** np.abs(np.arange(-200, 201))
    width = 2 * (law.blur.size - 1)
    noise = np.fft.irfft(law.blur, width)
    assert noise[:8] == pytest.approx(np.convolve(one, one)[400:408], abs=1e-12)
    assert law.noise_variance == pytest.approx(2 * laplace_variance(2.0))


@pytest.mark.parametrize(
    "graph",
    [power_law(3_000, 9_000, 1), power_law(1_500, 30_000, 2), blocks((80,) * 10, 0.3, 0.02, 1)],
)
@pytest.mark.parametrize("epsilon", ["1/2", "2"])
def test_aim_degrees_is_as_good_as_degrees_alone(graph, epsilon: str) -> None:  # type: ignore[no-untyped-def]
    """Degrees of the released graph against noisy degrees with all of epsilon, cut to 0 and above:
    mean error of a vertex and of the sorted sequence at most 1.05 times as large. Seeds are fixed:
    no false alarm."""
    plan = BlockPlan(graph.count, Fraction(epsilon), BLOCK_SHARES["degrees"], 1, 4_000)
    true = np.bincount(np.concatenate([graph.first, graph.second]), minlength=graph.count)
    errors = np.zeros((2, 2))
    for seed in range(3):
        release = publish_blocks(graph, plan, "id", 0, SequentialContext(test_seed=seed))
        assert release.measured.degrees is not None
        ends = np.bincount(np.concatenate([release.low, release.high]), minlength=graph.count)
        for place, degrees in enumerate((ends, np.maximum(release.measured.degrees, 0))):
            errors[place, 0] += np.abs(degrees - true).mean()
            errors[place, 1] += np.abs(np.sort(degrees) - np.sort(true)).mean()
    assert (errors[0] <= 1.05 * errors[1]).all()


@given(st.integers(6, 40), st.data())
@examples(60)
def test_fitting_moves_ends_within_their_part(vertices: int, data: st.DataObject) -> None:
    """Counts of all parts stay, the graph stays simple, and degrees only come nearer."""
    grid = Coarse.of(vertices, 2)
    fine = Fine.of(grid, np.array([data.draw(st.integers(1, 3)) for _ in range(3)]))
    generator = np.random.default_rng(data.draw(st.integers(0, 1_000)))
    low, high = (each.astype(np.int64) for each in np.triu_indices(vertices, 1))
    chosen = np.sort(generator.permutation(low.size)[: low.size // 4])
    keys = low[chosen] * vertices + high[chosen]
    degrees = generator.integers(0, vertices // 2, vertices)

    def counted(found: Ints) -> tuple[Ints, Ints]:
        ends = np.divmod(found, vertices)
        assert (ends[0] < ends[1]).all()
        place = fine.place(*(each.astype(np.int32) for each in ends))
        parts = np.bincount(place, minlength=fine.room.size)
        return parts, np.bincount(np.concatenate(ends), minlength=vertices)

    fitted = fitted_to_degrees(keys.copy(), fine, degrees, SequentialContext(test_seed=1))
    assert np.unique(fitted).size == keys.size
    (parts, before), (same, after) = counted(keys), counted(fitted)
    assert (parts == same).all()
    assert (np.abs(after - degrees) <= np.abs(before - degrees)).all()


def test_a_whole_matrix_gets_the_degrees_that_were_estimated() -> None:
    """But for an odd sum and crowded hubs: at most one end in a thousand is elsewhere."""
    graph = power_law(3_000, 9_000, 1)
    plan = BlockPlan(graph.count, Fraction(1), BLOCK_SHARES["degrees"], 1, 4_000)
    release = publish_blocks(graph, plan, "id", 0, SequentialContext(test_seed=1))
    ends = np.bincount(np.concatenate([release.low, release.high]), minlength=graph.count)
    assert release.degrees is not None
    assert np.abs(ends - release.degrees).sum() <= ends.sum() / 1_000


def test_an_order_of_noise_moves_no_edge() -> None:
    """Degrees that differ by less than their noise: estimates are means, close to one another."""
    graph = blocks((100,) * 4, 0.1, 0.1, 1)
    plan = BlockPlan(graph.count, Fraction(1, 10), BLOCK_SHARES["ranges"], 1, 4_000)
    release = publish_blocks(graph, plan, "id", 0, SequentialContext(test_seed=1))
    clear = BlockPlan(graph.count, Fraction(20), BLOCK_SHARES["ranges"], 1, 4_000)
    other = publish_blocks(graph, clear, "id", 0, SequentialContext(test_seed=1))
    assert release.degrees is not None and other.degrees is not None
    true = np.bincount(np.concatenate([graph.first, graph.second]), minlength=graph.count)
    noise = float(plan.scale(1))
    assert np.abs(release.degrees - true).mean() < noise / 4
    assert (other.degrees == np.rint(other.degrees)).all()
    assert np.abs(other.degrees - true).mean() < 2


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


def test_a_degree_that_a_curator_made_up_fills_no_memory() -> None:
    """Without a proof it is any number; honest ones stay as they are."""
    noisy = np.array([3, -2, 9, 10**15, -(10**15)])
    seen = possible(noisy, 2.0, 20)
    assert seen.tolist() == [3, -2, 9, 60, -40]
    law = DegreeLaw.of(seen, 2.0)
    assert law.law.size == 61
    assert law.means(seen)[3] <= 60
