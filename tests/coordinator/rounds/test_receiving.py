"""How far an open round is: counts of aggregators that may be away or lie; nobody is named."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from common.runtime.clock import ManualClock
from tests.coordinator.conftest import Houses
from tests.coordinator.console.test_rounds import signed_in
from tests.coordinator.double import House, integers, query


async def received(it: House, round_id: str) -> dict[str, Any]:
    answer = await it.ask("GET", f"/v1/rounds/{round_id}/received")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_an_open_round_tells_how_far_it_is(house: Houses) -> None:
    clock = ManualClock()
    async with house(2, clock=clock, console=True) as it:
        host, other = await it.host("gateway", 6), await it.host("other", 4)
        opened = await it.open(query(aggregators=2, min_participants=3, deadline_s=600))
        found = await received(it, opened.id)
        assert (found["state"], found["expected"], found["minimum"]) == ("open", 10, 3)
        assert found["least"] == 0
        await opened.contribute(host, integers(6))
        assert (await received(it, opened.id))["least"] == 0  # within a second: the same look
        clock.advance(timedelta(seconds=2))
        found = await received(it, opened.id)
        assert found["least"] == 6
        assert [each["accepted"] for each in found["aggregators"]] == [6, 6]
        assert host.id not in json.dumps(found)
        browser = await signed_in(it)
        await browser.get(f"/console/rounds/{opened.id}")
        told = "Every aggregator holds pieces of 6 curators or more , of 10 that are awaited"
        assert told in browser.words()
        analyst = await signed_in(it, "analyst")
        await analyst.get(f"/console/rounds/{opened.id}")
        assert "Every aggregator holds" not in analyst.words()
        token = await it.token("analyst")
        path = f"/v1/rounds/{opened.id}/received"
        assert (await it.ask("GET", path, token=token)).status_code == 403
        it.wires[1].down = True
        clock.advance(timedelta(seconds=2))
        found = await received(it, opened.id)
        assert found["least"] is None
        assert [each["accepted"] for each in found["aggregators"]] == [6, None]
        await browser.get(f"/console/rounds/{opened.id}")
        assert f"Not heard yet from {found['aggregators'][1]['id']}" in browser.words()
        it.wires[1].down = False
        it.wires[1].lie = _lie
        clock.advance(timedelta(seconds=2))
        assert (await received(it, opened.id))["aggregators"][1]["accepted"] is None
        it.wires[1].lie = None
        await opened.contribute(other, integers(4))


def _lie(path: str, told: Any) -> Any:
    return {"accepted": -5} if "accepted" in told else told


async def test_a_round_that_is_over_asks_nobody(house: Houses) -> None:
    async with house(2) as it:
        await it.host("gateway", 3)
        opened = await it.open(query(aggregators=2))
        await it.ask("POST", f"/v1/rounds/{opened.id}/abort")
        await it.finish(opened)
        before = [len(wire.seen) for wire in it.wires]
        found = await received(it, opened.id)
        assert (found["state"], found["least"], found["aggregators"]) == ("aborted", None, [])
        assert [len(wire.seen) for wire in it.wires] == before
        answer = await it.ask("GET", "/v1/rounds/nothing/received")
        assert answer.status_code == 404
