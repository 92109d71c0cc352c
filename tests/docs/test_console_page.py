"""Every page of a console is in the table of pages, and what it tells is in the API, too."""

from __future__ import annotations

import re
from importlib import import_module

import pytest
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute

from docs.generate import DOCS, settings_class

PARTS = re.compile(r"/live$|/progress$|\.(json|zip|csv)$|/static/|/(plots|files)/")
"""Paths of what pages load, not of pages."""


def table(service: str) -> dict[str, list[str]]:
    """Page to the routes that tell the same."""
    text = (DOCS / "how-to/console.md").read_text(encoding="utf-8")
    part = text.partition(f"## {service.capitalize()}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+)` \|[^|]+\|[^|]+\|([^|]*)\|$", part, re.MULTILINE)
    return {page: re.findall(r"`([A-Z]+ [^`]+)`", routes) for page, routes in rows}


def plain(path: str) -> str:
    return re.sub(r"\{\w+\}", "{}", path)


@pytest.mark.parametrize("service", ["coordinator", "curator"])
def test_every_page_is_in_the_table_with_its_routes(
    service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    routers: list[APIRouter] = []
    include = FastAPI.include_router

    def noted(app: FastAPI, router: APIRouter) -> None:
        routers.append(router)
        include(app, router)

    monkeypatch.setattr(FastAPI, "include_router", noted)
    app = import_module(f"{service}.app").create_app(settings_class(service)(console=True))
    paths = {
        route.path
        for routes in (app.routes, *(router.routes for router in routers))
        for route in routes
        if isinstance(route, APIRoute) and "GET" in route.methods
    }
    pages = {path for path in paths if path.startswith("/console") and not PARTS.search(path)}
    told = table(service)
    assert set(told) == pages
    document = app.openapi()["paths"]
    known = {
        f"{method.upper()} {plain(path)}" for path, each in document.items() for method in each
    }
    asked = {plain(route) for routes in told.values() for route in routes}
    assert asked <= known, asked - known
