"""Proved rounds over HTTP: five aggregators, lone curators, a host, and seven liars of different
kinds. The seven are named alike by all, and the sum is exact, for every function and layer (spec:
validity, section 10)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from fractions import Fraction
from typing import Any

import pytest
import pytest_asyncio

from tacit.query.functions import parts
from tacit.query.query import Query
from tests.e2e.liars import LIES, Liars, liars
from tests.e2e.test_functions import BASE, FUNCTIONS, Village
from tests.e2e.world import World, world

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(560),
]

PROVED: dict[str, Any] = {
    **BASE,
    "validity": "proved",
    "sharing": "additive",
    "aggregators": 5,
    "n_max": 10_000,
}
NOBODY = {"curators": 0, "aggregators": 0}
LAYERS: dict[str, dict[str, Any]] = {
    "exact": {},
    "aggregator": {"mechanism": "distributed", "layer": "aggregator", "collusion": NOBODY},
    "curator": {"mechanism": "distributed", "layer": "curator", "collusion": NOBODY},
    "both": {"mechanism": "distributed", "layer": "both", "collusion": NOBODY},
    "two-layer": {"mechanism": "two-layer", "pr_u": "0.5", "pr_s": "0.5"},
}
SMALL = Fraction(3, 100)
"""A noise scale at which a draw is not 0 with a chance of 2 e^-33, and is clamped at 1 or more."""


class Place:
    """A village with liars in it."""

    def __init__(self, village: Village, those: Liars) -> None:
        self.village, self.liars = village, those

    @property
    def world(self) -> World:
        return self.village.world


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    home, den = tmp_path_factory.mktemp("proved"), tmp_path_factory.mktemp("liars")
    async with world(home, 5) as it, liars(den, it) as those:
        agreeing = {"allow_unverified": True, "min_participants": 1, "allow_repeats": True}
        await it.call(it._curator, "PUT", "/v1/policy", agreeing)
        village = Village(it)
        for name in ("north", "south", "west"):
            await village.grow(name, None)
        await village.grow("gateway", [f"home-{index}" for index in range(200)])
        yield Place(village, those)


def asked(function: str, layer: str) -> dict[str, Any]:
    """The query, with noise so small that it is 0."""
    query = {**PROVED, **FUNCTIONS[function], **LAYERS[layer], "name": f"{function}-{layer}"}
    if layer == "exact":
        return query
    names = ("epsilon_u", "epsilon_s") if layer == "two-layer" else ("epsilon",)
    for name in names:
        query[name] = "1"
    parsed = Query.model_validate_json(json.dumps(query))
    least = min(part.sensitivity / part.epsilon_share for part in parts(parsed))
    return query | dict.fromkeys(names, str(int(least / SMALL)))


@pytest.mark.parametrize("function", FUNCTIONS)
async def test_every_function(place: Place, function: str) -> None:
    await check(place, function, "exact")


@pytest.mark.parametrize("function", ["sum", "count", "histogram", "slots"])
@pytest.mark.parametrize("layer", [name for name in LAYERS if name != "exact"])
async def test_every_layer(place: Place, function: str, layer: str) -> None:
    await check(place, function, layer)


async def check(place: Place, function: str, layer: str) -> None:
    """One round: released, exact, and the liars named by each verdict."""
    village = place.village
    round_id = await place.world.open(asked(function, layer))
    finished = await place.world.finish(round_id)
    assert finished["state"] == "released", finished["reason"]
    assert finished["refused"] == len(LIES)
    found = await place.world.result(round_id)
    assert found["participants"] == len(village.houses)
    village.compare(function, found["result"])

    named = await place.world.call(operator, place.world, f"/v1/rounds/{round_id}/refused")
    assert {each["curator"] for each in named["refused"]} == set(place.liars.names)
    assert all(each["reasons"] == ["proof"] for each in named["refused"])
    assert named["statements"] == []


def operator(it: World, path: str) -> dict[str, Any]:
    """What the coordinator's operator reads."""
    with it.real.coordinator.client() as client:
        found: dict[str, Any] = client.request("GET", path).json()
        return found
