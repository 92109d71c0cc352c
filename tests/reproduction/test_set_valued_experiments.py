"""The reproductions of Chen's chapter 4 on few records; all of them: `test_reproductions`."""

from __future__ import annotations

from typing import Any

import pytest

from reproduction import set_valued, set_valued_mining
from reproduction.experiment import Effort
from reproduction.set_valued_study import Study
from simulation.stand_in_data import msnbc_like
from tests.simulation.runs import ran

SMALL = Effort("small", 100)


def small(_effort: Effort, **_: Any) -> Study:
    return Study(msnbc_like(20_000), 50)


@pytest.mark.parametrize("name", ["chen-fig-4.3", "chen-fig-4.7"])
def test_an_experiment_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On few records; its figures are of all of them."""
    monkeypatch.setattr(set_valued, "msnbc_study", small)
    monkeypatch.setattr(set_valued, "stm_study", small)
    monkeypatch.setattr(set_valued_mining, "msnbc_study", small)
    monkeypatch.setattr(set_valued_mining, "stm_study", small)
    ran(name, SMALL)
