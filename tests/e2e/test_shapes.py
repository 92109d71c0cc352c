"""Every shape of a round with real services. Spec: keys, section 2, and check 5 of section 9."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tacit.query.disclosure import DisclosureRule
from tacit.wire import encode_binary
from tests.coordinator.double import query
from tests.e2e.federation import Site, site
from tests.rules import RULE

HOSTED = [f"home-{index}" for index in range(70)]
NOISE: dict[str, Any] = {"mechanism": "distributed", "epsilon": "40"}
NOBODY = {"curators": 0, "aggregators": 0}
SHAPES: dict[str, dict[str, Any]] = {
    "exact": {},
    "curators": {**NOISE, "layer": "curator", "collusion": NOBODY},
    "aggregators": {**NOISE, "layer": "aggregator", "collusion": {**NOBODY, "aggregators": 2}},
    "both": {**NOISE, "layer": "both", "collusion": NOBODY},
    "shamir": {"sharing": "shamir", "threshold": 2},
    "shamir with shared noise": {
        **NOISE,
        "sharing": "shamir",
        "threshold": 2,
        "layer": "aggregator",
        "collusion": {"curators": 0, "aggregators": 1},
        "c_noise": 2,
    },
    "proved": {"validity": "proved", "max_readings": 1},
    "proved with noise": {
        **NOISE,
        "validity": "proved",
        "max_readings": 1,
        "layer": "aggregator",
        "collusion": {**NOBODY, "aggregators": 2},
    },
}


async def settle(it: Site) -> None:
    """Two lone curators and a host, each with a reading of 1.5 kWh."""
    it.house.settings = it.house.settings.model_copy(
        update={"exact_rule": DisclosureRule(min_participants=2)}
    )
    await it.house.restart()
    await it.agree(min_participants=1, allow_repeats=True, exact=RULE)
    for name in ("north", "south"):
        await it.enrol(name)
    await it.enrol("gateway", HOSTED)
    items = [
        {"curator": name, "time": "2025-12-31T23:30:00Z", "value": "1.5", "unit": "kWh"}
        for name in ("north", "south", *HOSTED)
    ]
    answer = await it.own("POST", "/v1/readings", items)
    assert answer.status_code == 200, answer.text


async def total(it: Site, name: str, **changes: Any) -> tuple[float, int]:
    """The sum of a round, and its participants."""
    asked = query(name=name, min_participants=72, **changes)
    async with asyncio.timeout(60):
        opened = await it.house.open(asked)
        ended = await it.house.finish(opened)
        assert ended["state"] == "released", ended
        found = await it.house.result(opened)
    return float(found["result"]["sum"]), found["participants"]


@pytest.mark.slow
async def test_every_shape_of_a_round(tmp_path: Path) -> None:
    async with site(tmp_path) as it:
        await settle(it)
        for name, shape in SHAPES.items():
            found, count = await total(it, name.replace(" ", "-"), **shape)
            assert count == 72, name
            # Noise of scale 20 kWh / 40, thrice: off by 12 kWh less than once in 10^9.
            margin = 12 if "mechanism" in shape else 0
            assert abs(found - 72 * 1.5) <= margin, name


async def test_the_mirror_serves_what_a_round_names_and_nothing_else(tmp_path: Path) -> None:
    async with site(tmp_path) as it:
        await settle(it)
        opened = await it.house.open(query(name="two", min_participants=72))
        wanted = opened.descriptor.aggregators[1].seal.public_key_hash
        path = f"/v1/seal-keys/{encode_binary(wanted)}"
        answer = await it.house.client.get(path)
        assert (answer.status_code, len(answer.content)) == (200, 1216)
        assert "immutable" in answer.headers["cache-control"]
        it.house.wires[1].down = True
        assert (await it.house.client.get(path)).content == answer.content
        for strange in ("AAAA", encode_binary(bytes(32)), "no+hash"):
            assert (await it.house.client.get(f"/v1/seal-keys/{strange}")).status_code == 404
