"""Load profiles over real services: window bounds, Gaussian noise of every party, what owners see.

Spec: profiles, sections 2 and 3.
"""

from __future__ import annotations

import math
import random
import re
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.accounting.expected_error import forecast
from tacit.query.encoding import Norm, WindowBound
from tacit.query.query import Query
from tacit.wire import format_instant
from tests.e2e.world import World, world

pytestmark = pytest.mark.slow

SLOTS, HOMES, BOUND = 30, 12, 2000
QUERY: dict[str, Any] = {
    "function": "vector_sum",
    "dimension": SLOTS,
    "coordinates": "slots",
    "unit": "kWh",
    "bounds": ["0", "2"],
    "max_readings": SLOTS,
    "resolution": "0.001",
    "window_bound": "2",
    "mechanism": "distributed",
    "noise": "gaussian",
    "rho": "2",
    "sharing": "additive",
    "aggregators": 3,
    "collusion": {"curators": 2, "aggregators": 1},
    "min_participants": HOMES,
    "n_max": 100,
    "deadline_s": 120,
}
WAYS: dict[str, dict[str, Any]] = {
    "additive": {},
    "shamir": {"sharing": "shamir", "threshold": 2},
    "curator": {"layer": "curator"},
    "both": {"layer": "both"},
}


def scaled(watt_hours: list[int]) -> list[int]:
    """A home's window within the bound, worked out by hand."""
    squares = sum(value * value for value in watt_hours)
    if squares <= BOUND * BOUND:
        return watt_hours
    root = math.isqrt(squares - 1) + 1
    return [value * BOUND // root for value in watt_hours]


async def enrol(it: World, homes: dict[str, list[int]]) -> None:
    await it.enrol("utility", list(homes))
    begin = it.window_end - timedelta(hours=1)
    readings = [
        {
            "curator": home,
            "device": home,
            "unit": "Wh",
            "kind": "delta",
            "time": format_instant(begin + timedelta(minutes=2 * slot)),
            "value": str(value),
        }
        for home, values in homes.items()
        for slot, value in enumerate(values)
    ]
    answer = await it.call(it._curator, "POST", "/v1/readings", readings)
    assert all(item["status"] == "accepted" for item in answer["items"])


async def test_released_sums_have_the_mean_and_variance_of_the_forecast(tmp_path: Path) -> None:
    """80 rounds of 30 slots: of each way the variance lies within 5 deviations (29 %), and the mean
    within 5 of its own. Half of the homes draw more than the bound."""
    source = random.Random(5)
    homes = {
        f"home-{number}": [source.randint(0, 1200 if number % 2 else 60) for _ in range(SLOTS)]
        for number in range(HOMES)
    }
    total = np.sum([scaled(values) for values in homes.values()], axis=0)
    async with world(tmp_path) as it:
        await it.allow_everything(record={}, curator={})
        await enrol(it, homes)
        for way, changes in WAYS.items():
            errors = []
            for number in range(20):
                query = {**QUERY, **changes, "name": f"{way}-{number}"}
                round_id = await it.open(query)
                finished = await it.finish(round_id)
                assert finished["state"] == "released", finished["reason"]
                result = (await it.result(round_id))["result"]["vector"]
                released = [int(Fraction(value) * 1000) for value in result]
                errors.append(np.array(released) - total)
            [error] = forecast(Query.of(register="energy_import", **query), HOMES)
            deviation = 1000 * error.standard_deviation
            drawn = np.concatenate(errors)
            assert abs(drawn.mean()) < 5 * deviation / math.sqrt(drawn.size)
            assert drawn.var() == pytest.approx(deviation**2, rel=5 * math.sqrt(2 / drawn.size))
        contributions = (await it.call(it._curator, "GET", "/v1/curators/home-1/contributions"))[
            "contributions"
        ]
        kept = {item["readings"]["kept_share"] for item in contributions}
        squares = sum(value * value for value in homes["home-1"])
        root = math.isqrt(squares - 1) + 1
        assert {Fraction(share) for share in kept} == {Fraction(10**6 * BOUND // root, 10**6)}
        unscaled = (await it.call(it._curator, "GET", "/v1/curators/home-0/contributions"))[
            "contributions"
        ]
        assert {item["readings"]["kept_share"] for item in unscaled} == {None}


MOST_KIB = 1 << 20
"""No process holds a gibibyte, with 11 contributions of 8 MB."""


async def test_a_round_of_a_million_coordinates(tmp_path: Path) -> None:
    """A host of nine curators, of which one is in a segment of its own, and a lone one. Of the
    noise of a million coordinates mean and variance are within 5 deviations of the forecast's."""
    dimension = 10**6
    query = {
        **QUERY,
        **{
            "name": "long",
            "dimension": dimension,
            "coordinates": "values",
            "register": "model:step",
        },
        **{"unit": "1", "bounds": ["-1", "1"], "max_readings": 1, "resolution": "0.00001"},
        **{"window_bound": "1", "min_participants": 10, "deadline_s": 300},
    }
    source = np.random.default_rng(8)
    async with world(tmp_path) as it:
        await it.allow_everything(record={}, curator={})
        await it.enrol("sites", [f"site-{number}" for number in range(9)])
        await it.enrol("alone", None)
        total = np.zeros(dimension, np.int64)
        for name, length in (("site-0", 0.5), ("site-8", 2), ("alone", 1)):
            steps = source.normal(size=dimension)
            units = np.rint(steps * (length * 10**5 / np.linalg.norm(steps))).astype(np.int64)
            total += WindowBound(Norm.L2, 10**5).scale(units[None])[0][0]
            reading = {
                **{"curator": name, "device": "trainer", "register": "model:step"},
                **{"unit": "1", "kind": "instant"},
                "time": format_instant(it.window_end - timedelta(minutes=30)),
                "values": [f"{unit}e-5" for unit in units.tolist()],
            }
            answer = await it.call(it._curator, "POST", "/v1/readings", [reading])
            assert [item["status"] for item in answer["items"]] == ["accepted"]
        round_id = await it.open(query)
        finished = await it.finish(round_id, 600)
        assert finished["state"] == "released", finished["reason"]
        assert finished["participants"] == 10
        result = (await it.result(round_id))["result"]["vector"]
        errors = np.rint(np.array(result, float) * 1e5).astype(np.int64) - total
        for name, process in it.running.processes.items():
            status = Path(f"/proc/{process.pid}/status").read_text()
            [peak_kib] = re.findall(r"VmHWM:\s+(\d+) kB", status)
            assert int(peak_kib) < MOST_KIB, name
    [error] = forecast(Query.of(**query), 10)
    deviation = 10**5 * error.standard_deviation
    assert abs(errors.mean()) < 5 * deviation / math.sqrt(dimension)
    assert errors.var() == pytest.approx(deviation**2, rel=5 * math.sqrt(2 / dimension))
