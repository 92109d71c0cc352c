"""What counting over curators will give, before anything is spent.

Spec: federated-counting, sections 3 and 10.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from algorithms.counts.rounds import Asking, forecast, mean_absolute_error
from algorithms.sequential_ngram import Parameters
from algorithms.sequential_ngram import algorithm as federated
from algorithms.sequential_ngram.counts import ask
from algorithms.sequential_prefix_tree import Parameters as TreeParameters
from algorithms.sequential_prefix_tree import algorithm as tree

ASKING = Asking(Fraction(3), 3, 2, 100, 3600, 10**6)
MSNBC = Parameters(universe=17, epsilon=Fraction(1), budget="uniform", l_max=20)


def test_the_example_of_the_spec() -> None:
    """Epsilon 1, l_max 20, n_max 5, c = 3, t_s = 2: b 100, error 188, threshold 387, 0.04 %."""
    found = federated.ROUNDS.forecast(MSNBC, ASKING)  # type: ignore[misc]
    assert found["rounds"] == 5
    assert found["mean_absolute_error"] == "187.5"
    assert found["smallest_count_that_shows"] == 387
    assert found["smallest_share_that_shows"] == "0.000387"
    steps = found["steps"]
    assert [step["scale"] for step in steps] == ["100"] * 5
    assert [step["words_expected_at_most"] for step in steps] == [17, 306, 4096, 4096, 4096]
    assert found["bytes_of_a_curator"] == 8 * (3 * 17 + 306 + 3 * 4096) + 4 * 2 * 32
    assert found["bytes_in_total"] == 100 * found["bytes_of_a_curator"]


@pytest.mark.parametrize(("draws", "error"), [(1, 1), (Fraction(3, 2), 1.273), (3, 1.875)])
def test_the_errors_of_the_spec(draws: Fraction, error: float) -> None:
    assert mean_absolute_error(Fraction(draws), Fraction(1)) == pytest.approx(error, abs=5e-4)


def test_the_error_is_that_of_drawn_noise() -> None:
    """Three discrete Laplace draws in a sum: 10^5 sums, within 5 deviations."""
    generator = np.random.default_rng(1)
    p = 1 - np.exp(-1 / 50)
    drawn = generator.geometric(p, (2, 3, 10**5)).sum(axis=1)
    errors = np.abs(drawn[0] - drawn[1])
    expected = mean_absolute_error(Fraction(3), Fraction(50))
    assert abs(errors.mean() - expected) < 5 * errors.std() / 10**2.5


@pytest.mark.parametrize(
    "more", [{}, {"n_max": 1}, {"l_max": "auto"}, {"max_cells": 40}, {"epsilon": Fraction(1, 10)}]
)
def test_n_grams_are_asked_as_planned(more: dict[str, object]) -> None:
    """The first question, and every later one, has the planned rate, reach and size at most."""
    params = Parameters(**{"universe": 3, "epsilon": Fraction(1), "budget": "uniform"} | more)  # type: ignore[arg-type]
    planned = federated.planned_questions(params, Fraction(3))
    assert len(planned) == federated.planned(params)
    state = federated.first(params, Fraction(3))
    question = ask(state)
    assert question is not None
    assert planned[0].stage == question.stage
    assert planned[0].scale == question.scale(0)
    assert planned[0].most == question.sizes.sum()


def test_trees_are_asked_as_planned() -> None:
    params = TreeParameters(universe=6, epsilon=Fraction(1), height=3, fan_out=2)
    planned = tree.planned_questions(params, Fraction(3))
    assert [each.stage for each in planned][:3] == [
        "groups of level 1",
        "items of level 1",
        "groups of level 2",
    ]
    assert sum(each.rate for each in planned) == 1
    assert [each.most for each in planned] == [3, 6, 18, 36, 108, 216]
    found = forecast(planned, ASKING)
    assert found["rounds"] == tree.planned(params) == 6
