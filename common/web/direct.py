"""A few routes that are answered in the innermost middleware, without the framework's router.

For the hot path only: what the framework does for each request costs more there than the rest. All
limits hold as for every route, and `Access`, the outermost middleware, makes a problem of what a
route raises. Everything that is not exactly such a route (another method) goes on to the router.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

Answer = Callable[[Request], Awaitable[Response]]


def add_direct(app: FastAPI, routes: dict[str, Answer]) -> None:
    """Answer POSTs to these paths (templates) directly. The router knows the routes, too."""
    app.router.routes[:0] = answer_directly(app, routes)


def answer_directly(app: FastAPI, routes: dict[str, Answer]) -> list[Route]:
    """The same for paths whose POSTs the router answers likewise, and describes."""
    made = [Route(path, answer, methods=["POST"]) for path, answer in routes.items()]
    app.user_middleware.append(Middleware(Direct, routes=made))
    return made


class Direct:
    """Innermost middleware of an app."""

    def __init__(self, app: ASGIApp, routes: list[Route]) -> None:
        self._app = app
        self._routes = [(route, route.path_regex.match, route.endpoint) for route in routes]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass on."""
        if scope["type"] == "http" and scope["method"] == "POST":
            for route, match, answer in self._routes:
                found = match(scope["path"])
                if found is not None:
                    scope["route"], scope["path_params"] = route, found.groupdict()
                    response: Response = await answer(Request(scope, receive, send))
                    await response(scope, receive, send)
                    return
        await self._app(scope, receive, send)
