"""The reproductions of the DPBV paper come out, quick; in full where there is time."""

from __future__ import annotations

import numpy as np
import pytest

from simulation.experiments.dpbv_clustering_tables import digits, shapes
from simulation.experiments.experiment import FULL, QUICK, Run
from simulation.experiments.registry import experiment, experiments
from tests.simulation.runs import wrong_rows

IDS = (
    *("dpbv-fig-3", "dpbv-fig-5", "dpbv-fig-6", "dpbv-fig-7"),
    *("dpbv-fig-8", "dpbv-fig-9", "dpbv-fig-10", "dpbv-fig-11", "dpbv-table-3"),
)
LONG = "dpbv-table-3"


def test_every_id_is_there() -> None:
    known = {each.id for each in experiments() if each.id.startswith("dpbv-")}
    assert known == set(IDS)


@pytest.mark.parametrize("name", [each for each in IDS if each != LONG])
@pytest.mark.slow
def test_an_experiment_comes_out(name: str) -> None:
    told: list[float] = []
    outcome = experiment(name).run(Run(QUICK, None, progress=told.append))
    assert wrong_rows(outcome) == []
    assert any(row.expected is not None for row in outcome.rows)
    assert told == sorted(told)
    assert all(0 < share <= 1 for share in told)


@pytest.mark.slow
def test_the_long_experiment_comes_out() -> None:
    test_an_experiment_comes_out(LONG)


@pytest.mark.slow
@pytest.mark.parametrize("name", IDS)
def test_an_experiment_comes_out_in_full(name: str) -> None:
    assert wrong_rows(experiment(name).run(Run(FULL))) == []


def test_the_digits_are_those_of_the_source() -> None:
    values, labels = digits()
    assert values.shape == (1797, 64)
    assert (values.min(), values.max()) == (0, 16)
    assert len(np.unique(labels)) == 10


def test_the_stand_ins_have_the_stated_sizes() -> None:
    groups, path, moons = shapes(Run(QUICK))
    assert np.bincount(groups.labels).tolist() == [170, 34, 273, 102, 130, 45, 34]
    assert np.bincount(path.labels).tolist() == [110, 97, 93]
    assert np.bincount(moons.labels).tolist() == [200, 200]
    for each in (groups, path, moons):
        assert each.values.min() == 0
        assert each.values.max() == 50
