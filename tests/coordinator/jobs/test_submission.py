"""What is refused before anything is queued, what a job costs, and who sees what of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from coordinator.jobs import submission
from tacit.report.model import PrivacyReport
from tests.coordinator.double import problem
from tests.coordinator.jobs.office import BOX, KMEANS, Office


def refused(it: Office, body: dict[str, Any]) -> tuple[int, str, list[str]]:
    before = len(it.ask("GET", "/v1/jobs?limit=1000").json()["jobs"])
    for path in ("/v1/jobs/preview", "/v1/jobs"):
        answer = it.ask("POST", path, body)
        assert answer.status_code in (404, 409, 413, 422), (path, answer.text)
    assert len(it.ask("GET", "/v1/jobs?limit=1000").json()["jobs"]) == before
    return (*problem(answer), [error["pointer"] for error in answer.json()["errors"]])


SERIES = {"kind": "user-series", "columns": ["user", "round", "x1"], "rows": [[1, 1, 0.5]]}
MANY = {"k": 300, "bounds": [[0, 10], [0, 10]]}
BAD: list[tuple[dict[str, Any], int, str, str]] = [
    ({"params": {**KMEANS, "k": 0}}, 422, "bad_parameter", "/params/k"),
    ({"params": {**KMEANS, "epsilon": 1}}, 422, "bad_parameter", "/params/epsilon"),
    ({"params": {**KMEANS, "bounds": [[0, 10]]}}, 422, "data_shape", "/params/bounds"),
    ({"params": {**KMEANS, "bounds": None}}, 422, "bounds_missing", "/params/bounds"),
    ({"params": {**KMEANS, "privacy_unit": "curator"}}, 422, "unit_not_protected", "/dataset"),
    ({"algorithm": "alchemy"}, 422, "unknown_algorithm", "/algorithm"),
    ({"dataset": "01928374-5566-7788-99aa-bbccddeeff00"}, 404, "unknown_dataset", ""),
    ({"seed": 7}, 422, "seed_not_allowed", "/seed"),
    ({"dataset": None, "federation": {}}, 422, "bad_parameter", "/federation/collect"),
    ({"stance": "loud"}, 422, "bad_parameter", "/stance"),
    ({"algorithm": "dpbv-clustering", "params": MANY}, 422, "bad_parameter", "/params/k"),
]


def test_what_is_wrong_is_said_at_once_and_leaves_no_job(it: Office) -> None:
    dataset, series = it.rows(), it.rows(**SERIES)
    for changes, status, name, pointer in BAD:
        found = refused(it, {**it.job(dataset), **changes})
        assert found[:2] == (status, name), changes
        assert found[2][:1] == ([pointer] if pointer else [])
    assert it.kinds(dataset) == ["declared"]
    assert refused(it, it.job(series)) == (422, "wrong_kind", ["/dataset"])


def test_the_budget_is_the_limit(it: Office) -> None:
    assert problem(it.ask("POST", "/v1/jobs", it.job(it.rows(None)))) == (409, "budget_missing")
    small = it.rows("1.5")
    it.succeeded(it.submit(small))
    answer = it.ask("POST", "/v1/jobs", it.job(small))
    assert problem(answer) == (409, "budget_exceeded")
    shown = answer.json()
    assert (shown["budget"]["epsilon"], shown["held"]["epsilon"]) == ("1.5", "1")
    assert shown["asked"]["epsilon"] == "1"


def test_the_ledger_says_that_it_rounds_a_third_up(it: Office) -> None:
    dataset = it.rows("1")
    asked = it.job(dataset)
    asked["params"] = {**asked["params"], "epsilon": "1/3"}
    for _ in range(2):
        made = it.ask("POST", "/v1/jobs", asked).json()
        assert made["preview"]["charged"]["epsilon"] == "0.333334"
        assert any("counts as 0.333334" in each for each in made["preview"]["caveats"])
    answer = it.ask("POST", "/v1/jobs", asked)
    assert problem(answer) == (409, "budget_exceeded")
    assert answer.json()["asked"]["epsilon"] == "0.333334"
    assert "each charge rounded up" in answer.json()["detail"]


def test_of_two_at_one_instant_one_is_accepted(it: Office) -> None:
    dataset = it.rows("1")
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: it.ask("POST", "/v1/jobs", it.job(dataset)), range(4)))
    assert sorted(answer.status_code for answer in answers) == [202, 409, 409, 409]


def test_the_preview_spends_nothing_and_says_what_the_job_says(it: Office) -> None:
    dataset = it.rows()
    preview = it.ask("POST", "/v1/jobs/preview", it.job(dataset)).json()
    assert preview["charge"]["reserved"] == {"epsilon": "1", "delta": "0"}
    assert preview["params"]["strategy"] == "posterior"  # a default, filled in
    told = it.ask("POST", "/v1/jobs", it.job(dataset)).json()
    for report in (preview["preview"], told["preview"]):
        PrivacyReport.model_validate_json(json.dumps(report))
        assert report["subject"]["dataset"] == dataset
        assert report["charged"]["epsilon"] == "1"
    assert told["budget"]["reserved"] == {"epsilon": "1", "delta": "0"}


def test_a_key_makes_one_job(it: Office) -> None:
    dataset, headers = it.rows(), {"Idempotency-Key": "once"}
    first = it.ask("POST", "/v1/jobs", it.job(dataset), headers=headers)
    again = it.ask("POST", "/v1/jobs", it.job(dataset), headers=headers)
    assert (again.status_code, again.content) == (202, first.content)
    other = it.ask("POST", "/v1/jobs", it.job(dataset, stance="paper"), headers=headers)
    assert problem(other) == (422, "idempotency_key_reused")
    assert it.kinds(dataset).count("reserved") == 1


def test_lists_have_filters_and_pages(it: Office) -> None:
    dataset = it.rows()
    jobs = [it.submit(dataset) for _ in range(2)]
    for job in jobs:
        it.succeeded(job)
    listed = it.ask("GET", f"/v1/jobs?dataset={dataset}&state=succeeded&algorithm=kmeans").json()
    assert [item["id"] for item in listed["jobs"]] == jobs[::-1]
    assert it.ask("GET", f"/v1/jobs?dataset={dataset}&state=failed").json() == {"jobs": []}
    first = it.ask("GET", f"/v1/jobs?dataset={dataset}&limit=1")
    second = it.ask("GET", first.links["next"]["url"])
    assert [item["id"] for item in (*first.json()["jobs"], *second.json()["jobs"])] == jobs[::-1]


def test_an_analyst_sees_what_is_published(it: Office) -> None:
    dataset, analyst = it.rows(), it.token("analyst")
    job = it.submit(dataset, params={**KMEANS, "evaluate": True})
    it.succeeded(job)
    shown = it.ask("GET", f"/v1/jobs/{job}", token=analyst).json()
    assert set(shown) == {"id", "algorithm", "version", "dataset", "stance", "state"}
    for part in ("result", "report", "archive", "files/centres.csv"):
        assert it.ask("GET", f"/v1/jobs/{job}/{part}", token=analyst).status_code == 200, part
    for part in ("evaluation", "events"):
        answer = it.ask("GET", f"/v1/jobs/{job}/{part}", token=analyst)
        assert problem(answer) == (403, "scope_missing")
    assert it.ask("GET", f"/v1/jobs/{job}/evaluation").json()["private"] is True
    refused = it.ask("POST", "/v1/jobs", it.job(dataset), token=analyst)
    assert problem(refused) == (403, "scope_missing")


def test_the_catalogue_tells_what_there_is(it: Office) -> None:
    listed = it.ask("GET", "/v1/algorithms").json()["algorithms"]
    one = it.ask("GET", "/v1/algorithms/kmeans").json()
    assert one in listed
    assert one["parameters"]["properties"]["k"]["maximum"] == 1024
    assert problem(it.ask("GET", "/v1/algorithms/alchemy")) == (404, "unknown_algorithm")


BASKETS: dict[str, Any] = {
    "kind": "transactions",
    "format": "text",
    "columns": None,
    "rows": [["a", "b"], ["b"], ["a", "elsewhere"]],
}
FEW = {"epsilon": "1", "universe": ["a", "b"]}


@pytest.fixture
def everything_is_large() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(submission, "CHECKED_BYTES", 0)
        yield


@pytest.mark.usefixtures("everything_is_large")
def test_what_sizes_show_is_refused_before_a_job_is_queued(it: Office) -> None:
    dataset = it.rows()
    many = {"params": {"k": 201, "bounds": BOX}, "stance": "paper"}
    for algorithm, changes, pointer in (
        ("kmeans", {"params": {**KMEANS, "bounds": [[0, 10]]}}, "/params/bounds"),
        ("dpbv-clustering", many, "/params/k"),
    ):
        answer = it.ask("POST", "/v1/jobs", it.job(dataset, algorithm, **changes))
        assert answer.status_code == 422
        assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
    assert it.ask("GET", f"/v1/jobs?dataset={dataset}").json() == {"jobs": []}
    assert it.kinds(dataset) == ["declared"]


@pytest.mark.usefixtures("everything_is_large")
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
