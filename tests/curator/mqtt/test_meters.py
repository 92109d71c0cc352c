"""Meters on a real broker: stored once, acknowledged late, refused with a reason, nothing lost."""

from __future__ import annotations

import asyncio
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

import curator
from common.runtime.logs import configure_logging
from common.web.app import StartFailed
from curator.settings import CuratorSettings
from tests.curator.conftest import OPEN, PLAIN, OpenSite, query
from tests.curator.mqtt.broker import Broker, letters
from tests.curator.mqtt.conftest import Listening, connected, metric, stored

TOPIC = "tacit/v1/site/meter-1/readings"
GOOD: dict[str, Any] = {"time": "2025-12-31T12:00:00Z", "value": "1.5", "unit": "kWh"}


def reading(number: int, value: str = "0.5") -> dict[str, Any]:
    """One of ten thousand readings of a meter, a second apart."""
    hour, second = divmod(number, 3600)
    minute, second = divmod(second, 60)
    time = f"2025-12-31T{12 + hour:02d}:{minute:02d}:{second:02d}Z"
    return {"time": time, "value": value, "unit": "kWh"}


async def test_readings_are_stored_and_summed(listening: Listening, broker: Broker) -> None:
    async with listening() as s:
        await s.policy(**OPEN)
        await s.enrol("house")
        old = {"value": "0.25", "unit": "kWh"}
        lines = "\n".join(
            json.dumps({"time": time, **old}) for time in (1_600_000_000_000, 1_600_000_001_000)
        )
        properties = Properties(PacketTypes.PUBLISH)
        properties.ContentType = "application/x-ndjson"
        await broker.publish(TOPIC, GOOD, [GOOD, {**GOOD, "time": "2025-12-31T12:15:00Z"}])
        await broker.publish(TOPIC, lines, properties=properties)
        counts = await stored(s, "house", 4)
        assert (counts["accepted"], counts["duplicates"], counts["rejected"]) == (4, 1, 0)
        descriptor = s.open(query(PLAIN))
        await s.take_part()
        assert s.world.result(descriptor) == {"sum": "3"}
        assert await metric(s, 'mqtt_messages_total{outcome="accepted"') == 3


async def test_a_device_is_its_curators(
    listening: Listening, broker: Broker, tmp_path: Any
) -> None:
    table = tmp_path / "devices.toml"
    table.write_text('"meter-1" = "b"\n')
    async with listening(mqtt_devices=table) as s:
        await s.enrol("gw", ["a", "b"])
        await broker.publish(TOPIC, GOOD, {**GOOD, "curator": "b", "time": 1_600_000_001_000})
        await broker.publish("tacit/v1/site/a/readings", GOOD)
        assert (await stored(s, "b", 2))["accepted"] == 2
        assert (await stored(s, "a", 1))["accepted"] == 1


BAD: list[tuple[Any, str, str | None, int | None]] = [
    ("{broken", "malformed_body", None, None),
    ([], "malformed_body", None, None),
    ([GOOD] * 9, "too_many_items", None, None),
    ([GOOD, {**GOOD, "unit": "horse"}], "bad_reading", "/unit", 1),
    ({**GOOD, "value": "987123x"}, "bad_reading", "/value", 0),
    ({**GOOD, "device": "meter-2"}, "bad_reading", "/device", 0),
    ({**GOOD, "curator": "b"}, "foreign_curator", "/curator", 0),
    ({**GOOD, "value": "2"}, "reading_conflict", "/time", 0),
    ({**GOOD, "time": "2099-01-01T00:00:00Z"}, "bad_reading", "/time", 0),
    ("[" * 100_000, "malformed_body", None, None),
]


async def test_what_is_bad_goes_to_the_dead_letters_and_holds_up_nothing(
    listening: Listening, broker: Broker
) -> None:
    said = io.StringIO()
    configure_logging("debug", "json", stream=said)
    async with listening(max_items=8) as s, broker.client("reader") as reader:
        await s.enrol("gw", ["a", "b"])
        await reader.subscribe("tacit/v1/site/+/dead", qos=1)
        topic = "tacit/v1/site/a/readings"
        await broker.publish(topic, GOOD)
        await stored(s, "a", 1)
        for payload, reason, pointer, index in BAD:
            await broker.publish(topic, payload)
            (letter,) = await letters(reader, 1)
            assert letter["format"] == "tacit.dead-letter/1"
            assert letter["topic"] == topic
            assert letter["type"] == f"urn:tacit:problem:{reason}"
            if index is None:
                assert letter["pointer"] == pointer
                assert letter["detail"]
            else:
                (error,) = letter["errors"]
                assert (error["index"], error["pointer"]) == (index, pointer)
                assert error["type"] == letter["type"]
                assert error["detail"]
                assert letter["refused"] == 1
            assert "987123" not in str(letter)
        await broker.publish("tacit/v1/site/stranger/readings", GOOD)
        (letter,) = await letters(reader, 1)
        assert letter["type"] == "urn:tacit:problem:unknown_curator"
        await broker.publish(topic, {**GOOD, "time": 1_600_000_005_000})
        assert (await stored(s, "a", 2))["accepted"] == 2
        assert await metric(s, 'outcome="refused",reason="bad_reading"') == 4
        text = (await s.client.get("/metrics")).text
        for private in ("987123", "stranger", "meter-2"):
            assert private not in said.getvalue() + text


async def test_a_letter_carries_the_correlation_of_its_message(
    listening: Listening, broker: Broker
) -> None:
    async with listening() as s, broker.client("reader") as reader:
        await s.enrol("house")
        await reader.subscribe("tacit/v1/site/meter-1/dead", qos=1)
        properties = Properties(PacketTypes.PUBLISH)
        properties.CorrelationData = b"message 7"
        await broker.publish(TOPIC, "{", properties=properties)
        async with asyncio.timeout(60):
            message = await anext(reader.messages)
        assert message.properties is not None
        assert message.properties.CorrelationData == b"message 7"
        assert message.properties.ContentType == "application/json"


async def test_a_broker_that_restarts_in_the_middle_loses_nothing(
    listening: Listening, broker: Broker
) -> None:
    async with listening(mqtt_receive_maximum=50, mqtt_batch_messages=20) as s:
        await s.enrol("house")
        await broker.publish(TOPIC, *(reading(number) for number in range(200)))
        await asyncio.to_thread(broker.stop)
        async with asyncio.timeout(60):
            while (await s.client.get("/readyz")).status_code != 503:
                await asyncio.sleep(0.02)
        assert await metric(s, "tacit_curator_mqtt_connected") == 0
        await asyncio.to_thread(broker.start)
        await broker.publish(TOPIC, *(reading(number) for number in range(200, 300)))
        await connected(s)
        counts = await stored(s, "house", 300)
        assert (counts["accepted"], counts["conflicts"]) == (300, 0)


async def test_retained_states_are_not_dated_anew(listening: Listening, broker: Broker) -> None:
    await broker.publish(TOPIC, {**GOOD, "time": 1_600_000_007_000}, retain=True)
    async with listening() as s:
        await s.enrol("house")
        await broker.publish(TOPIC, GOOD)
        assert (await stored(s, "house", 1))["accepted"] == 1


async def test_no_broker_is_said_and_harms_nothing_else(site: OpenSite) -> None:
    async with site(mqtt_host="127.0.0.1", mqtt_port=1) as s:
        await s.enrol("house")
        answer = await s.client.get("/readyz")
        assert answer.status_code == 503
        assert answer.json()["checks"]["mqtt"] == "the MQTT broker is not connected"
        assert (await s.send(GOOD))[0]["status"] == "accepted"


async def test_dead_letters_are_sent_through_a_flood(listening: Listening, broker: Broker) -> None:
    """Answers of the broker are read although more waits than fits."""
    async with listening() as s:
        await s.enrol("house")
    bad = [reading(number) if number % 3 else "{" for number in range(150)]
    await broker.publish(TOPIC, *bad)
    async with listening(mqtt_receive_maximum=5, mqtt_batch_messages=50) as s:
        assert (await stored(s, "house", 100))["accepted"] == 100
        async with asyncio.timeout(60):
            while await metric(s, 'mqtt_dead_letters_total{outcome="sent"}') < 50:
                await asyncio.sleep(0.02)
        assert await metric(s, 'mqtt_dead_letters_total{outcome="failed"}') == 0


async def test_without_the_extra_it_says_so(
    site: OpenSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("curator.mqtt.connection", "curator.mqtt.connection"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "aiomqtt", None)
    with pytest.raises(StartFailed, match="extra `mqtt`"):
        async with site(mqtt_host="127.0.0.1"):
            pass


def test_a_curator_without_a_broker_loads_no_mqtt() -> None:
    """Outside its own package nothing imports it at the head of a module."""
    package = Path(curator.__file__).parent
    for path in package.rglob("*.py"):
        if path.parent.name != "mqtt":
            assert not re.search(
                r"^(from|import) (curator\.mqtt|aiomqtt|paho)", path.read_text(), re.M
            )


async def test_settings_that_cannot_be_used_are_named(site: OpenSite) -> None:
    changes: tuple[tuple[dict[str, Any], str], ...] = (
        ({"mqtt_mappings": " , "}, "at least one"),
        ({"mqtt_mappings": "none.toml"}, "none.toml"),
        ({"mqtt_timezone": "Europe/Bern"}, "TACIT_MQTT_TIMEZONE"),
        ({"mqtt_devices": Path("none.json")}, "none.json"),
    )
    for changed, words in changes:
        with pytest.raises(StartFailed, match=words):
            async with site(mqtt_host="127.0.0.1", **changed):
                pass


@pytest.mark.parametrize(
    "changes",
    [
        {"mqtt_tls_authority": "ca.pem"},
        {"mqtt_tls": True, "mqtt_tls_key": "client.key"},
        {"mqtt_site": "a/b"},
        {"mqtt_site": "#"},
        {"mqtt_receive_maximum": 0},
    ],
)
def test_settings_that_make_no_sense(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="mqtt"):
        CuratorSettings(**changes)
