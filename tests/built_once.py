"""What the tests of a process share: routes, compiled statements, migrated databases.

Most of what it takes to start a service in a test is the same for each test: the models of its
hundred routes, the text of its statements, the tables of an empty database.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final

import fastapi.dependencies.models
from fastapi import FastAPI
from fastapi.routing import APIRoute
from sqlalchemy import Dialect
from sqlalchemy.engine import make_url

import common.store.postgresql
import common.store.sqlite
from common.runtime.process import make_private_directory
from common.runtime.settings import ServiceSettings
from common.store.database import migrate, open_database
from common.store.prepared import Statements

_whole: Final = FastAPI.__init__
_built: defaultdict[tuple[str, CodeType], list[tuple[Any, APIRoute]]] = defaultdict(list)
"""By path and code: the endpoint's defaults and the options with which each was built."""
_statements: Final[dict[str, Statements]] = {}
_empty: dict[str, bytes] = {}
"""A migrated database in SQLite, by service."""


def share() -> None:
    """From now on, for every app and every database that is made."""
    FastAPI.__init__ = _sharing  # type: ignore[method-assign]
    for module in (common.store.sqlite, common.store.postgresql):
        module.Statements = _shared_statements  # type: ignore[attr-defined]
    for module, name in (
        (common.store.sqlite, "create_engine"),
        (common.store.postgresql, "create_async_engine"),
    ):
        options = {"compiled_cache": _Compiled()}
        setattr(module, name, partial(getattr(module, name), execution_options=options))


class _Compiled(dict[Any, Any]):
    """Compiled statements by all of SQLAlchemy's key but the dialect: each engine has its own, and
    all of those that share this are alike."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(key[1:], default)

    def __setitem__(self, key: Any, compiled: Any) -> None:
        super().__setitem__(key[1:], compiled)


def _shared_statements(dialect: Dialect) -> Statements:
    return _statements.setdefault(dialect.name, Statements(dialect))


def _sharing(app: FastAPI, **options: Any) -> None:
    # FastAPI remembers 4096 endpoints, and those that close over their app keep it in memory.
    for remembered in vars(fastapi.dependencies.models).values():
        if hasattr(remembered, "cache_clear"):
            remembered.cache_clear()
    _whole(app, **options)
    app.router.route_class = route  # type: ignore[assignment]


def route(path: str, endpoint: Callable[..., Any], **options: Any) -> APIRoute:
    """One that was built before, or a new one.

    A route reads its app from each request, so apps may share one whose endpoint is the same code,
    closes over nothing, and was added with equal options.
    """
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


async def migrated(settings: ServiceSettings) -> None:
    """Give a service that is to start its tables; nothing where it has a database already.

    The migrations themselves run wherever a test takes PostgreSQL, in every process that a test
    starts, and where a service's tables are held equal to them.
    """
    url = make_url(settings.database())
    if url.get_backend_name() != "sqlite":
        return
    path = Path(str(url.database))
    if path.exists():
        return
    if settings.service not in _empty:
        _empty[settings.service] = await _migrate(settings.service)
    make_private_directory(path.parent)
    path.touch(mode=0o600)
    path.write_bytes(_empty[settings.service])


async def _migrate(service: str) -> bytes:
    package = find_spec(service)
    assert package is not None
    assert package.origin is not None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.db"
        database = open_database(f"sqlite:///{path}")
        try:
            await migrate(database, Path(package.origin).parent / "migrations")
        finally:
            await database.dispose()
        return path.read_bytes()
