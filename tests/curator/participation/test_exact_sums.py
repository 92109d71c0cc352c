"""A reading is in one sum without noise: two that share it could be subtracted."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from common.web.dependencies import part_of
from curator.participation.loop import Participation
from tacit.protocol.round.descriptor import RoundDescriptor
from tests.curator.conftest import HOUR, NOISY, OPEN, Site, query
from tests.curator.participation.test_groups import grounds, members

NAMES = ["early", "also", "late"]
FIRST = (0, 1)


async def in_a_first_sum(s: Site) -> RoundDescriptor:
    """A host, of whose curators two are in a sum without noise."""
    await s.policy(**OPEN)
    await s.enrol("gateway", NAMES)
    for name in NAMES:
        await s.reading(name, "1")
    first = s.open(query(name="first", group="feeder"), members=members(s.world, *FIRST))
    await s.take_part()
    assert s.world.members(first) == set(FIRST)
    return first


def moved(s: Site, first: RoundDescriptor, by: timedelta, **changes: Any) -> RoundDescriptor:
    """Another question without noise, about a window that begins so much later."""
    start, end = first.window.start + by, first.window.end + by
    return s.open(query(**{"name": "another", **changes}), start=start, end=end)


@pytest.mark.parametrize("by", [timedelta(0), -HOUR / 2, HOUR / 2])
async def test_a_second_sum_is_of_the_others_alone(s: Site, by: timedelta) -> None:
    first = await in_a_first_sum(s)
    await s.reading("early", "3", minute=1)  # late: the difference would show it
    s.clock.advance(HOUR)
    second = moved(s, first, by)
    await s.take_part()
    assert s.world.members(second) == {2}
    for place, name in enumerate(NAMES):
        wanted = ["in_exact_sum"] if place in FIRST else []
        assert await grounds(s, name) == wanted, name
        budget = await s.get(f"/v1/curators/{name}/budget")
        assert budget["exact_answers"] == 1


async def test_other_hours_other_registers_and_noise_are_no_second_sum(s: Site) -> None:
    first = await in_a_first_sum(s)
    s.clock.advance(HOUR)
    again = [
        moved(s, first, HOUR),
        moved(s, first, timedelta(0), register="gas"),
        s.open(query(NOISY)),
    ]
    await s.take_part()
    for descriptor in again:
        assert s.world.members(descriptor) == {0, 1, 2}


async def test_after_a_credit_a_sum_may_be_asked_again(s: Site) -> None:
    """Of a round that every aggregator aborted before its freeze nothing can be opened."""
    first = await in_a_first_sum(s)
    s.world.finish(first, "aborted", len(first.aggregators))
    s.clock.advance(2 * HOUR)
    await part_of(s.app, Participation).settle()
    second = moved(s, first, timedelta(0))
    await s.take_part()
    assert s.world.members(second) == {0, 1, 2}
    assert (await s.get("/v1/curators/early/budget"))["exact_answers"] == 1
