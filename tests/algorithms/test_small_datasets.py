"""In the sound stance no refusal counts rows: an empty dataset and one of a row are answered with
noise, wherever the public parameters allow a run at all."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from algorithms import catalogue
from algorithms.contract import SequentialContext, own_sample
from algorithms.datasets.declaration import DatasetDeclaration
from algorithms.datasets.kinds import read, written
from tests.algorithms.outcomes import names_drawn

LETTERS = {"epsilon": "1", "universe": ["a", "b", "c", "d"]}
TABLE: tuple[str, str, Any, Any, Any] = ("numeric-table", "csv", ["a", "b"], [[1, 2]], None)
TEXT = ("text", None, [["a"]], None)
GRAPH = ("edge-list", "snap", None, [[1, 2]], tuple("123456789"))
HEART = {"name": "heart", "coordinates": [{"name": "rate", "lower": 0, "upper": 1}]}
CASES: dict[str, tuple[tuple[str, str, Any, Any, Any], dict[str, Any]]] = {
    "kmeans": (TABLE, {"k": 3, "bounds": [[0, 10], [0, 10]], "n_hint": 100}),
    "dpbv-clustering": (TABLE, {"k": 3, "bounds": [[0, 10], [0, 10]]}),
    "crowd-tasking": (
        ("user-series", "csv", ["user", "round", "x1"], [[1, 1, 0.5]], None),
        {"sensor": HEART, "n": 10, "epsilon": "2", "T": 2},
    ),
    "set-valued": (("transactions", *TEXT), LETTERS),
    "sequential-prefix-tree": (("sequences", *TEXT), {**LETTERS, "height": 2}),
    "sequential-ngram": (("sequences", *TEXT), {**LETTERS, "l_max": 3, "n_max": 2}),
    "graph-der": (GRAPH, {"epsilon": "1"}),
    "graph-random-matrix": (
        GRAPH,
        {"epsilon": "1", "k": 1, "m": 4, "mode": "spectral", "estimator": "range"},
    ),
}
NOT_BY_ROWS = {"trajectory-kcl", "privacy-check", "path-publishing"}
"""Syntactic, or one path that is there or not: no number of rows is protected."""


HERE = [name for name in catalogue.NAMES if name not in NOT_BY_ROWS]


def few_rows(name: str, rows: int) -> tuple[Any, dict[str, Any]]:
    """A dataset of so many rows, and parameters: of the cases above, or of the sample that the
    package of the algorithm has."""
    if name in CASES:
        (kind, form, columns, row, universe), asked = CASES[name]
        declaration = DatasetDeclaration(kind=kind, format=form, universe=universe)
        return read(declaration, io.BytesIO(written(form, columns, row[:rows]))), asked
    samples, job = own_sample(name)
    (sample,) = (each for each in samples() if each.file_name == job.file_name)
    lines = sample.content.splitlines(keepends=True)[: rows + (sample.format == "csv")]
    declaration = DatasetDeclaration(kind=sample.kind, format=sample.format)
    return read(declaration, io.BytesIO(b"".join(lines))), dict(job.params)


@pytest.mark.parametrize("rows", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", HERE)
def test_few_rows_are_answered(name: str, rows: int) -> None:
    dataset, asked = few_rows(name, rows)
    algorithm = catalogue.find(name)
    params = algorithm.params.model_validate_json(json.dumps(asked))
    algorithm.check(dataset, params, "sound")
    outcome = algorithm.run(dataset, params, "sound", SequentialContext(bytes(32)))
    json.dumps(outcome.result, allow_nan=False)
    names_drawn(name, outcome.plots)
