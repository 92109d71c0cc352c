"""A coordinator and its aggregators in one process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from aggregator.app import create_app as create_aggregator
from coordinator.app import create_app
from coordinator.settings import CoordinatorSettings
from tests.aggregator.conftest import settings as aggregator_settings
from tests.aggregator.double import Federation
from tests.coordinator.double import OPERATOR_TOKEN, House

Houses = Callable[..., AbstractAsyncContextManager[House]]


@pytest.fixture
def house(tmp_path: Path) -> Houses:
    """`async with house(3) as it`: a coordinator with 3 paired aggregators, all over ASGI."""

    @asynccontextmanager
    async def run(
        aggregators: int = 3, url: str | None = None, **changes: Any
    ) -> AsyncIterator[House]:
        async with AsyncExitStack() as stack:
            clients, transports = [], {}
            for index in range(aggregators):
                app = create_aggregator(aggregator_settings(index, tmp_path))
                await stack.enter_async_context(app.router.lifespan_context(app))
                address = f"http://aggregator-{index}.test"
                transports[address] = httpx.ASGITransport(app=app)
                clients.append(
                    await stack.enter_async_context(
                        httpx.AsyncClient(transport=transports[address], base_url=address)
                    )
                )
            values: dict[str, Any] = {
                "data_dir": tmp_path / "coordinator",
                "database_url": None if url is None else SecretStr(url),
                "operator_token": SecretStr(OPERATOR_TOKEN),
                "insecure_allow_exact": True,
                "poll_s": 0.02,
                "patience_s": 2.0,
            }
            coordinator = create_app(
                CoordinatorSettings(**{**values, **changes}), transports=transports
            )
            await stack.enter_async_context(coordinator.router.lifespan_context(coordinator))
            client = await stack.enter_async_context(
                httpx.AsyncClient(
                    transport=httpx.ASGITransport(app=coordinator), base_url="http://house.test"
                )
            )
            yield await House(client, Federation(*clients)).pair()

    return run
