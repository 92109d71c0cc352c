"""Rounds from opening to release, and their endings without a sum."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from common.agreement import check_transcript
from common.models.base import parse_binary
from common.models.round import Transcript
from tests.coordinator.conftest import Houses
from tests.coordinator.double import WINDOW, integers, query

SHAMIR = {"sharing": "shamir", "aggregators": 5, "threshold": 3}


@pytest.mark.parametrize("changes", [{}, SHAMIR], ids=["additive", "shamir"])
async def test_a_released_result_is_the_sum(
    house: Houses, database_url: str, changes: dict[str, object]
) -> None:
    count = int(str(changes.get("aggregators", 3)))
    async with house(count, database_url) as it:
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
        total = check_transcript(
            Transcript.model_validate_json(transcript.content),
            parse_binary(identity["identity_key"]),
        )
        assert total.tolist() == [int(values.sum())]


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


async def test_an_operator_closes_a_round_before_its_deadline(house: Houses) -> None:
    async with house() as it:
        host = await it.host("gateway", 5)
        await it.host("absent", 5)
        opened = await it.open(query())
        values = integers(5)
        await opened.contribute(host, values)
        answer = await it.ask("POST", f"/v1/rounds/{opened.id}/close")
        assert answer.status_code == 202
        assert (await it.finish(opened))["participants"] == 5


async def test_a_distributed_round_is_close_and_not_exact(house: Houses) -> None:
    async with house() as it:
        host = await it.host("gateway", 20)
        asked = query(
            mechanism="distributed", epsilon="1", collusion={"curators": 0, "aggregators": 2}
        )
        opened = await it.open(asked)
        values = integers(20)
        await opened.contribute(host, values)
        await it.finish(opened)
        found = await it.result(opened)
        error = abs(float(found["result"]["sum"]) - values.sum() / 1000)
        # Three discrete Laplaces of scale 20 kWh: above 900 kWh with probability 10^-18.
        assert 0 < error < 900
        assert found["report"]["mechanism"] == "distributed"


async def test_windows_are_needed_and_checked(house: Houses) -> None:
    async with house() as it:
        created = (await it.ask("POST", "/v1/queries", query())).json()
        answer = await it.ask("POST", "/v1/rounds", {"query_id": created["id"]})
        assert answer.status_code == 422
        assert answer.json()["type"] == "urn:tacit:problem:window_missing"
        backwards = {"start": WINDOW["end"], "end": WINDOW["start"]}
        body = {"query_id": created["id"], "window": backwards}
        answer = await it.ask("POST", "/v1/rounds", body)
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["pointer"] == "/window/end"


async def test_a_noise_contribution_is_relayed_under_shamir(house: Houses) -> None:
    async with house(5) as it:
        host = await it.host("gateway", 10)
        asked = query(
            **SHAMIR,
            mechanism="distributed",
            epsilon="1",
            collusion={"curators": 0, "aggregators": 2},
        )
        opened = await it.open(asked)
        values = integers(10)
        await opened.contribute(host, values)
        finished = await it.finish(opened)
        assert finished["state"] == "released", finished
        found = float((await it.result(opened))["result"]["sum"])
        assert 0 < abs(found - values.sum() / 1000) < 1500


async def test_values_of_the_ring_may_be_negative(house: Houses) -> None:
    async with house() as it:
        host = await it.host("gateway", 3)
        opened = await it.open(query(bounds=["-5", "5"]))
        await opened.contribute(host, np.array([[-7], [2], [1]]))
        await it.finish(opened)
        assert (await it.result(opened))["result"]["sum"] == "-0.004"
