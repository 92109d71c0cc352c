"""Mappings: what a rule may say, which topics it takes, and payloads as the vendors send them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from importlib import resources
from pathlib import Path
from typing import Any

import cbor2
import pytest
from pydantic_core import to_json

from common.runtime.clock import zone_named
from curator.errors import BadItem, BadMapping
from curator.intake.intake import Answer, Status
from curator.intake.reading import Times, parse_item
from curator.mqtt.mapping import READY, Mapping, load, load_devices, routes, schema
from curator.mqtt.messages import Message, letter_of, raw_items
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
    return [parse_item(raw, TIMES, 8) for raw in _raws(name, topic, payload, zone)]


def _raws(name: str, topic: str, payload: bytes, zone: str | None = None) -> list[Any]:
    for route in routes(load(name), "site"):
        device = route.device(topic)
        if device is not None:
            message = Message(topic, payload, RECEIVED)
            where = None if zone is None else zone_named(zone)
            return raw_items(message, route.rule, device, where, 100)
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


def test_tasmota_of_three_phases() -> None:
    energy = {
        "Total": [10.5, None, 0.25],
        "Power": [61, None, 0],
        "Voltage": [231, 230, None],
        "Current": [0.3, None, None],
    }
    body = json.dumps({"Time": "2024-10-27T02:15:30+01:00", "ENERGY": energy}).encode()
    found = [
        (item.device, item.register, item.quantity)
        for item in read("tasmota", "tele/m/SENSOR", body)
    ]
    assert sorted(found) == [
        ("m", "1-0:21.7.0", 61 * 10**9),
        ("m", "1-0:31.7.0", 3 * 10**8),
        ("m", "1-0:32.7.0", 231 * 10**9),
        ("m", "1-0:52.7.0", 230 * 10**9),
        ("m", "1-0:61.7.0", 0),
        ("m.L1", "energy_import", 10_500 * 10**9),
        ("m.L3", "energy_import", 250 * 10**9),
    ]


def test_senml_in_both_forms() -> None:
    records = [
        {"bn": "plug-3:", "bt": Decimal("1729991730.5"), "n": "power_import", "u": "W", "v": 61},
        {"n": "energy_import", "u": "kWh", "v": Decimal("1.25")},
    ]
    plain = json.dumps(records, default=float).encode()
    for payload in (plain, cbor2.dumps(records)):
        power, energy = read("senml", "tacit/v1/site/plug-3/senml", payload)
        assert (power.quantity, power.time, power.kind) == (61 * 10**9, 1729991730500000, "instant")
        assert (energy.quantity, energy.kind) == (1250 * 10**9, "delta")
        _, total = read("senml", "tacit/v1/site/plug-3/senml-totals", payload)
        assert total.kind == "total_increasing"
    now = b'[{"n": "power_import", "u": "W", "v": 1, "t": -2}]'
    assert read("senml", "tacit/v1/site/p/senml", now)[0].time == RECEIVED - 2_000_000
    for bad in (
        b'[{"n":"p:energy_import","u":"Wh","v":1}]',
        b'[{"n":"q:power_import","u":"W","v":1}]',
    ):
        assert isinstance(_raws("senml", "tacit/v1/site/p/senml", bad)[0], BadItem)


def test_a_state_of_home_assistant_may_be_quoted() -> None:
    (item,) = read("home-assistant", "homeassistant/sensor/p_energy/state", b'"4711.25"')
    assert item.quantity == 4_711_250 * 10**9
    assert read("home-assistant", "homeassistant/sensor/p_energy/state", b'"unavailable"') == []


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


@pytest.mark.parametrize("state", [b"unavailable", b"unknown", b"", b"nan", b"null", b"None"])
def test_home_assistant_without_a_state(state: bytes) -> None:
    assert read("home-assistant", "homeassistant/sensor/x_energy/state", state) == []


Found = tuple[str, str, str, int]
"""Device, register, kind, nano-units."""
TOTAL, STATE = "total_increasing", "instant"


def found(name: str, topic: str, payload: Any) -> list[Found]:
    """What a payload becomes, in a form to compare."""
    text = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return [(i.device, i.register, i.kind.value, i.quantity) for i in read(name, topic, text)]


DAMAGED = {
    "cut": json.dumps(TASMOTA)[:-9],
    "nan": json.dumps({**TASMOTA, "ENERGY": {"Total": float("nan")}}),
    "endless": json.dumps({**TASMOTA, "ENERGY": {"Total": 1}}).replace(": 1}", ": 1e999999}"),
    "deep": "[" * 100_000,
    "deep inside": json.dumps(TASMOTA)[:-1] + ', "x": ' + "[" * 100_000,
    "doubled": '{"Time": "2024-10-27T02:15:30Z", "ENERGY": {"Total": 1, "Total": 2}}',
    "no time": json.dumps({**TASMOTA, "Time": ["2024-10-27T02:15:30Z"]}),
    "a text": json.dumps({**TASMOTA, "ENERGY": {"Total": "x" * (1 << 20)}}),
    "no text": "\udcff\udcfe",
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_payload_is_refused(name: str) -> None:
    """By message or by item; nothing of it is taken for nothing."""
    payload = DAMAGED[name].encode("utf-8", "surrogateescape")
    with pytest.raises(BadItem):
        read("tasmota", "tele/plug-3/SENSOR", payload)


def test_tasmota_after_a_restart_has_no_total() -> None:
    empty = {**TASMOTA, "ENERGY": {**TASMOTA["ENERGY"], "Total": None, "Power": None}}
    assert found("tasmota", "tele/plug-3/SENSOR", empty) == []
    unset = json.dumps({**TASMOTA, "Time": "1970-01-01T00:00:12+00:00"}).encode()
    with pytest.raises(BadItem, match="lies before 2000-01-01"):
        [
            parse_item(raw, Times(946_684_800 * 10**6, TIMES.latest), 8)
            for raw in _raws("tasmota", "tele/plug-3/SENSOR", unset)
        ]


@pytest.mark.parametrize(
    ("topic", "payload", "expected"),
    [
        ("relay/0/energy", b"90", ("plug-3", "energy_import", TOTAL, 1_500_000_000)),  # Wmin
        ("relay/0/power", b"61.35", ("plug-3", "power_import", STATE, 61_350_000_000)),
        ("relay/1/energy", b"1", ("plug-3.1", "energy_import", TOTAL, 16_666_667)),
        ("emeter/0/total", b"1234.5", ("plug-3", "energy_import", TOTAL, 1_234_500_000_000)),
        ("emeter/2/total_returned", b"7.0", ("plug-3.2", "energy_export", TOTAL, 7 * 10**9)),
        ("emeter/1/power", b"-332.20", ("plug-3.1", "power_net", STATE, -332_200_000_000)),
        ("emeter/1/voltage", b"229.91", ("plug-3.1", "1-0:12.7.0", STATE, 229_910_000_000)),
    ],
)
def test_shelly_gen1(topic: str, payload: bytes, expected: Found) -> None:
    assert found("shelly-gen1", f"shellies/plug-3/{topic}", payload) == [expected]


SHELLY: dict[str, Any] = {
    "src": "shellyplus2pm-a8032ab1",
    "dst": "shellyplus2pm-a8032ab1/events",
    "method": "NotifyStatus",
    "params": {
        "ts": 1730000040.27,
        "switch:0": {
            "id": 0,
            "apower": 61.3,
            "voltage": 231.2,
            "aenergy": {"by_minute": [0.0, 31.2, 40.1], "minute_ts": 1730000040, "total": 5120.125},
        },
        "switch:1": {"id": 1, "aenergy": {"minute_ts": 1730000040, "total": 7}},
    },
}


def test_shelly_gen2() -> None:
    topic = "shellyplus2pm-a8032ab1/events/rpc"
    device = topic.partition("/")[0]
    items = read("shelly-gen2", topic, json.dumps(SHELLY).encode())
    assert {item.time for item in items} == {1_730_000_040_270_000}
    assert found("shelly-gen2", topic, SHELLY) == [
        (device, "energy_import", TOTAL, 5_120_125_000_000),
        (device, "power_net", STATE, 61_300_000_000),
        (device, "1-0:12.7.0", STATE, 231_200_000_000),
        (f"{device}.1", "energy_import", TOTAL, 7 * 10**9),
    ]


def test_shelly_gen2_with_three_phases_and_without_readings() -> None:
    topic, device = "em/events/rpc", "em"
    params: dict[str, Any] = {
        "ts": 1730000100,
        "em:0": {
            "id": 0,
            "a_voltage": 230.1,
            "a_current": 1.5,
            "c_voltage": None,
            "total_act_power": -420.5,
        },
        "emdata:0": {"id": 0, "total_act": 1000.25, "total_act_ret": 33.0},
    }
    assert found("shelly-gen2", topic, {**SHELLY, "params": params}) == [
        (device, "energy_import", TOTAL, 1_000_250_000_000),
        (device, "energy_export", TOTAL, 33 * 10**9),
        (device, "power_net", STATE, -420_500_000_000),
        (device, "1-0:32.7.0", STATE, 230_100_000_000),
        (device, "1-0:31.7.0", STATE, 1_500_000_000),
    ]
    event = {"ts": 1730000100.5, "events": [{"component": "sys", "event": "config_changed"}]}
    other = {**SHELLY, "method": "NotifyEvent", "params": event}
    assert found("shelly-gen2", topic, other) == []


@pytest.mark.parametrize("ts", [None, "noon", 12.5, 1e20, True])
def test_shelly_gen2_without_a_clock_is_refused(ts: Any) -> None:
    params = {**SHELLY["params"], "ts": ts}
    text = json.dumps({**SHELLY, "params": params}).encode()
    times = Times(946_684_800 * 10**6, TIMES.latest)
    for raw in _raws("shelly-gen2", "em/events/rpc", text):
        with pytest.raises(BadItem) as caught:
            parse_item(raw, times, 8)
        assert caught.value.pointer == "/time"


def test_zigbee2mqtt() -> None:
    state = {
        "current": 0.303,
        "energy": 81.27,
        "last_seen": "2024-10-27T03:33:20.000Z",
        "linkquality": 120,
        "power": 61,
        "state": "ON",
        "voltage": 231,
    }
    assert found("zigbee2mqtt", "zigbee2mqtt/plug-3", state) == [
        ("plug-3", "energy_import", TOTAL, 81_270 * 10**9),
        ("plug-3", "power_net", STATE, 61 * 10**9),
        ("plug-3", "1-0:11.7.0", STATE, 303_000_000),
    ]
    blank = {"energy": None, "power": None, "state": "OFF"}
    assert found("zigbee2mqtt", "zigbee2mqtt/plug-3", blank) == []
    climate = {"battery": 97, "humidity": 51.2, "temperature": 21.3, "voltage": 3000}  # in mV
    assert found("zigbee2mqtt", "zigbee2mqtt/attic", climate) == []


@pytest.mark.parametrize(
    ("sensor", "payload", "expected"),
    [
        ("energy_import", b"1234.567", ("node", "energy_import", TOTAL, 1_234_567 * 10**9)),
        ("power", b"-61.30", ("node", "power_net", STATE, -61_300_000_000)),
        ("gas", b"81.004", ("node", "gas", TOTAL, 81_004_000_000)),
        ("voltage", b"231.2", ("node", "1-0:12.7.0", STATE, 231_200_000_000)),
        ("energy_import", b"nan", None),
        ("power", b"None", None),
    ],
)
def test_esphome(sensor: str, payload: bytes, expected: Found | None) -> None:
    items = found("esphome", f"node/sensor/{sensor}/state", payload)
    assert items == ([] if expected is None else [expected])


def test_dsmr_reader() -> None:
    telegram = {
        "id": 4711,
        "timestamp": "2024-10-27T02:15:10+01:00",
        "electricity_delivered_1": "1234.567",
        "electricity_returned_1": "0.000",
        "electricity_delivered_2": "2345.678",
        "electricity_returned_2": "12.500",
        "electricity_currently_delivered": "0.061",
        "electricity_currently_returned": "0.000",
        "phase_currently_delivered_l1": "0.061",
        "phase_voltage_l1": "231.2",
        "phase_voltage_l2": None,
        "phase_power_current_l1": 1,
        "extra_device_timestamp": "2024-10-27T02:10:00+01:00",
        "extra_device_delivered": "956.212",
    }
    items = read("dsmr-reader", "dsmr/json", json.dumps(telegram).encode())
    assert [(item.register, item.kind.value, item.quantity) for item in items] == [
        ("1-0:1.8.1", TOTAL, 1_234_567 * 10**9),
        ("1-0:1.8.2", TOTAL, 2_345_678 * 10**9),
        ("1-0:2.8.1", TOTAL, 0),
        ("1-0:2.8.2", TOTAL, 12_500 * 10**9),
        ("power_import", STATE, 61 * 10**9),
        ("power_export", STATE, 0),
        ("1-0:32.7.0", STATE, 231_200_000_000),
        ("1-0:31.7.0", STATE, 10**9),
        ("gas", TOTAL, 956_212_000_000),
    ]
    moment = round(datetime(2024, 10, 27, 1, 15, 10, tzinfo=UTC).timestamp() * 1e6)
    assert {item.time for item in items[:-1]} == {moment}
    assert items[-1].time == moment - 310 * 10**6  # the gas meter's own
    assert {item.device for item in items} == {"dsmr"}


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
        ({"time": "received"}, "counted twice"),
        ({"readings": []}, "listed"),
        ({"payload": "text", "time": None}, "pointer"),
        ({"payload": "readings", "time": None}, "listed"),
        ({"readings": [{"unit": "Wh", "kind": "delta"}]}, "pointer"),
        ({"readings": [{"value": "/v", "unit": "ohm"}]}, "one of"),
        ({"readings": [{"value": "v", "unit": "Wh"}]}, "value"),
        ({"readings": [{"value": "/v", "unit": "kwh"}]}, "kWh?"),
        ({"readings": [{"value": "/v", "unit": "Wh", "channel": "1"}]}, "channel"),
        ({"time_unit": "min"}, "time_unit"),
        (
            {"payload": "text", "time": None, "readings": [{"unit": "Wh", "time": "/t"}]},
            "only json has a time",
        ),
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


def test_a_dead_letter_names_all_bad_fields() -> None:
    errors = ({"pointer": "/unit", "detail": "x"}, {"pointer": "/time", "detail": "y"})
    refused = [
        Answer(0, Status.REJECTED, "bad_reading", "x", "/unit", errors),
        Answer(1, Status.REJECTED, "bad_reading", "y", "/time"),
    ]
    letter = letter_of(Message("t", b"", RECEIVED), "dead", refused, 2)
    first, second = json.loads(letter.payload)["errors"]
    assert first["errors"] == list(errors)
    assert "errors" not in second


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
