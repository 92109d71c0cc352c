"""The reproductions of Chen's chapter 4: they come out, and they can fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simulation.experiments import set_valued, set_valued_mining
from simulation.experiments.experiment import QUICK, Effort, Run
from simulation.experiments.registry import experiment
from simulation.populations import shared_data
from simulation.set_valued_data import msnbc_like
from simulation.set_valued_study import Study
from tests.simulation.runs import ran, wrong_rows

IDS = tuple(f"chen-fig-4.{number}" for number in range(3, 9))
SMALL = Effort("small", 100)


def small(_effort: Effort, **_: Any) -> Study:
    return Study(msnbc_like(20_000), 50)


@pytest.mark.parametrize("name", IDS)
def test_an_experiment_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On few records; its figures are of all of them."""
    monkeypatch.setattr(set_valued, "msnbc_study", small)
    monkeypatch.setattr(set_valued, "stm_study", small)
    monkeypatch.setattr(set_valued_mining, "msnbc_study", small)
    monkeypatch.setattr(set_valued_mining, "stm_study", small)
    ran(name, SMALL)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["chen-fig-4.6", "chen-fig-4.7"])
def test_an_experiment_comes_out(name: str) -> None:
    """Like the next test, at the full size of the MSNBC-like set."""
    assert wrong_rows(experiment(name).run(Run(QUICK, None))) == []


@pytest.mark.slow
def test_an_experiment_comes_out_on_real_data() -> None:
    folder = shared_data()
    if folder is None or not (folder / "msnbc990928.seq.gz").exists():
        pytest.skip("the shared data are not beside this clone")
    outcome = experiment("chen-fig-4.3").run(Run(QUICK, folder))
    assert wrong_rows(outcome) == []
    assert any("the file" in row.name for row in outcome.rows)


def test_an_error_that_does_not_fall_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def constant(*_args: Any, **_named: Any) -> tuple[np.ndarray, np.ndarray]:
        return np.full((2, 5), 0.1), np.full((2, 5), 0.1)

    monkeypatch.setattr(set_valued, "msnbc_study", small)
    monkeypatch.setattr(set_valued, "stm_study", small)
    monkeypatch.setattr(set_valued, "errors_of", constant)
    missed = wrong_rows(set_valued.figure_4_3(Run(SMALL)))
    assert "Basic has a larger error everywhere" in missed
    missed = wrong_rows(set_valued.figure_4_6(Run(SMALL)))
    assert any("below that of a tenth" in name for name in missed)


def test_supports_that_are_lost_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(set_valued_mining, "msnbc_study", small)
    monkeypatch.setattr(set_valued_mining, "stm_study", small)
    monkeypatch.setattr(Study, "release", lambda *_args, **_named: (((0,), 1),))
    missed = wrong_rows(set_valued_mining.figure_4_7(Run(SMALL)))
    assert "MSNBC-like: losses are below 30%" in missed
