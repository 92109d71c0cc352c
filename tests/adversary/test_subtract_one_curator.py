"""The attacker wants one curator's reading, as the difference of two released sums.

It may ask for any two queries: with a `job` or another `family` written into the second one, a
guard that believes these words would let it. A corrupt coordinator, which forgets the guard, tries
at the aggregators; what an analyst may try is `COMPARED` in the tests of the coordinator's guard.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.aggregator.double import Federation, query
from tests.aggregator.rounds.test_differencing import commitment, deliver, released
from tests.aggregator.rounds.test_state_machine import refused
from tests.coordinator.rounds.test_differencing import NOISY

PROTECTED: dict[str, Any] = {**NOISY, "epsilon": "100", "family": "net", "family_minimum": 3}
TRICKS: dict[str, dict[str, Any]] = {
    "the same job": {"job": "clusters"},
    "a job named like a step": {"job": "clusters", "name": f"kmeans:1:{'0' * 64}"},
    "another family": {"family": "other", "family_minimum": 1},
    "no family": {"family": None, "family_minimum": None},
    "another function": {"function": "count", "family": "other", "family_minimum": 1},
}


@pytest.mark.parametrize("trick", TRICKS)
async def test_a_coordinator_that_forgets_the_guard(pair: Federation, trick: str) -> None:
    lone = await pair.lone(5)
    asked = {**PROTECTED, "aggregators": 2, "collusion": {"curators": 0, "aggregators": 1}}
    asked |= {"job": "clusters"} if "job" in TRICKS[trick] else {}
    await released(pair, lone, query(**asked))
    opened = await deliver(await pair.open(query(**{**asked, **TRICKS[trick]})), lone[1:])
    refused(await commitment(opened), 409, "difference_refused")


async def test_without_the_guard_the_difference_is_the_reading(pair: Federation) -> None:
    """The control: two sums that no family protects give one curator's 4,321 units, but for four
    draws of noise of scale 0.5. A false alarm needs one beyond 25: probability below 1e-20."""
    lone = await pair.lone(5)
    asked = {**NOISY, "aggregators": 2, "collusion": {"curators": 0, "aggregators": 1}}
    unprotected = {**asked, "epsilon": "10000", "max_readings": 1}
    sums = []
    for name, present in (("a", lone), ("b", lone[1:])):
        opened = await pair.open(query(**unprotected, name=name))
        for sender in present:
            await opened.contribute(sender, np.full((1, 1), 4321))
        total, _ = await opened.release()
        sums.append(int(total[0]))
    assert abs(sums[0] - sums[1] - 4321) <= 100
