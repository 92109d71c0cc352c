"""Someone who may ask for jobs on a table looks for its number of rows by what is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from algorithms import catalogue
from algorithms.contract import SequentialContext
from algorithms.datasets.tables import NumericTable
from tests.coordinator.jobs.office import BOX, Office

ROWS = 7
METHODS = ("grid-core", "laplace-points", "dpbv-exact")


def accepted(it: Office, dataset: str, stance: str, k: int) -> bool:
    params = {"k": k, "bounds": BOX, "epsilon": "1"}
    asked = it.job(dataset, "dpbv-clustering", params=params, stance=stance)
    return it.ask("POST", "/v1/jobs/preview", asked).status_code == 200


def largest_accepted(it: Office, dataset: str, stance: str) -> int:
    """By bisection over 1 < k <= 256."""
    low, high = 1, 257
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if accepted(it, dataset, stance, middle) else (low, middle)
    return low


def test_any_k_is_answered_whatever_the_rows(it: Office) -> None:
    dataset = it.rows(rows=[[place, place] for place in range(ROWS)])
    assert largest_accepted(it, dataset, "sound") == 256
    assert accepted(it, dataset, "sound", 1)


def test_the_paper_stance_shows_what_refusals_tell(it: Office) -> None:
    """The control: where more clusters than rows are refused, bisection finds the rows."""
    dataset = it.rows(rows=[[place, place] for place in range(ROWS)])
    assert largest_accepted(it, dataset, "paper") == ROWS


def test_an_empty_table_is_answered_with_noise(it: Office) -> None:
    dataset = it.rows(rows=[], name="nobody")
    params = {"k": 50, "bounds": BOX, "epsilon": "1"}
    result = it.succeeded(it.submit(dataset, "dpbv-clustering", params=params))
    assert set(result["summary"]) >= {"centres", "masses", "kept_cells"}


CLUSTERERS: list[dict[str, Any]] = [
    {"clusterer": "kcluster", "k": 5},
    {"clusterer": "agglomerative", "k": 5},
    {"clusterer": "dbscan", "dbscan_radius": 3.0, "min_samples": 2},
]


def offered(method: str, clusterer: str) -> bool:
    if method == "laplace-points":
        return clusterer == "kcluster"
    return clusterer != "agglomerative" or method == "dpbv-exact"


ASKED = [
    {"method": method, **each}
    for method in METHODS
    for each in CLUSTERERS
    if offered(method, each["clusterer"])
]


@pytest.mark.parametrize("rows", [pytest.param(0, marks=pytest.mark.slow), 1])
@pytest.mark.parametrize("asked", ASKED, ids=lambda each: "-".join(map(str, each.values())))
def test_every_method_answers_for_few_rows(asked: dict[str, Any], rows: int) -> None:
    algorithm = catalogue.find("dpbv-clustering")
    asked = {"bounds": BOX, "epsilon": "8", "s": 64, "evaluate": True, **asked}
    params = algorithm.params.model_validate_json(json.dumps(asked))
    table = NumericTable(("a", "b"), np.linspace(1, 9, 2 * rows).reshape(rows, 2))
    algorithm.check(table, params, "sound")
    outcome = algorithm.run(table, params, "sound", SequentialContext(bytes(32)))
    json.dumps((outcome.result, outcome.evaluation), allow_nan=False)
