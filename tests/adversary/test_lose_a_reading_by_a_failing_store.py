"""The store fails for a while: nothing that it did not take may be acknowledged, nothing is lost.

A trigger raises the errors of a server with too little space, memory or time; the control raises
one that the value itself causes, which is refused for good.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import httpx
import pytest

from common.store.transactions import Database
from common.web.dependencies import part_of
from curator.mqtt.connection import Connection
from tests.conftest import postgres_database, postgres_server
from tests.curator.conftest import OpenSite, Site
from tests.curator.mqtt.broker import Broker, letters
from tests.curator.mqtt.conftest import broker, connected, listening, metric, stored

__all__ = ["broker", "listening"]
TOPIC = "tacit/v1/site/house/readings"
GOOD = {"time": "2025-12-31T12:00:00Z", "value": "1.5", "unit": "kWh"}
PASSING = ["08006", "25006", "53100", "57014"]
CSV = {"curator": "house", "unit": "kWh"}


@pytest.fixture(params=[pytest.param("postgres", marks=pytest.mark.postgres)])
async def database_url() -> AsyncIterator[str]:
    server = await postgres_server()
    if server is None:
        pytest.skip("no PostgreSQL server")
    async with postgres_database(server) as found:
        yield found


@asynccontextmanager
async def failing(url: str, state: str) -> AsyncIterator[None]:
    """While no reading can be stored."""
    connection = await asyncpg.connect(url.replace("+asyncpg", ""))
    try:
        await connection.execute(
            "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"RAISE EXCEPTION 'x' USING ERRCODE = '{state}'; END $$; "
            "CREATE TRIGGER fail BEFORE INSERT ON reading FOR EACH ROW EXECUTE FUNCTION fail()"
        )
        yield
        await connection.execute("DROP TRIGGER fail ON reading; DROP FUNCTION fail()")
    finally:
        await connection.close()


def unavailable(answer: httpx.Response, name: str = "unavailable") -> bool:
    problem = answer.json()
    assert problem["type"] == f"urn:tacit:problem:{name}", problem
    return (answer.status_code, "retry-after" in answer.headers) == (503, True)


async def not_ready(s: Site) -> str:
    answer = await s.client.get("/readyz")
    assert answer.status_code == 503
    found: str = answer.json()["checks"]["database"]
    return found


@pytest.mark.parametrize("state", PASSING)
async def test_a_request_is_answered_503_and_stored_later(
    s: Site, database_url: str, state: str
) -> None:
    await s.enrol("house")
    item = {**GOOD, "curator": "house"}
    file = f"time,value\n{GOOD['time']},1.5\n"
    async with failing(database_url, state):
        one = await s.client.post("/v1/readings", json=item)
        many = await s.client.post("/v1/readings/import", params=CSV, content=file)
        assert unavailable(one)
        assert unavailable(many)
        assert one.json()["retryable"] is True
        assert await not_ready(s) == f"a write failed ({state})"
    assert (await s.send([item]))[0]["status"] == "accepted"


@pytest.mark.parametrize("state", [*PASSING, "42501", "P0001", "XX001"])
async def test_a_message_is_not_acknowledged_and_stored_later(
    site: OpenSite, database_url: str, broker: Broker, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values: dict[str, Any] = {"mqtt_host": "127.0.0.1", "mqtt_port": broker.port}
    lost, whole = asyncio.Event(), Connection._set

    def watched(connection: Connection, up: bool) -> None:
        whole(connection, up)
        if not up:
            lost.set()

    monkeypatch.setattr(Connection, "_set", watched)
    async with site(**values) as s:
        await connected(s)
        await s.enrol("house")
        lost.clear()
        async with failing(database_url, state):
            await broker.publish(TOPIC, GOOD)
            await lost.wait()
            assert await metric(s, 'mqtt_connections_total{outcome="lost"}') == 1
            assert "a write failed" in await not_ready(s)
        counts = await stored(s, "house", 1)
        assert (counts["accepted"], counts["duplicates"]) == (1, 0)
        assert not await metric(s, 'mqtt_messages_total{outcome="refused"')


@pytest.mark.parametrize("state", ["22003", "23514"])
async def test_control_a_value_that_the_store_never_takes_holds_up_nothing(
    site: OpenSite, database_url: str, broker: Broker, state: str
) -> None:
    values: dict[str, Any] = {"mqtt_host": "127.0.0.1", "mqtt_port": broker.port}
    async with site(**values) as s, broker.client("reader") as reader:
        await connected(s)
        await s.enrol("house")
        await reader.subscribe("tacit/v1/site/+/dead", qos=1)
        async with failing(database_url, state):
            await broker.publish(TOPIC, GOOD)
            (letter,) = await letters(reader, 1)
            assert letter["type"] == "urn:tacit:problem:unprocessable_message"
            assert (await s.client.get("/readyz")).status_code == 200


async def test_a_database_that_only_reads_is_not_ready_without_a_request(
    s: Site, database_url: str
) -> None:
    connection = await asyncpg.connect(database_url.replace("+asyncpg", ""))
    name = await connection.fetchval("SELECT current_database()")
    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND "
    others += "pid <> pg_backend_pid()"
    try:
        await connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only=on")
        await connection.fetch(others, name)
        assert "takes no writes" in await not_ready(s)
    finally:
        await connection.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
        await connection.fetch(others, name)
        await connection.close()


class TestSqlite:
    """The same with the errors of a file."""

    @pytest.mark.parametrize("limit", ["query_only=ON", "max_page_count=1"])
    async def test_a_full_or_read_only_file(self, s: Site, limit: str) -> None:
        await s.enrol("house")
        async with part_of(s.app, Database).reading() as transaction:
            await transaction.on_driver(lambda driver: driver.execute(f"PRAGMA {limit}"))
        items = [
            {**GOOD, "curator": "house", "time": 1_600_000_000_000 + second * 1000}
            for second in range(5000)
        ]
        assert unavailable(await s.client.post("/v1/readings", json=items))
        assert "SQLITE_" in await not_ready(s)
