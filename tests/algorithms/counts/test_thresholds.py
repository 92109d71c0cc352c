"""Thresholds by the noise that a sum holds. Spec: federated-counting, section 3.

What counting over curators will give, before anything is spent.

Spec: federated-counting, sections 3 and 10.

The errors that reports state of files of sequences hold for the files: of the items of each
class of counts, 95 in 100 are off by what the class says. Spec: federated-counting, section 14.
"""

from __future__ import annotations

import csv
import io
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from algorithms import catalogue
from algorithms.contract import SequentialContext
from algorithms.counts.contract import tail, threshold
from algorithms.counts.released_files import Cut, errors_of_counts
from algorithms.counts.rounds import Asking, forecast, mean_absolute_error
from algorithms.sequential_ngram import Parameters
from algorithms.sequential_ngram import algorithm as federated
from algorithms.sequential_ngram.counts import ask
from algorithms.sequential_ngram.settings import empty_threshold
from algorithms.sequential_prefix_tree import Parameters as TreeParameters
from algorithms.sequential_prefix_tree import algorithm as tree
from algorithms.sequential_prefix_tree.parameters import count_test, item_multiple
from algorithms.set_valued.settings import integer_test
from reproduction.stand_in_data import bus
from simulation.stand_in_data import metro
from tacit.records.items import Sequences
from tests.algorithms.outcomes import stated_errors_hold

DRAWS = (Fraction(1), Fraction(3, 2), Fraction(3))


def test_the_table_of_n_grams() -> None:
    """18 cells, L = 17, scale 100."""
    found = [
        empty_threshold(Fraction(1, 5), l_max=20, items=17, paper=False, draws=draws)
        for draws in DRAWS
    ]
    assert found == [221, 272, 387]


def test_the_table_of_the_prefix_tree() -> None:
    """L = 17, 12 levels, epsilon 1: scale 12."""
    multiple = item_multiple(17, "sound", None)
    tests = [count_test(Fraction(1, 12), multiple, "sound", draws) for draws in DRAWS]
    assert [test.threshold for test in tests] == [34, 42, 57]
    assert float(tests[0].chance) == pytest.approx(0.03063, abs=5e-6)


@pytest.mark.parametrize(("cells", "expected"), [(3, [8, 11, 16]), (1023, [43, 49, 61])])
def test_the_table_of_diffpart(cells: int, expected: list[int]) -> None:
    tests = [integer_test(cells, Fraction(1, 6), Fraction(1, 2), draws) for draws in DRAWS]
    assert [test.threshold for test in tests] == expected


def test_one_draw_has_the_closed_form() -> None:
    for scale, chance in ((Fraction(7, 2), 0.2), (Fraction(100), 1 / 18), (Fraction(6), 1e-6)):
        a = math.exp(-1 / scale)
        assert tail(Fraction(1), scale, 5) == pytest.approx(a**5 / (1 + a), rel=1e-9)
        closed = max(1, math.ceil(math.log(1 / (chance * (1 + a))) * scale))
        assert threshold(Fraction(1), scale, chance) == closed


def test_the_tail_is_that_of_drawn_sums() -> None:
    """Three draws of scale 12 together, 400,000 times: five deviations, false alarm below 1e-6."""
    generator = np.random.default_rng(5)
    a, size = math.exp(-1 / 12), 400_000
    drawn = sum(generator.geometric(1 - a, size) - generator.geometric(1 - a, size) for _ in "abc")
    for least in (1, 30, 57, 90):
        exact = tail(Fraction(3), Fraction(12), least)
        assert abs((drawn >= least).mean() - exact) < 5 * math.sqrt(exact / size)


def test_wide_scales_are_rounded_upwards_only_a_little() -> None:
    narrow = threshold(Fraction(3), Fraction(4096), 1 / 18)
    wide = threshold(Fraction(3), Fraction(40_960), 1 / 18)
    assert 10 * (narrow - 1) <= wide <= 10 * narrow


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


NGRAMS, TREES = "sequential-ngram", "sequential-prefix-tree"
STATED = {NGRAMS: "items", TREES: "first_items"}


@pytest.mark.parametrize(
    ("name", "data", "epsilon", "changes"),
    [
        (NGRAMS, metro, "0.5", {}),
        (NGRAMS, metro, "0.5", {"aim": "items"}),
        (NGRAMS, metro, "1/30", {"aim": "items"}),
        (TREES, bus, "2", {}),
    ],
)
def test_the_stated_errors_hold_for_the_file(
    name: str, data: Any, epsilon: str, changes: dict[str, Any]
) -> None:
    held = data(8_000).dataset
    algorithm = catalogue.find(name)
    params = algorithm.params(epsilon=Fraction(epsilon), universe=held.universe, **changes)  # type: ignore[call-arg]
    outcome = algorithm.run(held, params, "sound", SequentialContext(test_seed=1))
    content = next(file for file in outcome.files if file.name == "synthetic.csv").content
    place = {item: number for number, item in enumerate(held.universe)}
    counts = np.zeros(len(place), np.int64)
    for line in csv.DictReader(io.StringIO(content.decode())):
        items = line["items"].split()
        for item in items if name == NGRAMS else items[:1]:
            counts[place[item]] += int(line["count"])
    error = outcome.report.error
    assert error is not None
    stated_errors_hold(
        error[STATED[name]],
        counts,
        _true(held, outcome.result.get("l_max", 1), outcome.report.details),
    )


def _true(data: Sequences, first: int, details: dict[str, Any]) -> NDArray[np.int64]:
    """Occurrences of each item among the first so many of each sequence, times the stretch."""
    places = np.arange(data.items.size) - np.repeat(data.starts[:-1], np.diff(data.starts))
    counted = np.bincount(data.items[places < first], minlength=len(data.universe))
    return np.rint(counted * float(details.get("stretch", 1))).astype(np.int64)


def test_a_cut_and_a_factor_are_in_the_errors() -> None:
    """A file that drops what is below 50 and has nine tenths of the rest."""
    noisy = np.array([60.0, 80, 120, 500, 900, 1_000, 5_000])
    found = errors_of_counts(noisy, np.rint(0.9 * noisy), 5.0, 1.0, Cut(50.0, 20))
    by_first = {each.first: each for each in found}
    assert by_first[0].low == pytest.approx(-50 - 5 * math.log(10), abs=1)
    assert by_first[10].bias == pytest.approx(-19, abs=2)
    assert by_first[300].bias == pytest.approx(-65, abs=3)
    assert by_first[300].low < -0.1 * 900
    more = errors_of_counts(noisy, np.rint(0.9 * noisy), 5.0, 4.0, Cut(50.0, 20))
    assert more[-1].deviation > found[-1].deviation


def test_nothing_counted_nothing_stated() -> None:
    assert errors_of_counts(np.zeros(0), np.zeros(0), 5.0, 1.0) == ()
