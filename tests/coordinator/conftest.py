"""A coordinator and its aggregators in one process; one that listens and has a worker for jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from aggregator.app import create_app as create_aggregator
from common.runtime.clock import Clock
from coordinator.settings import CoordinatorSettings
from tests.aggregator.conftest import settings as aggregator_settings
from tests.aggregator.double import Federation
from tests.built_once import migrated
from tests.coordinator.double import OPERATOR_TOKEN, House, Wire
from tests.coordinator.jobs.office import Office, office
from tests.rules import RULE

Houses = Callable[..., AbstractAsyncContextManager[House]]


@pytest.fixture
def house(tmp_path: Path) -> Houses:
    """`async with house(3) as it`: a coordinator with 3 paired aggregators, all over ASGI."""
    return houses(tmp_path)


@pytest.fixture(scope="session")
def it(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    """One office, with its worker and its pages, for all tests here."""
    with office(tmp_path_factory.mktemp("office"), job_workers=1, console=True) as running:
        yield running


def houses(folder: Path) -> Houses:
    """The same, with its files in a folder."""

    @asynccontextmanager
    async def run(
        aggregators: int = 3,
        url: str | None = None,
        clock: Clock | None = None,
        paired: bool = True,
        one_machine: bool = False,
        **changes: Any,
    ) -> AsyncIterator[House]:
        async with AsyncExitStack() as stack:
            wires, clients = {}, []
            for index in range(aggregators):
                own = aggregator_settings(index, folder)
                await migrated(own)
                app = create_aggregator(own, clock=clock)
                await stack.enter_async_context(app.router.lifespan_context(app))
                address = f"http://aggregator-{index}.test"
                if one_machine:
                    address = f"http://127.0.0.1:{8_300 + index}"
                wires[address] = Wire(app)
                direct = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=address)
                clients.append(await stack.enter_async_context(direct))
            values: dict[str, Any] = {
                "data_dir": folder / "coordinator",
                "database_url": None if url is None else SecretStr(url),
                "operator_token": SecretStr(OPERATOR_TOKEN),
                "exact_rule": RULE,
                "poll_s": 0.01,
                "patience_s": 60.0,  # a busy machine announces no round in two seconds
                "lease_s": 1.2,
            }
            settings = CoordinatorSettings(**{**values, **changes})
            it = House(settings, Federation(*clients), list(wires.values()), wires, clock)
            await it.start()
            try:
                yield await it.pair() if paired else it
            finally:
                await it.stop()

    return run
