"""A meter or a careless integrator posts watts and cubic metres to a register of energy.

Each was accepted, none was ever in a sum, and nothing said so. A register has one dimension, that
of the catalogue or of its first reading, and whatever else comes is refused item by item.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from curator.intake import intake
from curator.intake import reading as items
from tests.curator import conftest as curator
from tests.curator.conftest import OPEN, PLAIN, OpenSite, Site, query
from tests.curator.double import FakeWorld
from tests.curator.files.market.green_button_files import FeedFile, Meter

site, world = curator.site, curator.world
AT = "2025-12-31T12:00:00Z"
HOUSES = [f"h-{number}" for number in range(4)]
UNITS = ["W", "m3", "kWh", "kWh"]
SENT = [
    {"curator": name, "time": AT, "value": "1", "unit": unit, "register": "energy_import"}
    for name, unit in zip(HOUSES, UNITS, strict=True)
]
ENERGY = "energy_import is a register of energy (Wh, kWh, MWh, GWh, J, MJ, GJ, therm, MMBtu, Wmin)"


async def told(s: Site, item: dict[str, Any]) -> tuple[str, str, str]:
    """Status, pointer and detail of one reading of h-0."""
    (answer,) = await s.send([{"curator": "h-0", "time": AT, "value": "1", **item}])
    problem = answer.get("problem", {})
    return answer["status"], problem.get("pointer", ""), problem.get("detail", "")


async def test_items_of_another_dimension_are_refused_by_name(s: Site, world: FakeWorld) -> None:
    await s.policy(**OPEN)
    await s.enrol("gw", HOUSES)
    answers = await s.send(SENT)
    assert [each["status"] for each in answers] == ["rejected"] * 2 + ["accepted"] * 2
    details = [each["problem"]["detail"] for each in answers[:2]]
    assert details == [f"{ENERGY}; W is a unit of power", f"{ENERGY}; m3 is a unit of volume"]
    assert {each["problem"]["pointer"] for each in answers[:2]} == {"/unit"}
    lines = "\n".join(json.dumps(item) for item in SENT)
    again = await s.request(
        "POST", "/v1/readings", content=lines, headers={"Content-Type": "application/x-ndjson"}
    )
    assert [each["status"] for each in again["items"]] == ["rejected"] * 2 + ["duplicate"] * 2
    descriptor = s.open(query(PLAIN))
    await s.take_part()
    assert world.result(descriptor) == {"sum": "2"}
    # The owner of the house of watts sees that its readings did not come in.
    assert (await s.get("/v1/curators/h-0/readings"))["rejected"] == 2


async def test_control_without_the_catalogue_all_are_accepted_and_half_are_lost(
    site: OpenSite, world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (items, intake):
        monkeypatch.setattr(module, "suits", lambda _found: None)
    async with site() as s:
        await s.policy(**OPEN)
        await s.enrol("gw", HOUSES)
        assert [each["status"] for each in await s.send(SENT)] == ["accepted"] * 4
        descriptor = s.open(query(PLAIN))
        await s.take_part()
        assert len(world.members(descriptor)) == 4
        assert world.result(descriptor) != {"sum": "2"}  # watts are added to watt-hours


CATALOGUED: list[tuple[dict[str, Any], str, str]] = [
    ({"register": "power_import", "unit": "kWh"}, "/unit", "register of power (W, kW, MW)"),
    ({"register": "gas", "unit": "kWh"}, "/unit", "gas is a register of volume (m3, l, "),
    ({"register": "1-0:1.8.0", "unit": "kW"}, "/unit", ENERGY),
    ({"register": "1-0:1.7.0", "unit": "1"}, "/unit", "1 is a unit of plain numbers"),
    ({"unit": "kWh", "kind": "instant"}, "/kind", "of kind delta or total_increasing"),
    ({"register": "power_import", "unit": "W", "kind": "delta"}, "/kind", "of kind instant"),
    ({"unit": "W", "kind": "total_increasing"}, "/unit", ENERGY),
    ({"register": "1-0:99.99.0", "unit": "kWh"}, "/register", "not in the catalogue"),
    ({"register": "1.8.0.255", "unit": "kWh"}, "/register", "not in the catalogue"),
]


async def test_catalogued_registers(s: Site) -> None:
    """A state needs no kind where its register takes states only: the last one is accepted."""
    await s.enrol("gw", HOUSES)
    for item, pointer, detail in CATALOGUED:
        status, place, why = await told(s, item)
        assert (status, place) == ("rejected", pointer), item
        assert detail in why
    assert (await told(s, {"register": "power_import", "unit": "kW"}))[0] == "accepted"


async def test_tariffs_are_registers_by_their_codes(s: Site, world: FakeWorld) -> None:
    await s.policy(**OPEN)
    await s.enrol("gw", HOUSES)
    assert (await told(s, {"register": "1-0:1.8.1", "unit": "kWh"}))[0] == "accepted"
    assert (await told(s, {"register": "1.8.1", "unit": "Wh", "value": "1000"}))[0] == ("duplicate")
    assert (await told(s, {"register": "1-0:1.8.2", "unit": "kW"}))[:2] == ("rejected", "/unit")
    descriptor = s.open(query(PLAIN, register="1-0:1.8.1"))
    await s.take_part()
    assert world.result(descriptor) == {"sum": "1"}


async def test_an_own_register_keeps_the_dimension_of_its_first_reading(site: OpenSite) -> None:
    async with site() as s:
        await s.enrol("gw", HOUSES)
        own = {"register": "steam", "unit": "m3"}
        assert (await told(s, {**own, "time": "2001-01-01T00:00:00Z"}))[0] == "accepted"
    async with site() as s:  # durable
        status, place, why = await told(s, {"register": "steam", "unit": "kWh"})
        assert (status, place) == ("rejected", "/unit")
        assert (
            why == "steam is a register of volume (m3, l, ft3, ccf, gal); kWh is a unit of energy"
        )
        counter = {"register": "steam", "unit": "kWh", "kind": "total_increasing"}
        assert (await told(s, counter))[:2] == ("rejected", "/unit")
        assert (await told(s, {"register": "steam", "unit": "l"}))[0] == "accepted"
        # two units for a new name in one request: the first fixes it
        both = [
            {"curator": "h-0", "time": AT, "value": "1", "register": "both", "unit": unit}
            for unit in ("W", "m3", "kW")
        ]
        statuses = [each["status"] for each in await s.send(both)]
        assert statuses == ["accepted", "rejected", "conflict"]


async def test_files_are_held_to_the_same_registers(s: Site) -> None:
    await s.enrol("gw", HOUSES)

    async def upload(parameters: str, body: str, status: int, form: str = "text/csv") -> Any:
        return await s.request(
            "POST",
            f"/v1/readings/import?{parameters}",
            content=body.encode(),
            headers={"Content-Type": form},
            status=status,
        )

    rows = f"time,value\n{AT},1\n"
    for parameters, pointer in (
        ("unit=W&curator=h-0", "/unit"),
        ("unit=W&curator=h-0&kind=total_increasing", "/unit"),
        ("unit=kWh&curator=h-0&kind=instant", "/kind"),
        ("unit=kWh&curator=h-0&register=99.8.0", "/register"),
        (f"unit=m3&layout=wide&start={AT}&step_s=900", "/unit"),
    ):
        problem = await upload(parameters, rows, 422)
        assert [each["pointer"] for each in problem["errors"]] == [pointer], parameters
    # a register of one's own, which another reading gave its dimension
    assert (await told(s, {"register": "steam", "unit": "m3"}))[0] == "accepted"
    problem = await upload("unit=kWh&curator=h-0&register=steam", rows, 422)
    assert problem["errors"][0]["pointer"] == "/unit"
    assert "steam is a register of volume" in problem["detail"]
    # a Green Button block of indicated energy: a state, which no sum of amounts takes
    states = FeedFile([Meter("point", [1, 2], curator.START, behaviour="6")]).text()
    found = await upload("curator=h-0", states, 200, "application/atom+xml")
    assert found["accepted"] == 0
    assert found["rejected"] == 2
    assert "kind delta or total_increasing" in found["errors"][0]["detail"]
    counts = await s.get("/v1/curators/h-0/readings")
    assert counts["accepted"] == 1
