"""Rounds from opening to release, and their endings without a sum."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import httpx
import pytest

from common.runtime.clock import ManualClock
from tacit.protocol.round.messages import Transcript
from tacit.protocol.round.opening import check_transcript
from tacit.wire import parse_binary
from tests.coordinator.conftest import Houses
from tests.coordinator.double import NOISY, WINDOW, House, integers, pointers, problem, query

SHAMIR = {"sharing": "shamir", "aggregators": 5, "threshold": 3}


@pytest.mark.parametrize("changes", [{}, SHAMIR], ids=["additive", "shamir"])
async def test_a_released_result_is_the_sum(house: Houses, changes: dict[str, object]) -> None:
    count = int(str(changes.get("aggregators", 3)))
    async with house(count) as it:
        host = await it.host("gateway", 40)
        lone = await it.enrol(it.federation.sender("alone"))
        opened = await it.open(query(**changes))
        values = integers(41)
        await opened.contribute(host, values[:40])
        await opened.contribute(lone, values[40:])
        finished = await it.finish(opened)
        assert finished["state"] == "released", finished
        assert finished["participants"] == 41
        found = await it.result(opened)
        assert Decimal(found["result"]["sum"]) == Decimal(int(values.sum())) / 1000
        transcript = await it.ask("GET", f"/v1/rounds/{opened.id}/transcript")
        identity = (await it.client.get("/.well-known/tacit-coordinator")).json()
        checked = check_transcript(
            Transcript.model_validate_json(transcript.content),
            parse_binary(identity["identity_key"]),
        )
        assert checked.total.tolist() == [int(values.sum())]
        for late in ("close", "abort"):
            answer = await it.ask("POST", f"/v1/rounds/{opened.id}/{late}")
            assert problem(answer) == (410, "round_closed")


async def test_too_few_participants_abort_the_round(house: Houses) -> None:
    async with house() as it:
        host = await it.host("gateway", 3)
        opened = await it.open(query(min_participants=4))
        await opened.contribute(host, integers(3))
        finished = await it.finish(opened)
        assert finished["state"] == "aborted"
        assert "minimum" in finished["reason"]
        assert len(finished["aborts"]) == 3
        answer = await it.ask("GET", f"/v1/rounds/{opened.id}/result")
        assert answer.status_code == 409
        assert answer.json()["type"] == "urn:tacit:problem:not_released"


async def test_a_distributed_round_is_close_and_not_exact(house: Houses) -> None:
    async with house() as it:
        host = await it.host("gateway", 20)
        opened = await it.open(query(**NOISY))
        values = integers(20)
        await opened.contribute(host, values)
        await it.finish(opened)
        found = await it.result(opened)
        error = abs(float(found["result"]["sum"]) - values.sum() / 1000)
        # Three discrete Laplaces of scale 20 kWh: above 900 kWh with probability 10^-18.
        assert 0 < error < 900
        assert found["report"]["mechanism"] == "distributed"
        path = f"/v1/rounds/{opened.id}/report"
        words = await it.ask("GET", path, headers={"Accept": "text/plain"})
        assert words.headers["content-type"].startswith("text/plain")
        assert "What is not protected" in words.text
        assert (await it.ask("GET", path)).json() == found["report"]


async def test_a_round_needs_a_window_of_its_query(house: Houses) -> None:
    async with house() as it:
        await it.host("gateway", 3)
        free = (await it.ask("POST", "/v1/queries", query())).json()["id"]
        fixed = (await it.ask("POST", "/v1/queries", query(window=WINDOW))).json()["id"]

        async def opening(query_id: str, **more: object) -> httpx.Response:
            return await it.ask("POST", "/v1/rounds", {"query_id": query_id, **more})

        answer = await opening(free)
        assert problem(answer) == (422, "window_missing")
        assert pointers(answer) == ["/window"]
        backwards = {"start": WINDOW["end"], "end": WINDOW["start"]}
        assert pointers(await opening(free, window=backwards)) == ["/window/end"]
        assert pointers(await opening(free, window={"start": WINDOW["start"]})) == ["/window/end"]
        other = {"start": WINDOW["start"], "end": "2026-01-02T00:00:00Z"}
        assert problem(await opening(fixed, window=other)) == (422, "window_fixed")
        assert (await opening(fixed)).json()["window"] == WINDOW
        assert (await opening(fixed, window=WINDOW)).status_code == 201
        assert (await opening(free, window=other)).status_code == 201


async def test_an_opening_that_makes_no_sense(house: Houses) -> None:
    async with house() as it:
        created = (await it.ask("POST", "/v1/queries", query(n_max=5))).json()["id"]

        async def opening(query_id: str = created, **more: object) -> httpx.Response:
            body = {"query_id": query_id, "window": WINDOW, **more}
            return await it.ask("POST", "/v1/rounds", body)

        assert problem(await opening("nothing")) == (404, "unknown_query")
        for deadline in (0, -5, 32 * 86_400):
            assert pointers(await opening(deadline_s=deadline)) == ["/deadline_s"]
        answer = await opening(aggregators=["aggregator-0", "aggregator-1", "who"])
        assert problem(answer) == (404, "unknown_aggregator")
        assert pointers(answer) == ["/aggregators/2"]
        for names in (["aggregator-0"], ["aggregator-0", "aggregator-0", "aggregator-1"]):
            answer = await opening(aggregators=names)
            assert problem(answer) == (409, "not_enough_aggregators")
        four = (await it.ask("POST", "/v1/queries", query(aggregators=4))).json()["id"]
        answer = await opening(four)
        assert problem(answer) == (409, "not_enough_aggregators")
        assert (answer.json()["needed"], answer.json()["registered"]) == (4, 3)
        await it.host("gateway", 6)
        answer = await opening()
        assert problem(answer) == (409, "roster_too_large")
        assert (answer.json()["curators"], answer.json()["n_max"]) == (6, 5)
        assert (await it.ask("GET", "/v1/rounds")).json() == {"rounds": []}
        names = ["aggregator-2", "aggregator-0"]
        found = await it.ask_for(query(aggregators=2, n_max=9), aggregators=names)
        assert found["aggregators"] == names


async def test_an_operator_aborts_an_open_round(house: Houses) -> None:
    async with house() as it:
        host = await it.host("gateway", 3)
        await it.host("absent", 1)
        opened = await it.open(query())
        await opened.contribute(host, integers(3))
        for step in ("result", "report", "transcript"):
            answer = await it.ask("GET", f"/v1/rounds/{opened.id}/{step}")
            assert problem(answer) == (409, "not_released")
            assert answer.json()["state"] == "open"
            assert answer.json()["detail"] == "The round is open"
        answer = await it.ask("POST", f"/v1/rounds/{opened.id}/abort")
        assert answer.status_code == 200
        result = await it.ask("GET", f"/v1/rounds/{opened.id}/result")
        assert result.json()["detail"] == f"The round is aborted: {answer.json()['reason']}"
        statements = [item["statement"] for item in answer.json()["aborts"]]
        assert {item["aggregator"] for item in statements} == {f"aggregator-{i}" for i in range(3)}
        assert {item["frozen"] for item in statements} == {"never"}
        assert answer.json()["participants"] is None
        assert problem(await it.ask("POST", f"/v1/rounds/{opened.id}/close")) == (
            410,
            "round_closed",
        )
        assert (await it.ask("GET", "/v1/rounds?state=open")).json() == {"rounds": []}


async def test_who_enrols_in_an_open_round_is_not_waited_for(house: Houses) -> None:
    async with house() as it:
        host = await it.host("gateway", 4)
        leaver = await it.host("leaver", 2)
        opened = await it.open(query())
        late = await it.host("late", 3)
        assert late.first >= opened.descriptor.roster_size
        values = integers(4)
        await opened.contribute(host, values)
        # Who leaves during the round is waited for: it may have delivered.
        assert (await it.ask("DELETE", "/v1/parties/leaver")).status_code == 204
        await asyncio.sleep(0.2)
        assert (await it.ask("GET", f"/v1/rounds/{opened.id}")).json()["state"] == "open"
        await opened.contribute(leaver, integers(2))
        finished = await it.finish(opened)
        assert (finished["state"], finished["participants"]) == ("released", 6)
        second = await it.open(query())
        assert second.descriptor.roster_size == late.first + 3
        await second.contribute(host, values)
        await second.contribute(late, integers(3))
        assert (await it.finish(second))["participants"] == 7


async def test_who_waits_for_the_end_hears_of_nothing_else(house: Houses) -> None:
    async with house() as it:
        host = await it.host("gateway", 4)
        opened = await it.open(query())
        path = f"/v1/rounds/{opened.id}?finished=true&wait_s="
        early = await it.ask("GET", path + "0.2")
        assert (early.status_code, early.json()["state"]) == (200, "open")
        waiting = asyncio.create_task(it.ask("GET", path + "30"))
        await opened.contribute(host, integers(4))
        told = (await waiting).json()
        assert (told["state"], told["participants"]) == ("released", 4)


def keys_shown(it: House) -> list[int]:
    """How often each aggregator was asked for its seal key."""
    return [wire.seen.count(("GET", "/v1/seal-keys/current")) for wire in it.wires]


async def test_a_key_that_was_shown_serves_for_a_minute(house: Houses) -> None:
    clock = ManualClock(datetime.now(UTC))
    async with house(clock=clock) as it:
        before = keys_shown(it)
        for index, pause_s in enumerate((0, 30, 29, 2)):
            clock.advance(timedelta(seconds=pause_s))
            await it.open(query(name=f"q-{index}"))
        assert [now - then for now, then in zip(keys_shown(it), before, strict=True)] == [2, 2, 2]


async def test_a_refused_descriptor_has_the_key_asked_for_again(house: Houses) -> None:
    async with house() as it:
        few = {"mechanism": "distributed", "epsilon": "1", "min_participants": 1}
        before = keys_shown(it)
        await it.open(query(name="good"))
        refused = await it.round_of((await it.ask_for(query(**few)))["id"])
        reason = "aggregator-0 refuses the descriptor: policy_refused"
        assert (await it.finish(refused))["reason"] == reason
        await it.open(query(name="good-again"))
        assert keys_shown(it)[0] - before[0] == 2
