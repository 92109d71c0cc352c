"""Datasets that are too large to be looked through before a job is queued (made small here)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from coordinator.jobs import submission
from tests.coordinator.jobs.office import BOX, KMEANS, Office, problem

BASKETS: dict[str, Any] = {
    "kind": "transactions",
    "format": "text",
    "columns": None,
    "rows": [["a", "b"], ["b"], ["a", "elsewhere"]],
}
FEW = {"epsilon": "1", "universe": ["a", "b"]}


@pytest.fixture(autouse=True)
def everything_is_large() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(submission, "CHECKED_BYTES", 0)
        yield


@pytest.mark.parametrize(
    ("algorithm", "changes", "pointer"),
    [
        ("kmeans", {"params": {**KMEANS, "bounds": [[0, 10]]}}, "/params/bounds"),
        ("kmeans", {"params": {"k": 200}, "stance": "paper"}, "/params/k"),
        ("dpbv-clustering", {"params": {"k": 201, "bounds": BOX}, "stance": "paper"}, "/params/k"),
    ],
)
def test_what_sizes_show_is_refused_before_a_job_is_queued(
    it: Office, algorithm: str, changes: dict[str, Any], pointer: str
) -> None:
    dataset = it.rows()
    answer = it.ask("POST", "/v1/jobs", it.job(dataset, algorithm, **changes))
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
    assert it.ask("GET", f"/v1/jobs?dataset={dataset}").json() == {"jobs": []}
    assert it.kinds(dataset) == ["declared"]


def test_what_rows_show_fails_in_the_worker_and_costs_nothing(it: Office) -> None:
    dataset = it.rows(**BASKETS)
    job = it.submit(dataset, "set-valued", params=FEW)
    failed = it.until(job)
    assert failed["state"] == "failed"
    assert failed["budget"]["noise_drawn"] is False
    assert it.kinds(dataset) == ["declared", "reserved", "credited"]
    assert it.ledger(dataset)["left"]["epsilon"] == "100"
    assert problem(it.ask("GET", f"/v1/jobs/{job}/result"))[0] == 409
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(submission, "CHECKED_BYTES", 1 << 20)
        said = it.ask("POST", "/v1/jobs", it.job(dataset, "set-valued", params=FEW)).json()
    kept = {name: failed["error"].get(name) for name in ("type", "detail", "status")}
    assert kept == {name: said[name] for name in kept}
    assert failed["error"].get("errors") == said.get("errors")


def test_what_fits_runs(it: Office) -> None:
    dataset = it.rows()
    it.succeeded(it.submit(dataset))
    assert it.kinds(dataset) == ["declared", "reserved", "charged"]
