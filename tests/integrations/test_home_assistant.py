"""The payloads that the Home Assistant integration is tested with are those of a real service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.services.deployment import Deployment
from tacit import Client
from tests.e2e.world import World, world

RECORDED = Path(__file__).parents[2] / "integrations" / "home_assistant" / "tests" / "recorded"
ASKED: dict[str, Any] = {
    "name": "evening-peak",
    "function": "sum",
    "unit": "kWh",
    "bounds": ["0", "5"],
    "max_readings": 1,
    "resolution": "0.001",
    "mechanism": "exact",
    "rule": {"min_participants": 2},
    "sharing": "additive",
    "aggregators": 3,
    "min_participants": 2,
    "n_max": 100,
    "deadline_s": 60,
}
METER = {
    "device": "sensor.meter_total",
    "register": "energy_import",
    "unit": "kWh",
    "kind": "total_increasing",
}


def shape(value: Any) -> Any:
    """Names and types, all that a program may rely on."""
    if isinstance(value, dict):
        return {name: shape(item) for name, item in sorted(value.items())}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


def _token(real: Deployment, curator: str) -> str:
    with real.curator.client() as client:
        body = {"scope": "curator", "subject": curator, "label": "Home Assistant"}
        return str(client.post("/v1/tokens", body)["token"])


def _given(real: Deployment, token: str) -> dict[str, Any]:
    """What the integration asks, as it asks it."""
    readings = [
        {"curator": "house", **METER, "time": "2026-11-23T10:00:00.123456+00:00", "value": "1.5"},
        {"curator": "house", **METER, "time": "2026-11-23T10:00:00.123456+00:00", "value": "1.5"},
        {"curator": "house", **METER, "time": "2026-11-23T10:05:00+00:00", "value": "nonsense"},
    ]
    with Client(real.curator.url, token) as client:
        return {
            "readings": client.request("POST", "/v1/readings", readings).json(),
            "budget": client.get("/v1/curators/house/budget"),
            "contributions": client.get("/v1/curators/house/contributions?limit=20"),
        }


@pytest.mark.slow
async def test_a_real_curator_answers_as_recorded(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        await it.enrol("house", None)
        await it.enrol("other", None)
        await it.allow_everything()
        await it.give({"house": "2", "other": "3"})
        round_id = await it.open(ASKED)
        assert (await it.finish(round_id))["state"] == "released"
        await it.debits("house", round_id)
        given = await _asked(it)
        assert [item["status"] for item in given["readings"]["items"]] == [
            "accepted",
            "duplicate",
            "rejected",
        ]
        for name, answer in given.items():
            recorded = json.loads((RECORDED / f"{name}.json").read_text())
            for contribution in (
                *recorded.get("contributions", ()),
                *answer.get("contributions", ()),
            ):
                assert contribution.pop("outcome") in (None, "released")  # known a moment later
            assert shape(recorded) == shape(answer), name


async def _asked(it: World) -> dict[str, Any]:
    token = await it.call(_token, it.real, "house")
    found: dict[str, Any] = await it.call(_given, it.real, token)
    return found
