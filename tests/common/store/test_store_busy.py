"""A store that is too busy or away: 503 with Retry-After, never 500."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from asyncpg import exceptions as postgres
from fastapi import FastAPI
from pydantic import SecretStr
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from common.runtime.settings import ServiceSettings
from common.store.database import open_store
from common.store.failures import Cause, cause
from common.web.app import build_app
from tests.conftest import postgres_database, postgres_server

pytestmark = pytest.mark.postgres


@pytest.fixture
async def url() -> AsyncIterator[str]:
    server = await postgres_server()
    if server is None:
        pytest.skip("no PostgreSQL server")
    async with postgres_database(server) as found:
        yield found


@asynccontextmanager
async def service(
    directory: Path, url: str
) -> AsyncIterator[tuple[httpx.AsyncClient, asyncio.Event, asyncio.Event]]:
    """A service with one connection to its store, and a route that keeps it: the first event says
    that it has it, the second lets it go."""
    held, go = asyncio.Event(), asyncio.Event()
    settings = ServiceSettings(
        data_dir=directory,
        database_url=SecretStr(url),
        database_pool_size=1,
        database_pool_overflow=0,
        database_pool_timeout_s=0.3,
    )
    database = open_store(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await database.dispose()

    app = build_app("probe", settings, lifespan, version="1")

    async def ask(request: Request) -> Response:
        async with database.begin() as transaction:
            await transaction.execute(text("SELECT 1"))
            if request.url.path == "/kept":
                held.set()
                await go.wait()
        return PlainTextResponse("ok")

    async def late(_: Request) -> Response:
        async with database.begin() as transaction:
            await transaction.execute(text("SET statement_timeout = 50"))
            await transaction.execute(text("SELECT pg_sleep(30)"))
        return PlainTextResponse("ok")

    app.add_route("/ask", ask)
    app.add_route("/kept", ask)
    app.add_route("/late", late)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app), base_url="http://it.test", timeout=60
        ) as client,
    ):
        yield client, held, go


def refused(answer: httpx.Response) -> bool:
    return (
        answer.status_code == 503
        and answer.headers["retry-after"] == "1"
        and answer.json()["type"] == "urn:tacit:problem:unavailable"
        and answer.json()["retryable"] is True
    )


async def test_an_exhausted_pool_is_answered_503(tmp_path: Path, url: str) -> None:
    async with service(tmp_path, url) as (client, held, go):
        assert (await client.get("/ask")).status_code == 200
        kept = asyncio.create_task(client.get("/kept"))
        await held.wait()
        answers = await asyncio.gather(*(client.get("/ask") for _ in range(5)))
        assert all(map(refused, answers))
        go.set()
        assert (await kept).status_code == 200
        assert (await client.get("/ask")).status_code == 200


async def test_a_statement_that_takes_too_long_is_answered_503(tmp_path: Path, url: str) -> None:
    async with service(tmp_path, url) as (client, _, _):
        assert refused(await client.get("/late"))


async def test_a_database_that_is_not_there_is_no_matter_of_waiting(
    tmp_path: Path, url: str
) -> None:
    async with service(tmp_path, url + "_absent") as (client, _, _):
        assert (await client.get("/ask")).status_code == 500


@pytest.mark.parametrize(
    "error",
    [
        postgres.TooManyConnectionsError("x"),
        postgres.CannotConnectNowError("x"),
        postgres.AdminShutdownError("x"),
        ConnectionRefusedError(),
        ConnectionResetError(),
        DBAPIError("x", None, postgres.LockNotAvailableError("x")),
        DBAPIError("x", None, postgres.DeadlockDetectedError("x")),
        DBAPIError("x", None, postgres.SerializationError("x")),
    ],
    ids=lambda error: type(getattr(error, "orig", error)).__name__,
)
def test_what_may_succeed_later(error: Exception) -> None:
    assert cause(error) is Cause.PASSING


@pytest.mark.parametrize(
    "error",
    [
        ValueError("x"),
        postgres.InvalidCatalogNameError("x"),
        postgres.InvalidPasswordError("x"),
        DBAPIError("x", None, postgres.UniqueViolationError("x")),
    ],
    ids=lambda error: type(getattr(error, "orig", error)).__name__,
)
def test_what_will_not(error: Exception) -> None:
    assert cause(error) is not Cause.PASSING
