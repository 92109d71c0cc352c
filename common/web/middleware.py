"""The outermost and the innermost layer of a request: access log, safe headers and the last error
handler; and direct routes of the hot path.

The outermost layer of a request: access log, two metrics, safe headers, last error handler.

The log and the metrics know the route's template, never the path as sent, its query or a body.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from fastapi import FastAPI
from prometheus_client import Counter, Histogram
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from common.runtime.compute_processes import ASKER, Asker
from common.runtime.logs import describe, get_logger
from common.runtime.settings import ServiceSettings
from common.runtime.telemetry import ServiceMetrics, Span, Tracer
from common.web.problems import problem_response
from common.web.wire import refuse_unstorable_address

API_POLICY: Final = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'"
_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Content-Security-Policy": API_POLICY,
    "Cache-Control": "no-store",
}
_UNMATCHED: Final = "unmatched"
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_QUIET: Final = frozenset({"/healthz", "/readyz", "/metrics"})

_logger = get_logger("tacit.access")


class ResponseAborted(Exception):
    """A response ended after its first bytes; the reason is in the log, by type and place."""


class Access:
    """Outermost middleware of an app. A header that a route has set is kept."""

    def __init__(
        self, app: ASGIApp, metrics: ServiceMetrics, settings: ServiceSettings, tracer: Tracer
    ) -> None:
        self._app, self._tracer = app, tracer
        self._prefix = settings.path_prefix.encode()
        headers = dict(_HEADERS)
        if settings.https:
            headers["Strict-Transport-Security"] = "max-age=31536000"
        self._headers = [(key.lower().encode(), text.encode()) for key, text in headers.items()]
        self._requests = metrics.counter(
            "http_requests", "Requests answered, by route template and status.", ("route", "status")
        )
        self._seconds = metrics.histogram(
            "http_request_duration_seconds",
            "Time to answer, by route template and status.",
            ("route", "status"),
        )
        self._meters: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        """Those of each route and status, which are few; a look-up by labels costs more."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request whatever happens inside, and account for it."""
        if scope["type"] != "http":
            await self._app(scope, receive, _one_line(send))
        elif scope["path"] in _QUIET:
            await self._answer(scope, receive, send, None)
        else:
            with self._tracer.request(Headers(scope=scope)) as span:
                await self._answer(scope, receive, send, span)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, span: Span | None) -> None:
        started, status = time.perf_counter(), 0

        async def dressed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = message.setdefault("headers", [])
                if self._prefix:
                    headers[:] = [(name, self._prefixed(name, text)) for name, text in headers]
                present = {name.lower() for name, _ in headers}
                headers += [each for each in self._headers if each[0] not in present]
            await send(message)

        aborted = False
        asker = ASKER.set(Asker(partial(_left, receive)))
        try:
            refuse_unstorable_address(scope, every_route(scope["app"].routes))
            await self._app(scope, receive, dressed)
        except Exception as error:
            aborted = status != 0
            if aborted:
                _logger.error("response_aborted", **describe(error))
            else:
                await problem_response(error)(scope, receive, dressed)
        finally:
            ASKER.reset(asker)
            self._account(scope, status or 499, time.perf_counter() - started, span)
        if aborted:
            raise ResponseAborted

    def _prefixed(self, name: bytes, text: bytes) -> bytes:
        """An address of this service in a header, as clients reach it through the proxy."""
        if name.lower() == b"location" and text.startswith(b"/"):
            return self._prefix + text
        if name.lower() == b"link" and text.startswith(b"</"):
            return b"<" + self._prefix + text[1:]
        return text

    def _account(self, scope: Scope, status: int, seconds: float, span: Span | None) -> None:
        route = route_template(scope)
        place = (route, status)
        meters = self._meters.get(place)
        if meters is None:
            labels = (route, str(status))
            meters = self._requests.labels(*labels), self._seconds.labels(*labels)
            self._meters[place] = meters
        meters[0].inc()
        meters[1].observe(seconds)
        log = _logger.debug if route in _QUIET else _logger.info
        method = scope["method"] if scope["method"] in _METHODS else "other"
        log("request", method=method, route=route, status=status, ms=round(seconds * 1000, 1))
        if span is not None:
            span.answered(method, route, status)


def _one_line(send: Send) -> Send:
    """A failed start is reported by the last line of its traceback: the text of StartFailed."""

    async def brief(message: Message) -> None:
        if message["type"] == "lifespan.startup.failed":
            last = message["message"].strip().rpartition("\n")[2]
            message = {**message, "message": last.partition(": ")[2] or last}
        await send(message)

    return brief


async def _left(receive: Receive) -> None:
    """Wait until the client has disconnected; for a request whose body has been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


def every_route(routes: Iterable[BaseRoute]) -> Iterator[BaseRoute]:
    """The routes of an app, also those of its routers, which are included without a prefix."""
    for route in routes:
        router = getattr(route, "original_router", None)
        if router is None:
            yield route
        else:
            yield from every_route(router.routes)


def route_template(scope: Scope) -> str:
    """The template of the route that matched the request (`/v1/rounds/{round_id}`)."""
    inner = scope.get("fastapi")
    context: Any = inner.get("effective_route_context") if isinstance(inner, dict) else None
    for holder in (context, scope.get("route")):
        for attribute in ("path_format", "path"):
            template = getattr(holder, attribute, None)
            if isinstance(template, str) and template:
                return template
    # a plain Starlette route leaves only its endpoint behind
    endpoint, app = scope.get("endpoint"), scope.get("app")
    for route in getattr(app, "routes", ()) if endpoint is not None else ():
        if getattr(route, "endpoint", None) is endpoint:
            return str(getattr(route, "path", _UNMATCHED))
    return _UNMATCHED


# A few routes that are answered in the innermost middleware, without the framework's router.
#
# For the hot path only: what the framework does for each request costs more there than the rest.
# All limits hold as for every route, and `Access`, the outermost middleware, makes a problem of
# what a route raises. Everything that is not exactly such a route (another method) continues to the
# router.

Answer = Callable[[Request], Awaitable[Response]]


def add_direct(app: FastAPI, routes: Mapping[str, Answer]) -> None:
    """Answer POSTs to these paths (templates) without the router, which also knows the routes."""
    app.router.routes[:0] = answer_directly(app, routes)


def answer_directly(app: FastAPI, routes: Mapping[str, Answer]) -> list[Route]:
    """The same for paths whose POSTs the router can also answer, and describes."""
    answered_directly = [Route(path, answer, methods=["POST"]) for path, answer in routes.items()]
    app.user_middleware.append(Middleware(Direct, routes=answered_directly))
    return answered_directly


class Direct:
    """Innermost middleware of an app."""

    def __init__(self, app: ASGIApp, routes: list[Route]) -> None:
        self._app = app
        self._routes = [(route, route.path_regex.match, route.endpoint) for route in routes]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass on."""
        if scope["type"] == "http" and scope["method"] == "POST":
            for route, match, answer in self._routes:
                match_of_path = match(scope["path"])
                if match_of_path is not None:
                    scope["route"], scope["path_params"] = route, match_of_path.groupdict()
                    response: Response = await answer(Request(scope, receive, send))
                    await response(scope, receive, send)
                    return
        await self._app(scope, receive, send)
