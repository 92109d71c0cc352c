"""Real processes that are killed: the coordinator, with workers of its own and with others'."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cli.services.deployment import free_ports
from coordinator.storage_keys import KeySource, StorageKeys, seed_purpose
from tacit.client.client import Client
from tests.coordinator.jobs.office import ANY_PORT, LONG, TOKEN, Office, expected, scattered

ROOT = Path(__file__).parents[3]


class Process(Office):
    """The same office, as a process that can be killed."""

    def __init__(self, directory: Path, **environment: str) -> None:
        super().__init__(directory)
        self._log = (directory / "log").open("ab")
        self._environment = {
            "TACIT_DATA_DIR": str(directory),
            "TACIT_PORT": str(self.settings.port),
            "TACIT_OPERATOR_TOKEN": TOKEN,
            "TACIT_JOB_LEASE_S": "3",
            "TACIT_JOB_WORKERS": "1",
            **environment,
        }

    def start(self, *module: str) -> None:
        """Start, until it answers; another module than the service's, with its arguments."""
        kept = {name: value for name, value in os.environ.items() if name[:6] != "TACIT_"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", *(module or ("coordinator",))],
            cwd=ROOT,
            env={**kept, **self._environment},
            stdout=self._log,
            stderr=self._log,
        )
        with Client(str(self.http.base_url)) as client:
            client.wait_until_ready(120)

    def kill(self) -> None:
        """kill -9."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """Stop; its workers end with it."""
        self._process.terminate()
        self._process.wait(120)
        self._log.close()

    def seed_of(self, job: str) -> bytes:
        """The secret seed of a job that has not finished: for tests, by who holds the key."""
        database = sqlite3.connect(self.settings.data_dir / "coordinator.db")
        try:
            (sealed,) = database.execute("SELECT secret FROM job WHERE id = ?", (job,)).fetchone()
        finally:
            database.close()
        return StorageKeys(KeySource.of(self.settings)).open(seed_purpose(job), sealed)


@contextmanager
def process(directory: Path, **environment: str) -> Iterator[Process]:
    it = Process(directory, **environment)
    it.start()
    try:
        yield it
    finally:
        it.stop()
        it.http.close()


def killed_in_the_middle(it: Process, count: int) -> tuple[str, dict[str, Any]]:
    """Acceptance 3. The dataset and the job, after all is over."""
    rows = scattered(count, 3)
    dataset = it.rows(rows=rows)
    job = it.submit(dataset, "dpbv-clustering", params=LONG)
    it.drawn(job)
    seed = it.seed_of(job)
    it.kill()
    it.start()
    assert it.succeeded(job)["summary"] == expected(seed, "dpbv-clustering", LONG, rows)
    assert it.kinds(dataset) == ["declared", "reserved", "charged"]
    return dataset, it.shown(job)


@pytest.mark.slow
def test_a_killed_coordinator_ends_its_jobs_with_the_same_noise(tmp_path: Path) -> None:
    with process(tmp_path) as it:
        _, shown = killed_in_the_middle(it, 400)
        assert shown["attempt"] == 2


@pytest.mark.slow
def test_the_workers_of_another_scheduler(tmp_path: Path) -> None:
    """Two workers of a separate scheduler; the coordinator is killed, and the attempt goes on."""
    (port,) = free_ports(1)
    address = f"tcp://127.0.0.1:{port}"
    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1"]
    scheduler = [*dask, "--port", str(port), "--no-dashboard", "--no-show"]
    scheduler += ["--dashboard-address", ANY_PORT]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1"]
    worker += ["--no-dashboard", "--host", "127.0.0.1", "--local-directory", str(tmp_path)]
    with (tmp_path / "dask.log").open("wb") as log:
        started = [
            subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
            for command in (scheduler, worker, worker)
        ]
        try:
            home = tmp_path / "home"
            home.mkdir()
            with process(home, TACIT_DASK_SCHEDULER=address, TACIT_JOB_LEASE_S="6") as it:
                _, shown = killed_in_the_middle(it, 1000)
                assert shown["attempt"] == 1
        finally:
            for item in started[::-1]:
                os.killpg(item.pid, signal.SIGTERM)
            for item in started:
                item.wait(120)
