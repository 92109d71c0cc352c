"""SenML, InfluxDB line protocol and Home Assistant's statistics."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

import cbor2
import pytest

from tests.curator.conftest import START, OpenSite, Site
from tests.curator.files.tables.test_csv_import import upload
from tests.curator.stored import rows

BEGIN = int(START.timestamp())
PACK: list[dict[str, Any]] = [
    {"bn": "urn:dev:mac:0024befffe804ff1:", "bt": BEGIN, "bu": "kWh", "bver": 10},
    {"n": "energy_import", "v": 0.25},
    {"n": "energy_import", "t": 900, "v": 0.5, "ignored": 1},
    {"n": "energy_import", "t": 1800.5, "u": "J", "v": 360000},
    {"n": "1-0:32.7.0", "u": "V", "v": 230.4},
    {"n": "gas", "u": "m3", "bv": 10, "v": 1.5},
]


@pytest.mark.parametrize("form", ["json", "cbor", "endless"])
async def test_senml_files_and_requests(site: OpenSite, form: str) -> None:
    body = json.dumps(PACK, indent=1).encode() if form == "json" else cbor2.dumps(PACK)
    if form == "endless":
        body = b"\x9f" + body[1:] + b"\xff"
    media = f"application/senml+{'json' if form == 'json' else 'cbor'}"
    async with site() as s:
        await s.enrol("house")
        dry = await upload(s, "dry_run=true", body)
        assert (dry["dry_run"], len(dry["first"]), dry["accepted"]) == (True, 5, 5)
        assert {each["total"] for each in dry["sums"]} == {"0.75", "360000", "230.4", "11.5"}
        assert await rows(s) == []
        found = await upload(s, "", body)
        assert found["taken_for"].startswith("SenML: a ")
        assert (found["accepted"], found["rejected"]) == (5, 0), found
        stored = await rows(s)
        assert sum(q for *_, q in stored) == (Decimal("0.75") + Decimal("0.1")) * 10**12
        assert stored[2][1] == START + timedelta(seconds=1800, milliseconds=500)
        assert [(d, q) for d, _, q in await rows(s, "gas")] == [
            ("urn:dev:mac:0024befffe804ff1", 11_500_000_000)
        ]
        answer = await s.client.post("/v1/readings", content=body, headers={"Content-Type": media})
        assert {item["status"] for item in answer.json()["items"]} == {"duplicate"}
        assert len(answer.json()["items"]) == 5


BAD_RECORDS = [
    ({"vs": "on"}, "/vs", "is a text"),
    ({"vd": "AAAA"}, "/vd", "is data"),
    ({"vb": True}, "/vb", "is a truth value"),
    ({"s": 5}, "/s", "a sum over time"),
    ({}, "/v", "there is no value"),
    ({"v": "1"}, "/v", "is not a decimal number"),
    ({"v": 1, "n": "power_import"}, "/u", "a register of power"),
    ({"v": 1, "u": "lx"}, "/u", "is no unit"),
    ({"v": 1, "n": "x"}, "/n", "ends in no register"),
    ({"v": 1, "n": "energy import"}, "/n", "no name of SenML"),
    ({"v": 1, "t": 1e15}, "/t", "is no time"),
]


@pytest.mark.parametrize(("record", "pointer", "detail"), BAD_RECORDS)
async def test_a_bad_record_spoils_no_other(
    s: Site, record: dict[str, Any], pointer: str, detail: str
) -> None:
    base = {"bn": "house/", "bt": BEGIN, "bu": "kWh", "n": "energy_import", "v": 1}
    pack = [base, {"n": "energy_import", **record}, {"n": "energy_import", "t": 900, "v": 2}]
    await s.enrol("house")
    found = await upload(s, "form=senml", json.dumps(pack).encode())
    assert (found["accepted"], found["rejected"]) == (2, 1)
    assert found["errors"][0]["element"] in ("record 2", "v")
    assert detail in found["errors"][0]["detail"]
    answer = await s.client.post(
        "/v1/readings", content=json.dumps(pack), headers={"Content-Type": "application/senml+json"}
    )
    statuses = [item["status"] for item in answer.json()["items"]]
    assert statuses == ["duplicate", "rejected", "duplicate"]
    problem = answer.json()["items"][1]["problem"]
    assert (problem["pointer"] == pointer or pointer == "/u") and (
        detail in problem["detail"] or pointer == "/u"
    )


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b'[{"n":"a:gas","u":"m3","v":1,"t":1762192800,"x_":1}]', "ends with _"),
        (b'[{"bver":11,"n":"a:gas","u":"m3","v":1,"t":1762192800}]', "this version"),
        (b'[{"bt":"x","n":"a:gas","u":"m3","v":1}]', "/bt is not a decimal number"),
        (b'[{"n":"a:gas","u":"m3","v":1,"v":2,"t":1762192800}]', "has a label once"),
        (b'[{"n":"a:gas","u":"m3","v":1,"t":1762192800}', "damaged or cut off"),
        (b'[{"n":"a:gas","u":"m3","v":1,"t":1762192800}]]', "one array"),
        (cbor2.dumps(PACK)[:-3], "the CBOR is damaged or cut off"),
    ],
)
async def test_a_damaged_list_stores_nothing(s: Site, body: bytes, detail: str) -> None:
    await s.enrol("house")
    assert detail in (await upload(s, "form=senml", body, 422))["detail"]
    assert await rows(s, "gas") == await rows(s) == []


async def test_relative_times(s: Site) -> None:
    """A state may be of now; an amount may not; in a file now is not known."""
    media = {"Content-Type": "application/senml+json"}
    body = b'[{"n":"power_import","u":"W","v":5,"t":-10},{"n":"energy_import","u":"Wh","v":5}]'
    await s.enrol("house")
    answer = await s.client.post("/v1/readings", content=body, headers=media)
    first, second = answer.json()["items"]
    assert (first["status"], second["problem"]["pointer"]) == ("accepted", "/t")
    stored = await rows(s, "power_import")
    assert stored[0][1] == s.clock.now() - timedelta(seconds=10)
    total = await s.client.post(
        "/v1/readings?kind=total_increasing&register=energy_export",
        content=b'[{"n":"m-1","u":"Wh","v":5}]',
        headers=media,
    )
    assert total.json()["items"][0]["status"] == "accepted"
    found = await upload(s, "", body)
    assert (found["accepted"], found["rejected"]) == (0, 2)
    assert "relative" in found["errors"][0]["detail"]


# --- InfluxDB line protocol ----------------------------------------------------------------------

NS = BEGIN * 10**9
LINES = f"""# exported
kWh,domain=sensor,entity_id=heat\\ pump value=0.5,text="a, b=1" {NS}
kWh,domain=sensor,entity_id=heat\\ pump text="value=9",value=25e-2 {NS + 900 * 10**9}
kWh,domain=sensor,entity_id=roof value=2i {NS}
kWh,domain=sensor,entity_id=roof my\\ field=1,value=2i {NS}
kWh,domain=sensor,entity_id=roof other=2i {NS + 900 * 10**9}
W,domain=sensor,entity_id=roof value=99 {NS + 900 * 10**9}
"""
INFLUX = "unit=kWh&measurement=kWh&device_column=entity_id&curator=house"


async def test_line_protocol(s: Site) -> None:
    await s.enrol("house")
    found = await upload(s, INFLUX, LINES.encode())
    assert found["taken_for"].startswith("InfluxDB line protocol")
    assert (found["accepted"], found["duplicates"], found["rejected"]) == (3, 1, 0), found
    stored = await rows(s)
    assert sum(q for *_, q in stored) == Decimal("2.75") * 10**12
    assert {(d, at) for d, at, _ in stored} == {
        ("heat pump", START),
        ("heat pump", START + timedelta(minutes=15)),
        ("roof", START),
    }
    seconds = f"kWh,entity_id=roof value=2 {BEGIN}\n".encode()
    assert (await upload(s, INFLUX + "&precision=s", seconds))["duplicates"] == 1
    assert (await upload(s, INFLUX, seconds))["rejected"] == 1  # nanoseconds: 1970


@pytest.mark.parametrize(
    ("line", "detail"),
    [
        ("kWh,entity_id=a value=1", "the point has no time"),
        ('kWh,entity_id=a value="1" 1', "not a decimal number"),
        ("kWh,entity_id=a value=t 1", "not a decimal number"),
        ("kWh,host=a value=1 1", "the point has no tag entity_id"),
        ("kWh,entity_id=a value=1 x", "not of the form"),
        ("kWh,entity_id=a", "not of the form"),
        (f"kWh,entity_id=a value=1 {NS * 2}", "in the future"),
    ],
)
async def test_a_bad_point(s: Site, line: str, detail: str) -> None:
    await s.enrol("house")
    found = await upload(s, "form=influx&" + INFLUX, f"{line}\n{LINES}".encode())
    assert (found["accepted"], found["rejected"]) == (3, 1)
    assert (found["errors"][0]["line"], detail in found["errors"][0]["detail"]) == (1, True)


# --- Home Assistant ------------------------------------------------------------------------------


def statistics(**rows_of: list[dict[str, Any]]) -> dict[str, Any]:
    return {f"sensor.{name}": listed for name, listed in rows_of.items()}


def hour(k: int, **values: Any) -> dict[str, Any]:
    start = START - timedelta(days=1) + timedelta(hours=k)
    return {"start": start.isoformat(), "end": (start + timedelta(hours=1)).isoformat(), **values}


async def test_statistics(s: Site) -> None:
    changes = [hour(k, change=round(0.1 * k, 1) if k != 2 else None, sum=None) for k in range(5)]
    content = {"service_response": {"statistics": statistics(heat=changes)}}
    body = json.dumps(content).encode()
    await s.enrol("house")
    found = await upload(s, "unit=kWh", body)
    assert found["taken_for"].startswith("Home Assistant's statistics")
    assert (found["accepted"], found["rejected"]) == (4, 0)
    independent = sum(Decimal(repr(row["change"])) for row in changes if row["change"])
    assert sum(q for *_, q in await rows(s)) == independent * 10**12
    assert (await rows(s))[0][:2] == ("sensor.heat", START - timedelta(days=1))


async def test_sums_are_counters_at_the_end_of_the_hour(s: Site) -> None:
    first = int((START - timedelta(days=1)).timestamp() * 1000)
    listed = [
        {"start": first + k * 3_600_000, "end": first + (k + 1) * 3_600_000, "sum": total}
        for k, total in enumerate([10, 12.5, 13])
    ]
    body = json.dumps({"id": 1, "type": "result", "result": statistics(gas=listed)}).encode()
    await s.enrol("house")
    found = await upload(s, "unit=m3&register=gas", body)
    assert (found["accepted"], found["rejected"]) == (3, 0)
    assert [(at, q) for _, at, q in await rows(s, "gas")] == [
        (START - timedelta(hours=23), 2_500_000_000),
        (START - timedelta(hours=22), 500_000_000),
    ]
    power = {"statistics": statistics(power=[hour(0, mean=12.5), hour(1, mean=None)])}
    states = "unit=W&register=power_import"
    assert (await upload(s, states, json.dumps(power).encode()))["accepted"] == 1


@pytest.mark.parametrize(
    ("content", "detail", "status"),
    [
        ({"result": {"sensor.a": [hour(0, change="x")]}}, "not a decimal number", 200),
        (
            {"result": {"sensor.a": [{"start": "2025-11-03T18:00:00", "change": 1}]}},
            "RFC 3339",
            200,
        ),
        ({"result": {"sensor.a": [{"start": None, "sum": 1}]}}, "RFC 3339", 200),
        ({"result": {"sensor.a": 5}}, "no lists of statistics", 422),
        ({"result": {}}, "no lists of statistics", 422),
    ],
)
async def test_bad_statistics(s: Site, content: Any, detail: str, status: int) -> None:
    await s.enrol("house")
    body = json.dumps(content).encode()
    found = await upload(s, "form=home-assistant&unit=kWh", body, status)
    words = found["errors"][0]["detail"] if status == 200 else found["detail"]
    assert detail in words
    cut = json.dumps({"result": statistics(a=[hour(0, change=1)])}).encode()[:-2]
    await upload(s, "form=home-assistant&unit=kWh", cut, 422)
    assert await rows(s) == []
