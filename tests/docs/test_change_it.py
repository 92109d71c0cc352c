"""The algorithm that the page on the architecture adds is one: it runs on its own sample."""

from __future__ import annotations

import io
import shutil
import sys
from importlib import import_module
from pathlib import Path

import pytest

import algorithms
import simulation.samples  # noqa: F401
from algorithms import catalogue
from algorithms.contract import Algorithm, SequentialContext
from algorithms.datasets.declaration import DatasetDeclaration
from algorithms.datasets.kinds import read

FOLDER = Path(__file__).parents[2] / "examples" / "column_total"


def test_the_algorithm_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(FOLDER, tmp_path / FOLDER.name)
    monkeypatch.setattr(algorithms, "__path__", [*algorithms.__path__, str(tmp_path)])
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    found: Algorithm = import_module("algorithms.column_total").ALGORITHM
    monkeypatch.setattr(catalogue, "NAMES", (*catalogue.NAMES, found.name))
    del sys.modules["simulation.samples"]
    written = import_module("simulation.samples")  # what `tacit dataset sample` writes
    (sample,) = written.SAMPLES[found.name]()
    job = written.JOBS[found.name]
    declaration = DatasetDeclaration(kind=found.dataset_kind, format=sample.format)
    dataset = read(declaration, io.BytesIO(sample.content))
    params = found.params.model_validate(job.params)
    outcome = found.run(dataset, params, "sound", SequentialContext())
    # 297 kWh and noise of scale 10: beyond 400 with a chance below 1e-17.
    assert abs(outcome.result["total"] - 297) < 400
    assert [line.epsilon for line in outcome.report.verified] == ["1", "2"]
