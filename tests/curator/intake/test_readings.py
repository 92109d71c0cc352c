"""Readings in every form, good and bad: one clear answer per item, and nothing lost."""

from __future__ import annotations

import io
import json
import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from common.runtime.clock import ManualClock
from common.runtime.logs import configure_logging
from common.web.paging import encode_cursor
from curator.errors import BadItem
from curator.intake.reading import Times, load_json, parse_item, to_nano
from curator.settings import CuratorSettings
from tests.curator.conftest import OPEN, PLAIN, OpenSite, Site, query
from tests.curator.double import FakeWorld

TIMES = Times(0, 2 * 10**15)
REGISTER = {"kWh": "energy_import", "Wh": "energy_import", "l": "water", "W": "power_import"}
TIMES_FROM_2000 = 946_684_800 * 10**6
GOOD: dict[str, Any] = {"time": "2025-12-31T12:00:00Z", "value": "1.5", "unit": "kWh"}


def status(answers: list[dict[str, Any]]) -> list[str]:
    return [item["status"] for item in answers]


@pytest.mark.parametrize(
    ("value", "unit", "nano"),
    [
        ("0.1", "kWh", 10**11),
        ("1e-3", "Wh", 10**6),
        (".5", "Wh", 5 * 10**8),
        ("0.0000000005", "Wh", 0),
        ("0.0000000015", "Wh", 2),
        ("-3", "l", -3 * 10**6),
        ("123456789.123456789", "W", 123456789123456789),
    ],
)
def test_values_are_exact(value: str, unit: str, nano: int) -> None:
    assert to_nano(value, unit, "value") == nano
    number = value if not value.startswith(".") else "0" + value
    register = REGISTER[unit]
    raw = load_json(f'{{"time": 0, "value": {number}, "unit": "{unit}", "register": "{register}"}}')
    assert parse_item(raw, TIMES, 8).quantity == nano


@given(
    st.from_regex(r"[+-]?[0-9]{1,13}(\.[0-9]{0,11})?", fullmatch=True),
    st.sampled_from(["kWh", "J", "W", "1"]),
)
def test_the_text_of_a_number_is_read_like_the_number(text: str, unit: str) -> None:
    """Short texts take a way of their own."""

    def read(value: str | Decimal) -> int | str:
        try:
            return to_nano(value, unit, "value", 10**24)
        except BadItem as error:
            return str(error.detail)

    assert read(text) == read(Decimal(text))


BAD: list[tuple[str, str]] = [
    ('"text"', ""),
    ("[]", ""),
    ('{"time": 1767182400000, "value": 1}', "/unit"),
    ('{"time": 1767182400000, "value": 1, "unit": "horse"}', "/unit"),
    ('{"time": 1767182400000, "value": 1, "unit": 3}', "/unit"),
    ('{"value": 1, "unit": "Wh"}', "/time"),
    ('{"time": "2025-01-01T00:00:00", "value": 1, "unit": "Wh"}', "/time"),
    ('{"time": "yesterday", "value": 1, "unit": "Wh"}', "/time"),
    ('{"time": "2025-02-30T00:00:00Z", "value": 1, "unit": "Wh"}', "/time"),
    ('{"time": 1.5, "value": 1, "unit": "Wh"}', "/time"),
    ('{"time": true, "value": 1, "unit": "Wh"}', "/time"),
    ('{"time": NaN, "value": 1, "unit": "Wh"}', "/time"),
    ('{"time": -5, "value": 1, "unit": "Wh"}', "/time"),
    ('{"time": 1767182400, "value": 1, "unit": "Wh"}', "/time"),
    ('{"time": "1999-12-31T23:59:59Z", "value": 1, "unit": "Wh"}', "/time"),
    ('{"time": 2000000000001, "value": 1, "unit": "Wh"}', "/time"),
    ('{"time": 1767182400000, "unit": "Wh"}', "/value"),
    ('{"time": 1767182400000, "value": null, "unit": "Wh"}', "/value"),
    ('{"time": 1767182400000, "value": NaN, "unit": "Wh"}', "/value"),
    ('{"time": 1767182400000, "value": -Infinity, "unit": "Wh"}', "/value"),
    ('{"time": 1767182400000, "value": "NaN", "unit": "Wh"}', "/value"),
    ('{"time": 1767182400000, "value": "1,5", "unit": "Wh"}', "/value"),
    ('{"time": 1767182400000, "value": true, "unit": "Wh"}', "/value"),
    ('{"time": 1767182400000, "value": 1e999999, "unit": "Wh"}', "/value"),
    ('{"time": 1767182400000, "value": "9e20", "unit": "Wh"}', "/value"),
    ('{"time": 1767182400000, "value": 1, "values": [1], "unit": "Wh"}', "/value"),
    ('{"time": 1767182400000, "values": [], "unit": "Wh"}', "/values"),
    ('{"time": 1767182400000, "values": [1, "x"], "unit": "Wh"}', "/values/1"),
    ('{"time": 1767182400000, "values": [1,2,3,4,5,6,7,8,9], "unit": "Wh"}', "/values"),
    ('{"time": 1767182400000, "value": 1, "unit": "Wh", "kind": "odd"}', "/kind"),
    ('{"time": 1767182400000, "value": 1, "unit": "Wh", "register": "a b"}', "/register"),
    ('{"time": 1767182400000, "value": 1, "unit": "Wh", "device": "\\u0000"}', "/device"),
    ('{"time": 1767182400000, "value": 1, "unit": "Wh", "extra": 1}', "/extra"),
    ('{"time": 1767182400000, "value": 1, "unit": "Wh", "rollover": 5}', "/rollover"),
    ('{"time": 1767182400000, "value": -1, "unit": "Wh", "kind": "total_increasing"}', "/value"),
    ('{"time": 1767182400000, "value": 1, "value": 2, "unit": "Wh"}', ""),
    ('{"time": 1767182400000, "value": 1, "unit": "Wh", "curator": "nobody"}', "/curator"),
    ('{"time": 1767182400000, "value": 1, "unit": "Wh", "correction": "yes"}', "/correction"),
]


async def test_each_bad_item_is_answered_and_spoils_no_other(site: OpenSite) -> None:
    async with site(max_values=8) as s:
        await s.enrol("house")
        good = json.dumps(GOOD)
        lines = [text for text, _ in BAD]
        array = "[" + ",".join([good, *lines]) + "]"
        for form, body in (
            ("application/json", array),
            ("application/x-ndjson", "\n".join([good, *lines, "{broken", ""])),
        ):
            answer = await s.client.post(
                "/v1/readings", content=body, headers={"Content-Type": form}
            )
            assert answer.status_code == 200
            items = answer.json()["items"]
            assert [item["index"] for item in items] == list(range(len(items)))
            assert items[0]["status"] in ("accepted", "duplicate")
            for item, (text, pointer) in zip(items[1:], BAD, strict=False):
                assert item["status"] == "rejected", text
                assert item["problem"]["pointer"] in (pointer, pointer or None), text
                assert item["problem"]["detail"], text
        assert items[-1]["problem"]["detail"] == "the line is not JSON"
        counts = await s.get("/v1/curators/house/readings")
        assert counts["accepted"] == counts["duplicates"] == 1
        assert counts["rejected"] >= 2 * (len(BAD) - 1)


SEVERAL: list[tuple[dict[str, Any], dict[str, str]]] = [
    (
        {"time": "2025", "value": "x", "unit": "kwh", "kind": "odd", "rollover": -1},
        {
            "/unit": "kwh is no unit: kWh?",
            "/kind": "is one of delta, instant, total_increasing",
            "/time": "is an RFC 3339 time with an offset, or epoch milliseconds",
            "/value": "is not a decimal number",
        },
    ),
    (
        {"time": -5, "values": [1, "x"], "unit": "W", "register": "1-0:32.7.0", "curator": ""},
        {
            "/unit": "1-0:32.7.0 is a register of voltage (V, mV, kV); W is a unit of power",
            "/time": "lies before 1970-01-01",
            "/values/1": "is not a decimal number",
            "/curator": "is not an identifier (letters, digits and . _ : @ -, at most 128)",
        },
    ),
    (
        {"one": 1, "x" * 70: 2, "two": 3, "time": 0, "value": 1, "unit": "Wh", "register": "a b"},
        {
            "/one": "there is no such field",
            "/two": "there is no such field",
            f"/{'x' * 64}": "there is no such field",
            "/register": "is not a register's name (letters, digits and . _ : -, at most 64)",
        },
    ),
    ({}, {"/unit": "is needed", "/time": "is an RFC 3339 time", "/value": "give either value"}),
]


@pytest.mark.parametrize(("raw", "faults"), SEVERAL)
def test_all_bad_fields_of_an_item_are_named(raw: dict[str, Any], faults: dict[str, str]) -> None:
    with pytest.raises(BadItem) as caught:
        parse_item(load_json(json.dumps(raw)), TIMES, 8)
    errors: Any = caught.value.extra["errors"]
    assert errors[0] == {"pointer": caught.value.pointer, "detail": caught.value.detail}
    named = {error["pointer"]: error["detail"] for error in errors}
    assert named.keys() == faults.keys()
    assert len(errors) == len(faults)
    assert all(named[pointer].startswith(words) for pointer, words in faults.items())


@pytest.mark.parametrize(("text", "pointer"), [each for each in BAD if each[1] != "/curator"])
def test_one_bad_field_is_one_error(text: str, pointer: str) -> None:
    with pytest.raises(BadItem) as caught:
        parse_item(load_json(text), Times(TIMES_FROM_2000, TIMES.latest), 8)
    assert (caught.value.pointer or "") == pointer
    assert not caught.value.extra


async def test_all_bad_fields_are_in_the_answer(s: Site) -> None:
    await s.enrol("house")
    answer = await s.request(
        "POST", "/v1/readings", {"time": GOOD["time"], "value": "x", "unit": "kwh"}
    )
    (item,) = answer["items"]
    assert item["problem"] == {
        "name": "bad_reading",
        "pointer": "/unit",
        "detail": "kwh is no unit: kWh?",
        "errors": [
            {"pointer": "/unit", "detail": "kwh is no unit: kWh?"},
            {"pointer": "/value", "detail": "is not a decimal number"},
        ],
    }


async def test_a_query_of_the_grids_state(s: Site, world: FakeWorld) -> None:
    await s.policy(**OPEN)
    await s.enrol("host", ["a", "b"])
    sent = [
        {"curator": "a", "value": "231.4", "unit": "V"},
        {"curator": "b", "value": "0.2296", "unit": "kV"},
    ]
    state = {"time": GOOD["time"], "register": "1-0:32.7.0"}
    await s.request("POST", "/v1/readings", [{**state, **each} for each in sent])
    asked = {"register": "1-0:32.7.0", "unit": "V", "bounds": ["200", "260"]}
    descriptor = s.open(query(PLAIN, **asked, resolution="0.1", function="mean"))
    await s.take_part()
    assert world.result(descriptor)["mean"] == "230.5"


async def test_a_bad_body_is_a_problem(s: Site) -> None:
    json_form = "application/json"
    for form, body, expected in (
        (json_form, b"{", 400),
        (json_form, b"", 400),
        (json_form, b"[]", 400),
        (json_form, b"[" * 100_000, 400),
        (json_form, b"\xff", 400),
        ("text/plain", b"{}", 415),
        (json_form, b"[" + b"{}," * 50_000 + b"{}]", 422),
    ):
        headers = {"Content-Type": form}
        answer = await s.client.post("/v1/readings", content=body, headers=headers)
        assert answer.status_code == expected
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.usefixtures("database_url")
async def test_the_same_again_is_a_duplicate_and_another_value_a_conflict(s: Site) -> None:
    await s.enrol("house")
    assert status(await s.send(GOOD)) == ["accepted"]
    again: list[tuple[dict[str, Any], str]] = [
        (GOOD, "duplicate"),
        ({**GOOD, "value": 1500, "unit": "Wh"}, "duplicate"),
        ({**GOOD, "time": 1767182400000}, "duplicate"),
        ({**GOOD, "value": "1.6"}, "conflict"),
        ({**GOOD, "device": "other", "value": "1.6"}, "accepted"),
        ({**GOOD, "device": "other", "value": "1.6"}, "duplicate"),
        ({**GOOD, "register": "1-0:2.8.0"}, "accepted"),
        ({**GOOD, "register": "energy_export"}, "duplicate"),
        ({**GOOD, "value": "1.7", "correction": True}, "accepted"),
        ({**GOOD, "value": "1.7"}, "conflict"),
    ]
    answers = await s.send([item for item, _ in again])
    assert status(answers) == [expected for _, expected in again]
    assert status(await s.send({**GOOD, "value": "1.7"})) == ["duplicate"]


async def test_counters_are_differenced_in_any_order(s: Site, world: FakeWorld) -> None:
    def total(minute: int, value: str, **fields: Any) -> dict[str, Any]:
        time = f"2025-12-31T12:{minute:02d}:00Z"
        return {**GOOD, "time": time, "value": value, "kind": "total_increasing", **fields}

    await s.policy(**OPEN)
    await s.enrol("house")
    sent = [
        total(45, "0.5"),  # a new meter
        total(0, "99998.5"),
        total(30, "1.5", rollover="100000"),
        total(15, "99999.5", rollover="100000"),
        total(15, "99999.5"),
        total(15, "99999"),
        total(59, "1"),
    ]
    assert [*status(await s.send(sent[:2])), *status(await s.send(sent[2:]))] == [
        *["accepted"] * 4,
        "duplicate",
        "conflict",
        "accepted",
    ]
    descriptor = s.open(query(PLAIN))
    await s.take_part()
    # 1 until 12:15, 2 until 12:30, 0.5 on the new meter until 12:45, 0.5 until 12:59
    assert world.result(descriptor) == {"sum": "4"}


async def test_tokens_send_for_their_own_curator(s: Site) -> None:
    await s.enrol("gw", ["a", "b"])

    async def token(**body: Any) -> dict[str, str]:
        made = await s.request("POST", "/v1/tokens", body, 201)
        return {"Authorization": f"Bearer {made['token']}"}

    device = await token(scope="device", subject="a", label="meter")
    owner = await token(scope="curator", subject="a")
    assert status(await s.send(GOOD)) == ["rejected"]  # several are hosted: name one
    answer = await s.client.post("/v1/readings", json=GOOD, headers=device)
    assert answer.json()["items"][0]["status"] == "accepted"
    answer = await s.client.post("/v1/readings", json={**GOOD, "curator": "b"}, headers=device)
    assert answer.json()["items"][0]["problem"]["name"] == "foreign_curator"
    for path, headers, expected in (
        ("/v1/curators/a/budget", owner, 200),
        ("/v1/curators/a/readings", owner, 200),
        ("/v1/curators/a/contributions", owner, 200),
        (f"/v1/curators/a/contributions?cursor={encode_cursor('a')}", owner, 422),
        ("/v1/curators/b/budget", owner, 403),
        ("/v1/curators/a/budget", device, 403),
        ("/v1/parties", owner, 403),
        ("/v1/policy", device, 403),
    ):
        answer = await s.client.get(path, headers=headers)
        assert answer.status_code == expected, path
    await s.request("POST", "/v1/tokens", {"scope": "device", "subject": "zz"}, 404)
    await s.request("POST", "/v1/tokens", {"scope": "aggregator"}, 422)
    listed = (await s.get("/v1/tokens"))["tokens"]
    mine = next(item for item in listed if item["label"] == "meter")
    await s.request("DELETE", f"/v1/tokens/{mine['id']}", status=204)
    answer = await s.client.post("/v1/readings", json=GOOD, headers=device)
    assert answer.status_code == 401
    await s.request("GET", "/v1/curators/zz/budget", status=404)


async def test_the_future_is_refused_beyond_a_tolerance(site: OpenSite, clock: ManualClock) -> None:
    async with site(future_tolerance_s=60) as s:
        await s.enrol("house")
        near = {**GOOD, "time": "2026-01-01T00:00:59Z"}
        far = {**GOOD, "time": "2026-01-01T00:01:01Z"}
        assert status(await s.send([near, far])) == ["accepted", "rejected"]


async def test_the_far_past_and_epoch_seconds_are_refused_with_a_hint(site: OpenSite) -> None:
    async def told(s: Site, time: Any) -> str:
        (answer,) = await s.send({**GOOD, "time": time})
        assert answer["status"] == "accepted" or answer["problem"]["pointer"] == "/time"
        return str(answer.get("problem", {}).get("detail", "accepted"))

    hint = "looks like epoch seconds: a number is epoch milliseconds"
    async with site() as s:
        await s.enrol("house")
        assert await told(s, 1767182400) == hint
        assert await told(s, 1767182400000) == "accepted"
        assert "is an RFC 3339 time" in await told(s, 1767182400000000)
        assert await told(s, "1999-12-31T23:59:59.999Z") == "lies before 2000-01-01"
        assert await told(s, 12) == "lies before 2000-01-01"
        assert await told(s, "2000-01-01T00:00:00Z") == "accepted"
        csv = b"time,value\n1767182400,1\n1999-12-31T23:59:59Z,1\n2026-02-01T00:00:00Z,1\n"
        path = "/v1/readings/import?unit=kWh&curator=house"
        headers = {"Content-Type": "text/csv"}
        found = await s.request("POST", path, content=csv, headers=headers)
        assert [(each["line"], each["detail"]) for each in found["errors"]] == [
            (2, f"the time {hint}"),
            (3, "the time lies before 2000-01-01"),
            (4, "the time lies in the future"),
        ]
        path += "&layout=wide&step_s=900&start=1999-12-31T23:45:00Z"
        csv = b"meter,a,b\nhouse,1,1\n"
        found = await s.request("POST", path, content=csv, headers=headers)
        assert [each["column"] for each in found["errors"]] == [2]
    async with site(earliest_reading=datetime(2025, 12, 31, tzinfo=UTC)) as s:
        assert await told(s, "2025-12-30T23:00:00Z") == "lies before 2025-12-31"
    with pytest.raises(ValidationError, match="1973"):
        CuratorSettings(earliest_reading=datetime(1970, 1, 1, tzinfo=UTC))


async def test_no_value_in_logs_and_the_same_log_for_every_value(site: OpenSite) -> None:
    """Two curators whose secret values differ leave the same lines, and no value in any."""
    said = io.StringIO()
    configure_logging("debug", "json", stream=said)
    seen = []
    async with site() as s:
        await s.policy(**OPEN, allow_repeats=True)
        for name, value in (("house-a", "0.777123"), ("house-b", "4.888321")):
            await s.enrol(name)
            said.seek(0)
            said.truncate()
            await s.reading(name, value)
            await s.send([{**GOOD, "curator": name, "value": f"{value}x"}])
            descriptor = s.open(query(PLAIN, name=name))
            await s.take_part()
            s.world.finish(descriptor, "released")
            metrics = (await s.client.get("/metrics")).text
            log = said.getvalue()
            assert value not in log + metrics
            for part in ("777123", "888321"):
                assert part not in log + metrics
            log = re.sub(r'"time": "[^"]+"|"ms": [\d.]+|[0-9a-f-]{36}', "", log)
            assert name not in log + metrics
            # house-a takes part in the second round, too: whose line it is cannot be seen
            seen.append({line for line in log.splitlines() if "a lone curator" in line})
    assert seen[0] == seen[1]
    assert seen[0]
