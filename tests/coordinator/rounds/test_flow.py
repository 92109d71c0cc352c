"""The flow at the coordinator: what aggregators tell, by name, and what becomes of their lies."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from aggregator.pieces.flow import UploadCounts
from common.runtime.clock import ManualClock, first_uuid7, uuid7
from common.web.parts import part_of
from coordinator.registry import answers
from tests.coordinator.conftest import Houses
from tests.coordinator.console.test_rounds import released
from tests.coordinator.double import House


async def counted(it: House, clock: ManualClock, **counts: int) -> None:
    """Uploads at the first aggregator, in an hour that is over."""
    own = part_of(it.federation.peers[0].client._transport.app, UploadCounts)  # type: ignore[attr-defined]
    for outcome, count in counts.items():
        for _ in range(count):
            own.add("lone", outcome)
    await own.store()
    clock.advance(timedelta(hours=1, minutes=5))


async def flow(it: House, **asked: str) -> dict[str, Any]:
    answer = await it.ask("GET", "/v1/flow", params={k.strip("_"): v for k, v in asked.items()})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_it_tells_rounds_refusals_and_uploads(house: Houses, clock: ManualClock) -> None:
    async with house(3, clock=clock) as it:
        await released(it)
        await counted(it, clock, stored=9, round_closed=6, piece_conflict=2)
        found = await flow(it)
        assert found["rounds"] == {"released": 1}
        assert found["refused"] == {}
        first, *others = found["aggregators"]
        assert first["lone"] == {"stored": 9, "round_closed": 6}
        assert first["batch"] == {}  # one batch: fewer than five
        assert [each["lone"] for each in others] == [{}, {}]
        assert all(each["problem"] is None for each in found["aggregators"])
        clock.advance(timedelta(days=2))
        later = await flow(it)
        assert later["rounds"] == {}
        assert later["aggregators"][0]["lone"] == {}


async def test_an_aggregator_that_is_away_or_lies_spoils_no_other(
    house: Houses, clock: ManualClock
) -> None:
    async with house(3, clock=clock) as it:
        await counted(it, clock, stored=7)
        it.wires[1].down = True
        lies: list[Any] = [
            {"until": "2026-01-01T00:00:00Z", "hours": [{"hour": "x"}]},
            {"until": "2026-01-01T00:00:00Z", "hours": [], "more": 1},
            {
                "until": "2026-01-01T00:00:00Z",
                "hours": [
                    {
                        "hour": "2026-01-01T00:00:00Z",
                        "form": "lone",
                        "outcomes": {"<script>alert(1)</script>": 9},
                    }
                ],
            },
            {
                "until": "2026-01-01T00:00:00Z",
                "hours": [
                    {"hour": "2026-01-01T00:00:00Z", "form": "lone", "outcomes": {"stored": -9}}
                ],
            },
            [],
        ]
        for lie in lies:
            it.wires[2].lie = lambda path, told, lie=lie: lie if path == "/v1/flow" else told
            found = await flow(it)
            assert [each["problem"] for each in found["aggregators"]] == [
                None,
                "unreachable",
                "unreachable",
            ]
            assert found["aggregators"][0]["lone"] == {"stored": 7}


@pytest.mark.parametrize(
    ("asked", "pointer"),
    [
        ("from=2026-01-01T00:00:00Z&to=2025-12-31T00:00:00Z", "/from"),
        ("from=0001-01-01T00:00:00Z", "/from"),
        ("to=0001-01-01T00:00:00Z", "/to"),
        ("from=9999-12-31T23:59:59Z", "/from"),
        ("from=now", "/from"),
        ("to=2026-01-01", "/to"),
    ],
)
async def test_a_bad_span_names_its_field(
    house: Houses, clock: ManualClock, asked: str, pointer: str
) -> None:
    async with house(0, clock=clock) as it:
        answer = await it.ask("GET", f"/v1/flow?{asked}")
        assert answer.status_code == 422, answer.text
        assert answer.json()["errors"][0]["pointer"] == pointer


async def test_only_an_operator_sees_the_flow(house: Houses) -> None:
    async with house(1) as it:
        token, path = await it.token("analyst"), "/v1/aggregators"
        assert (await it.ask("GET", "/v1/flow", token=token)).status_code == 403
        assert (await it.ask("GET", f"{path}?health=true", token=token)).status_code == 403
        assert (await it.ask("GET", path, token=token)).status_code == 200


async def test_health_says_who_is_there_and_looks_once_in_a_while(
    house: Houses, clock: ManualClock
) -> None:
    async with house(2, clock=clock) as it:

        async def look() -> list[dict[str, Any]]:
            answer = await it.ask("GET", "/v1/aggregators?health=true")
            found: list[dict[str, Any]] = answer.json()["aggregators"]
            return found

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


def test_ids_of_rounds_sort_by_time(clock: ManualClock) -> None:
    start = clock.now()
    ids = []
    for _ in range(4):
        ids.append(str(uuid7(clock)))
        clock.advance(timedelta(milliseconds=1))
    assert [each >= first_uuid7(start + timedelta(milliseconds=2)) for each in ids] == [
        False,
        False,
        True,
        True,
    ]


async def test_an_aggregator_that_hangs_holds_no_page_up(
    house: Houses, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counts as away after a few seconds, whatever the time for a step of a round is."""
    async with house(2, clock=clock) as it:

        async def hang(_request: object) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(answers, "SOON_S", 0.2)
        monkeypatch.setattr(it.wires[1], "handle_async_request", hang)
        async with asyncio.timeout(5):
            found = await flow(it)
            health = (await it.ask("GET", "/v1/aggregators?health=true")).json()["aggregators"]
        assert [each["problem"] for each in found["aggregators"]] == [None, "unreachable"]
        assert [each["reachable"] for each in health] == [True, False]
