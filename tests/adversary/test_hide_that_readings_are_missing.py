"""Somebody reads "4 curators" as four houses that were measured, though two had nothing to say.

A curator without readings answers like any other, with zeros: that is what hides who has some. So
a result says how many answered; how many had readings is a noisy count that a query pays for; and
the owner of an empty house, nobody else, is told why nothing of it counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.query.functions import PRESENCE
from tests.coordinator import conftest as coordinator
from tests.coordinator.conftest import Houses
from tests.coordinator.double import query as query_json
from tests.curator import conftest as curator
from tests.curator.conftest import OPEN, PLAIN, Site, query
from tests.curator.double import FakeWorld

house = coordinator.house
site, world = curator.site, curator.world
HOUSES = ["measured", "late", "of-vectors", "silent"]


async def note(s: Site, name: str) -> str:
    """What the owner's statement says of its last contribution."""
    (last, *_) = await s.history(name)
    assert last["contributed"] is True
    return str(last["readings"].get("note", ""))


async def test_an_owner_is_told_why_nothing_counted(s: Site, world: FakeWorld) -> None:
    await s.policy(**OPEN)
    await s.enrol("gw", HOUSES)
    await s.reading("measured", "1.5")
    (vector,) = await s.send(
        [
            {"curator": "of-vectors", "time": curator.START.isoformat(), "values": ["1", "2"]}
            | {"unit": "kWh"}
        ]
    )
    assert vector["status"] == "accepted"
    asked = s.open(query(PLAIN, completeness="curators"))
    await s.take_part()
    # Control: without the count four took part, and nothing tells the sum from four readings.
    assert len(world.members(asked)) == 4
    assert world.result(asked) == {"sum": "1.5", PRESENCE: "1"}
    await s.reading("late", "2")
    nothing = "contributed nothing usable, because "
    assert await note(s, "measured") == ""
    assert await note(s, "silent") == (
        nothing + "there is no reading of energy_import in the window"
    )
    assert await note(s, "late") == (
        nothing + "the readings of energy_import in the window came after the contribution was made"
    )
    assert "are not the numbers that the query asks for" in await note(s, "of-vectors")
    await s.reading("silent", "7", register="steam", unit="m3")
    s.open(query(PLAIN, register="steam", unit="kWh"))
    await s.take_part()
    assert await note(s, "silent") == (
        nothing + "steam is kept as volume, and the query asks for energy"
    )
    s.open(query(PLAIN, register="unheard-of"))
    await s.take_part()
    assert await note(s, "silent") == nothing + "no reading of unheard-of was ever stored"
    # nobody else: another curator's token does not see it, and no log or metric says it
    made = await s.request("POST", "/v1/tokens", {"scope": "curator", "subject": "measured"}, 201)
    other = {"Authorization": f"Bearer {made['token']}"}
    await s.request("GET", "/v1/curators/silent/contributions", status=403, headers=other)
    assert "nothing usable" not in (await s.client.get("/metrics")).text


async def test_a_result_says_who_answered_and_what_was_paid_for(house: Houses) -> None:
    async def released(it: Any, host: Any, **changes: Any) -> dict[str, Any]:
        opened = await it.open(query_json(**changes))
        values = np.array([[1500, 1], [0, 0], [500, 1], [0, 0]])
        await opened.contribute(host, values if changes else values[:, :1])
        assert (await it.finish(opened))["state"] == "released"
        found: dict[str, Any] = await it.result(opened)
        return found

    async with house() as it:
        host = await it.host("gateway", 4)
        plain = await released(it, host)
        assert plain["result"] == {"sum": "2"}
        assert plain["completeness"]["answered"] == 4
        assert plain["completeness"]["with_readings"] is None
        assert "one without a reading answers too" in plain["completeness"]["note"]
        paid = await released(it, host, completeness="curators")
        assert paid["result"] == {"sum": "2", PRESENCE: "2"}
        assert paid["completeness"]["with_readings"] == "2"
        details = paid["report"]["not_protected"]
        assert any("one without a reading answers too" in line for line in details)
