"""A curator service in process, beside a world of doubles."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from pydantic import SecretStr

from common.runtime.clock import ManualClock
from common.store.database import open_database
from common.store.transactions import Transaction
from common.web.dependencies import part_of
from curator.app import create_app
from curator.participation.loop import Participation
from curator.settings import CuratorSettings
from curator.store.tables import metadata
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.query.query import Query
from tests.built_once import migrated
from tests.curator.double import COORDINATOR, FakeWorld
from tests.rules import RULE, energy_sum, ruled

OPERATOR = "operator-token-of-the-curator-tests-0123456789"
START = datetime(2025, 12, 31, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)

PLAIN = energy_sum(name="feeder-7", n_max=100_000, deadline_s=3600) | {"mechanism": "exact"}
NOISY: dict[str, Any] = {
    **PLAIN,
    "mechanism": "distributed",
    "epsilon": "1",
    "layer": "aggregator",
    "collusion": {"curators": 0, "aggregators": 2},
}
OPEN: dict[str, Any] = {"allow_unverified": True, "exact": RULE}


def query(base: dict[str, Any] = PLAIN, **changes: Any) -> Query:
    import json

    return Query.model_validate_json(json.dumps(ruled({**base, **changes})))


class Site:
    """A running curator service and a client with its operator's token."""

    def __init__(
        self, app: FastAPI, client: httpx.AsyncClient, world: FakeWorld, clock: ManualClock
    ) -> None:
        self.app, self.client, self.world, self.clock = app, client, world, clock

    async def request(
        self, method: str, path: str, body: Any = None, status: int = 200, **kwargs: Any
    ) -> Any:
        if body is not None:
            kwargs["json"] = body
        answer = await self.client.request(method, path, **kwargs)
        assert answer.status_code == status, (answer.status_code, answer.text)
        return answer.json() if answer.content else None

    async def get(self, path: str) -> Any:
        return await self.request("GET", path)

    async def enrol(self, party: str, curators: list[str] | None = None) -> Any:
        size = None if curators is None else len(curators)
        body: dict[str, Any] = {"token": self.world.join_token(party, size)}
        if curators is not None:
            body["curators"] = curators
        return await self.request("POST", "/v1/enrolments", body, 201)

    async def policy(self, **fields: Any) -> None:
        await self.request("PUT", "/v1/policy", fields)

    async def send(self, items: Any) -> list[dict[str, Any]]:
        answer = await self.request("POST", "/v1/readings", items)
        found: list[dict[str, Any]] = answer["items"]
        return found

    async def reading(self, curator: str, value: str, minute: int = 0, **fields: Any) -> None:
        item = {
            "curator": curator,
            "time": (START + timedelta(minutes=minute)).isoformat(),
            "value": value,
            "unit": "kWh",
            **fields,
        }
        answers = await self.send([item])
        assert answers[0]["status"] == "accepted", answers

    def open(self, asked: Query, **changes: Any) -> RoundDescriptor:
        start = changes.pop("start", START)
        end = changes.pop("end", start + HOUR)
        return self.world.open_round(asked, start, end, self.clock.now(), **changes)

    async def take_part(self) -> None:
        """One turn of the loop: discover, contribute, deliver."""
        assert await part_of(self.app, Participation).discover(COORDINATOR)
        await part_of(self.app, Participation).contribute_due()
        await part_of(self.app, Participation).tell_refusals()

    async def history(self, curator: str) -> list[dict[str, Any]]:
        answer = await self.get(f"/v1/curators/{curator}/contributions")
        found: list[dict[str, Any]] = answer["contributions"]
        return found


OpenSite = Callable[..., AbstractAsyncContextManager[Site]]


@pytest.fixture
async def transaction(tmp_path: Path) -> AsyncIterator[Transaction]:
    """A transaction on an empty store of a curator, in SQLite."""
    database = open_database(f"sqlite:///{tmp_path / 'store.db'}")
    async with database.begin() as opened:
        await opened.run_sync(metadata.create_all)
        yield opened
    await database.dispose()


@pytest.fixture
def world() -> FakeWorld:
    return FakeWorld()


@pytest.fixture
def site(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock, world: FakeWorld
) -> OpenSite:
    """`async with site() as s`: the service with this test's database; again is a restart.

    The database is SQLite's, and PostgreSQL's too for a test that asks for `database_url`.
    """
    url = f"sqlite:///{tmp_path / 'test.db'}"
    if "database_url" in request.fixturenames:
        url = request.getfixturevalue("database_url")

    return partial(curators, tmp_path / "curator", world, clock, database_url=SecretStr(url))


@pytest.fixture
async def s(site: OpenSite) -> AsyncIterator[Site]:
    """The service, running; for tests that start it once and change no settings."""
    async with site() as running:
        yield running


@asynccontextmanager
async def curators(
    folder: Path, world: FakeWorld, clock: ManualClock, **changes: Any
) -> AsyncIterator[Site]:
    """The real curator service, its peers reached in process."""
    values: dict[str, Any] = {
        "data_dir": folder,
        "operator_token": SecretStr(OPERATOR),
        "participate": False,
        "send_window_share": 0,
        "retry_s": 0.01,
        "settle_after_s": 0,
        "policy_epsilon": "10",
    }
    settings = CuratorSettings(**{**values, **changes})
    await migrated(settings)
    app = create_app(settings, clock=clock, transports=world.transports)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app),
            base_url="http://curator.test",
            headers={"Authorization": f"Bearer {OPERATOR}"},
        ) as client,
    ):
        yield Site(app, client, world, clock)
