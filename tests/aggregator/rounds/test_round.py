"""Whole rounds over HTTP: sums are exact, noise is in, quorums suffice."""

from __future__ import annotations

import numpy as np

from tests.aggregator.conftest import Alliance
from tests.aggregator.double import query


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
