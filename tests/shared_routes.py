"""Routes of the services are built once in a test process, not once for each app.

Two thirds of what it takes to make a coordinator go into the models of its hundred routes. A route
reads its app from each request, so apps may share one whose endpoint is the same code, closes over
nothing, and was added with equal options.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, Final

from fastapi import FastAPI
from fastapi.routing import APIRoute

_whole: Final = FastAPI.__init__
_built: defaultdict[tuple[str, CodeType], list[tuple[Any, APIRoute]]] = defaultdict(list)
"""By path and code: the endpoint's defaults and the options with which each was built."""


def share_routes() -> None:
    """From now on, for every app that is made."""
    FastAPI.__init__ = _sharing  # type: ignore[method-assign]


def _sharing(app: FastAPI, **options: Any) -> None:
    _whole(app, **options)
    app.router.route_class = route  # type: ignore[assignment]


def route(path: str, endpoint: Callable[..., Any], **options: Any) -> APIRoute:
    """One that was built before, or a new one."""
    if not isinstance(endpoint, FunctionType) or endpoint.__closure__ is not None:
        return APIRoute(path, endpoint, **options)
    options["dependency_overrides_provider"] = None  # nobody overrides a dependency
    asked = endpoint.__defaults__, endpoint.__kwdefaults__, options
    alike = _built[path, endpoint.__code__]
    for known, built in alike:
        if known == asked:
            return built
    alike.append((asked, APIRoute(path, endpoint, **options)))
    return alike[-1][1]
