"""Jobs on real workers: their ends, their noise, what they charge, and workers that are lost."""

from __future__ import annotations

import io
import json
import os
import signal
import sqlite3
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from algorithms import catalogue
from common.web.dependencies import part_of
from coordinator import examples
from coordinator.jobs import submission
from coordinator.jobs.workers.own_workers import OwnWorkers
from coordinator.services import Jobs
from tacit.report.model import PrivacyReport
from tests.coordinator.double import problem
from tests.coordinator.jobs.office import (
    BOX,
    KMEANS,
    LONG,
    Office,
    blobs,
    expected,
    monotone,
    scattered,
)

SERIES: dict[str, Any] = {
    "kind": "user-series",
    "columns": ["user", "round", "x1"],
    "rows": [[user, number, user / 10] for user in range(10) for number in (1, 2)],
}
HEART: dict[str, Any] = {
    "sensor": {"name": "heart", "coordinates": [{"name": "rate", "lower": 0, "upper": 1}]},
    "n": 10,
    "epsilon": "2",
    "T": 2,
}
BASKETS: dict[str, Any] = {
    "kind": "transactions",
    "format": "text",
    "columns": None,
    "rows": [["a", "b"], ["b"], ["a", "c"], ["d"]],
}
CLICKS: dict[str, Any] = {**BASKETS, "kind": "sequences", "rows": [["a", "b", "a"], [], ["c"]]}
LINKS: dict[str, Any] = {
    **BASKETS,
    "kind": "edge-list",
    "format": "snap",
    "rows": [[1, 6], [1, 7], [2, 6], [3, 7], [4, 5]],
}
SAMPLES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "kmeans": ({}, KMEANS),
    "dpbv-clustering": ({}, {"k": 2, "bounds": BOX}),
    "crowd-tasking": (SERIES, HEART),
    "set-valued": (BASKETS, {"epsilon": "1", "universe": ["a", "b", "c", "d"]}),
    "sequential-prefix-tree": (
        {**CLICKS, "rows": [["a"], ["b", "c"]]},
        {"epsilon": "1", "universe": ["a", "b", "c"], "height": 2},
    ),
    "sequential-ngram": (
        CLICKS,
        {"epsilon": "1", "universe": ["a", "b", "c"], "l_max": 3, "n_max": 2},
    ),
    "graph-der": (LINKS, {"epsilon": "1"}),
    "graph-random-matrix": (
        # Other rows: the same ones have the same ledger, and it is spent.
        {
            **LINKS,
            "rows": [*LINKS["rows"], [2, 7]],
            "budget": {"epsilon": "1", "delta": "0.000001"},
        },
        {"k": 1, "m": 4, "mode": "spectral", "estimator": "range"},
    ),
    "path-publishing": (
        {
            "kind": "network-path",
            "format": "json",
            "columns": None,
            "rows": {
                "vertices": [1, 2, 3, 4],
                "edges": [[1, 2], [2, 3], [3, 4], [1, 4]],
                "path": [1, 2, 3, 4],
            },
        },
        {"epsilon_dir": "1"},
    ),
}


WALKS: dict[str, Any] = {
    "kind": "trajectories",
    "format": "ndjson",
    "columns": None,
    "rows": [
        {"path": [["a", 1], ["d", 2], [place, 3]], "sensitive": {"disease": disease}}
        for place, disease in [("b", "HIV"), ("c", "Flu"), ("b", "Fever"), ("c", "HIV")]
    ],
}
PATIENTS: dict[str, Any] = {
    "kind": "table",
    "columns": ["age", "disease"],
    "rows": [[30, "Flu"], [30, "HIV"], [40, "Flu"], [40, "Flu"]],
}
UNCHARGED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "trajectory-kcl": (
        WALKS,
        {"K": 2, "C": "1/2", "L": 2, "sensitive_values": [["disease", "HIV"]]},
    ),
    "privacy-check": (
        {**PATIENTS, "budget": None},
        {"qid": ["age"], "sensitive": ["disease"], "models": [{"model": "k-anonymity"}]},
    ),
}
"""What is not differentially private: outside a budget, or for the custodian's eyes alone."""


QUICK = ("kmeans", "graph-random-matrix", "set-valued")
"""Of results with pictures, of a charge with a delta, of files alone."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in sorted(SAMPLES)],
)
def test_from_asking_to_the_archive(it: Office, name: str) -> None:
    """Acceptance 1 and 8, for each algorithm."""
    changes, params = SAMPLES[name]
    dataset = it.rows(**changes)
    job = it.submit(dataset, name, params=params)
    events = it.events(job)
    assert events[-1]["state"] == "succeeded", events[-1]
    assert monotone(events), events
    result = it.succeeded(job)
    assert result["format"] == "tacit.job-result/1"
    assert (result["job"], result["dataset"], result["algorithm"]) == (job, dataset, name)
    report = PrivacyReport.model_validate_json(it.ask("GET", f"/v1/jobs/{job}/report").content)
    assert (report.subject.id, report.subject.dataset) == (job, dataset)
    assert report.charged is not None
    lines = {
        (line.epsilon, line.delta)
        for line in report.verified
        if line.privacy_unit == report.charged.privacy_unit
    }
    assert (report.charged.epsilon, report.charged.delta) in lines
    charged = it.ledger(dataset)["charged"]
    assert Fraction(charged["epsilon"]) == Fraction(report.charged.epsilon or "")
    assert it.kinds(dataset)[:3] == ["declared", "reserved", "charged"]
    words = it.ask("GET", f"/v1/jobs/{job}/report", headers={"Accept": "text/plain"}).text
    assert f"Privacy report: Job {job}" in words
    for file in result["files"]:
        answer = it.ask("GET", f"/v1/jobs/{job}/files/{file['name']}")
        assert (len(answer.content), answer.headers["content-type"].partition(";")[0]) == (
            file["bytes"],
            file["media_type"],
        )
    stored = it.settings.data_dir / "jobs" / job / "plots"
    assert {path.name for path in stored.iterdir()} == {f"{name}.json" for name in result["plots"]}
    for plot in result["plots"]:
        assert it.ask("GET", f"/v1/jobs/{job}/plots/{plot}.png").content.startswith(b"\x89PNG")
        assert b"<svg" in it.ask("GET", f"/v1/jobs/{job}/plots/{plot}").content
    assert it.ledger(dataset)["charged"] == charged
    archive = it.ask("GET", f"/v1/jobs/{job}/archive").content
    assert archive == it.ask("GET", f"/v1/jobs/{job}/archive").content
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        assert json.loads(opened.read("result.json")) == result
        assert not [item for item in opened.namelist() if item.startswith("private")]
    assert problem(it.ask("GET", f"/v1/jobs/{job}/evaluation")) == (404, "unknown_part")
    assert problem(it.ask("GET", f"/v1/jobs/{job}/files/..%2Fresult.json"))[0] == 404
    assert problem(it.ask("DELETE", f"/v1/jobs/{job}")) == (409, "job_over")


def test_every_algorithm_has_a_sample() -> None:
    assert {*SAMPLES, *UNCHARGED} == set(catalogue.NAMES)


def test_a_syntactic_model_is_a_release_outside_the_budget(it: Office) -> None:
    changes, params = UNCHARGED["trajectory-kcl"]
    dataset = it.rows(**changes)
    job = it.submit(dataset, "trajectory-kcl", params=params)
    assert it.succeeded(job)["files"]
    assert it.kinds(dataset) == ["declared", "released_outside_budget"]
    report = it.ask("GET", f"/v1/jobs/{job}/report").json()
    assert report["charged"]["outside_budget"] is True
    assert {line["model"] for line in report["verified"]} == {"syntactic"}


def test_a_check_of_a_table_is_for_its_custodian_alone(it: Office) -> None:
    changes, params = UNCHARGED["privacy-check"]
    dataset = it.rows(**changes)
    result = it.succeeded(job := it.submit(dataset, "privacy-check", params=params))
    assert (result["files"], result["plots"]) == ([], [])
    assert it.kinds(dataset) == []
    assert it.ask("GET", f"/v1/jobs/{job}/evaluation").json()["evaluation"]["rows"] == 4


def test_a_public_list_may_be_a_dataset_of_its_own(it: Office) -> None:
    made = {"kind": "universe", "format": "text", "columns": None, "rows": ["a", "b", "c", "d"]}
    universe = it.rows(None, **made)
    dataset = it.rows(**BASKETS)
    named = {"epsilon": "1", "universe": {"dataset": universe}}
    result = it.succeeded(it.submit(dataset, "set-valued", params=named))
    assert result["params"]["universe"] == {"dataset": universe}
    wrong = it.job(dataset, "set-valued", params={"epsilon": "1", "universe": {"dataset": dataset}})
    answer = it.ask("POST", "/v1/jobs", wrong)
    assert problem(answer) == (422, "wrong_kind")
    assert answer.json()["errors"][0]["pointer"] == "/params/universe/dataset"


def test_a_dataset_that_declares_its_items_need_not_be_told_them_again(it: Office) -> None:
    made = {"kind": "universe", "format": "text", "columns": None, "rows": ["a", "b", "c", "d"]}
    stored = it.rows(None, **made)
    for universe in (["a", "b", "c", "d"], {"dataset": stored}):
        dataset = it.rows(**BASKETS, universe=universe)
        result = it.succeeded(it.submit(dataset, "set-valued", params={"epsilon": "1"}))
        assert result["params"]["universe"] == universe
        paper = it.job(dataset, "set-valued", params={"epsilon": "1"}, stance="paper")
        preview = it.ask("POST", "/v1/jobs/preview", paper).json()["preview"]
        assert "universe" in str(preview["voided_by"])


def test_the_noise_is_that_of_the_stored_seed_which_goes_with_its_job(
    it: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = bytes(range(32))
    dataset = it.rows(rows=blobs(200, 77))
    monkeypatch.setattr(submission, "os", SimpleNamespace(urandom=lambda _: seed))
    job = it.submit(dataset)
    monkeypatch.undo()
    assert it.succeeded(job)["summary"] == expected(seed, "kmeans", KMEANS, blobs(200, 77))
    with closing(sqlite3.connect(it.settings.data_dir / "coordinator.db")) as database:
        (secret,) = database.execute("SELECT secret FROM job WHERE id = ?", (job,)).fetchone()
    assert secret is None


# ---------------------------------------------------------------------------- outside the budget


def test_a_paper_job_is_a_release_outside_the_budget(it: Office) -> None:
    dataset = it.rows()
    job = it.submit(dataset, stance="paper", params={"k": 2, "epsilon": "1"})
    it.succeeded(job)
    assert it.kinds(dataset) == ["declared", "released_outside_budget"]
    assert it.ledger(dataset)["lifetime"]["epsilon"] == "inf"
    shown = it.shown(job)["budget"]
    assert (shown["reserved"], shown["charged"], shown["outside_budget"]) == (None, None, True)
    report = it.ask("GET", f"/v1/jobs/{job}/report").json()
    assert report["charged"]["outside_budget"] is True
    assert report["charged"]["epsilon"] is None
    later = it.submit(dataset)
    it.succeeded(later)
    caveats = it.ask("GET", f"/v1/jobs/{later}/report").json()["caveats"]
    assert any(job in caveat for caveat in caveats)


def test_a_seed_repeats_and_says_so(it: Office) -> None:
    dataset = it.rows(None)
    jobs = [
        it.submit(dataset, stance="paper", params={"k": 2, "epsilon": "1"}, seed=11)
        for _ in range(2)
    ]
    first, second = (it.succeeded(job)["summary"] for job in jobs)
    assert first == second
    report = it.ask("GET", f"/v1/jobs/{jobs[0]}/report").json()
    assert report["reproducible"] is True
    assert [line["model"] for line in report["verified"]] == ["none"]


# ------------------------------------------------------------------------------------------ ends


def test_a_cancelled_job_ends_and_keeps_what_it_was_charged(it: Office) -> None:
    """One in the middle of a long call, whose worker's process is ended, and one behind it, which
    gives back.

    Spec: jobs, "Acceptance", check 5.
    """
    dataset, other = it.rows(rows=scattered(2500, 5)), it.rows()
    job = it.submit(dataset, "dpbv-clustering", params=LONG)
    queued = it.submit(other)
    it.drawn(job)
    for _ in range(2):
        assert it.ask("DELETE", f"/v1/jobs/{queued}").status_code == 202
    assert it.shown(queued)["state"] == "cancelled"
    assert it.kinds(other) == ["declared", "reserved", "credited"]
    assert it.ledger(other)["left"]["epsilon"] == "100"
    assert problem(it.ask("GET", f"/v1/jobs/{queued}/result")) == (409, "job_not_finished")
    answer = it.ask("GET", f"/v1/jobs/{queued}", token=it.token("analyst"))
    assert problem(answer) == (404, "unknown_job")
    assert it.ask("DELETE", f"/v1/jobs/{job}").status_code == 202
    assert it.until(job)["state"] == "cancelled"
    assert it.kinds(dataset) == ["declared", "reserved", "charged"]
    it.succeeded(it.submit(other))  # the worker is there again


def worker_of(it: Office, job: str) -> int:
    """The process of the worker that has a job; others may still be ending an earlier one."""
    with closing(sqlite3.connect(it.settings.data_dir / "coordinator.db")) as database:
        query = "SELECT holder FROM job_attempt WHERE job_id = ? AND state = 'held'"
        (holder,) = database.execute(query, (job,)).fetchone()
    return int(holder.rpartition("/")[2])


@pytest.mark.slow
def test_a_lost_worker_costs_an_attempt_and_nothing_else(it: Office) -> None:
    """Acceptance 4: kill -9 after noise was drawn; the next attempt draws the same."""
    dataset = it.rows(rows=scattered(1000, 6))
    job = it.submit(dataset, "dpbv-clustering", params=LONG)
    with ThreadPoolExecutor(1) as executor:
        following = executor.submit(it.events, job)
        killed = it.drawn(job)["attempt"]
        os.kill(worker_of(it, job), signal.SIGKILL)
        found = it.until(job)
        events = following.result()
    assert (found["state"], found["attempt"]) == ("succeeded", killed + 1)
    assert it.kinds(dataset) == ["declared", "reserved", "charged"]
    assert {killed, killed + 1} <= {event["attempt"] for event in events}
    assert monotone(events), events
    first = next(event for event in events if event["attempt"] == killed + 1)
    assert (first["state"], first["progress"]) == ("running", 0)


@pytest.mark.slow
def test_an_idle_worker_that_ended_is_replaced(it: Office) -> None:
    it.succeeded(it.submit(it.rows()))
    workers = part_of(it.app, Jobs).dispatcher._cluster
    assert isinstance(workers, OwnWorkers)
    while workers._running:  # the result is there a moment before its worker is free
        time.sleep(0.01)
    ended = {worker.pid for worker in workers._free}
    for pid in ended:
        os.kill(pid, signal.SIGKILL)
    it.succeeded(it.submit(it.rows()))
    assert ended and not ended & {worker.pid for worker in workers._free}


@pytest.mark.slow
def test_a_late_heartbeat_of_a_live_worker_loses_nothing(
    it: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker is stopped for several leases, as on a machine with other work to do."""
    jobs = part_of(it.app, Jobs)
    short = it.settings.model_copy(update={"job_lease_s": 0.6})
    for item in (jobs.attempts, jobs.dispatcher):
        name = "settings" if item is jobs.attempts else "_settings"
        monkeypatch.setitem(vars(item), name, short)
    job = it.submit(it.rows(rows=scattered(1000, 9)), "dpbv-clustering", params=LONG)
    stopped = it.drawn(job)["attempt"]
    worker = worker_of(it, job)
    os.kill(worker, signal.SIGSTOP)
    try:
        time.sleep(4 * short.job_lease_s)
        assert it.shown(job)["state"] == "running"
    finally:
        os.kill(worker, signal.SIGCONT)
    found = it.until(job)
    assert (found["state"], found["attempt"]) == ("succeeded", stopped)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "value", "name"),
    [
        ("job_wall_s", 0.4, "job_time_exceeded"),
        # below zero: a worker that gives back what earlier jobs held need not grow by one byte
        ("job_memory_bytes", -(100 << 20), "job_memory_exceeded"),
    ],
)
def test_a_job_beyond_its_limits_fails_with_the_reason(
    it: Office, limit: str, value: float, name: str
) -> None:
    attempts = part_of(it.app, Jobs).attempts
    changed = attempts.settings.model_copy(update={limit: value})
    object.__setattr__(attempts, "settings", changed)
    try:
        job = it.submit(it.rows(rows=scattered(20_000, 8)), "dpbv-clustering", params=LONG)
        found = it.until(job)
    finally:
        object.__setattr__(attempts, "settings", it.settings)
    assert found["state"] == "failed"
    assert found["error"]["type"] == f"urn:tacit:problem:{name}"
    assert found["attempt"] == 1
    it.succeeded(it.submit(it.rows()))


@pytest.mark.slow
def test_many_at_once(it: Office) -> None:
    """Acceptance 6, with a few: more than there are workers."""
    dataset = it.rows()
    jobs = [it.submit(dataset) for _ in range(4)]
    assert {it.until(job)["state"] for job in jobs} == {"succeeded"}
    assert not it.ask("GET", f"/v1/jobs?dataset={dataset}&state=queued&state=running").json()[
        "jobs"
    ]
    assert it.ledger(dataset)["charged"]["epsilon"] == "4"


def test_the_examples_of_the_api_document_have_the_fields_of_a_job(it: Office) -> None:
    job = it.submit(it.rows())
    it.succeeded(job)
    shown = it.shown(job)
    assert set(examples.JOB_DOCUMENT) == set(shown)
    assert set(examples.JOB_DOCUMENT["budget"]) == set(shown["budget"])
    assert examples.JOB_EVENT.startswith("event: job\ndata: {")
    paths = it.http.get("/openapi.json").json()["paths"]
    events = paths["/v1/jobs/{job_id}/events"]["get"]["responses"]["200"]
    assert "attempt" in events["description"]
    assert events["content"]["text/event-stream"]["example"] == examples.JOB_EVENT
