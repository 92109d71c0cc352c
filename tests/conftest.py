"""Fixtures that the tests of every service share.

`database_url` gives a fresh, empty database, once in SQLite and once in PostgreSQL. The server is
taken from `TACIT_TEST_POSTGRES` (a URL with a role that may create databases), else from the
loopback address; without one the PostgreSQL half is skipped.
"""

import os
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import asyncpg
import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy.ext.asyncio import AsyncEngine

from common.service.clock import ManualClock
from common.service.database import open_database

_SERVERS = (
    [os.environ["TACIT_TEST_POSTGRES"]]
    if "TACIT_TEST_POSTGRES" in os.environ
    else [f"postgresql://{role}@127.0.0.1:5432/postgres" for role in ("root", "postgres")]
)
_found: list[str | None] = []


async def _postgres_server() -> str | None:
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
        _found.append(answer)
    return _found[0]


@asynccontextmanager
async def _postgres_database(server: str) -> AsyncIterator[str]:
    name = f"tacit_test_{secrets.token_hex(6)}"
    connection = await asyncpg.connect(server, timeout=10)
    try:
        await connection.execute(f"CREATE DATABASE {name}")
        try:
            yield server.rpartition("/")[0].replace("postgresql:", "postgresql+asyncpg:") + (
                f"/{name}"
            )
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
    server = await _postgres_server()
    if server is None:
        pytest.skip("no PostgreSQL server answers on 127.0.0.1:5432 (or TACIT_TEST_POSTGRES)")
    async with _postgres_database(server) as url:
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
