"""The asynchronous client against a real coordinator, in process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

import tacit
from coordinator.app import create_app
from coordinator.settings import CoordinatorSettings
from tests.tacit.examples import METERED, fields

TOKEN = "operator-token-of-the-client-tests-0123456789"
QUERY = fields(**METERED, name="feeder")


@asynccontextmanager
async def coordinator(directory: Path) -> AsyncIterator[httpx.ASGITransport]:
    settings = CoordinatorSettings(data_dir=directory, operator_token=SecretStr(TOKEN))
    app = create_app(settings)
    async with app.router.lifespan_context(app):
        yield httpx.ASGITransport(app=app)


async def test_calls_against_a_coordinator(tmp_path: Path) -> None:
    async with (
        coordinator(tmp_path) as transport,
        tacit.AsyncClient("http://it.test", TOKEN, transport=transport) as client,
    ):
        await client.wait_until_ready(5)
        names = [f"feeder-{number}" for number in range(3)]
        ids = [(await client.queries.create({**QUERY, "name": name}))["id"] for name in names]
        assert [item["id"] async for item in client.queries.list()] == ids
        paged = client.pages("/v1/queries", "queries", limit=1)
        assert [item["query"]["name"] async for item in paged] == names
        assert (await client.queries.get(ids[0]))["query"]["name"] == names[0]
        assert (await client.queries.preview(QUERY))["mechanism"]
        assert (await client.budget.verify())["verified"]
        assert (await client.keys.identity())["deployment"] == "tacit"
        assert [item async for item in client.budget.events()] == []

        made = await client.tokens.create("analyst", label="reader", valid_s=600)
        async with tacit.AsyncClient(
            "http://it.test", made["token"], transport=transport
        ) as analyst:
            assert (await analyst.queries.get(ids[1]))["id"] == ids[1]
            with pytest.raises(tacit.Forbidden):
                await analyst.queries.create(QUERY)
        tokens = [item async for item in client.tokens.list()]
        assert made["id"] in [item["id"] for item in tokens]
        await client.tokens.revoke(made["id"])


async def test_refusals_of_a_coordinator(tmp_path: Path) -> None:
    async with (
        coordinator(tmp_path) as transport,
        tacit.AsyncClient("http://it.test", TOKEN, transport=transport) as client,
        tacit.AsyncClient("http://it.test", transport=transport) as nobody,
    ):
        with pytest.raises(tacit.NotFound) as missing:
            await client.queries.get("no-such-query")
        assert missing.value.name == "unknown_query"
        with pytest.raises(tacit.Invalid) as wrong:
            await client.queries.create({**QUERY, "epsilon": "0"})
        assert [item.pointer for item in wrong.value.errors] == ["/epsilon"]
        await client.queries.create(QUERY, key="mine")
        assert (await client.queries.create(QUERY, key="mine"))["query"]["name"] == "feeder"
        with pytest.raises(tacit.KeyReused):
            await client.queries.create({**QUERY, "name": "other"}, key="mine")
        with pytest.raises(tacit.Unauthenticated):
            await nobody.queries.create(QUERY)
