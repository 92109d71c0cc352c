"""What aggregators tell the coordinator: the flow, their health, how far an open round is. They may
be away or lie; nobody is named."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from aggregator.pieces.routes import UploadCounts
from common.runtime.clock import ManualClock
from common.web.dependencies import part_of
from coordinator.registry import answers
from tests.coordinator.conftest import Houses
from tests.coordinator.console.test_rounds import released, signed_in
from tests.coordinator.double import House, integers, query


async def counted(it: House, clock: ManualClock, **counts: int) -> None:
    """Uploads at the first aggregator, in an hour that is over."""
    own = part_of(it.federation.peers[0].client._transport.app, UploadCounts)  # type: ignore[attr-defined]
    for outcome, count in counts.items():
        for _ in range(count):
            own.add("lone", outcome)
    await own.store()
    clock.advance(timedelta(hours=1, minutes=5))


async def test_it_tells_rounds_refusals_and_uploads(house: Houses, clock: ManualClock) -> None:
    async with house(3, clock=clock) as it:
        await released(it)
        await counted(it, clock, stored=9, round_closed=6, piece_conflict=2)
        found = await it.read("/v1/flow")
        assert found["rounds"] == {"released": 1}
        assert found["refused"] == {}
        first, *others = found["aggregators"]
        assert first["lone"] == {"stored": 9, "round_closed": 6}
        assert first["batch"] == {}  # one batch: fewer than five
        assert [each["lone"] for each in others] == [{}, {}]
        assert all(each["problem"] is None for each in found["aggregators"])
        clock.advance(timedelta(days=2))
        later = await it.read("/v1/flow")
        assert later["rounds"] == {}
        assert later["aggregators"][0]["lone"] == {}


async def test_an_aggregator_that_is_away_or_lies_spoils_no_other(
    house: Houses, clock: ManualClock
) -> None:
    async with house(3, clock=clock) as it:
        await counted(it, clock, stored=7)
        it.wires[1].down = True
        new_year = "2026-01-01T00:00:00Z"
        hours = [
            {"hour": new_year, "form": "lone", "outcomes": {name: count}}
            for name, count in (("<script>alert(1)</script>", 9), ("stored", -9))
        ]
        lies: list[Any] = [
            {"until": new_year, "hours": [{"hour": "x"}]},
            {"until": new_year, "hours": [], "more": 1},
            *({"until": new_year, "hours": [hour]} for hour in hours),
            [],
        ]
        for lie in lies:
            it.wires[2].lie = lambda path, told, lie=lie: lie if path == "/v1/flow" else told
            found = await it.read("/v1/flow")
            assert [each["problem"] for each in found["aggregators"]] == [
                None,
                "unreachable",
                "unreachable",
            ]
            assert found["aggregators"][0]["lone"] == {"stored": 7}


async def test_a_bad_span_names_its_field(house: Houses, clock: ManualClock) -> None:
    async with house(0, clock=clock) as it:
        for asked, pointer in (
            ("from=2026-01-01T00:00:00Z&to=2025-12-31T00:00:00Z", "/from"),
            ("from=0001-01-01T00:00:00Z", "/from"),
            ("to=0001-01-01T00:00:00Z", "/to"),
            ("from=9999-12-31T23:59:59Z", "/from"),
            ("from=now", "/from"),
            ("to=2026-01-01", "/to"),
        ):
            answer = await it.ask("GET", f"/v1/flow?{asked}")
            assert answer.status_code == 422, answer.text
            assert answer.json()["errors"][0]["pointer"] == pointer


async def test_health_says_who_is_there_and_looks_once_in_a_while(
    house: Houses, clock: ManualClock
) -> None:
    async with house(2, clock=clock) as it:

        async def look() -> list[dict[str, Any]]:
            answer = await it.ask("GET", "/v1/aggregators?health=true")
            found: list[dict[str, Any]] = answer.json()["aggregators"]
            return found

        token, path = await it.token("analyst"), "/v1/aggregators"
        assert (await it.ask("GET", f"{path}?health=true", token=token)).status_code == 403
        assert (await it.ask("GET", path, token=token)).status_code == 200
        first, second = await look()
        assert first["reachable"] is second["reachable"] is True
        assert first["fingerprint_seen"] == first["fingerprint"]
        assert first["policy"]["min_participants"] == 2
        before = len(it.wires[0].seen)
        it.wires[1].down = True
        assert (await look())[1]["reachable"] is True  # within ten seconds
        assert len(it.wires[0].seen) == before
        clock.advance(timedelta(seconds=11))
        first, second = await look()
        assert first["reachable"] is True
        assert (second["reachable"], second["policy"]) == (False, None)
        assert "does not answer" in second["problem"] or "nothing answers" in second["problem"]


async def test_an_aggregator_that_hangs_holds_no_page_up(
    house: Houses, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counts as away after a few seconds, whatever the time for a step of a round is."""
    async with house(2, clock=clock) as it:

        async def hang(_request: object) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(answers, "SOON_S", 0.2)
        monkeypatch.setattr(it.wires[1], "handle_async_request", hang)
        async with asyncio.timeout(60):
            found = await it.read("/v1/flow")
            health = (await it.ask("GET", "/v1/aggregators?health=true")).json()["aggregators"]
        assert [each["problem"] for each in found["aggregators"]] == [None, "unreachable"]
        assert [each["reachable"] for each in health] == [True, False]


async def test_an_open_round_tells_how_far_it_is(house: Houses) -> None:
    clock = ManualClock()
    async with house(2, clock=clock, console=True) as it:
        host, other = await it.host("gateway", 6), await it.host("other", 4)
        opened = await it.open(query(aggregators=2, min_participants=3, deadline_s=600))
        path = f"/v1/rounds/{opened.id}/received"
        found = await it.read(path)
        assert (found["state"], found["expected"], found["minimum"]) == ("open", 10, 3)
        assert found["least"] == 0
        await opened.contribute(host, integers(6))
        assert (await it.read(path))["least"] == 0  # within a second: the same look
        clock.advance(timedelta(seconds=2))
        found = await it.read(path)
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
        assert (await it.ask("GET", path, token=token)).status_code == 403
        it.wires[1].down = True
        clock.advance(timedelta(seconds=2))
        found = await it.read(path)
        assert found["least"] is None
        assert [each["accepted"] for each in found["aggregators"]] == [6, None]
        await browser.get(f"/console/rounds/{opened.id}")
        assert f"Not heard yet from {found['aggregators'][1]['id']}" in browser.words()
        it.wires[1].down = False
        it.wires[1].lie = _lie
        clock.advance(timedelta(seconds=2))
        assert (await it.read(path))["aggregators"][1]["accepted"] is None
        it.wires[1].lie = None
        await opened.contribute(other, integers(4))


def _lie(path: str, told: Any) -> Any:
    return {"accepted": -5} if "accepted" in told else told


async def test_a_round_that_is_over_asks_nobody(house: Houses) -> None:
    async with house(2) as it:
        await it.host("gateway", 3)
        opened = await it.open(query(aggregators=2))
        await it.finish(opened, by="abort")
        before = [len(wire.seen) for wire in it.wires]
        found = await it.read(f"/v1/rounds/{opened.id}/received")
        assert (found["state"], found["least"], found["aggregators"]) == ("aborted", None, [])
        assert [len(wire.seen) for wire in it.wires] == before
        assert (await it.ask("GET", "/v1/rounds/nothing/received")).status_code == 404
