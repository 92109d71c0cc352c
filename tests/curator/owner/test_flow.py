"""Which curators need a look, and whether readings arrive: counts and times, never a value (spec:
console, section 7, rows 14, 15 and 19)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx
import pytest

from tests.curator.conftest import NOISY, OPEN, START, Site, query
from tests.curator.owner.test_owner_policies import owner_of


async def three(s: Site) -> None:
    """A host of two, one with readings, and a lone curator."""
    await s.policy(**OPEN, curator={"period": {"epsilon": "1"}})
    await s.enrol("gateway", ["g-1", "g-2"])
    await s.enrol("house-1")
    await s.reading("g-1", "0.5")
    await s.reading("g-1", "0.5", 15)


def names(found: dict[str, Any]) -> list[str]:
    return [each["id"] for each in found["curators"]]


@pytest.mark.usefixtures("database_url")
async def test_curators_and_what_is_left_of_them(s: Site) -> None:
    await three(s)
    s.open(query({**NOISY, "epsilon": "0.75"}))
    await s.take_part()
    s.open(query({**NOISY, "name": "sharper"}))
    await s.take_part()
    found = await s.get("/v1/curators")
    assert (names(found), found["total"]) == (["g-1", "g-2", "house-1"], 3)
    for each in found["curators"]:
        budget = await s.get(f"/v1/curators/{each['id']}/budget")
        unit = budget["units"]["curator"]
        assert each["limit"] == unit["limits"]["period"]["epsilon"] == "1"
        assert float(each["left"]) == 1 - float(unit["period"]["epsilon"])
        assert not each["without_bound"]
    assert found["curators"][0]["accepted"] == 2
    last = (START + timedelta(minutes=15)).isoformat().replace("+00:00", "Z")
    assert [each["last_reading"] for each in found["curators"]] == [last, None, None]
    s.open(query({**NOISY, "name": "rest", "epsilon": "0.25"}))
    await s.take_part()
    paper = {"mechanism": "two-layer", "stance": "paper", "pr_u": "0.5", "pr_s": "0.5"}
    s.open(query(name="paper", **paper, epsilon_u="1", epsilon_s="1"))
    await s.take_part()
    await s.request("PUT", "/v1/curators/g-2/stop", {"stopped": True}, 200)
    policy = await s.get("/v1/policy")
    await s.request("PUT", "/v1/curators/g-1/policy", {**policy, "curator": {}}, 200)
    summary = await s.get("/v1/summary")
    assert {key: summary[key] for key in summary if key != "silent_s"} == {
        "curators": 3,
        "out_of_budget": 2,
        "without_bound": 3,
        "silent": 2,
        "stopped": 1,
        "own_policy": 1,
    }
    for name, wanted in (
        ("out_of_budget", ["g-2", "house-1"]),
        ("silent", ["g-2", "house-1"]),
        ("stopped", ["g-2"]),
        ("own_policy", ["g-1"]),
    ):
        assert names(await s.get(f"/v1/curators?filter={name}")) == wanted
    both = await s.get("/v1/curators?filter=silent&prefix=g-")
    assert (names(both), both["total"]) == (["g-2"], 1)
    assert names(await s.get("/v1/curators?prefix=%25")) == []


async def test_a_list_is_paged_in_its_filter(s: Site) -> None:
    await s.enrol("gateway", [f"g-{number:02d}" for number in range(7)])
    await s.reading("g-03", "1")
    seen: list[str] = []
    path = "/v1/curators?filter=silent&limit=4"
    while path:
        answer = await s.client.get(path)
        seen += names(answer.json())
        assert answer.json()["total"] == 6
        link = answer.headers.get("link", "")
        path = link[1 : link.index(">")] if link else ""
    assert seen == [f"g-{number:02d}" for number in (0, 1, 2, 4, 5, 6)]
    for wrong in ("filter=all", "cursor=x", "limit=0"):
        assert (await s.client.get(f"/v1/curators?{wrong}")).status_code in (400, 422)


async def test_what_came_in_by_hour_and_reason(s: Site) -> None:
    await three(s)
    good = {"curator": "g-1", "time": START.isoformat(), "value": "0.5", "unit": "kWh"}
    items = [
        good,
        {**good, "value": "0.6"},
        {**good, "curator": "nobody"},
        {**good, "unit": "parsec"},
    ]
    statuses = [each["status"] for each in await s.send(items)]
    assert statuses == ["duplicate", "conflict", "rejected", "rejected"]
    s.clock.advance(timedelta(hours=1))
    await s.reading("g-2", "1", 20)
    found = await s.get("/v1/intake")
    outcomes = found["outcomes"]
    assert outcomes["accepted"] == 3
    assert (outcomes["duplicate"], outcomes["conflict"]) == (1, 1)
    assert outcomes["unknown_curator"] == 1
    assert sum(outcomes.values()) == 7
    assert [hour["outcomes"].get("accepted") for hour in found["hours"]] == [2, 1]
    later = (s.clock.now() + timedelta(days=2)).isoformat().replace("+00:00", "Z")
    assert (await s.get(f"/v1/intake?to={later}"))["hours"] == []


async def test_a_file_counts_as_its_readings(s: Site) -> None:
    await three(s)
    s.clock.advance(timedelta(hours=4))
    stamp = (START + timedelta(hours=3)).isoformat()
    content = f"curator,time,value\ng-1,{stamp},1\ng-2,{stamp},2\nnobody,{stamp},3\n"
    answer = await s.client.post(
        "/v1/readings/import?layout=long&unit=kWh&curator_column=curator",
        content=content,
        headers={"Content-Type": "text/csv"},
    )
    assert answer.is_success, answer.text
    outcomes = (await s.get("/v1/intake"))["outcomes"]
    assert outcomes["accepted"] == 4, (answer.text, outcomes)
    assert outcomes["rejected_in_a_file"] == 1
    await s.reading("g-1", "1", -120)  # a late one is not the newest
    last = stamp.replace("+00:00", "Z")
    assert [each["last_reading"] for each in (await s.get("/v1/curators"))["curators"]] == [
        last,
        last,
        None,
    ]


@pytest.mark.usefixtures("database_url")
async def test_devices_registers_and_completeness(s: Site) -> None:
    await three(s)
    await s.reading("g-2", "1", 15, device="old")
    s.open(query({**NOISY, "name": "wrong-unit", "unit": "m3"}))
    await s.take_part()
    s.clock.advance(timedelta(days=2))
    silent = (await s.get("/v1/devices?silent_s=3600"))["devices"]
    assert [(each["curator"], each["device"]) for each in silent] == [
        ("g-1", "g-1"),
        ("g-2", "old"),
    ]
    assert (await s.get("/v1/devices?silent_s=864000"))["devices"] == []
    one = await s.client.get("/v1/devices?silent_s=3600&limit=1")
    link = one.headers["link"]
    rest = await s.get(link[1 : link.index(">")])
    assert one.json()["devices"] + rest["devices"] == silent
    (register,) = (await s.get("/v1/registers"))["registers"]
    assert (register["name"], register["unit"], register["devices"]) == ("energy_import", "Wh", 2)
    assert [(q["name"], q["fits"]) for q in register["queries"]] == [("wrong-unit", False)]
    begin, end = (
        (START + timedelta(minutes=at)).isoformat().replace("+00:00", "Z") for at in (0, 45)
    )
    path = f"/v1/completeness?register=energy_import&period_s=900&from={begin}&to={end}"
    found = await s.get(path)
    assert found["expected"] == 2
    assert [each["devices"] for each in found["periods"]] == [1, 2, 0]
    minutes = "register=energy_import&period_s=60"
    wrong = {
        "register=water": 404,
        "register=energy_import&period_s=1": 422,
        f"register=energy_import&from={end}&to={begin}": 422,
        "register=energy_import&from=2020-01-01T00:00:00Z": 422,
        f"{minutes}&from=2025-12-20T00:00:00Z&to=2025-12-30T00:00:00Z": 422,
    }
    for text, status in wrong.items():
        answer = await s.client.get(f"/v1/completeness?{text}")
        assert answer.status_code == status, text


async def test_owners_see_their_own_devices_alone(s: Site) -> None:
    await three(s)
    await s.reading("g-2", "1")
    s.clock.advance(timedelta(days=2))
    async with await owner_of(s, "g-2") as own:
        devices = (await own.get("/v1/devices")).json()["devices"]
        assert {each["curator"] for each in devices} == {"g-2"}
        (register,) = (await own.get("/v1/registers")).json()["registers"]
        assert register["devices"] == 1
        begin = START.isoformat().replace("+00:00", "Z")
        end = (START + timedelta(hours=1)).isoformat().replace("+00:00", "Z")
        path = f"/v1/completeness?register=energy_import&from={begin}&to={end}"
        found = (await own.get(path)).json()
        assert (found["expected"], found["periods"][0]["devices"]) == (1, 1)
        for path in ("/v1/curators", "/v1/summary", "/v1/intake"):
            assert (await own.get(path)).status_code == 403
    made = await s.request(
        "POST", "/v1/tokens", {"scope": "device", "subject": "g-1", "label": "meter"}, 201
    )
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=s.app),
        base_url="http://curator.test",
        headers={"Authorization": f"Bearer {made['token']}"},
    ) as device:
        for path in ("/v1/devices", "/v1/registers", "/v1/completeness?register=energy_import"):
            assert (await device.get(path)).status_code == 403


async def test_debits_are_paged_newest_first(s: Site) -> None:
    await s.policy(**OPEN, allow_repeats=True)
    await s.enrol("gateway", ["g-1", "g-2"])
    for number in range(5):
        s.open(query({**NOISY, "name": f"q-{number}", "epsilon": f"0.{number + 1}"}))
        if number == 3:
            await s.request("PUT", "/v1/curators/g-2/stop", {"stopped": True}, 200)
        await s.take_part()
    seen: list[str] = []
    path = "/v1/curators/g-1/debits?limit=2"
    while path:
        answer = await s.client.get(path)
        seen += [each["epsilon"] for each in answer.json()["debits"]]
        link = answer.headers.get("link", "")
        path = link[1 : link.index(">")] if link else ""
    assert seen == ["0.5", "0.4", "0.3", "0.2", "0.1"]
    other = (await s.get("/v1/curators/g-2/debits"))["debits"]
    assert [each["epsilon"] for each in other] == ["0.3", "0.2", "0.1"]
    assert other == (await s.get("/v1/curators/g-2/budget"))["units"]["curator"]["debits"][::-1]
    record = (await s.get("/v1/curators/g-1/debits?unit=record&limit=1"))["debits"]
    assert record[0]["epsilon"] == "0.125"
    async with await owner_of(s, "g-1") as own:
        assert (await own.get("/v1/curators/g-2/debits")).status_code == 403
        assert (await own.get("/v1/curators/g-2/reports")).status_code == 403
        assert (await own.get("/v1/curators/g-1/reports")).json() == {"reports": []}
