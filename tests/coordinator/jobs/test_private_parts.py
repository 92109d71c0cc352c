"""What is for the operator's eyes is in no published part, neither by name nor by content."""

from __future__ import annotations

import io
import json
import zipfile

from tests.coordinator.jobs.office import KMEANS, Office


def test_an_evaluation_is_in_no_published_part(it: Office) -> None:
    job = it.submit(it.rows(), params={**KMEANS, "evaluate": True})
    result = it.succeeded(job)
    found = it.ask("GET", f"/v1/jobs/{job}/evaluation").json()["evaluation"]
    assert set(found) == {"inertia", "inertia_ratio", "clusters", "labels"}
    private = [found["inertia"], *(each["mean_distance_off"] for each in found["clusters"])]
    files = {f"files/{item['name']}" for item in result["files"]}
    plots = {f"plots/{name}.{kind}" for name in result["plots"] for kind in ("svg", "png")}
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
