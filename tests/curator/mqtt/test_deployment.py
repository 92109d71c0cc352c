"""The example configuration of Mosquitto: TLS, users, and who may write where."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiomqtt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from pydantic import SecretStr

from cli.services.config import Authority
from tests.curator.conftest import OpenSite
from tests.curator.mqtt.broker import EXECUTABLE, WHY, Broker
from tests.curator.mqtt.conftest import connected, metric, stored

EXAMPLE = Path(__file__).parents[3] / "deploy" / "mosquitto"
USERS = ("curator", "meter-1", "meter-2", "homeassistant")
NOT_AUTHORISED = 0x87
GOOD: dict[str, Any] = {"time": "2025-12-31T12:00:00Z", "value": "1.5", "unit": "kWh"}


def authority(folder: Path) -> Path:
    """An authority's certificate, and under it that of a broker on 127.0.0.1."""
    made = Authority.make("test authority", 30)
    (folder / "ca.pem").write_bytes(made.certificate.public_bytes(Encoding.PEM))
    certificate, key = made.issue(["127.0.0.1"], 30)
    (folder / "broker.pem").write_bytes(certificate)
    (folder / "broker.key").write_bytes(key)
    return folder / "ca.pem"


def prepared(folder: Path) -> Broker:
    """The example with its paths and port in a folder."""
    tool = shutil.which("mosquitto_passwd")
    if EXECUTABLE is None or tool is None:
        pytest.skip(WHY + ", or no mosquitto_passwd")
    (folder / "config").mkdir(parents=True)
    authority(folder / "config")
    shutil.copy(EXAMPLE / "acl", folder / "config" / "acl")
    passwords = folder / "config" / "passwords"
    passwords.write_text("".join(f"{user}:secret of {user}\n" for user in USERS))
    passwords.chmod(0o600)
    subprocess.run([tool, "-U", str(passwords)], check=True)
    own = ("listener", "persistence", "persistence_location")
    lines = (EXAMPLE / "mosquitto.conf").read_text().splitlines()
    kept = [line for line in lines if line.split(" ")[0] not in own]
    return Broker(folder, "\n".join([*kept, ""]).replace("/mosquitto/", f"{folder}/"))


@pytest.fixture
def example(tmp_path: Path) -> Iterator[Broker]:
    """The example, running."""
    made = prepared(tmp_path / "example")
    made.start()
    yield made
    made.stop()


def credentials(broker: Broker, user: str) -> dict[str, Any]:
    """How a user connects."""
    context = ssl.create_default_context(cafile=str(broker.folder / "config" / "ca.pem"))
    return {"username": user, "password": f"secret of {user}", "tls_context": context}


async def reason(broker: Broker, user: str, topic: str) -> int:
    """The broker's reason code to a message of a user."""
    import paho.mqtt.client as mqtt

    code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    async with broker.client(user, **credentials(broker, user)) as client:

        def published(_: Any, __: Any, ___: Any, answer: Any, ____: Any) -> None:
            if not code.done():
                code.set_result(answer.value)

        client._client.on_publish = published
        assert client._client.publish(topic, b"[]", qos=1).rc == mqtt.MQTT_ERR_SUCCESS
        async with asyncio.timeout(60):
            return await code


async def test_who_may_write_where(example: Broker) -> None:
    for user, topic, allowed in (
        ("meter-1", "tacit/v1/site/meter-1/readings", True),
        ("meter-1", "tacit/v1/site/meter-2/readings", False),
        ("meter-1", "tacit/v1/other/meter-1/readings", False),
        ("meter-1", "tacit/v1/site/meter-1/dead", False),
        ("meter-1", "tele/meter-1/SENSOR", True),
        ("meter-1", "tele/meter-2/SENSOR", False),
        ("meter-1", "homeassistant/sensor/x_energy/state", False),
        ("homeassistant", "homeassistant/sensor/x_energy/state", True),
        ("homeassistant", "tacit/v1/site/meter-1/readings", False),
        ("curator", "tacit/v1/site/meter-1/dead", True),
        ("curator", "tacit/v1/site/meter-1/readings", False),
    ):
        assert (await reason(example, user, topic) != NOT_AUTHORISED) == allowed, (user, topic)


async def test_who_may_read_what(example: Broker, site: OpenSite) -> None:
    """A device hears nothing of another; a stranger does not get in."""
    settings = {
        "mqtt_host": "127.0.0.1",
        "mqtt_port": example.port,
        "mqtt_user": "curator",
        "mqtt_password": SecretStr("secret of curator"),
        "mqtt_tls": True,
        "mqtt_tls_authority": example.folder / "config" / "ca.pem",
    }
    async with (
        site(**settings) as s,
        example.client("one", **credentials(example, "meter-1")) as one,
        example.client("two", **credentials(example, "meter-2")) as two,
    ):
        await s.enrol("house")
        await connected(s)
        for client in (one, two):
            await client.subscribe("tacit/v1/site/+/readings", qos=1)
            await client.subscribe("tacit/v1/site/+/dead", qos=1)
        await one.publish("tacit/v1/site/meter-1/readings", b'{"time": 0}', qos=1)
        await one.publish("tacit/v1/site/meter-1/readings", b"{broken", qos=1)
        await one.publish(
            "tacit/v1/site/meter-1/readings",
            b'{"time": "2025-12-31T12:00:00Z", "value": 1, "unit": "Wh"}',
            qos=1,
        )
        await stored(s, "house", 1)
        async with asyncio.timeout(60):
            heard = [str((await anext(one.messages)).topic) for _ in range(2)]
        assert heard == ["tacit/v1/site/meter-1/dead"] * 2
        assert len(one.messages) == len(two.messages) == 0
    with pytest.raises(aiomqtt.MqttError, match=r"(?i)authori|bad user"):
        async with example.client("none", **{**credentials(example, "meter-1"), "password": "x"}):
            pass


async def test_an_authority_that_is_not_the_brokers_is_refused(
    example: Broker, site: OpenSite, tmp_path: Path
) -> None:
    other = authority(tmp_path)
    settings = {
        "mqtt_host": "127.0.0.1",
        "mqtt_port": example.port,
        "mqtt_tls": True,
        "mqtt_tls_authority": other,
    }
    async with site(**settings) as s:
        async with asyncio.timeout(60):
            while not await metric(s, 'mqtt_connections_total{outcome="failed"}'):
                await asyncio.sleep(0.02)
        assert (await s.client.get("/readyz")).status_code == 503
