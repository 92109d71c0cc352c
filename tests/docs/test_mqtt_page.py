"""The page on meters on MQTT, with a real broker and the services of a deployment."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cli.services.deployment import Deployment, Running, pair
from tests.curator.mqtt.broker import EXECUTABLE, WHY, Broker
from tests.docs.walkthrough import walk

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.slow
@pytest.mark.skipif(EXECUTABLE is None, reason=WHY)
@pytest.mark.skipif(shutil.which("mosquitto_pub") is None, reason="there is no mosquitto_pub")
def test_meters_on_mqtt(tmp_path: Path) -> None:
    home = tmp_path / ".tacit"
    home.mkdir()
    broker = Broker(tmp_path / "broker")
    broker.start()
    deployment = Deployment.plan(home, 3)
    deployment.save()
    settings = {"TACIT_MQTT_HOST": "127.0.0.1", "TACIT_MQTT_PORT": str(broker.port)}
    running = Running(deployment, {"curator": settings})
    try:
        running.start()
        pair(deployment)
        walk(DOCS / "how-to" / "enrol-curators.md", tmp_path, {"COLUMNS": "110"})
        around = {"BROKER_PORT": str(broker.port), "CURATOR": deployment.curator.url}
        walk(DOCS / "how-to" / "meters-on-mqtt.md", tmp_path, around)
    finally:
        running.stop()
        broker.stop()
