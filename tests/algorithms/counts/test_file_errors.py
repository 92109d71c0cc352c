"""The errors that reports state of files of sequences hold for the files: of the items of each
class of counts, 95 in 100 are off by what the class says. Spec: federated-counting, section 14."""

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
from algorithms.counts.released_files import Cut, errors_of_counts
from reproduction.stand_in_data import bus
from simulation.stand_in_data import metro
from tacit.records.items import Sequences

NGRAMS, TREES = "sequential-ngram", "sequential-prefix-tree"
STATED = {NGRAMS: "items", TREES: "first_items"}


@pytest.mark.parametrize(("name", "data", "epsilon"), [(NGRAMS, metro, "0.5"), (TREES, bus, "2")])
def test_the_stated_errors_hold_for_the_file(name: str, data: Any, epsilon: str) -> None:
    held = data(8_000).dataset
    algorithm = catalogue.find(name)
    params = algorithm.params(epsilon=Fraction(epsilon), universe=held.universe)  # type: ignore[call-arg]
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
    _holds(
        error[STATED[name]],
        counts,
        _true(held, outcome.result.get("l_max", 1), outcome.report.details),
    )


def _true(data: Sequences, first: int, details: dict[str, Any]) -> NDArray[np.int64]:
    """Occurrences of each item among the first so many of each sequence, times the stretch."""
    places = np.arange(data.items.size) - np.repeat(data.starts[:-1], np.diff(data.starts))
    counted = np.bincount(data.items[places < first], minlength=len(data.universe))
    return np.rint(counted * float(details.get("stretch", 1))).astype(np.int64)


def _holds(stated: Any, counts: NDArray[np.int64], true: NDArray[np.int64]) -> None:
    """By true and by released counts, 95 in 100 less four standard errors."""
    for each in stated:
        low, high = each["off_by_95"]
        last = math.inf if each["count_to"] is None else each["count_to"]
        for by in (true, counts):
            inside = (by >= each["count_from"]) & (by <= last)
            number = int(inside.sum())
            error = (counts - true)[inside]
            held = int(((error >= low) & (error <= high)).sum())
            assert held >= 0.95 * number - 4 * math.sqrt(0.0475 * number), each


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
