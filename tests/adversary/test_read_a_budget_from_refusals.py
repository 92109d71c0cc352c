"""A coordinator wants to know which curators are out of budget, or were asked before.

A curator that stays out of a round says so, that nobody waits for it. The ground that it gives is
one of three, decided before any reading is looked at: `own` stands for all that depends on its own
ledger or past. The ground itself, with figures, is in its owner's statement alone.
"""

from __future__ import annotations

from typing import Any

from common.web.dependencies import part_of
from curator.participation.loop import Participation
from tacit import sets
from tests.curator import conftest as curator
from tests.curator.conftest import NOISY, OPEN, PLAIN, OpenSite, Site, query
from tests.curator.double import FakeWorld

site, world = curator.site, curator.world
POOR: dict[str, Any] = {"allow_repeats": True, "curator": {"period": {"epsilon": "0.5"}}}
NAMES = ["poor", "asked-before", "choosy", "willing"]


async def told(s: Site, world: FakeWorld) -> tuple[str, list[bool], dict[str, int]]:
    """A second round of a window that was contributed before: what the coordinator hears of it."""
    await s.enrol("gw", NAMES)
    await s.policy(**OPEN)
    for name in ("poor", "choosy"):
        await s.request("PUT", f"/v1/curators/{name}/policy", {"accept_any": False})
    await s.request("PUT", "/v1/curators/willing/policy", {"allow_repeats": True})
    s.open(query(NOISY))
    await s.take_part()  # asked-before and willing
    await s.request("PUT", "/v1/curators/poor/policy", POOR)
    second = s.open(query(NOISY))
    await s.take_part()
    refusal = world.refusals[second.round, "gw"]
    members = sets.unpack(refusal.members, len(NAMES)).tolist()
    return second.round, members, {ground.value: n for ground, n in refusal.grounds.items()}


async def test_grounds_of_the_own_ledger_go_by_one_name(s: Site, world: FakeWorld) -> None:
    round_id, members, grounds = await told(s, world)
    assert members == [True, True, True, False]
    assert grounds == {"own": 2, "policy": 1}
    # Control: the grounds as they are recorded would give each curator away.
    shown = {}
    for name in NAMES[:3]:
        (item,) = [each for each in await s.history(name) if each["round"] == round_id]
        shown[name] = [each["name"] for each in item["refused_because"]]
    assert shown == {
        "poor": ["budget_exceeded"],
        "asked-before": ["window_contributed"],
        "choosy": ["policy_refused"],
    }


async def test_readings_change_nothing_of_what_is_told(s: Site, world: FakeWorld) -> None:
    await s.policy(accept_any=False)
    for party in ("full", "empty"):
        await s.enrol(party)
    await s.reading("full", "4.2")
    opened = s.open(query(PLAIN))
    await s.take_part()
    assert world.refusals[opened.round, "full"] == world.refusals[opened.round, "empty"]


async def test_what_did_not_get_through_is_told_later_and_once(
    site: OpenSite, world: FakeWorld
) -> None:
    async with site() as s:
        await s.policy(accept_any=False)
        await s.enrol("house")
        opened = s.open(query(PLAIN))
        assert await part_of(s.app, Participation).discover(curator.COORDINATOR)
        world.transport.down = True
        await part_of(s.app, Participation).contribute_due()
        assert world.refusals == {}
        world.transport.down = False
    async with site() as s:  # also after a restart
        await part_of(s.app, Participation).tell_refusals()
        assert world.refusals.pop((opened.round, "house")).grounds == {"policy": 1}
        await part_of(s.app, Participation).tell_refusals()
        assert world.refusals == {}
