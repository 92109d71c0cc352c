"""Aggregators in process, and the double that drives them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from pydantic import SecretStr

from aggregator.app import create_app
from aggregator.settings import AggregatorSettings
from common.runtime.clock import ManualClock
from tests.aggregator.double import OPERATOR_TOKEN, Federation
from tests.built_once import migrated
from tests.rules import RULE

Running = Callable[[FastAPI], AbstractAsyncContextManager[httpx.AsyncClient]]
Alliance = Callable[..., AbstractAsyncContextManager[Federation]]


def settings(
    index: int, folder: Path, url: str | None = None, **changes: Any
) -> AggregatorSettings:
    """Settings of aggregator number `index`."""
    values: dict[str, Any] = {
        "data_dir": folder / f"aggregator-{index}",
        "database_url": None if url is None else SecretStr(url),
        "aggregator_id": f"aggregator-{index}",
        "operator": f"operator-{index}",
        "operator_token": SecretStr(OPERATOR_TOKEN),
        "exact_rule": RULE,
    }
    return AggregatorSettings(**{**values, **changes})


@pytest.fixture
def alliance(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock, running: Running
) -> Alliance:
    """`async with alliance(3) as federation`: paired aggregators over ASGI. All are on SQLite; the
    first is on PostgreSQL, too, for a test that asks for `database_url`."""
    url = None
    if "database_url" in request.fixturenames:
        url = request.getfixturevalue("database_url")

    @asynccontextmanager
    async def run(count: int = 1, **changes: Any) -> AsyncIterator[Federation]:
        async with AsyncExitStack() as stack:
            clients = []
            for index in range(count):
                own = settings(index, tmp_path, url if index == 0 else None, **changes)
                await migrated(own)
                app = create_app(own, clock=clock)
                client = await stack.enter_async_context(running(app))
                client.app = app  # type: ignore[attr-defined]
                clients.append(client)
            yield await Federation(*clients, now=clock.now()).pair()

    return run


@pytest.fixture
async def single(alliance: Alliance) -> AsyncIterator[Federation]:
    """One paired aggregator."""
    async with alliance(1) as federation:
        yield federation


@pytest.fixture
async def pair(alliance: Alliance) -> AsyncIterator[Federation]:
    """Two paired aggregators."""
    async with alliance(2) as federation:
        yield federation


@pytest.fixture
async def trio(alliance: Alliance) -> AsyncIterator[Federation]:
    """Three paired aggregators."""
    async with alliance(3) as federation:
        yield federation
