"""The reproductions of trajectories and of partition models come out, quick; in full with time."""

from __future__ import annotations

import pytest

from simulation.experiments.experiment import FULL, QUICK, Run
from simulation.experiments.registry import experiment, experiments
from tests.simulation.runs import wrong_rows

SMALL = ("chen-table-2.1", "table-2.2", "chen-table-5.2")
FIGURES = ("chen-fig-5.2", "chen-fig-5.3", "chen-fig-5.4", "chen-fig-5.5")


def test_every_id_is_there() -> None:
    assert set(SMALL + FIGURES) <= {each.id for each in experiments()}


@pytest.mark.parametrize("name", SMALL)
def test_a_table_comes_out(name: str) -> None:
    outcome = experiment(name).run(Run(FULL))
    assert wrong_rows(outcome) == []
    assert sum(row.expected is not None for row in outcome.rows) > 10


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_comes_out(name: str) -> None:
    told: list[float] = []
    outcome = experiment(name).run(Run(QUICK, progress=told.append))
    assert wrong_rows(outcome) == []
    assert outcome.plots
    assert told == sorted(told)
    assert told[-1] == pytest.approx(1)
