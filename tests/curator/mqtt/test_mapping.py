"""Mappings: what a rule may say, which topics it takes, and payloads as the vendors send them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import to_json

from curator.errors import BadMapping
from curator.files.units_and_local_time import zone_named
from curator.intake.reading import Times, parse_item
from curator.mqtt.mapping import READY, Mapping, load, load_devices, routes, schema
from curator.mqtt.messages import Message, raw_items
from tests.curator.conftest import OPEN, PLAIN, query
from tests.curator.double import FakeWorld
from tests.curator.mqtt.broker import Broker, letters
from tests.curator.mqtt.conftest import Listening, metric, stored

TIMES = Times(0, 2 * 10**15)
RECEIVED = 1_730_000_000_000_000
TASMOTA: dict[str, Any] = {
    "Time": "2024-10-27T02:15:30+01:00",
    "ENERGY": {
        "TotalStartTime": "2023-01-08T10:11:12",
        "Total": 1234.567,
        "Yesterday": 3.201,
        "Today": 0.412,
        "Period": 5,
        "Power": 61,
        "ApparentPower": 70,
        "ReactivePower": 35,
        "Factor": 0.87,
        "Voltage": 231,
        "Current": 0.303,
    },
}


def read(name: str, topic: str, payload: bytes, zone: str | None = None) -> list[Any]:
    """The readings of a message under a ready mapping, well formed."""
    for route in routes(load(name), "site"):
        device = route.device(topic)
        if device is not None:
            message = Message(topic, payload, RECEIVED)
            where = None if zone is None else zone_named(zone)
            raws = raw_items(message, route.rule, device, where, 100)
            return [parse_item(raw, TIMES, 8) for raw in raws]
    raise AssertionError("no rule has this topic")


def test_the_schema_is_the_models() -> None:
    """For editors: rewrite it with `python -m curator.mqtt.mapping`."""
    written = resources.files("curator.mqtt") / "mappings" / "schema.json"
    assert json.loads(written.read_text("utf-8")) == schema()


@pytest.mark.parametrize("name", READY)
def test_ready_mappings_load_and_have_a_name_and_words(name: str) -> None:
    (mapping,) = load(name)
    assert mapping.name == name
    assert mapping.description


def test_tasmota() -> None:
    body = json.dumps(TASMOTA).encode()
    total, power = read("tasmota", "tele/plug-3/SENSOR", body)
    moment = round(datetime(2024, 10, 27, 1, 15, 30, tzinfo=UTC).timestamp() * 1e6)
    assert (total.device, total.register, total.kind) == (
        "plug-3",
        "energy_import",
        "total_increasing",
    )
    assert (total.quantity, total.unit, total.time) == (1_234_567 * 10**9, "kWh", moment)
    assert (power.register, power.quantity, power.kind) == ("power_import", 61 * 10**9, "instant")


def test_tasmota_without_energy_brings_nothing() -> None:
    body = b'{"Time":"2024-10-27T02:15:30","AM2301":{"Temperature":21.4}}'
    assert read("tasmota", "tele/plug-3/SENSOR", body) == []


def test_tasmota_with_a_local_time() -> None:
    def body(time: str) -> bytes:
        return json.dumps({**TASMOTA, "Time": time}).encode()

    topic = "tele/plug-3/SENSOR"
    total, _ = read("tasmota", topic, body("2024-07-01T12:00:00"), "Europe/Zurich")
    assert total.time == round(datetime(2024, 7, 1, 10, tzinfo=UTC).timestamp() * 1e6)
    for time, words in (("2024-10-27T02:15:00", "twice"), ("2024-03-31T02:15:00", "skip")):
        with pytest.raises(Exception, match=words):
            read("tasmota", topic, body(time), "Europe/Zurich")
    with pytest.raises(Exception, match="offset"):
        read("tasmota", topic, body("2024-07-01T12:00:00"))


@pytest.mark.parametrize(
    ("entity", "state", "register", "quantity"),
    [
        ("heat_pump_energy", b"4711.25", "energy_import", 4_711_250 * 10**9),
        ("roof_energy_export", b"12.5", "energy_export", 12_500 * 10**9),
        ("boiler_gas", b"81.004", "gas", 81_004 * 10**6),
        ("heat_pump_power", b"-13.5", "power_import", -13_500_000_000),
    ],
)
def test_home_assistant(entity: str, state: bytes, register: str, quantity: int) -> None:
    (item,) = read("home-assistant", f"homeassistant/sensor/{entity}/state", state)
    assert (item.register, item.quantity, item.time) == (register, quantity, RECEIVED)
    assert item.device == entity.rsplit("_energy")[0].rsplit("_gas")[0].rsplit("_power")[0]


@pytest.mark.parametrize("state", [b"unavailable", b"unknown", b""])
def test_home_assistant_without_a_state(state: bytes) -> None:
    assert read("home-assistant", "homeassistant/sensor/x_energy/state", state) == []


RULE: dict[str, Any] = {
    "topic": "m/{device}/x",
    "payload": "json",
    "time": "/t",
    "readings": [{"value": "/v", "unit": "Wh", "kind": "delta"}],
}


def mapping(**changes: Any) -> bytes:
    rule = {key: value for key, value in {**RULE, **changes}.items() if value is not None}
    return to_json({"format": "tacit.mqtt-mapping/1", "name": "mine", "rules": [rule]})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"topic": "m/x"}, "device"),
        ({"topic": "m/#/{device}"}, "not a topic"),
        ({"topic": "m/{device}/{device}"}, "not a topic"),
        ({"topic": "m//{device}"}, "not a topic"),
        ({"topic": "m/{meter}/{device}"}, "not a topic"),
        ({"payload": "csv"}, "readings"),
        ({"time": "t"}, "time"),
        ({"time": "received"}, "booked twice"),
        ({"readings": []}, "listed"),
        ({"payload": "text", "time": None}, "pointer"),
        ({"payload": "readings", "time": None}, "listed"),
        ({"readings": [{"unit": "Wh", "kind": "delta"}]}, "pointer"),
        ({"readings": [{"value": "/v", "unit": "ohm"}]}, "one of"),
        ({"readings": [{"value": "v", "unit": "Wh"}]}, "value"),
        ({"readings": [{"value": "/v", "unit": "Wh", "register": "a b"}]}, "register"),
        ({"more": 1}, "more"),
    ],
)
def test_a_rule_that_cannot_be_used_says_why(
    changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.json"
    path.write_bytes(mapping(**changes))
    with pytest.raises(BadMapping, match="mine\\.json") as found:
        load(str(path))
    assert words in found.value.detail


@pytest.mark.parametrize(
    ("name", "text"), [("a.toml", "x = "), ("a.json", "{"), ("b.toml", None), ("c.json", "[]")]
)
def test_a_file_that_cannot_be_read_is_named(name: str, text: str | None, tmp_path: Path) -> None:
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    for loader in (lambda: load(str(path)), lambda: load_devices(path)):
        with pytest.raises(BadMapping, match=name):
            loader()


def test_devices_are_a_table(tmp_path: Path) -> None:
    path = tmp_path / "devices.json"
    path.write_text('{"meter-1": "house-1"}')
    assert load_devices(path) == {"meter-1": "house-1"}
    path.write_text('{"meter 1": "house-1"}')
    with pytest.raises(BadMapping):
        load_devices(path)
    assert load_devices(None) == {}


def test_topics_of_a_rule() -> None:
    model = Mapping.model_validate_json(mapping(topic="a.b/{site}/+/{device}_x/s"))
    (route,) = routes([model], "north")
    assert route.filter == "a.b/north/+/+/s"
    assert route.device("a.b/north/q/meter-1_x/s") == "meter-1"
    for topic in ("acb/north/q/m_x/s", "a.b/south/q/m_x/s", "a.b/north/q/m/s", "a.b/north/m_x/s"):
        assert route.device(topic) is None


async def test_home_assistant_and_tasmota_on_a_broker(
    listening: Listening, broker: Broker, world: FakeWorld, tmp_path: Path
) -> None:
    """Beside each other and beside Tacit's own topics; other sensors are passed over."""
    own = tmp_path / "own.json"
    own.write_bytes(mapping(time="/at"))
    names = f"tacit,home-assistant,tasmota,{own}"
    async with listening(mqtt_mappings=names) as s, broker.client("reader") as reader:
        await s.policy(**OPEN)
        await s.enrol("house")
        await reader.subscribe("tacit/v1/site/+/dead", qos=1)
        at = {"Time": "2025-12-31T12:00:00+00:00"}
        later = {"Time": "2025-12-31T12:30:00+00:00", "ENERGY": {"Total": 1236.067}}
        await broker.publish("tele/plug-3/SENSOR", {**TASMOTA, **at}, later)
        await broker.publish("homeassistant/sensor/heat_pump_energy/state", "10", "unavailable")
        await broker.publish("homeassistant/sensor/hall_temperature/state", "21.4")
        await broker.publish("m/other/x", {"at": "2025-12-31T12:45:00Z", "v": 250})
        await broker.publish("tele/plug-3/SENSOR", {**TASMOTA, "Time": "2025-12-31T12:00:00"})
        (letter,) = await letters(reader, 1)
        assert (letter["topic"], letter["refused"]) == ("tele/plug-3/SENSOR", 2)
        assert {error["pointer"] for error in letter["errors"]} == {"/time"}
        assert (await stored(s, "house", 5))["accepted"] == 5
        assert await metric(s, 'outcome="ignored"') == 2
        descriptor = s.open(query(PLAIN))
        await s.take_part()
        assert world.result(descriptor) == {"sum": "1.75"}
