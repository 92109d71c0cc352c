"""The attacker reads logs and error texts, which go to people who may not see who the curators are.

A lone curator's party has the curator's own name, so that the party's name may not stand there
either; a host's may.
"""

from __future__ import annotations

import io
from typing import Any

import httpx

from common.runtime.logs import configure_logging
from tests.coordinator.budget.test_routes import LATER, NOISY, limited, opening
from tests.coordinator.conftest import Houses
from tests.coordinator.double import House, problem, query
from tests.coordinator.registry.test_groups import named
from tests.e2e.hostile import PLAIN, Deviating

LONE = "lone-meter-of-mrs-smith"


async def test_a_lone_curators_name_is_in_no_log(deviating: Deviating, homes: Any) -> None:
    said = io.StringIO()
    configure_logging("debug", "json", stream=said)
    async with deviating(3) as it, homes(it, LONE, "other") as (curator, _):
        await curator.read("3", "2025-12-31T23:30:00Z")
        signed = await it.descriptor(PLAIN)
        await it.announce(signed)
        it.show(LONE, signed)
        await curator.take_part()
    log = said.getvalue()
    assert "party_enrolled" in log  # the control: its events are in the log
    assert "a lone curator" in log
    assert LONE not in log


def texts(*answers: httpx.Response) -> str:
    return " ".join(answer.text for answer in answers)


async def refusals(it: House) -> list[httpx.Response]:
    """Requests that fail because of some curators, among many."""
    await it.host("gateway", 3)
    created = (await it.ask("POST", "/v1/queries", query(**NOISY))).json()
    await limited(it, {"epsilon": "0.1", "unit": "record"})
    rival = it.federation.sender("rival", ["gateway.1", "rival.1"])
    body = {"name": "whole", "curators": named("gateway", 0, 1)}
    assert (await it.ask("POST", "/v1/groups", body)).is_success
    inner = {"name": "part", "parent": "whole", "curators": named("gateway", 1, 2)}
    unknown = {"kind": "refreshed", "curators": ["gateway.1", "gateway.stranger"]}
    return [
        await opening(it, created["id"]),
        await opening(it, created["id"], window=LATER),
        await it.send_enrolment(it.enrolment(rival, await it.grant(rival))),
        await it.ask("POST", "/v1/groups", inner),
        await it.ask("POST", "/v1/groups", {"name": "x", "curators": ["gateway.stranger"]}),
        await it.ask("POST", "/v1/budget/events", unknown),
    ]


async def test_an_error_names_no_curator(house: Houses) -> None:
    async with house(3) as it:
        answers = await refusals(it)
        assert [problem(answer) for answer in answers] == [
            (409, "budget_exceeded"),
            (409, "budget_exceeded"),
            (409, "curator_enrolled"),
            (422, "group_refused"),
            (422, "group_refused"),
            (404, "unknown_curator"),
        ]
        assert "gateway." not in texts(*answers)
        assert [answer.json().get("count") for answer in answers[2:]] == [1, 1, 1, 1]


async def test_an_operator_is_told_whom_a_limit_blocks(house: Houses) -> None:
    """The control: what an error leaves out, the preview tells the operator, and nobody else."""
    async with house(3) as it:
        await refusals(it)
        created = (await it.ask("POST", "/v1/queries", query(**NOISY))).json()
        plan = {"query_id": created["id"], "window": LATER}
        seen = await it.ask("POST", "/v1/budget/preview", plan)
        assert "gateway.1" in seen.json()["refusals"][0]["blocked"]
        analyst = await it.ask("POST", "/v1/budget/preview", plan, await it.token("analyst"))
        assert "gateway" not in analyst.text
