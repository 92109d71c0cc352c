"""Load shedding: how much a process accepts at the same time; more is refused early, with 503.

Requests are counted from their arrival to the end of their answer. Bodies are counted as they
arrive, not as declared: a large declared size alone takes no capacity from others.
"""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import parse_qsl

from fastapi import Query
from starlette.types import ASGIApp, Receive, Scope, Send

from common.runtime.metrics import ServiceMetrics
from common.web.problems import problem_response
from tacit.errors import Unavailable

MAX_WAIT_S: Final = 30.0
Wait = Annotated[float, Query(ge=0, le=MAX_WAIT_S, description="Long poll: seconds to wait.")]
"""`wait_s` of a route; a request that waits does not count."""
APART: Final = frozenset({"/healthz", "/readyz", "/metrics"})
STREAM_BYTES: Final = 64 * 1024 * 1024
"""A body longer than this is read as a stream, or one at a time: no more of it is counted."""


class Overloaded(Unavailable):
    """As much is in progress as the process accepts at the same time."""

    name = "overloaded"
    title = "The service is at its limit"


class Load:
    """What one process has in progress."""

    def __init__(self, max_requests: int, max_bytes: int, metrics: ServiceMetrics) -> None:
        self.requests = 0
        self.held_bytes = 0
        self.max_requests = max_requests
        self.max_bytes = max_bytes
        self._refused = metrics.counter(
            "requests_refused", "Requests answered 503 because of those in progress.", ("reason",)
        )
        metrics.gauge("requests_in_flight", "Requests in progress.").set_function(
            lambda: float(self.requests)
        )
        metrics.gauge("request_body_held_bytes", "Bodies of requests in progress.").set_function(
            lambda: float(self.held_bytes)
        )

    def full(self) -> Overloaded | None:
        """Why one more request is refused, or None."""
        if self.requests < self.max_requests:
            return None
        return self._refuse("requests", self.max_requests)

    def body(self) -> HeldBody:
        """The account of one request's body; `release` it in the end."""
        return HeldBody(self)

    def room(self, own_bytes: int, more_bytes: int) -> Overloaded | None:
        """Why a body of this size may not grow by this much, or None."""
        others = self.held_bytes - own_bytes
        if others == 0 or self.held_bytes + more_bytes <= self.max_bytes:
            return None
        return self._refuse("bytes", self.max_bytes)

    def _refuse(self, reason: str, quota: int) -> Overloaded:
        self._refused.labels(reason).inc()
        return Overloaded(retry_after_s=1, extra={"quota": quota, "quota_unit": reason})


class HeldBody:
    """The bytes of one body that count."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._bytes = 0

    def expect(self, declared_bytes: int) -> Overloaded | None:
        """Why a body of a declared length is refused, or None."""
        return self._load.room(0, min(declared_bytes, STREAM_BYTES))

    def add(self, arrived_bytes: int) -> Overloaded | None:
        """Count what arrived, or return why there is no capacity for it."""
        counted = min(arrived_bytes, STREAM_BYTES - self._bytes)
        refusal = self._load.room(self._bytes, counted)
        if refusal is None:
            self._bytes += counted
            self._load.held_bytes += counted
        return refusal

    def release(self) -> None:
        """The body is not held any more."""
        self._load.held_bytes -= self._bytes
        self._bytes = 0


class LoadLimit:
    """Middleware: refuses what exceeds `max_requests`."""

    def __init__(self, app: ASGIApp, load: Load) -> None:
        self._app, self._load = app, load

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, counted, or refuse it."""
        if scope["type"] != "http" or scope["path"] in APART or waits(scope):
            await self._app(scope, receive, send)
            return
        if refusal := self._load.full():
            await problem_response(refusal)(scope, receive, send)
            return
        self._load.requests += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._load.requests -= 1


def waits(scope: Scope) -> bool:
    """Whether a request is a long poll, which costs a connection and little else."""
    if scope["method"] != "GET" or b"wait_s=" not in scope["query_string"]:
        return False
    asked = dict(parse_qsl(scope["query_string"].decode("latin-1")))
    return asked.get("wait_s", "0") not in ("", "0")
