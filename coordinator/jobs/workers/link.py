"""A worker's calls to the coordinator about one attempt, and the outcome packed as one zip.

A call without an answer is repeated for as long as a coordinator may take to restart. The zip:

    outcome.json            result, report, public seeds, and the description of each file
    evaluation.json         for the operator, if there is one
"""

from __future__ import annotations

import io
import json
import re
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any, BinaryIO, Final

import httpx
import numpy as np

from algorithms.contract import Outcome
from common.runtime.tls import environment_trust
from coordinator.models.job import Assignment, Beat, Failure, Orders, SecretSeed
from tacit.report.model import PrivacyReport
from tacit.wire import parse_binary

PATIENCE_S: Final = 60.0
PAUSE_S: Final = 0.25
SENDING_S: Final = 600.0


class AttemptLost(Exception):
    """The lease is lost, or could not be taken."""


@dataclass(frozen=True)
class Ticket:
    """What the task graph contains of an attempt: no data and no seed; valid for one claim."""

    url: str
    attempt: str
    token: str


class Link:
    """Calls of one attempt. Safe to use from several threads."""

    def __init__(self, url: str, attempt: str, token: str, patience_s: float = PATIENCE_S) -> None:
        self.url, self.attempt = url, attempt
        self._patience_s = patience_s
        self._token = token
        # Certificates take 100 ms to load: only if there is one to check.
        self._http = httpx.Client(
            base_url=f"{url}/v1/job-attempts/{attempt}",
            timeout=30.0,
            verify=not url.lower().startswith("http:") and environment_trust(),
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    @property
    def token(self) -> str:
        """The token of a request: the session, or before the claim the ticket."""
        return self._token

    def claim(self, worker: str) -> Assignment:
        """Take the lease; later calls use its session. Raises AttemptLost if it was taken."""
        answer = self._post("/claim", {"worker": worker})
        assignment = Assignment.model_validate_json(answer.content)
        self._token = assignment.session
        return assignment

    def block_key(self) -> bytes:
        """What opens the blocks of the attempt."""
        return parse_binary(self._post("/block-key", {}).json()["key"])

    def content(self) -> BinaryIO:
        """The data, in memory: raw data is never written to a worker's disk."""
        answer = self._send(lambda: self._http.get("/content", **self._headers(SENDING_S)))
        return BytesIO(answer.content)

    def seed(self) -> SecretSeed:
        """The seed of the job's noise; the first request charges the job."""
        return SecretSeed.model_validate_json(self._post("/seed", {}).content)

    def beat(self, beat: Beat) -> Orders:
        """Send a heartbeat, without retries: the next one follows soon."""
        answer = self._http.post(
            "/beat", content=beat.model_dump_json(), **self._headers(5.0, json=True)
        )
        return Orders.model_validate_json(_checked(answer).content)

    def deliver(self, outcome: bytes) -> None:
        """Submit the packed outcome."""
        self._send(lambda: self._http.post("/outcome", content=outcome, **self._headers(SENDING_S)))

    def fail(self, failure: Failure, *, once: bool = False) -> None:
        """Report how it ended without an outcome; `once`: without retries."""
        body = failure.model_dump_json()
        headers = self._headers(2.0 if once else 30.0, json=True)
        if once:
            _checked(self._http.post("/failure", content=body, **headers))
        else:
            self._send(lambda: self._http.post("/failure", content=body, **headers))

    # --- parts -----------------------------------------------------------------------------------

    def _post(self, path: str, body: dict[str, str]) -> httpx.Response:
        return self._send(lambda: self._http.post(path, json=body, **self._headers()))

    def _headers(self, timeout_s: float = 30.0, *, json: bool = False) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self._token}"}
        if json:
            headers["Content-Type"] = "application/json"
        return {"headers": headers, "timeout": timeout_s}

    def _send(self, call: Callable[[], httpx.Response]) -> httpx.Response:
        end = time.monotonic() + self._patience_s
        while True:
            try:
                answer = call()
                return _checked(answer)
            except httpx.TransportError:
                if time.monotonic() > end:
                    raise AttemptLost from None
            time.sleep(PAUSE_S)


def _checked(answer: httpx.Response) -> httpx.Response:
    if answer.status_code >= 500:
        raise httpx.RemoteProtocolError("the coordinator could not answer")
    if answer.status_code >= 400:
        raise AttemptLost
    return answer


# An outcome as one zip, in transit from a worker to the coordinator.
#
# outcome.json            result, report, public seeds, and the description of each file
# evaluation.json         for the operator, if there is one
# files/NAME  plots/NAME.json (the values that a plot shows)

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True)
class Packed:
    """The content of a zip."""

    result: dict[str, Any]
    report: PrivacyReport
    public_seeds: dict[str, int]
    files: tuple[tuple[str, str, str], ...]
    plots: tuple[str, ...]
    evaluation: bytes | None


def pack(outcome: Outcome) -> bytes:
    """The zip. Raises ValueError for an invalid name and for a number that is not finite."""
    target = io.BytesIO()
    head = {
        "result": outcome.result,
        "report": json.loads(outcome.report.model_dump_json()),
        "public_seeds": dict(outcome.public_seeds),
        "files": [[item.name, item.media_type, item.description] for item in outcome.files],
        "plots": [item.name for item in outcome.plots],
    }
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("outcome.json", text(head))
        if outcome.evaluation is not None:
            archive.writestr("evaluation.json", text(outcome.evaluation))
        for file in outcome.files:
            archive.writestr(f"files/{_named(file.name)}", file.content)
        for plot in outcome.plots:
            archive.writestr(f"plots/{_named(plot.name)}.json", _compact(plot.values))
    return target.getvalue()


def unpack(archive: zipfile.ZipFile) -> Packed:
    """Read everything but files and plots, of which only the names are checked."""
    head = json.loads(archive.read("outcome.json"))
    names = set(archive.namelist())
    evaluation = archive.read("evaluation.json") if "evaluation.json" in names else None
    files = tuple((_named(name), kind, words) for name, kind, words in head["files"])
    return Packed(
        head["result"],
        PrivacyReport.model_validate_json(json.dumps(head["report"])),
        head["public_seeds"],
        files,
        tuple(_named(name) for name in head["plots"]),
        evaluation,
    )


def text(value: Any) -> bytes:
    """JSON as it is stored: indented, with numpy's numbers and arrays as plain ones."""
    return json.dumps(value, indent=1, allow_nan=False, default=_plain).encode() + b"\n"


def _compact(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, separators=(",", ":"), allow_nan=False).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError("a result holds plain JSON values")


def _named(name: str) -> str:
    if NAME.fullmatch(name) is None:
        raise ValueError("a part of a result has a plain name")
    return name
