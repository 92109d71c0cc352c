"""A round of mechanism `exact` over HTTP equals the plain sum to the last unit, for each function
and both sharings, 1 to 1,000 curators (spec: aggregation, section 10, check 4)."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest
import pytest_asyncio

from tacit.wire import format_instant
from tests.e2e.world import World, world

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

RESOLUTION = Fraction(1, 1000)
LOW, HIGH = Fraction(-1), Fraction(3)
MOST = 3
EDGES = ["-1", "0", "0.5", "1", "3"]
SLOTS = 4
BASE: dict[str, Any] = {
    "unit": "kWh",
    "bounds": ["-1", "3"],
    "max_readings": MOST,
    "resolution": "0.001",
    "mechanism": "exact",
    "rule": {"min_participants": 2},
    "aggregators": 3,
    "min_participants": 2,
    "n_max": 1000,
    "deadline_s": 120,
}
SHARINGS: dict[str, dict[str, Any]] = {
    "additive": {"sharing": "additive"},
    "shamir": {"sharing": "shamir", "threshold": 2},
}
VECTOR = {
    "function": "vector_sum",
    "register": "profile",
    "coordinates": "values",
    "blocks": [
        {"name": "counts", "dimension": 1, "l1_bound": "3", "resolution": "1"},
        {"name": "offsets", "dimension": 2, "l1_bound": "6", "resolution": "0.01"},
    ],
}
FUNCTIONS: dict[str, dict[str, Any]] = {
    "sum": {"function": "sum"},
    "count": {"function": "count"},
    "mean": {"function": "mean"},
    "variance": {"function": "variance"},
    "histogram": {"function": "histogram", "edges": EDGES},
    "slots": {"function": "vector_sum", "dimension": SLOTS, "coordinates": "slots"},
    "blocks": VECTOR,
}


class Household:
    """One curator's readings, and what they add, worked out in fractions."""

    def __init__(self, name: str, source: random.Random) -> None:
        self.name = name
        # Up to five readings where three count; some beyond the bounds, some to a tenth of a unit.
        self.values = [
            Fraction(source.randint(-15_000, 35_000), 10_000) for _ in range(source.randint(0, 5))
        ]
        self.minutes = sorted(source.sample(range(60), len(self.values)))
        self.vector = [source.randint(0, 3), *(source.randint(-100, 200) / 100 for _ in range(2))]

    def quantised(self, centre: Fraction = Fraction(0)) -> list[Fraction]:
        """The counted readings, rounded half to even, clamped, in the unit."""
        low, high = (round((bound - centre) / RESOLUTION) for bound in (LOW, HIGH))
        units = [round((value - centre) / RESOLUTION) for value in self.values[:MOST]]
        return [min(max(unit, low), high) * RESOLUTION for unit in units]


def expected(function: str, houses: list[Household]) -> dict[str, Any]:
    """The plain result."""
    everything = [value for house in houses for value in house.quantised()]
    centred = [value for house in houses for value in house.quantised(Fraction(1))]
    count = len(everything)
    match function:
        case "sum":
            return {"sum": sum(everything)}
        case "count":
            return {"count": count}
        case "mean":
            return {"mean": 1 + sum(centred) / count, "count": count}
        case "variance":
            mean = sum(centred) / count
            squares = sum(value * value for value in centred) / count
            return {"mean": 1 + mean, "variance": squares - mean**2, "count": count}
        case "histogram":
            raw = [value for house in houses for value in house.values[:MOST]]
            edges = [Fraction(edge) for edge in EDGES]
            bins = [0] * (len(edges) - 1)
            for value in raw:
                above = sum(value >= edge for edge in edges)
                bins[min(max(above - 1, 0), len(bins) - 1)] += 1
            return {"histogram": bins}
        case "slots":
            totals = [Fraction(0)] * SLOTS
            for house in houses:
                for minute, value in zip(house.minutes, house.quantised(), strict=False):
                    totals[minute * SLOTS // 60] += value
            return {"vector": totals}
        case _:
            parts = [Fraction(str(sum(house.vector[i] for house in houses))) for i in range(3)]
            return {"counts": parts[:1], "offsets": [round(part, 2) for part in parts[1:]]}


class Village:
    """A world with households, which grows."""

    def __init__(self, it: World) -> None:
        self.world = it
        self.houses: list[Household] = []
        self.random = random.Random(7)

    async def grow(self, party: str, names: list[str] | None) -> None:
        """Enrol more households and send their readings."""
        await self.world.enrol(party, names)
        fresh = [Household(name, self.random) for name in names or [party]]
        self.houses += fresh
        begin = self.world.window_end - timedelta(hours=1)
        readings: list[dict[str, Any]] = []
        for house in fresh:
            common = {"curator": house.name, "device": house.name, "unit": "kWh", "kind": "delta"}
            readings += [
                {
                    **common,
                    "time": format_instant(begin + timedelta(minutes=minute)),
                    "value": str(float(value)),
                }
                for minute, value in zip(house.minutes, house.values, strict=True)
            ]
            readings.append(
                {
                    **common,
                    "register": "profile",
                    "time": format_instant(begin),
                    "values": [str(value) for value in house.vector],
                }
            )
        answer = await self.world.call(self.world._curator, "POST", "/v1/readings", readings)
        assert all(item["status"] == "accepted" for item in answer["items"])

    async def check(self, function: str, sharing: str) -> None:
        """Run a round and compare."""
        query = {**BASE, **SHARINGS[sharing], **FUNCTIONS[function]}
        query["name"] = f"{function}-{sharing}-{len(self.houses)}"
        round_id = await self.world.open(query)
        finished = await self.world.finish(round_id)
        assert finished["state"] == "released", finished["reason"]
        found = await self.world.result(round_id)
        assert found["participants"] == len(self.houses)
        self.compare(function, found["result"])

    def compare(self, function: str, found: dict[str, Any]) -> None:
        """A result with the plain one."""
        for name, value in expected(function, self.houses).items():
            got = found[name]
            if isinstance(value, list):
                assert [Fraction(item) for item in got] == value, name
            elif name in ("mean", "variance"):
                assert abs(Fraction(got) - value) <= Fraction(1, 10**12), name
            else:
                assert Fraction(got) == value, name


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def village(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Village]:
    async with world(tmp_path_factory.mktemp("village")) as it:
        await it.allow_everything()
        yield Village(it)


async def test_two_curators(village: Village) -> None:
    """The fewest of which there may be a sum without noise."""
    for name in ("one", "other"):
        await village.grow(name, None)
    await village.check("sum", "additive")


@pytest.mark.parametrize("sharing", SHARINGS)
@pytest.mark.parametrize("function", FUNCTIONS)
async def test_every_function_under_both_sharings(
    village: Village, function: str, sharing: str
) -> None:
    if len(village.houses) < 38:
        await village.grow("gateway", [f"home-{index}" for index in range(36)])
    await village.check(function, sharing)


@pytest.mark.parametrize("sharing", SHARINGS)
async def test_a_thousand_curators(village: Village, sharing: str) -> None:
    missing = 1000 - len(village.houses)
    if missing:
        await village.grow("town", [f"town-{index}" for index in range(missing)])
    await village.check("sum", sharing)
    await village.check("variance", sharing)
