"""The book's chapter 12: some figures come out, and populations are as stated.

All ids, and a wrong variant of each: `test_reproductions`.
"""

from __future__ import annotations

import pytest

from simulation.experiments.crowd_tasking_populations import (
    heart_rates,
    heart_series,
)
from simulation.experiments.experiment import QUICK, Run
from simulation.experiments.registry import experiment
from tacit.randomness import SeededRandom
from tests.simulation.runs import wrong_rows


@pytest.mark.parametrize("name", ["book-fig-12.3", "book-fig-12.8", "book-fig-12.11"])
def test_a_figure_comes_out(name: str) -> None:
    assert wrong_rows(experiment(name).run(Run(QUICK))) == []


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
