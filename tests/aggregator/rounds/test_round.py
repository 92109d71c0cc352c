"""Whole rounds over HTTP: sums are exact, noise is in, quorums suffice."""

from __future__ import annotations

import numpy as np
import pytest

from tests.aggregator.conftest import Alliance
from tests.aggregator.double import Federation, query, vector


@pytest.mark.usefixtures("database_url")
async def test_lone_and_hosted_curators_sum_exactly(pair: Federation) -> None:
    lone = await pair.lone(3)
    host = await pair.host("gateway", 150)
    late = await pair.lone(1, "late")
    current = await pair.open(vector(5, aggregators=2, mechanism="exact"))
    rng = np.random.default_rng(1)
    expected = np.zeros(5, np.int64)
    for sender in [*lone, host, *late]:
        values = rng.integers(-(10**6), 10**6, (len(sender.curators), 5))
        await current.contribute(sender, values)
        expected += values.sum(axis=0)
    total, manifest = await current.release()
    assert manifest.count == 154
    assert total.tolist() == expected.tolist()


async def test_shamir_noise_is_shared_before_the_freeze(alliance: Alliance) -> None:
    async with alliance(5) as federation:
        lone = await federation.lone(3)
        asked = query(
            aggregators=5,
            sharing="shamir",
            threshold=3,
            mechanism="distributed",
            epsilon="5",
            collusion={"aggregators": 2},
        )
        current = await federation.open(asked)
        for sender in lone:
            await current.contribute(sender, np.array([[10**9]]))
        total, manifest = await current.release((0, 2, 4))
        assert manifest.contributions == (0, 1, 2, 3, 4)
        assert 0 < abs(int(total[0]) - 3 * 10**9) < 10**7  # b = 4000, five whole draws
