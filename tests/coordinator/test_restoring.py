"""A coordinator's backup put back: no unfinished job draws noise a second time for one charge."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from coordinator.restoring import MARKER, SKIPPED
from tests.coordinator.jobs.office import KMEANS, LONG, Office, scattered


def stored(path: Path, statement: str) -> list[Any]:
    with closing(sqlite3.connect(path / "coordinator.db")) as connection:
        return [row[0] for row in connection.execute(statement)]


@pytest.mark.slow
def test_unfinished_jobs_end_and_stay_charged(tmp_path: Path) -> None:
    office = Office(tmp_path / "coordinator", job_workers=1)
    office.start()
    try:
        running = office.rows(rows=scattered(400, 7))
        waiting = office.rows()
        first = office.submit(running, "dpbv-clustering", params=LONG)
        second = office.submit(waiting, params=KMEANS)
        paper = office.submit(
            office.rows(),
            stance="paper",
            params={"k": 2, "epsilon": "1"},
            acknowledge_unverified=True,
        )
    finally:
        office.stop()
    home = tmp_path / "coordinator"
    assert set(stored(home, "SELECT state FROM job")) <= {"queued", "running"}
    (number,) = stored(home, "SELECT next_number FROM roster") or [None]
    marker = home / MARKER
    marker.touch()
    office.start()
    try:
        assert not marker.exists()
        assert stored(home, "SELECT next_number FROM roster") == [number + SKIPPED]
        for job in (first, second, paper):
            shown = office.shown(job)
            assert (shown["state"], shown["error"]["type"][-11:]) == ("failed", "worker_lost")
            assert "restored from a backup" in shown["error"]["detail"]
        for dataset, epsilon in ((running, LONG["epsilon"]), (waiting, KMEANS["epsilon"])):
            ledger = office.ask("GET", f"/v1/datasets/{dataset}/ledger").json()
            assert (ledger["charged"]["epsilon"], ledger["reserved"]["epsilon"]) == (epsilon, "0")
            assert ledger["verified"] is True
            assert office.ask("DELETE", f"/v1/datasets/{dataset}").status_code == 204
    finally:
        office.stop()
