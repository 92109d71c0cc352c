"""Enrol, readings, contribution, delivery: what aggregators hold is what curators measured."""

from __future__ import annotations

from typing import Any

import pytest

from common.service.clock import ManualClock
from tests.curator.conftest import NOISY, OPEN, PLAIN, OpenSite, query
from tests.curator.double import FakeWorld

SHAMIR: dict[str, Any] = {"sharing": "shamir", "threshold": 2}
EXPECTED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "sum": ({}, {"sum": "7.5"}),
    "count": ({"function": "count"}, {"count": "4"}),
    "mean": ({"function": "mean"}, {"count": "4", "mean": "1.875"}),
    "variance": (
        {"function": "variance"},
        {"count": "4", "mean": "1.875", "variance": "3.296875"},
    ),
    "histogram": (
        {"function": "histogram", "edges": ["0", "1", "2", "5"]},
        {"histogram": ["1", "2", "1"]},
    ),
    "slots": (
        {"function": "vector_sum", "dimension": 4, "l1_bound": "10"},
        {"vector": ["1.5", "6", "0", "0"]},
    ),
}


@pytest.mark.parametrize("sharing", [{}, SHAMIR], ids=["additive", "shamir"])
@pytest.mark.parametrize("function", EXPECTED)
async def test_the_opened_sum_is_the_plain_one(
    site: OpenSite, world: FakeWorld, function: str, sharing: dict[str, Any]
) -> None:
    changes, expected = EXPECTED[function]
    asked = query(PLAIN, **changes, **sharing)
    async with site() as s:
        await s.policy(**OPEN)
        await s.enrol("house-1")
        await s.enrol("gateway", ["g-1", "g-2", "g-3"])
        await s.reading("house-1", "0.5")
        await s.reading("g-1", "1", 5)
        await s.reading("g-3", "9.25", 20)  # clamped to 5
        await s.reading("g-3", "1", 25)
        await s.reading("g-3", "3", 60)  # not in the window
        descriptor = s.open(asked)
        await s.take_part()
        assert world.members(descriptor) == {0, 64, 65, 66}
        assert world.result(descriptor) == expected
        history = await s.history("g-3")
        assert history[0]["state"] == "delivered"
        assert history[0]["contributed"]
        assert history[0]["readings"]["used"] == 2
        assert history[0]["declared"]["status"] == "unverified"
