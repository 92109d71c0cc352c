"""Every body that a service takes, changed at random: an answer that says what is wrong.

No entrance answers an internal error, whatever the bytes; and none is taken in silence for a file
that it is not.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import lzma
from dataclasses import dataclass
from zoneinfo import ZoneInfo

import cbor2
import pytest

from curator.intake.reading import Times, parse_item
from curator.mqtt.mapping import load, routes
from curator.mqtt.messages import Message, raw_items
from tacit.errors import DomainError
from tests.coordinator import conftest as coordinator
from tests.coordinator.conftest import Houses
from tests.coordinator.datasets.forms import hand_in
from tests.coordinator.double import WINDOW, query
from tests.curator import conftest as curator
from tests.curator.conftest import START, OpenSite, Site
from tests.curator.files.devices.test_dsmr import telegram
from tests.curator.files.devices.test_iec62056 import checked, profile, readout
from tests.curator.files.devices.test_sensor_files import LINES, PACK, hour
from tests.curator.files.market.green_button_files import FeedFile, Meter
from tests.curator.files.market.test_market_files import MSCONS, NEM13
from tests.fuzz.mutations import mutated

house = coordinator.house
site, world = curator.site, curator.world
CASES = 15
LONG = b'curator,device,time,value\nhouse,m,2025-12-31T12:00:00Z,"0.5"\nhouse,m,1767182400000,2\n'
LOCAL = b"house;d;t;v\nhouse;31.12.2025;12:00;0,5\nhouse;31.12.2025;12:15;1e0\n"
WIDE = b"meter,a,b,c\nhouse,0.5,1,2\nhouse,1,2\n"
READINGS = json.dumps(
    [
        {"time": "2025-12-31T12:00:00Z", "value": "0.5", "unit": "kWh", "device": "m"},
        {"time": 1767182400000, "values": [1, 2.5], "unit": "1", "register": "row"},
        {"time": 1767182400000, "value": 9, "unit": "Wh", "kind": "total_increasing"},
    ]
).encode()
FEED = FeedFile([Meter("point", [1, 2], START)]).text().encode()
FORM = (
    b'--edge\r\nContent-Disposition: form-data; name="file"; filename="m.csv"\r\n\r\n'
    + LONG
    + b"\r\n--edge--\r\n"
)
DSMR = telegram("251231120000W")
LIST = checked(readout())
SENML = json.dumps(PACK).encode()
STATISTICS = json.dumps({"result": {"sensor.a": [hour(0, change=1), hour(1, sum=2)]}}).encode()
_IMPORT = "/v1/readings/import?"
_LONG = f"{_IMPORT}unit=kWh&curator_column=curator"
_LOCAL = (
    f"{_IMPORT}unit=kWh&curator_column=house&delimiter=%3B&decimal=,&date_column=d&time_column=t"
    "&value_column=v&time_format=%25d.%25m.%25Y%20%25H:%25M&timezone=Europe/Zurich"
)
_WIDE = f"{_IMPORT}unit=kWh&layout=wide&start=2025-12-31T12:00:00Z&step_s=900"


@dataclass(frozen=True)
class Entrance:
    """Where bytes come in, and what they should be."""

    path: str
    form: str
    valid: bytes


ENTRANCES = {
    "readings": Entrance("/v1/readings", "application/json", READINGS),
    "lines": Entrance(
        "/v1/readings", "application/x-ndjson", READINGS[1:-1].replace(b"}, ", b"}\n")
    ),
    "long": Entrance(_LONG, "text/csv", LONG),
    "counters": Entrance(f"{_LONG}&kind=total_increasing", "text/csv", LONG),
    "local": Entrance(_LOCAL, "text/csv", LOCAL),
    "wide": Entrance(_WIDE, "text/csv", WIDE),
    "gzip": Entrance(_WIDE, "text/csv", gzip.compress(WIDE, mtime=0)),
    "xz": Entrance(_WIDE, "text/csv", lzma.compress(WIDE)),
    "feed": Entrance(f"{_IMPORT}curator=house", "application/atom+xml", FEED),
    "form": Entrance(_LONG, "multipart/form-data; boundary=edge", FORM),
    "dsmr": Entrance(f"{_IMPORT}form=dsmr", "text/plain", DSMR),
    "list": Entrance(f"{_IMPORT}form=iec62056&timezone=UTC&stamp=end", "text/plain", LIST),
    "profile": Entrance(
        f"{_IMPORT}form=iec62056&timezone=Europe/Zurich&stamp=end",
        "text/plain",
        profile(["1", "2"]),
    ),
    "mscons": Entrance(f"{_IMPORT}form=mscons&timezone=Europe/Zurich", "text/plain", MSCONS),
    "nem13": Entrance(f"{_IMPORT}form=nem13", "text/csv", NEM13),
    "influx": Entrance(f"{_IMPORT}form=influx&unit=kWh", "text/plain", LINES.encode()),
    "statistics": Entrance(f"{_IMPORT}form=home-assistant&unit=kWh", "text/plain", STATISTICS),
    "senml file": Entrance(f"{_IMPORT}form=senml", "text/plain", SENML),
    "senml cbor": Entrance(f"{_IMPORT}form=senml", "text/plain", cbor2.dumps(PACK)),
    "senml": Entrance("/v1/readings", "application/senml+json", SENML),
    "cbor": Entrance("/v1/readings", "application/senml+cbor", cbor2.dumps(PACK)),
    "any": Entrance(f"{_IMPORT}unit=kWh&dry_run=true", "text/plain", SENML),
    "records": Entrance(
        "/v1/records",
        "application/json",
        b'{"curator": "house", "columns": ["x", "y"], "rows": [[1, 2.5], [3, 4]]}',
    ),
    "policy": Entrance("/v1/policy", "application/json", b'{"min_participants": 10, "record": {}}'),
    "enrolments": Entrance(
        "/v1/enrolments", "application/json", b'{"token": "dGFjaXQ", "curators": ["a", "b"]}'
    ),
}


async def answered(s: Site, entrance: Entrance, body: bytes) -> int:
    """The status; whatever was sent, no internal error."""
    method = "PUT" if entrance.path == "/v1/policy" else "POST"
    answer = await s.client.request(
        method, entrance.path, content=body, headers={"Content-Type": entrance.form}
    )
    assert answer.status_code < 500, (entrance.path, body, answer.text)
    return answer.status_code


async def test_changed_bodies_never_break_a_curator_service(site: OpenSite) -> None:
    async with site() as s:
        await s.enrol("house")
        for entrance in ENTRANCES.values():
            valid = entrance.valid
            odd = (valid, b"", b"\x00" * 9, b"\xff\xfe" + valid, io.DEFAULT_BUFFER_SIZE * b"7")
            for body in (*odd, *mutated(valid, CASES, seed=15)):
                await answered(s, entrance, body)


DATASETS = {
    "numeric-table csv": b"x,y,label\n1,2.5,0\n3,4,1\n5,6,0\n",
    "transactions text": b"1 2 3\n2 5\n\n3\n",
    "sequences msnbc": b"% Different categories:\n\na b c\n\n% Sequences:\n\n1 2 3 \n2 \n",
    "edge-list snap": b"# a comment\n0 1\n1 2\n2 0\n",
}


async def test_changed_datasets_never_break_a_coordinator(house: Houses) -> None:
    async with house(0) as it:
        for what, valid in DATASETS.items():
            kind, form = what.split()
            answer = await hand_in(it, valid, kind=kind, format=form)
            assert answer.status_code == 201, answer.text
            others = (b"", b"\0" * 9, b"7\n8\n", b"\xff\xfe" + valid, gzip.compress(valid)[:-9])
            for body in (*others, *mutated(valid, CASES, seed=15)):
                answer = await hand_in(it, body, kind=kind, format=form)
                assert answer.status_code < 500, (body, answer.text)


BODIES: dict[str, object] = {
    "POST /v1/queries": query(),
    "POST /v1/queries/preview": query(mechanism="distributed", epsilon="1"),
    "POST /v1/rounds": {"query_id": "q", "window": WINDOW},
    "PUT /v1/budget/limits": {"limits": [{"unit": "curator", "epsilon": "5"}]},
    "POST /v1/budget/preview": {"query": query(), "window": WINDOW},
    "POST /v1/groups": {"name": "street", "curators": ["a", "b"]},
    "POST /v1/grants": {"party": "house", "kind": "curator", "max_curators": 1},
    "POST /v1/tokens": {"scope": "analyst", "label": "x"},
    "POST /v1/datasets": {"name": "t", "kind": "numeric-table", "format": "csv", "rows": [[1]]},
    "POST /v1/jobs/preview": {"algorithm": "kmeans", "params": {"k": 2}, "dataset": "d"},
    "POST /v1/enrolments": {"statement": {"party": "a"}, "signature": "AAAA"},
}


async def test_changed_bodies_never_break_a_coordinator(house: Houses) -> None:
    async with house(0) as it:
        for route, value in BODIES.items():
            valid = json.dumps(value).encode()
            for body in (b"", b"[]", b"7", b"\xff", b"[" * 9999, *mutated(valid, CASES, seed=15)):
                answer = await it.ask(*route.split(), body)
                assert answer.status_code < 500, (route, body, answer.text)


async def test_changed_bodies_never_break_an_aggregator(house: Houses) -> None:
    async with house(1) as it:
        peer = it.federation.peers[0]
        for method, path, valid in (
            ("POST", "/v1/grants", {"party": "house", "kind": "curator", "max_curators": 1}),
            ("PUT", "/v1/coordinator", {"deployment": "d", "identity_key": "AAAA"}),
            ("PUT", "/v1/peers", {"id": "b", "fingerprint": "AAAA", "operator": "o"}),
            ("POST", "/v1/tokens", {"scope": "operator"}),
            ("POST", "/v1/enrolments", {"statement": {"party": "a"}, "signature": "AAAA"}),
        ):
            for body in mutated(json.dumps(valid).encode(), CASES, seed=15):
                answer = await peer.ask(method, path, body)
                assert answer.status_code < 500, (body, answer.text)


TIMES = (
    "0001-01-01T00:00:00",
    "9999-12-31T23:59:59",
    "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59-23:59",
    "999999999999999",
    "2025-12-31T24:00:00Z",
)
ZONES = ("", "&timezone=Europe/Zurich", "&timezone=Europe/Zurich&stamp=end&step_s=900")


async def test_times_at_the_calendars_ends_are_refused_like_others(site: OpenSite) -> None:
    async with site() as s:
        await s.enrol("house")
        for time in TIMES:
            for zone in ZONES:
                path = f"{_IMPORT}unit=kWh&curator=house{zone}"
                rows = f"time,value\n{time},1\n".encode()
                answer = await s.client.post(
                    path, content=rows, headers={"Content-Type": "text/csv"}
                )
                is_the_days_end = "T24:00" in time and "stamp=end" in zone
                expected = (200, 0 if is_the_days_end else 1)
                assert (answer.status_code, answer.json()["rejected"]) == expected, answer.text
            start = time.replace("+", "%2B")
            path = f"{_IMPORT}unit=kWh&layout=wide&step_s=900&start={start}{ZONES[1]}"
            assert await answered(s, Entrance(path, "text/csv", WIDE), WIDE) in (200, 422)


MESSAGES = {
    "tasmota": ("tele/p/SENSOR", b'{"Time": "2024-10-27T02:15:30", "ENERGY": {"Total": 12.5}}'),
    "home-assistant": ("homeassistant/sensor/p_energy/state", b"12.5"),
    "tacit": ("tacit/v1/site/p/readings", READINGS),
}


@pytest.mark.parametrize("mapping", MESSAGES)
def test_changed_messages_are_refused_by_name(mapping: str) -> None:
    topic, valid = MESSAGES[mapping]
    rule = next(route for route in routes(load(mapping), "site") if route.device(topic)).rule
    zone, times = ZoneInfo("Europe/Zurich"), Times(946_684_800_000_000, 2 * 10**15)
    for body in mutated(valid, 500, seed=15):
        message = Message(topic, body, 1_700_000_000_000_000)
        with contextlib.suppress(DomainError):
            for raw in raw_items(message, rule, "p", zone, 100):
                with contextlib.suppress(DomainError):
                    parse_item(raw, times, 8)
