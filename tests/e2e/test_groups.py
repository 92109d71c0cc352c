"""A group's round, with real services: only the group is summed, and only the group pays."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.world import World, world

ASKED: dict[str, Any] = {
    "name": "all",
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
    "deadline_s": 15,
}
READINGS = {f"g-{number}": f"{number}.25" for number in range(4)} | {"lone": "4", "other": "2"}


def _declare(it: World, name: str, curators: list[str]) -> None:
    with it.real.coordinator.client() as client:
        client.post("/v1/groups", {"name": name, "curators": curators})


@pytest.mark.slow
async def test_a_group_is_summed_and_nobody_else_pays(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        await it.enrol("gateway", [name for name in READINGS if name.startswith("g-")])
        await it.enrol("lone", None)
        await it.enrol("other", None)
        await it.allow_everything()
        await it.give(READINGS)
        inside = ["g-1", "g-2", "lone"]
        await it.call(_declare, it, "feeder", inside)
        round_id = await it.open({**ASKED, "group": "feeder"})
        finished = await it.finish(round_id)
        assert finished["state"] == "released", finished
        assert finished["participants"] == len(inside)
        found = await it.result(round_id)
        assert Fraction(found["result"]["sum"]) == sum(Fraction(READINGS[name]) for name in inside)
        for name in READINGS:
            with it.real.curator.client() as client:
                history = await it.call(client.get, f"/v1/curators/{name}/contributions")
            (item,) = history["contributions"]
            assert item["round"] == round_id
            assert item["contributed"] == (name in inside), name
            names = [ground["name"] for ground in item["refused_because"]]
            assert names == ([] if name in inside else ["not_concerned"])
        # Now everyone, over the same window: three differ, and two is the minimum.
        everyone = await it.finish(await it.open(ASKED))
        assert everyone["state"] == "released", everyone
        assert everyone["participants"] == len(READINGS)
