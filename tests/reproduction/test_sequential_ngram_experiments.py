"""The reproductions of Chen's section 6.4 on few sequences, and their data."""

from __future__ import annotations

import pytest

from reproduction import sequential_ngram, sequential_ngram_mining
from reproduction.experiment import Effort, Run
from reproduction.sequential_ngram_data import clicks_like, stm_like
from reproduction.sequential_ngram_study import Study
from tests.simulation.runs import ran

SMALL = Effort("small", 100)


@pytest.mark.parametrize("name", ["chen-fig-6.7", "chen-fig-6.12", "chen-table-6.10"])
def test_an_experiment_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On few sequences; its figures are of all of them."""

    def small(which: str, _run: Run, *, whole: bool = False) -> Study:
        return Study(clicks_like(3000) if which == "MSNBC" else stm_like(3000), 30)

    monkeypatch.setattr(sequential_ngram, "study_of", small)
    monkeypatch.setattr(sequential_ngram_mining, "study_of", small)
    outcome = ran(name, SMALL)
    assert {row.basis for row in outcome.rows} <= {"trend", "quoted"}
