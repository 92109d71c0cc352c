"""The Python client: what `import tacit` gives. One method per thing that an integrator does.

    with Client(coordinator_url, token) as tacit:
        query = tacit.create_query({...})
        round_ = tacit.open_round(query["id"], window={...})
        print(tacit.wait_for(round_["id"])["result"])

Answers are plain dictionaries, as the API gives them; a refusal raises `Problem`, whose `name` is
the stable problem type. Amounts stay decimal strings.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

import httpx

from common.agreement import check_transcript
from common.functions import decode
from common.models.base import parse_binary
from common.models.round import Transcript
from common.service.problems import ProblemReceived as Problem
from common.service.problems import raise_for_problem

Json = dict[str, Any]

FINISHED = ("released", "aborted")


class RoundNotReleased(Exception):
    """The round was aborted, or not finished in time."""


class Client:
    """A synchronous client of one service (the coordinator, unless a method says otherwise)."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout_s: float = 60.0,
        verify: bool | str = True,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        headers = {"User-Agent": "tacit"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        self.url = url.rstrip("/")
        self._http = httpx.Client(
            base_url=self.url,
            headers=headers,
            timeout=timeout_s,
            verify=verify,
            trust_env=False,
            transport=transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # --- any service -----------------------------------------------------------------------------

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content: bytes | None = None,
        media_type: str | None = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """One request; raises Problem for a refusal, httpx.TransportError for no answer."""
        sent = dict(headers or {})
        if media_type is not None:
            sent["Content-Type"] = media_type
        answer = self._http.request(
            method, path, json=body, content=content, params=params, headers=sent
        )
        raise_for_problem(answer)
        return answer

    def get(self, path: str, **params: Any) -> Json:
        """A GET as a dictionary."""
        found: Json = self.request("GET", path, params=params).json()
        return found

    def post(self, path: str, body: object = None, *, key: str | None = None) -> Json:
        """A POST as a dictionary; `key` makes a retry safe (`Idempotency-Key`)."""
        headers = {} if key is None else {"Idempotency-Key": key}
        answer: Json = self.request("POST", path, body, headers=headers).json()
        return answer

    def ready(self) -> bool:
        """Whether the service can do its work."""
        try:
            return self._http.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def wait_until_ready(self, timeout_s: float = 30.0) -> None:
        """Block until the service is ready; raises TimeoutError."""
        end = time.monotonic() + timeout_s
        while not self.ready():
            if time.monotonic() > end:
                raise TimeoutError(f"{self.url} is not ready after {timeout_s:.0f} s")
            time.sleep(0.05)

    def pages(self, path: str, name: str, **params: Any) -> Iterator[Json]:
        """All items of a paged list."""
        answer = self.request("GET", path, params=params)
        while True:
            yield from answer.json()[name]
            following = answer.links.get("next", {}).get("url")
            if following is None:
                return
            answer = self.request("GET", following)

    # --- queries and rounds ----------------------------------------------------------------------

    def preview(self, query: Json) -> Json:
        """The privacy report and error forecast of a query; nothing is spent."""
        return self.post("/v1/queries/preview", query)

    def create_query(self, query: Json, *, key: str | None = None) -> Json:
        """Create a query; the same content is the same query."""
        return self.post("/v1/queries", query, key=key)

    def queries(self) -> Iterator[Json]:
        """All queries."""
        return self.pages("/v1/queries", "queries")

    def open_round(
        self, query_id: str, *, window: Json | None = None, key: str | None = None, **options: Any
    ) -> Json:
        """Open a round; `window` is {"start", "end"} unless the query fixes one."""
        body: Json = {"query_id": query_id, **options}
        if window is not None:
            body["window"] = window
        return self.post("/v1/rounds", body, key=key)

    def rounds(self, **filters: str) -> Iterator[Json]:
        """Rounds, by `state` or `query_id`."""
        return self.pages("/v1/rounds", "rounds", **filters)

    def round(self, round_id: str) -> Json:
        """One round."""
        return self.get(f"/v1/rounds/{round_id}")

    def watch(self, round_id: str, timeout_s: float = 600.0) -> Iterator[Json]:
        """The round each time it changes, until it is finished; raises TimeoutError."""
        end = time.monotonic() + timeout_s
        tag = ""
        while True:
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"round {round_id} is not finished after {timeout_s:.0f} s")
            answer = self._http.get(
                f"/v1/rounds/{round_id}",
                params={"wait_s": min(20.0, left)},
                headers={"If-None-Match": tag},
            )
            if answer.status_code == 304:
                continue
            raise_for_problem(answer)
            tag = answer.headers.get("etag", "")
            state: Json = answer.json()
            yield state
            if state["state"] in FINISHED:
                return

    def wait_for(self, round_id: str, timeout_s: float = 600.0) -> Json:
        """The result of a round once it is released; raises RoundNotReleased if it aborts."""
        for state in self.watch(round_id, timeout_s):
            if state["state"] == "aborted":
                raise RoundNotReleased(state["reason"])
        return self.result(round_id)

    def result(self, round_id: str) -> Json:
        """The released result with its privacy report."""
        return self.get(f"/v1/rounds/{round_id}/result")

    def verify(self, round_id: str) -> Json:
        """Recombine a round's transcript here and compare; {"result", "matches", ...}.

        The coordinator's identity key comes from the service; pin its fingerprint yourself.
        """
        identity = self.get("/.well-known/tacit-coordinator")
        body = self.request("GET", f"/v1/rounds/{round_id}/transcript").content
        transcript = Transcript.model_validate_json(body)
        total = check_transcript(transcript, parse_binary(identity["identity_key"]))
        recombined = decode(transcript.descriptor.statement.query, total)
        return {
            "round": round_id,
            "result": recombined,
            "matches": recombined == self.result(round_id)["result"],
            "participants": transcript.participants,
            "aggregators": [reveal.aggregator for reveal in transcript.reveals],
            "coordinator_fingerprint": identity["fingerprint"],
        }


__all__ = ["Client", "Problem", "RoundNotReleased"]
