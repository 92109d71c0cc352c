"""A coordinator that listens on loopback, with worker processes of its own, and what people ask."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from fastapi import FastAPI
from pydantic import SecretStr

from algorithms import catalogue
from algorithms.contract import SequentialContext
from algorithms.datasets.tables import NumericTable
from cli.services.deployment import free_ports
from common.runtime.clock import uuid7
from common.web.server import Server, make_server
from coordinator.app import create_app
from coordinator.models.job import JobState
from coordinator.settings import CoordinatorSettings
from coordinator.store.jobs import JobRow
from tacit.randomness import SeededRandom
from tests.coordinator.double import OPERATOR_TOKEN as TOKEN

FINISHED = ("succeeded", "failed", "cancelled")
ANY_PORT = "127.0.0.1:0"
"""Where a Dask scheduler answers HTTP, as it does without a dashboard too: by itself all take one
port."""
BOX = [[0, 10], [0, 10]]
KMEANS: dict[str, Any] = {
    "k": 2,
    "epsilon": "1",
    "bounds": BOX,
    "n_hint": 200,
    "mode": "synopsis",
}
LONG: dict[str, Any] = {
    "method": "dpbv-exact",
    "k": 40,
    "bounds": BOX,
    "n_init": 100,
    "max_iter": 1000,
    "epsilon": "20",
    "s": 100,
}
"""Of dpbv-clustering on scattered rows: noise at once, then seconds in one long call."""


def scattered(count: int, number: int = 1) -> list[list[float]]:
    """Rows all over the box."""
    found: list[list[float]] = (
        SeededRandom(number).generator.uniform(0, 10, (count, 2)).round(4).tolist()
    )
    return found


def blobs(count: int, number: int = 1) -> list[list[float]]:
    """Rows around (2, 2) and (7, 7), which differ from call to call by `number`."""
    generator = SeededRandom(number).generator
    centres = np.where(np.arange(count)[:, None] % 2 == 0, 2.0, 7.0)
    found: list[list[float]] = (centres + generator.normal(0, 0.5, (count, 2))).round(4).tolist()
    return found


class Office:
    """A running coordinator. The server runs in a thread of its own: tests are plain functions."""

    def __init__(self, directory: Path, **changes: Any) -> None:
        (port,) = free_ports(1)
        # On a busy machine a worker may be silent for long, and is not lost.
        values: dict[str, Any] = {"job_lease_s": 60.0, **changes}
        self.settings = CoordinatorSettings(
            data_dir=directory, port=port, operator_token=SecretStr(TOKEN), **values
        )
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=None)
        self.app: FastAPI
        self._server: Server
        self._thread: threading.Thread
        self._number = 0

    def start(self) -> None:
        """Start, until it answers."""
        self.app = create_app(self.settings)
        self._server = make_server(self.app, self.settings)
        answers = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(answers,))
        self._thread.start()
        answers.wait()
        assert self._server.started

    def _run(self, answers: threading.Event) -> None:
        """Serve; tell when it answers, or has ended without."""
        startup = self._server.startup

        async def started(sockets: list[socket.socket] | None = None) -> None:
            await startup(sockets)
            answers.set()

        self._server.startup = started  # type: ignore[method-assign]
        try:
            self._server.run()
        finally:
            answers.set()

    def stop(self) -> None:
        """Stop; its workers end with it."""
        self._server.should_exit = True
        self._thread.join()

    def ask(self, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        """A request with the operator's token, or another."""
        token = more.pop("token", TOKEN)
        headers = {"Authorization": f"Bearer {token}", **more.pop("headers", {})}
        if body is not None:
            more |= {"content": json.dumps(body)}
            headers.setdefault("Content-Type", "application/json")
        return self.http.request(method, path, headers=headers, **more)

    def token(self, scope: str) -> str:
        """A new token of a scope."""
        found: str = self.ask("POST", "/v1/tokens", {"scope": scope}).json()["token"]
        return found

    def rows(self, epsilon: str | None = "100", **changes: Any) -> str:
        """A dataset of rows that no other test has; its id."""
        self._number += 1
        body: dict[str, Any] = {
            "name": f"rows {self._number}",
            "kind": "numeric-table",
            "format": "csv",
            "columns": ["a", "b"],
            "rows": blobs(200, self._number),
            "budget": None if epsilon is None else {"epsilon": epsilon, "delta": "0.01"},
            **changes,
        }
        answer = self.ask("POST", "/v1/datasets", body)
        assert answer.status_code == 201, answer.text
        found: str = answer.json()["id"]
        return found

    def job(self, dataset: str, algorithm: str = "kmeans", **changes: Any) -> dict[str, Any]:
        """A request for a job."""
        return {"algorithm": algorithm, "dataset": dataset, "params": KMEANS, **changes}

    def submit(self, dataset: str, algorithm: str = "kmeans", **changes: Any) -> str:
        """Ask for a job that must be accepted; its id."""
        answer = self.ask("POST", "/v1/jobs", self.job(dataset, algorithm, **changes))
        assert answer.status_code == 202, answer.text
        assert answer.headers["location"] == f"/v1/jobs/{answer.json()['id']}"
        found: str = answer.json()["id"]
        return found

    def shown(self, job_id: str) -> dict[str, Any]:
        """One job."""
        found: dict[str, Any] = self.ask("GET", f"/v1/jobs/{job_id}").json()
        return found

    def until(self, job_id: str, *states: str) -> dict[str, Any]:
        """The job once it is in one of these states (or has finished)."""
        return self._followed(job_id, lambda found: found["state"] in (*states, *FINISHED))

    def drawn(self, job_id: str) -> dict[str, Any]:
        """The job once noise was drawn, which it must."""
        found = self._followed(
            job_id, lambda found: found["budget"]["noise_drawn"] or found["state"] in FINISHED
        )
        assert found["state"] not in FINISHED, found
        return found

    def _followed(self, job_id: str, reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The job once it is as asked; the coordinator tells of each change."""
        tag = ""
        while True:
            path, headers = f"/v1/jobs/{job_id}?wait_s=30", {"If-None-Match": tag}
            answer = self.ask("GET", path, headers=headers)
            tag = answer.headers["etag"]
            if answer.status_code == 304:
                continue
            found: dict[str, Any] = answer.json()
            if reached(found):
                return found

    def events(self, job_id: str) -> list[dict[str, Any]]:
        """The events of a job until it has finished."""
        answer = self.ask("GET", f"/v1/jobs/{job_id}/events")
        assert answer.headers["content-type"].startswith("text/event-stream")
        return [json.loads(line[6:]) for line in answer.text.splitlines() if line[:6] == "data: "]

    def succeeded(self, job_id: str) -> dict[str, Any]:
        """The result of a job that must succeed."""
        found = self.until(job_id)
        assert found["state"] == "succeeded", found
        result: dict[str, Any] = self.ask("GET", f"/v1/jobs/{job_id}/result").json()
        return result

    def ledger(self, dataset: str) -> dict[str, Any]:
        """The statement of a dataset's ledger."""
        found: dict[str, Any] = self.ask("GET", f"/v1/datasets/{dataset}/ledger").json()
        return found

    def kinds(self, dataset: str) -> list[str]:
        """What happened to a dataset's budget."""
        return [event["kind"] for event in self.ledger(dataset)["events"]]


@contextmanager
def office(directory: Path, **changes: Any) -> Iterator[Office]:
    """A running office; nothing is left of it afterwards."""
    it = Office(directory, **changes)
    it.start()
    try:
        yield it
    finally:
        it.stop()
        it.http.close()


def job_row(**changes: Any) -> JobRow:
    """A job as it is stored; one that failed, and that no worker takes."""
    values: dict[str, Any] = {
        **{"id": str(uuid7()), "algorithm": "kmeans", "version": "1", "stance": "sound"},
        **dict.fromkeys(("params", "preview", "price"), "{}"),
        **dict.fromkeys(("dataset_id", "federation", "chosen_seed")),
        **{
            "state": JobState.FAILED,
            "stage": "queued",
            "created": datetime(2026, 1, 1, tzinfo=UTC),
        },
    }
    return JobRow(**{**values, **changes})


def monotone(events: list[dict[str, Any]]) -> bool:
    """Whether attempts follow each other, and progress never goes back within one."""
    steps = [(event["attempt"], event["progress"]) for event in events]
    return steps == sorted(steps)


def expected(
    seed: bytes, name: str, params: dict[str, Any], rows: list[list[float]]
) -> dict[str, Any]:
    """What a job with this secret seed must publish."""
    found = catalogue.find(name)
    table = NumericTable(("a", "b"), np.array(rows))
    model = found.params.model_validate_json(json.dumps(params))
    outcome = found.run(table, model, "sound", SequentialContext(seed=seed))
    plain: dict[str, Any] = json.loads(json.dumps(outcome.result))
    return plain
