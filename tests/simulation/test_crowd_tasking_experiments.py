"""The book's chapter 12 comes out, and its rows can fail."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from simulation.experiments import crowd_tasking_classifiers as classifiers
from simulation.experiments import crowd_tasking_privacy as privacy
from simulation.experiments import crowd_tasking_utility as utility
from simulation.experiments.crowd_tasking_populations import (
    balance_scale,
    heart_rates,
    heart_series,
    two_activities,
    user_limits,
    waypoints,
)
from simulation.experiments.experiment import QUICK, Run
from simulation.experiments.registry import experiment
from tacit.randomness import SeededRandom
from tests.simulation.runs import wrong_rows

QUICK_IDS = (
    "book-fig-12.3",
    "book-fig-12.4",
    pytest.param("book-fig-12.6", marks=pytest.mark.slow),
    pytest.param("book-fig-12.7", marks=pytest.mark.slow),
    "book-fig-12.8",
    "book-fig-12.11",
    pytest.param("book-fig-12.12", marks=pytest.mark.slow),
    pytest.param("book-fig-12.13", marks=pytest.mark.slow),
)


def comes_out(name: str) -> None:
    told: list[float] = []
    outcome = experiment(name).run(Run(QUICK, None, progress=told.append))
    assert wrong_rows(outcome) == []
    assert outcome.plots
    assert outcome.data
    assert told == sorted(told)


@pytest.mark.parametrize("name", QUICK_IDS)
def test_a_figure_comes_out(name: str) -> None:
    comes_out(name)


@pytest.mark.slow
def test_the_table_of_risks_comes_out() -> None:
    comes_out("book-table-12.1")


# ------------------------------------------------------------------------------- they can fail


def louder(original: Any) -> Any:
    return lambda *arguments: 1.5 * original(*arguments)


def test_louder_noise_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(utility, "noise", louder(utility.noise))
    missed = wrong_rows(utility.figure_12_3(Run(QUICK)))
    assert "range 34.3: mean error at epsilon 5" in missed
    assert any(name.startswith("range 100: mean error at") for name in missed)


def test_another_law_of_shifts_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classifiers, "mean_shift", lambda *_: 40.0)
    monkeypatch.setattr(classifiers, "_REPETITIONS", 1)
    assert "balance: accuracy at d / d_avg = 0.75" in wrong_rows(
        classifiers.figure_12_7(Run(QUICK))
    )


def test_less_noise_is_noticed_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    original = privacy.uploaded

    def quieter(run: Run, truth: Any, epsilon: float, *rest: Any) -> Any:
        return original(run, truth, 2 * epsilon, *rest)

    monkeypatch.setattr(privacy, "uploaded", quieter)
    monkeypatch.setattr(privacy, "_EPSILONS", (1, 2, 5, 10, 20, 30))
    monkeypatch.setattr(privacy, "_WITH_PRIOR", {})
    monkeypatch.setattr(privacy, "FEWEST", 20)
    monkeypatch.setattr(privacy, "USERS", 20)
    monkeypatch.setattr(privacy, "_OTHERS", 40)
    missed = wrong_rows(privacy.table_12_1(Run(QUICK)))
    assert "raw reports: ANE times epsilon at 1" in missed
    assert "raw reports: ANE times epsilon at 2" in missed


def test_other_limits_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privacy, "user_limits", lambda _source: (Fraction(6),) * 20)
    missed = wrong_rows(privacy.figure_12_11(Run()))
    assert missed == [
        "share that joins at epsilon 20 (printed: 45 %)",
        "more than half above epsilon 15",
    ]


# --------------------------------------------------------------------------------- populations


def test_heart_rates() -> None:
    """sd 9.66 of 36 + 25.25 + 32, but for the clip; 400 users: 4 sd of the mean are 1.6."""
    found = heart_rates(400, 600, SeededRandom(1))
    assert found.min() >= 50
    assert found.max() <= 150
    assert found.mean() == pytest.approx(72, abs=1.6)
    assert found.std() == pytest.approx(9.6, abs=0.6)
    series = heart_series(20, 600, SeededRandom(1))
    assert series.values.shape == (12_000, 1)
    assert series.rounds.max() == 600


def test_waypoints_stay_in_the_square_and_move_steadily() -> None:
    found = waypoints(5, 300, SeededRandom(2))
    assert found.min() >= 0
    assert found.max() <= 100
    assert np.abs(np.diff(found, axis=1)).max() <= 100 / 20


def test_classes_of_the_balance() -> None:
    _, labels = balance_scale()
    assert np.bincount(labels).tolist() == [288, 49, 288]


def test_activities_and_limits() -> None:
    points, labels = two_activities(SeededRandom(3), 101)
    assert points.shape == (101, 3)
    assert np.bincount(labels).tolist() == [50, 51]
    limits = user_limits(SeededRandom(4))
    assert sum(limit > 20 for limit in limits) == 9
    assert sum(limit > 15 for limit in limits) == 12
    assert min(limits) > 5
