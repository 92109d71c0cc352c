"""Results: nothing private in a published part; side by side with others, what differs."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from common.runtime.clock import ManualClock
from coordinator.jobs.results import remaining_s
from coordinator.models.job import JobState
from tests.coordinator.double import problem
from tests.coordinator.jobs.office import KMEANS, Office, job_row


@pytest.fixture(scope="module")
def pair(it: Office) -> tuple[str, str]:
    """Two jobs that succeeded, of another epsilon each, on different rows."""
    first = it.submit(it.rows(), params={**KMEANS, "epsilon": "1"})
    second = it.submit(it.rows(), params={**KMEANS, "epsilon": "2"})
    for each in (first, second):
        it.succeeded(each)
    return first, second


def compare(it: Office, *ids: str, **more: Any) -> dict[str, Any]:
    answer = it.ask("GET", f"/v1/jobs/compare?ids={','.join(ids)}", **more)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_keys_that_differ_are_marked(it: Office, pair: tuple[str, str]) -> None:
    found = compare(it, *pair)
    keys = {each["key"]: each for each in found["keys"]}
    assert found["jobs"] == list(pair)
    assert keys["params.epsilon"]["values"] == ["1", "2"]
    assert keys["params.epsilon"]["differs"] is True
    assert keys["params.k"] == {"key": "params.k", "values": [2, 2], "differs": False}
    for place, job in enumerate(pair):
        document = it.ask("GET", f"/v1/jobs/{job}/result").json()
        report = it.ask("GET", f"/v1/jobs/{job}/report").json()
        for name, value in document["params"].items():
            assert keys[f"params.{name}"]["values"][place] == value
        for line in report["verified"]:
            assert keys[f"verified.{line['key']}.guess"]["values"][place] == line["guess"]
        assert keys["charged.epsilon"]["values"][place] == report["charged"]["epsilon"]
    assert {"name": "centres", "there": [True, True]} in found["plots"]
    assert not [name for name in keys if "started" in name or "finished" in name]


def test_an_analyst_compares_what_is_published(it: Office, pair: tuple[str, str]) -> None:
    assert compare(it, *pair, token=it.token("analyst")) == compare(it, *pair)


def test_what_cannot_be_compared_is_refused(it: Office, pair: tuple[str, str]) -> None:
    first, second = pair
    for ids in (first, f"{first},{first}", ",".join([first] * 5), "", ",", f"{first},{second},,,"):
        answer = it.ask("GET", f"/v1/jobs/compare?ids={ids}")
        assert problem(answer) == (422, "bad_parameter"), ids
        assert answer.json()["errors"][0]["pointer"] == "/ids"
    for ids in (f"{first},nothing", f"{first},../../etc/passwd"):
        assert problem(it.ask("GET", f"/v1/jobs/compare?ids={ids}")) == (404, "unknown_job")


def test_the_rest_is_told_as_if_it_went_on_so(clock: ManualClock) -> None:
    started = clock.now()
    row = job_row(state=JobState.RUNNING, started=started, progress=0.25, attempts=1)
    later = started + timedelta(seconds=10)
    assert remaining_s(row, later) == 30
    assert remaining_s(row, started - timedelta(seconds=5)) == 0  # a clock that was set back
    for change in ({"progress": 0.0}, {"attempts": 2}, {"started": None}):
        assert remaining_s(replace(row, **change), later) is None
    for state in set(JobState) - {JobState.RUNNING}:
        assert remaining_s(replace(row, state=state), later) is None


def test_an_evaluation_is_in_no_published_part(it: Office) -> None:
    job = it.submit(it.rows(), params={**KMEANS, "evaluate": True})
    result = it.succeeded(job)
    found = it.ask("GET", f"/v1/jobs/{job}/evaluation").json()["evaluation"]
    assert set(found) == {"inertia", "inertia_ratio", "clusters", "labels"}
    private = [found["inertia"], *(each["mean_distance_off"] for each in found["clusters"])]
    files = {f"files/{item['name']}" for item in result["files"]}
    plots = {f"plots/{name}.json" for name in result["plots"]}
    published = {"result.json", "report.json", "report.txt", *files, *plots}
    archive = it.ask("GET", f"/v1/jobs/{job}/archive").content
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        assert set(opened.namelist()) == published
        for name in published:
            content = opened.read(name)
            for value in private:
                assert json.dumps(value).encode()[:8] not in content, name
    for part in ("files/evaluation.json", "plots/sizes", "files/..%2Fprivate%2Fevaluation.sealed"):
        assert it.ask("GET", f"/v1/jobs/{job}/{part}").status_code == 404
    stored = it.settings.data_dir / "jobs" / job / "private" / "evaluation.sealed"
    assert json.dumps(found["inertia"]).encode()[:8] not in stored.read_bytes()
