"""Proved rounds over HTTP: five aggregators, lone curators, a host of two parts, and eight lies of
different kinds: of seven lone curators, and of a host about its part. The liars are named alike by
all, and the sum is exact, for every function and layer (spec: validity, section 10)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from fractions import Fraction
from math import isqrt
from typing import Any

import pytest
import pytest_asyncio

from tacit.protocol.round.messages import Transcript
from tacit.protocol.round.opening import check_transcript
from tacit.query.functions import decode, parts
from tacit.query.query import Query
from tacit.wire import parse_binary
from tests.e2e.liars import Liars, liars
from tests.e2e.test_functions import BASE, FUNCTIONS, Village, expected
from tests.e2e.world import World, world
from tests.rules import RULE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
]

PROVED: dict[str, Any] = {
    **{name: value for name, value in BASE.items() if name != "rule"},
    "min_participants": 1,
    "validity": "proved",
    "sharing": "additive",
    "aggregators": 5,
    "n_max": 10_000,
}
NOBODY = {"curators": 0, "aggregators": 0}
LAYERS: dict[str, dict[str, Any]] = {
    "exact": {"rule": RULE, "min_participants": 2},
    "aggregator": {"mechanism": "distributed", "layer": "aggregator", "collusion": NOBODY},
    "curator": {"mechanism": "distributed", "layer": "curator", "collusion": NOBODY},
    "both": {"mechanism": "distributed", "layer": "both", "collusion": NOBODY},
    "two-layer": {"mechanism": "two-layer", "pr_u": "0.5", "pr_s": "1"},
}
EPSILON = 2


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
        await it.allow_everything(record={}, curator={})
        village = Village(it)
        for name in ("north", "south", "west"):
            await village.grow(name, None)
        await village.grow("gateway", [f"home-{index}" for index in range(4200)])  # two parts
        yield Place(village, those)


def asked(function: str, layer: str) -> dict[str, Any]:
    """The query."""
    query = {**PROVED, **FUNCTIONS[function], **LAYERS[layer], "name": f"{function}-{layer}"}
    names = {"exact": (), "two-layer": ("epsilon_u", "epsilon_s")}.get(layer, ("epsilon",))
    return query | dict.fromkeys(names, str(EPSILON))


def tolerance(query: dict[str, Any], draws: int) -> Fraction:
    """Twelve deviations of the sum of this many Laplaces, in the result's unit."""
    (part,) = parts(Query.model_validate_json(json.dumps(query)))
    scale = part.value * part.sensitivity / EPSILON
    return 12 * scale * (1 + isqrt(2 * draws))


@pytest.mark.parametrize("function", FUNCTIONS)
async def test_every_function(place: Place, function: str) -> None:
    await check(place, function, "exact")


async def test_each_liar_reads_that_its_proof_was_refused(place: Place) -> None:
    round_id = await check(place, "sum", "exact")
    for name in place.liars.names:
        shown = await place.liars.settled(name, round_id)
        assert shown["refused_by_proof"]["reasons"] == ["proof"]
        assert shown["contributed"] and not shown["credited"]
        assert shown["charged"]["curator"]["status"] == "unverified"


@pytest.mark.parametrize("function", ["sum", "count", "histogram", "slots"])
@pytest.mark.parametrize("layer", [name for name in LAYERS if name != "exact"])
async def test_every_layer(place: Place, function: str, layer: str) -> None:
    await check(place, function, layer)


async def check(place: Place, function: str, layer: str) -> str:
    """One round, its id: released, the liars named by each verdict, and the sum that of the others:
    exact, or as near as its noise lets it be; and who has the transcript gets the same sum."""
    village, query = place.village, asked(function, layer)
    round_id = await place.world.open(query)
    finished = await place.world.finish(round_id)
    assert finished["state"] == "released", finished["reason"]
    assert finished["refused"] == len(place.liars.names)
    found = await place.world.result(round_id)
    assert found["participants"] == len(village.houses)
    if layer == "exact":
        village.compare(function, found["result"])
    else:
        # Without a minimum every curator's share is a whole Laplace.
        draws = 5 if layer == "aggregator" else len(village.houses) + 5
        wanted, far = expected(function, village.houses), tolerance(query, draws)
        for name, values in wanted.items():
            near(found["result"][name], values, far)
    opened = await place.world.call(recombined, place.world, round_id)
    for name, values in opened.items():
        assert values == found["result"][name]

    named = await place.world.call(operator, place.world, f"/v1/rounds/{round_id}/refused")
    assert {each["curator"] for each in named["refused"]} == set(place.liars.names)
    assert all(each["reasons"] == ["proof"] for each in named["refused"])
    assert named["statements"] == []
    return round_id


def operator(it: World, path: str) -> dict[str, Any]:
    """What the coordinator's operator reads."""
    with it.real.coordinator.client() as client:
        found: dict[str, Any] = client.request("GET", path).json()
        return found


def near(got: Any, wanted: Any, far: Fraction) -> None:
    """Each of some numbers, or one."""
    several = isinstance(wanted, list)
    pairs = zip(got, wanted, strict=True) if several else ((got, wanted),)
    for one, other in pairs:
        assert abs(Fraction(one) - other) <= far


def recombined(it: World, round_id: str) -> dict[str, Any]:
    """The result that the transcript gives, checked."""
    with it.real.coordinator.client() as client:
        text = client.request("GET", f"/v1/rounds/{round_id}/transcript").content
        key = parse_binary(client.keys.identity()["identity_key"])
    transcript = Transcript.model_validate_json(text)
    total = check_transcript(transcript, key).total
    return decode(transcript.descriptor.statement.query, total)
